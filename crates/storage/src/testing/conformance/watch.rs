//! The beginning of a watch, its promises while it lasts, and its end.

use super::{
    Fixture, assert_corrupt, end_of_time, guarantees, labels, later, marked_state, marked_state_at, pod,
};
use crate::{
    ListRequest, Object, StorageError, Swap, Update, UpdateOptions, WatchEvent, WatchRequest,
    testing::Watching,
};
use guarantees::{Change, History, Recorded, Start, everything};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{Position, WatchStart},
};
use std::{cell::Cell, time::Duration};

const STATE: WatchStart = WatchStart::state();

fn state_end(revision: ResourceVersion) -> WatchEvent {
    WatchEvent::Bookmark { revision, initial_state_end: true }
}

async fn abc(fixture: &Fixture) -> [Object; 3] {
    [fixture.create(&pod("a")).await, fixture.create(&pod("b")).await, fixture.create(&pod("c")).await]
}

/// Version 0: what exists, each with its own revision, then what changes. No bookmark unless asked for.
pub async fn a_watch_of_the_state_delivers_existing_objects_then_changes(fixture: &Fixture) {
    let created = abc(fixture).await;
    let mut watch = fixture.watch(STATE).await;
    assert_eq!(watch.events(3).await, created.clone().map(WatchEvent::Added));
    let changed = fixture.put(&pod("b").data(1)).await;
    assert_eq!(watch.event().await, WatchEvent::Modified(changed));
}

/// Version 0 with initial events: the same, and the end of the state is marked with the revision of the read.
pub async fn the_end_of_the_initial_state_is_marked_if_asked_for(fixture: &Fixture) {
    let created = abc(fixture).await;
    let revision = fixture.write_elsewhere().await;
    let mut watch = fixture.watch_with("/pods", marked_state()).await;
    assert_eq!(watch.events(3).await, created.map(WatchEvent::Added));
    assert_eq!(watch.event().await, state_end(revision));
    let fence = fixture.create(&pod("d")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence));
}

/// Even a state of nothing has an end, and its revision is the store's.
pub async fn the_state_of_nothing_has_an_end_too(fixture: &Fixture) {
    let elsewhere = fixture.create(&pod("x").in_namespace("other")).await;
    let mut watch = fixture.watch_with("/pods/ns", marked_state()).await;
    assert_eq!(watch.event().await, state_end(elsewhere.revision));
    let a = fixture.create(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(a));
}

/// Version 0 without initial events: only what follows.
pub async fn a_watch_from_now_delivers_only_later_changes(fixture: &Fixture) {
    abc(fixture).await;
    let mut watch = fixture.watch(WatchStart::now()).await;
    let d = fixture.create(&pod("d")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(d));
}

/// The same from any position: no later event is missing. A cache may begin earlier.
pub async fn a_watch_from_any_point_delivers_later_changes(fixture: &Fixture) {
    abc(fixture).await;
    let mut watch = fixture.watch(WatchStart::Changes { position: Position::Any }).await;
    let d = fixture.create(&pod("d")).await;
    let events = watch.events_until(|event| event.revision() >= d.revision).await;
    assert!(fixture.capabilities.cached || events.len() == 1, "{events:?}");
    assert_eq!(events.last(), Some(&WatchEvent::Added(d)));
}

/// Version N: what comes after it, without N's own change.
pub async fn a_watch_after_a_revision_does_not_repeat_it(fixture: &Fixture) {
    let [_, b, c] = abc(fixture).await;
    let mut watch = fixture.watch(WatchStart::after(b.revision)).await;
    assert_eq!(watch.event().await, WatchEvent::Added(c));
    let d = fixture.create(&pod("d")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(d));
}

/// Version N with initial events: the newest state, if N is reached.
pub async fn a_watch_of_a_state_that_is_reached_begins_with_the_newest(fixture: &Fixture) {
    let created = abc(fixture).await;
    let changed = fixture.put(&pod("a").data(1)).await;
    let [_, b, c] = created;
    if fixture.capabilities.cached {
        // A cache may begin with any state that is not older. This makes it the newest.
        fixture.list(ListRequest::all()).await;
    }
    for reached in [b.revision, changed.revision] {
        let mut watch = fixture.watch_with("/pods", marked_state_at(Position::At(reached))).await;
        let state = [&changed, &b, &c].map(|object| WatchEvent::Added(object.clone()));
        assert_eq!(watch.events(3).await, state);
        assert_eq!(watch.event().await, state_end(changed.revision));
    }
}

