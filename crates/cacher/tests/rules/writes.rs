//! Writes through the cache: what it knows saves storage a read, and what it knows wrongly does no harm.

use super::world::{World, after, named};
use keepwatch_storage::{
    DeleteOptions, Object, Preconditions, Storage, StorageError, Update, UpdateOptions,
    testing::{Pod, pod},
};

/// Adds one to the data of `a` through the cache. Tells what came of it and what was asked of storage.
async fn increment(world: &World) -> (String, String) {
    let mut add_one = |object: Option<&Object>| {
        let data = object.map_or(0, |object| Pod::data_of(&object.value));
        Ok(Update::new(pod("a").data(data + 1).value()))
    };
    let updating = world.cacher.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut add_one);
    let (object, asked) = world.asked_by(updating).await;
    (in_words(object), asked)
}

async fn delete(world: &World, preconditions: Preconditions) -> (String, String) {
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    let mut allow = |_: &Object| Ok(());
    let (object, asked) = world.asked_by(world.cacher.delete("/pods/ns/a", options, &mut allow)).await;
    (in_words(object), asked)
}

fn in_words(result: Result<Object, StorageError>) -> String {
    match result {
        Ok(object) => named(&object),
        Err(StorageError::NotFound { .. }) => "not found".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn words(result: &str, asked: &str) -> (String, String) {
    (result.to_owned(), asked.to_owned())
}

/// A cache that does not hear what is done behind its back.
async fn stale() -> World {
    let world = World::abc().await;
    world.gate.hold();
    world
}

#[tokio::test(start_paused = true)]
async fn an_update_of_what_the_cache_has_does_not_read_storage() {
    let world = World::abc().await;
    assert_eq!(increment(&world).await, words("a=1@5", "Put 1"));
    world.caught_up().await;
    assert_eq!(increment(&world).await, words("a=2@6", "Put 1"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_the_cache_has_does_not_read_storage() {
    let world = World::abc().await;
    assert_eq!(delete(&world, Preconditions::default()).await, words("a@5", "Delete 1"));
}

#[tokio::test(start_paused = true)]
async fn an_update_of_what_the_cache_has_wrongly_is_made_again_with_what_storage_has() {
    let world = stale().await;
    world.behind().put(&pod("a").data(7)).await;
    assert_eq!(increment(&world).await, words("a=8@6", "Put 2"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_the_cache_has_wrongly_deletes_what_storage_has() {
    let world = stale().await;
    world.behind().put(&pod("a").data(7)).await;
    assert_eq!(delete(&world, Preconditions::default()).await, words("a=7@6", "Delete 2"));
}

#[tokio::test(start_paused = true)]
async fn what_the_cache_still_has_and_storage_does_not_is_not_found() {
    let world = stale().await;
    world.behind().delete(&pod("a")).await;
    assert_eq!(increment(&world).await.0, "not found");
    assert_eq!(delete(&world, Preconditions::default()).await.0, "not found");
}

#[tokio::test(start_paused = true)]
async fn what_storage_has_and_the_cache_does_not_is_found() {
    let world = stale().await;
    world.delete(&pod("a")).await;
    world.gate.release();
    world.caught_up().await;
    world.gate.hold();
    world.behind().create(&pod("a").data(7)).await;
    assert_eq!(increment(&world).await, words("a=8@7", "Get 1, Put 1"));
}

#[tokio::test(start_paused = true)]
async fn an_update_to_what_the_cache_wrongly_has_already_is_written() {
    let world = stale().await;
    world.behind().put(&pod("a").data(7)).await;
    assert_eq!(named(&world.put(&pod("a")).await), "a@6");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_writes_nothing() {
    let world = World::abc().await;
    let (object, asked) = world.asked_by(world.put(&pod("a"))).await;
    assert_eq!((named(&object).as_str(), asked.as_str()), ("a@2", "Get 1"));
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_about_what_storage_has() {
    let uid = |uid: &str| Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let world = stale().await;
    world.behind().delete(&pod("a")).await;
    world.behind().create(&pod("a").uid("new")).await;
    let (refusal, _) = delete(&world, uid("uid-a")).await;
    assert!(refusal.contains("Precondition failed: UID in precondition: uid-a"), "{refusal}");
    assert_eq!(delete(&world, uid("new")).await.0, "a@7");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_heard_by_watchers_like_any_other() {
    let world = World::abc().await;
    let mut client = world.client(after(4)).await;
    increment(&world).await;
    delete(&world, Preconditions::default()).await;
    world.behind().create(&pod("d")).await;
    client.hears("MODIFIED a=1@5; DELETED a=1@6; ADDED d@7").await;
}
