//! Reading one object.

use super::{Fixture, assert_corrupt, assert_too_large, end_of_time, later, pod};
use keepwatch_apimachinery::list_options::Position;

/// A missing object is no error here.
pub async fn a_missing_object_is_none(fixture: &Fixture) {
    for at in [Position::MostRecent, Position::Any, Position::At(fixture.revision().await)] {
        assert_eq!(fixture.storage.get("/pods/ns/a", at).await.expect("an answer"), None);
    }
    fixture.create(&pod("a")).await;
    fixture.delete(&pod("a")).await;
    assert_eq!(fixture.get(&pod("a")).await, None);
}

/// A read shows the last write, and its revision whatever else was written since.
pub async fn a_read_shows_the_last_write_at_its_own_revision(fixture: &Fixture) {
    fixture.create(&pod("a")).await;
    let last = fixture.put(&pod("a").data(1)).await;
    fixture.create(&pod("b")).await;
    assert_eq!(fixture.get(&pod("a")).await, Some(last));
}

/// A read may ask for a store that has come far enough.
pub async fn a_read_not_older_than_a_reached_revision_is_answered(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let now = fixture.create(&pod("b")).await.revision;
    for reached in [a.revision, now] {
        let read = fixture.storage.get("/pods/ns/a", Position::At(reached)).await.expect("an answer");
        assert_eq!(read.as_ref(), Some(&a));
    }
}

/// If it has not, that comes before whether the object exists.
pub async fn a_read_not_older_than_the_future_is_too_large(fixture: &Fixture) {
    let current = fixture.create(&pod("a")).await.revision;
    for name in ["a", "missing"] {
        let future = later(current, 1000);
        let read = fixture.storage.get(&pod(name).key(), Position::At(future)).await;
        assert_too_large(fixture, read.unwrap_err(), future, current);
    }
}

/// Not even the highest revision that can be asked for is special.
pub async fn a_read_not_older_than_the_end_of_time_is_too_large(fixture: &Fixture) {
    let current = fixture.create(&pod("a")).await.revision;
    let read = fixture.storage.get("/pods/ns/a", Position::At(end_of_time())).await;
    assert_too_large(fixture, read.unwrap_err(), end_of_time(), current);
}

/// A value that cannot be read is an error and not a missing object.
pub async fn an_undecodable_value_fails_the_read(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let key = fixture.full_key(&pod("a"));
    fixture.put_raw(&key, "not JSON").await;
    assert_corrupt(fixture.storage.get("/pods/ns/a", Position::MostRecent).await.unwrap_err(), &key);
}