/// If N is not reached the watch says so, and ends.
pub async fn a_watch_of_a_state_that_is_not_reached_ends_with_too_large(fixture: &Fixture) {
    let current = fixture.create(&pod("a")).await.revision;
    let asked = later(current, 1_000_000);
    let mut watch = fixture.watch_with("/pods", marked_state_at(Position::At(asked))).await;
    let error = watch.last_error().await;
    assert_eq!(
        error.to_string(),
        format!("Timeout: Too large resource version: {asked}, current: {current}")
    );
    match error {
        StorageError::TooLarge { requested, retry_after_seconds: Some(1..=3), .. } => {
            assert_eq!(requested, asked)
        }
        other => panic!("{other:?}"),
    }
}

/// A watch may wait for revisions to come; what comes up to its own is not delivered.
pub async fn a_watch_from_the_future_is_silent_until_its_revision_has_passed(fixture: &Fixture) {
    let start = later(fixture.revision().await, 2);
    let mut watch = fixture.watch(WatchStart::after(start)).await;
    watch.is_quiet().await;
    let mut number = 0;
    let first = loop {
        let written = fixture.create(&pod(&format!("a{number}"))).await;
        number += 1;
        if written.revision > start {
            break written;
        }
    };
    assert_eq!(watch.event().await, WatchEvent::Added(first));
}

/// Until then there is no progress to report either: it would be of a time before the watch began.
pub async fn a_watch_from_the_future_reports_no_progress_of_the_present(fixture: &Fixture) {
    let start = WatchStart::after(later(fixture.revision().await, 1000));
    let mut watch =
        fixture.watch_with("/pods", WatchRequest { progress: true, ..WatchRequest::from(start) }).await;
    watch.is_quiet().await;
    (fixture.request_progress)().await.expect("a request");
    watch.is_quiet().await;
}

/// A watch from a revision that no store reaches receives nothing, and disturbs no other.
pub async fn a_watch_from_the_end_of_time_is_silent_for_ever(fixture: &Fixture) {
    let mut watch = fixture.watch(WatchStart::after(end_of_time())).await;
    let mut other = fixture.watch(WatchStart::now()).await;
    let a = fixture.create(&pod("a")).await;
    assert_eq!(other.event().await, WatchEvent::Added(a));
    watch.is_quiet().await;
    drop(watch);
    let deleted = fixture.delete(&pod("a")).await;
    assert_eq!(other.event().await, WatchEvent::Deleted(deleted));
}

/// A watch that is not recursive follows one object, through deletion and creation.
pub async fn a_watch_of_one_key_follows_that_object_only(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let request = WatchRequest { recursive: false, ..WatchRequest::from(STATE) };
    let mut watch = fixture.watch_with("/pods/ns/a", request).await;
    assert_eq!(watch.event().await, WatchEvent::Added(a));
    fixture.create(&pod("aa")).await;
    fixture.create(&pod("x").in_namespace("ns/a")).await;
    let deleted = fixture.delete(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Deleted(deleted));
    fixture.put(&pod("aa").data(1)).await;
    let again = fixture.create(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(again));
}

/// A state beyond one page is read at the revision of its first page, whatever is written meanwhile.
pub async fn a_state_of_many_pages_is_of_one_revision(fixture: &Fixture) {
    const KEYS: usize = 10_001;
    const WRITERS: usize = 64;
    let writers = (0..WRITERS).map(|writer| {
        let storage = fixture.storage.clone();
        tokio::spawn(async move {
            for number in (writer..KEYS).step_by(WRITERS) {
                let own = pod(&format!("{number:05}"));
                storage.create(&own.key(), own.value(), None).await.expect("a creation");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("the writer is done");
    }
    let before = fixture.revision().await;
    let mut watch = fixture.watch_with("/pods", marked_state()).await;
    let first = watch.event().await;
    let last = fixture.put(&pod("10000").data(1)).await;
    let new = fixture.create(&pod("new")).await;
    let mut events = vec![first];
    events.extend(watch.events_until(|event| event.revision() == new.revision).await);
    assert_eq!(events.len(), KEYS + 3);
    for (number, event) in events[..KEYS].iter().enumerate() {
        let WatchEvent::Added(object) = event else { panic!("{event:?}") };
        assert_eq!(object.value, pod(&format!("{number:05}")).value());
    }
    assert_eq!(events[KEYS], state_end(before));
    assert!(matches!(&events[KEYS + 1], WatchEvent::Modified(object) if *object == last));
    assert_eq!(events[KEYS + 2], WatchEvent::Added(new));
    let list = fixture.list(super::ListRequest::all()).await;
    assert_eq!((list.items.len(), list.next), (KEYS + 1, None), "a list without a limit is whole");
}

/// Makes a short history of three objects, and returns it.
async fn lively(fixture: &Fixture) -> History {
    let mut history = History::default();
    for round in 0..4 {
        for name in ["a", "b", "c"] {
            let app = if (round + name.len() as i64) % 2 == 0 { "web" } else { "db" };
            history.push(Change::write(&fixture.put(&pod(name).label("app", app).data(round)).await));
        }
        history.push(Change::deletion(&fixture.delete(&pod("b")).await));
    }
    history
}

/// From wherever a watch is taken up again, it goes on right there.
pub async fn a_resumed_watch_repeats_nothing_and_skips_nothing(fixture: &Fixture) {
    let before = fixture.revision().await;
    let history = lively(fixture).await;
    let whole = history.changes().len();
    for cut in 0..=whole {
        let mut first = fixture.watch(WatchStart::after(before)).await;
        let first = Recorded::of(Start::After(before.get()), &first.events(cut).await);
        let reached = first.reached().expect("a revision");
        let resume = ResourceVersion::new(reached).expect("above zero");
        let mut rest = fixture.watch(WatchStart::after(resume)).await;
        let rest = Recorded::of(Start::After(reached), &rest.events(whole - cut).await);
        assert_eq!(rest.reached().max(Some(reached)), Some(history.last()));
        guarantees::resumable(&[first, rest], &history, &everything).unwrap();
    }
}

/// The state at any time, and the changes after it, are together the same as the whole history.
pub async fn a_state_goes_on_where_it_ends(fixture: &Fixture) {
    goes_on_where_it_ends(fixture, Position::MostRecent).await;
}

/// So they are if the reader does not mind how old the state is.
pub async fn any_state_goes_on_where_it_ends(fixture: &Fixture) {
    goes_on_where_it_ends(fixture, Position::Any).await;
}

async fn goes_on_where_it_ends(fixture: &Fixture, position: Position) {
    let mut history = lively(fixture).await;
    let now = fixture.revision().await;
    let mut watch = fixture.watch_with("/pods", marked_state_at(position)).await;
    let mut events = watch.events_until(|event| matches!(event, WatchEvent::Bookmark { .. })).await;
    let state = events.last().expect("its end").revision();
    assert!(
        state == now || state < now && position == Position::Any,
        "{position:?} is at {state}, not {now}"
    );
    for name in ["a", "d", "c"] {
        let written = fixture.put(&pod(name).data(100)).await;
        history.push(Change::write(&written));
        events.extend(watch.events_until(|event| event.revision() >= written.revision).await);
    }
    let recorded = Recorded::of(Start::State, &events);
    guarantees::ordered(&recorded).unwrap();
    guarantees::unique(&recorded).unwrap();
    guarantees::reliable(&recorded, &history, &everything).unwrap();
}

/// While many clients write, watches opened at any time from any start deliver the same events in the same order.
pub async fn watches_opened_among_many_writers_deliver_every_change_once_and_in_order(fixture: &Fixture) {
    let before = fixture.revision().await;
    let writers = (0..6).map(|writer| {
        let storage = fixture.storage.clone();
        tokio::spawn(async move {
            let mut changes = Vec::new();
            for number in 0..20_i64 {
                let own = pod(&format!("{}", (writer + number) % 4)).data(writer * 100 + number);
                if number % 5 == 4 {
                    match storage.delete(&own.key(), Default::default(), &mut |_| Ok(())).await {
                        Ok(deleted) => changes.push(Change::deletion(&deleted)),
                        Err(StorageError::NotFound { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                    continue;
                }
                let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
                let mut replace = |_: Option<&Object>| Ok(Update::new(own.value()));
                let written = storage.guaranteed_update(&own.key(), options, &mut replace).await;
                changes.push(Change::write(&written.expect("a write")));
            }
            changes
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut open: Vec<(Start, Watching)> = Vec::new();
    while !writers.iter().all(|writer| writer.is_finished()) && open.len() < 24 {
        open.push((Start::State, fixture.watch_with("/pods", marked_state()).await));
        let after = WatchStart::after(before);
        open.push((Start::After(before.get()), fixture.watch(after).await));
        tokio::task::yield_now().await;
    }
    let mut changes = Vec::new();
    for writer in writers {
        changes.extend(writer.await.expect("the writer is done"));
    }
    let fence = fixture.create(&pod("fence")).await;
    changes.push(Change::write(&fence));
    let history = History::new(changes);
    for (start, mut watch) in open {
        // A state that is read late holds the fence, and ends at its revision.
        let events = watch.events_until(is_past(fence.revision, start)).await;
        let recorded = Recorded::of(start, &events);
        guarantees::ordered(&recorded).unwrap();
        guarantees::unique(&recorded).unwrap();
        guarantees::reliable(&recorded, &history, &everything).unwrap();
        assert_eq!(recorded.reached(), Some(history.last()));
    }
}

/// Says of each event of a stream whether it has delivered everything up to `fence` with that. An addition that is part of
/// the state is not the last of it.
fn is_past(fence: ResourceVersion, start: Start) -> impl Fn(&WatchEvent) -> bool {
    let in_state = Cell::new(start == Start::State);
    move |event| {
        in_state.set(in_state.get() && !matches!(event, WatchEvent::Bookmark { .. }));
        event.revision() >= fence && !in_state.get()
    }
}

/// When its time is over a watch ends; until then it delivers events.
pub async fn a_watch_with_a_timeout_ends_by_itself_without_an_error(fixture: &Fixture) {
    let timeout = Some(Duration::from_millis(500));
    let mut watch = fixture.watch_with("/pods", WatchRequest { timeout, ..marked_state() }).await;
    assert!(matches!(watch.event().await, WatchEvent::Bookmark { .. }));
    let a = fixture.create(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(a));
    assert!(watch.item().await.is_none(), "its end is all that comes");
    let timeout = Some(Duration::MAX);
    let mut watch = fixture.watch_with("/pods", WatchRequest { timeout, ..marked_state() }).await;
    assert!(matches!(watch.event().await, WatchEvent::Added(_)), "no timeout is too long");
}

/// A watcher that does not read keeps its position, and delays no other.
pub async fn a_watch_that_is_not_read_loses_nothing_and_delays_no_other(fixture: &Fixture) {
    let before = fixture.revision().await;
    let mut slow = fixture.watch(WatchStart::after(before)).await;
    let mut quick = fixture.watch(WatchStart::after(before)).await;
    fixture.watch(WatchStart::after(before)).await; // One that is dropped at once.
    let mut history = History::default();
    for number in 0..1000 {
        history.push(Change::write(&fixture.put(&pod("a").data(number)).await));
        assert_eq!(quick.event().await.revision().get(), history.last());
    }
    let recorded = Recorded::of(Start::After(before.get()), &slow.events(1000).await);
    guarantees::reliable(&recorded, &history, &everything).unwrap();
}

/// On request a watch with `progress` reports its progress, although there was no event for it.
pub async fn progress_is_reported_on_request(fixture: &Fixture) {
    let request = WatchRequest { progress: true, ..WatchRequest::from(WatchStart::now()) };
    let mut watch = fixture.watch_with("/pods", request).await;
    let mut without = fixture.watch(WatchStart::now()).await;
    let revision = fixture.write_elsewhere().await;
    let events = progress_to(fixture, &mut watch, revision).await;
    assert!(
        events.iter().all(|event| matches!(event, WatchEvent::Bookmark { initial_state_end: false, .. }))
    );
    without.is_quiet().await;
    let fence = fixture.create(&pod("fence")).await;
    assert_eq!(without.event().await, WatchEvent::Added(fence), "only who asked for progress hears of it");
}

/// Requests progress until a bookmark has reached `revision`. A watch that is just being opened may miss one
/// request.
async fn progress_to(fixture: &Fixture, watch: &mut Watching, revision: ResourceVersion) -> Vec<WatchEvent> {
    let mut events = Vec::new();
    let begun = std::time::Instant::now();
    while begun.elapsed() < crate::testing::LONG_ENOUGH {
        (fixture.request_progress)().await.expect("a request");
        while let Ok(event) = tokio::time::timeout(super::QUIET, watch.event()).await {
            let done = matches!(event, WatchEvent::Bookmark { .. }) && event.revision() >= revision;
            events.push(event);
            if done {
                return events;
            }
        }
    }
    panic!("no bookmark at {revision} or later, only {events:?}")
}

/// Before a bookmark everything up to it is delivered, however busy the store and however narrow the selectors.
pub async fn a_bookmark_comes_after_everything_up_to_it(fixture: &Fixture) {
    let before = fixture.revision().await;
    let web = |_: &str, content: &[u8]| content.windows(5).any(|window| window == b"\"web\"");
    let start = WatchStart::after(before);
    let request = WatchRequest { progress: true, predicate: labels("app=web"), ..WatchRequest::from(start) };
    let mut watch = fixture.watch_with("/pods", request).await;
    let request_progress = fixture.request_progress.clone();
    let asking = tokio::spawn(async move {
        loop {
            request_progress().await.expect("a request");
            tokio::task::yield_now().await;
        }
    });
    let (mut history, mut events) = (History::default(), Vec::new());
    for number in 0..30 {
        let app = if number % 3 == 0 { "db" } else { "web" };
        let name = if number % 2 == 0 { "a" } else { "b" };
        let written = fixture.put(&pod(name).label("app", app).data(number)).await;
        history.push(Change::write(&written));
        if number % 4 == 0 {
            events.extend(progress_to(fixture, &mut watch, written.revision).await);
        }
    }
    asking.abort();
    let last = ResourceVersion::new(history.last()).expect("above zero");
    events.extend(progress_to(fixture, &mut watch, last).await);
    let recorded = Recorded::of(Start::After(before.get()), &events);
    guarantees::ordered(&recorded).unwrap();
    guarantees::reliable(&recorded, &history, &web).unwrap();
    guarantees::bookmarkable(&recorded, &history, &web).unwrap();
}

/// An undecodable value ends the watch; the good write after it is not delivered.
pub async fn nothing_follows_an_error_on_a_watch(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let a = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::after(a.revision)).await;
    let b = fixture.create(&pod("b")).await;
    let key = fixture.full_key(&pod("broken"));
    fixture.put_raw(&key, "not JSON").await;
    fixture.create(&pod("c")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(b));
    assert_corrupt(watch.last_error().await, &key);
}

/// So does one in the initial state, and one that was there before a change.
pub async fn an_undecodable_value_ends_a_watch_wherever_it_is_met(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let a = fixture.create(&pod("a")).await;
    let key = fixture.full_key(&pod("b"));
    let broken = fixture.put_raw(&key, "not JSON").await;
    let mut state = fixture.watch(STATE).await;
    assert_eq!(state.event().await, WatchEvent::Added(a));
    assert_corrupt(state.last_error().await, &key);

    let mut changes = fixture.watch(WatchStart::after(broken)).await;
    let deleted = fixture.backend.delete_if(&key, broken).await.expect("a deletion");
    assert!(matches!(deleted, Swap::Done(_)));
    assert_corrupt(changes.last_error().await, &key);
}
