//! Who is told what, and what an informer says of itself.

use crate::informer::script::{world, world_with};
use crate::{
    Cause, Class, Event, HandlerOptions, Informer, Object, Overflow, Status, Stopped, UnchangedOnRelist,
    VERBATIM_MAX,
    testing::{Thing, name, told},
};
use futures::StreamExt;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Case 32, and its twin as client-go has it.
#[tokio::test(start_paused = true)]
async fn a_relist_tells_of_what_is_gone_and_not_of_what_is_the_same() {
    let answers = ["10 a@1 b@2", "watch: 5s; !expired", "20 a@1", "watch:"];
    let world = world(&answers).listening().runs(60).await;
    assert_eq!(world.told(), "initial a@1, initial b@2, missed b@2");

    let go = world_with(&answers, |builder| builder.unchanged_on_relist(UnchangedOnRelist::Deliver));
    let go = go.listening().runs(60).await;
    assert_eq!(go.told(), "initial a@1, initial b@2, missed b@2, updated a@1 a@1");
}

/// Case 33.
#[tokio::test(start_paused = true)]
async fn a_relist_tells_of_what_is_gone_first_and_everybody_finds_the_new_state() {
    let world = world(&["10 p1@1 p2@2 p3@3", "watch: 5s; !expired", "20 p1@11 p2@12 p4@14", "watch:"]);
    let store = world.informer.store();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        move |event: Event<Thing>| seen.lock().push((event, store.len(), store.get("p4").is_some()))
    };
    world.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    world.runs(60).await;
    let seen = std::mem::take(&mut *seen.lock());
    let (first, relist) = seen.split_at(3);
    assert!(first.iter().all(|(_, count, _)| *count == 3));
    assert!(relist.iter().all(|(_, count, has_new)| *count == 3 && *has_new));
    let events: Vec<_> = relist.iter().map(|(event, ..)| event.clone()).collect();
    assert_eq!(told(&events), "missed p3@3, updated p1@1 p1@11, updated p2@2 p2@12, added p4@14");
    assert!(matches!(events[1], Event::Updated { cause: Cause::Relist, .. }));
}

/// PG-6: what is the same is kept once.
#[tokio::test(start_paused = true)]
async fn what_a_relist_shows_to_be_the_same_is_the_same_in_memory() {
    for answers in [
        ["10 a@1 b@2", "watch: 5s; !expired", "20 a@1 b@3", "watch:"],
        ["watch: +a@1; +b@2; ^^10; 5s; !expired", "watch: +a@1; +b@3; ^^20", "", ""],
    ] {
        let world = world(&answers).runs(1).await;
        let (a, b) = (world.informer.store().get("a").unwrap(), world.informer.store().get("b").unwrap());
        let world = world.goes_on(60).await;
        assert_eq!(world.store(), "a@1 b@3");
        assert!(Arc::ptr_eq(&a, &world.informer.store().get("a").unwrap()));
        assert!(!Arc::ptr_eq(&b, &world.informer.store().get("b").unwrap()));
    }
}

/// OQ-1 and its twin as client-go has it.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_something_unknown_is_not_told_unless_one_asks() {
    let answers = ["10", "watch: -a@11"];
    assert_eq!(world(&answers).listening().runs(1).await.told(), "");
    let go = world_with(&answers, |builder| builder.unknown_deletes(true)).listening().runs(1).await;
    assert_eq!(go.told(), "deleted a@11");
}

/// A handler that counts what it is told after the first state.
fn counting(world: &crate::informer::script::World, options: HandlerOptions) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let handler = move |event: Event<Thing>| {
        if let Event::Updated { old, new, cause: Cause::Resync } = event {
            assert!(Arc::ptr_eq(&old, &new));
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    world.informer.add_handler(handler, options).unwrap();
    count
}

/// Case 41.
#[tokio::test(start_paused = true)]
async fn everybody_is_told_once_more_when_it_is_due() {
    let world = world_with(&["10 a@1 b@2", "watch:"], |builder| builder.resync(SECOND));
    let never = counting(&world, HandlerOptions::default().resync(Duration::ZERO));
    let second = counting(&world, HandlerOptions::default().resync(2 * SECOND));
    let third = counting(&world, HandlerOptions::default().resync(3 * SECOND));
    let counts = || [&never, &second, &third].map(|count| count.load(Ordering::SeqCst));
    world.informer.start(world.stop.clone());
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(counts(), [0, 2, 0]);
    sleep(SECOND).await;
    assert_eq!(counts(), [0, 2, 2]);
}

/// Case 42.
#[tokio::test(start_paused = true)]
async fn it_is_looked_as_often_as_anybody_asked_before_the_start() {
    let world = world_with(&["10 a@1", "watch:"], |builder| builder.resync(12 * 3600 * SECOND));
    let check = || world.informer.shared.processor.check_period().as_secs();
    for (asked, expected) in [(60, 60), (55, 55), (5, 5)] {
        counting(&world, HandlerOptions::default().resync(Duration::from_secs(asked)));
        assert_eq!(check(), expected);
    }
    world.informer.start(world.stop.clone());
    sleep(SECOND).await;
    let late = counting(&world, HandlerOptions::default().resync(SECOND));
    assert_eq!(check(), 5);
    sleep(13 * SECOND).await;
    assert_eq!(late.load(Ordering::SeqCst), 1, "at 10 seconds: at 5 it was not due yet");
}

/// RS-4: a cycle has many watches.
#[tokio::test(start_paused = true)]
async fn a_resync_period_may_be_longer_than_a_watch() {
    let answers = ["10 a@1", "watch: 300s; end", "watch: 300s; end", "watch: 300s; end", "watch: 300s; end"];
    let world = world_with(&answers, |builder| builder.resync(1000 * SECOND));
    let told = counting(&world, HandlerOptions::default());
    world.runs(1100).await;
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_silent_does_not_keep_anybody_from_a_resync() {
    let answers = ["watch: +a@1; ^^2; 2s; ^3; 2s; ^4; 2s; ^5; 2s; ^6; 2s; ^7; 2s; ^8"];
    let world = world_with(&answers, |builder| builder.resync(3 * SECOND));
    let told = counting(&world, HandlerOptions::default());
    world.runs(10).await;
    assert_eq!(told.load(Ordering::SeqCst), 3);
}

/// WL-11.
#[tokio::test(start_paused = true)]
async fn a_state_that_was_sent_can_be_compared_with_a_list() {
    for (listed, complaint) in
        [("2 a@1 b@2", ""), ("2 a@1", "stream: a watch sent another state than is listed at 2")]
    {
        let answers = ["watch: +a@1; +b@2; ^^2; +c@3", listed];
        let world = world_with(&answers, |builder| builder.verify_states(true)).runs(1).await;
        assert_eq!(world.requests(), "STATE, LIST 2 Exact");
        let errors = world.errors();
        assert!(errors.starts_with(complaint) && errors.is_empty() == complaint.is_empty(), "{errors}");
    }
}

/// Case 43.
#[tokio::test(start_paused = true)]
async fn an_informer_that_does_not_resync_does_so_for_nobody() {
    let world = world(&["10 a@1", "watch:"]);
    let asked = counting(&world, HandlerOptions::default().resync(30 * SECOND));
    world.runs(200).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Case 44.
#[tokio::test(start_paused = true)]
async fn who_comes_late_is_told_of_everything_that_is_there() {
    let world = world(&["10 a@1 b@2", "watch: 60s; +c@11"]).runs(1).await;
    let mut events = world.informer.subscribe();
    let synced = tokio::spawn(events.synced());
    let mut names = vec![events.next().await.unwrap(), events.next().await.unwrap()];
    names.sort_by_key(Event::key);
    assert_eq!(told(&names), "initial a@1, initial b@2");
    synced.await.unwrap().unwrap();
    assert_eq!(told(&[events.next().await.unwrap()]), "added c@11");

    let registration = {
        let handler = |_: Event<Thing>| {};
        world.informer.add_handler(handler, HandlerOptions::default()).unwrap()
    };
    assert!(!registration.has_synced(), "it was not called yet");
    registration.synced().await.unwrap();
}

/// Case 45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_never_returns_delays_nobody() {
    let changes: String = (12..10_012).map(|version| format!("~a@{version};")).collect();
    let world = world(&["10", format!("watch: +a@11; {changes}").leak()]);
    let (release, block) = std::sync::mpsc::channel::<()>();
    let block = Mutex::new(block);
    let blocked = move |_: Event<Thing>| {
        _ = block.lock().recv();
    };
    let blocked = world.informer.add_handler(blocked, HandlerOptions::default()).unwrap();
    let mut events = world.informer.subscribe();
    world.informer.start(world.stop.clone());
    let mut last = String::new();
    while last != "a@10011" {
        last = name(events.next().await.unwrap().object());
    }
    assert_eq!(world.store(), "a@10011");
    assert!(blocked.pending() <= VERBATIM_MAX + 1, "{}", blocked.pending());
    drop(release);
}

/// Case 47.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_goes_on_and_is_reported() {
    let world = world(&["10 a@1 b@2 c@3", "watch:"]);
    let count = Arc::new(AtomicUsize::new(0));
    let handler = {
        let count = Arc::clone(&count);
        move |_: Event<Thing>| assert!(count.fetch_add(1, Ordering::SeqCst) > 0, "on purpose")
    };
    let options = HandlerOptions::default().name("clumsy");
    let registration = world.informer.add_handler(handler, options).unwrap();
    let world = world.listening().runs(1).await;
    registration.synced().await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
    assert_eq!(world.errors(), "handler: handler clumsy panicked (a)");
    assert_eq!(world.told(), "initial a@1, initial b@2, initial c@3");
}

/// Case 48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_is_removed_finishes_what_it_does_and_no_more() {
    let world = world(&["10 a@1 b@2 c@3", "watch:"]);
    let (release, block) = std::sync::mpsc::channel::<()>();
    let block = Mutex::new(block);
    let count = Arc::new(AtomicUsize::new(0));
    let handler = {
        let count = Arc::clone(&count);
        move |_: Event<Thing>| {
            count.fetch_add(1, Ordering::SeqCst);
            _ = block.lock().recv();
        }
    };
    let registration = world.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    world.informer.start(world.stop.clone());
    world.informer.synced().await.unwrap();
    while count.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    registration.remove();
    registration.remove();
    drop(release);
    world.stop.cancel();
    world.informer.shared.handlers.wait().await;
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(registration.synced().await, Err(Stopped));
}

/// Case 49.
#[tokio::test(start_paused = true)]
async fn after_it_has_stopped_nothing_runs_and_nobody_can_be_added() {
    let world = world(&["10 a@1", "watch:"]);
    let handler = |_: Event<Thing>| {};
    let registration = world.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    let mut events = world.informer.subscribe();
    let task = world.informer.start(world.stop.clone());
    world.informer.synced().await.unwrap();
    assert!(!world.informer.is_stopped());
    world.stop.cancel();
    task.await.unwrap();
    assert!(world.informer.is_stopped() && matches!(*world.informer.status().borrow(), Status::Stopped));
    assert!(world.informer.shared.handlers.is_empty());
    assert_eq!(world.informer.add_handler(handler, HandlerOptions::default()).unwrap_err(), Stopped);
    assert!(events.next().await.is_none() && world.informer.subscribe().next().await.is_none());
    registration.remove();
    world.informer.run(CancellationToken::new()).await;
    assert_eq!(world.store(), "a@1", "what was known can still be read");
    assert!(world.informer.synced().await.is_ok(), "it was once");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_informer_that_is_stopped_is_told_so() {
    let world = world(&[]);
    let waiting = tokio::spawn({
        let informer = world.informer.clone();
        async move { informer.synced().await }
    });
    let world = world.runs(1).await;
    world.stop.cancel();
    assert_eq!(waiting.await.unwrap(), Err(Stopped));
}

/// Case 58.
#[tokio::test(start_paused = true)]
async fn every_object_is_transformed_once_however_it_came() {
    for answers in [
        ["10 a@1 b@2", "watch: ~a@11; -b@12; 5s; !expired", "20 a@11", "watch:"],
        ["watch: +a@1; +b@2; ^^10; ~a@11; -b@12; 5s; !expired", "watch: +a@11; ^^20", "", ""],
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let transform = move |object: &mut Thing| {
            counter.fetch_add(1, Ordering::SeqCst);
            let before = object.metadata.annotations.replace([("seen".to_owned(), "1".to_owned())].into());
            assert_eq!(before, None, "{} was transformed before", name(object));
        };
        let is_transformed = |object: &Thing| object.metadata.annotations.is_some();
        let world = world_with(&answers, |builder| builder.transform(transform)).listening().runs(60).await;
        let heard = world.heard();
        assert_eq!(told(&heard), "initial a@1, initial b@2, updated a@1 a@11, deleted b@12");
        assert!(heard.iter().all(|event| is_transformed(event.object())));
        assert!(world.informer.store().all().iter().all(|object| is_transformed(object)));
        assert!(
            (4..=5).contains(&count.load(Ordering::SeqCst)),
            "what a list shows to be the same may be left out"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_loses_the_event_and_not_the_watch() {
    let transform = |object: &mut Thing| assert_ne!(object.revision(), "11", "on purpose");
    let world = world_with(&["10 a@1", "watch: ~a@11; +b@12"], |builder| builder.transform(transform));
    let world = world.listening().runs(1).await;
    assert_eq!(world.told(), "initial a@1, added b@12");
    assert_eq!(world.errors(), "transform: the transform of the informer panicked (a)");
    assert_eq!(world.version(), "12");
}

/// While a state is sent, an object that cannot be kept as it is now is not gone.
#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_while_a_state_is_sent_does_not_delete() {
    for (second, told) in [
        ("watch: +a@6; +b@2; ^^7", "initial a@1, initial b@2"),
        ("watch: +a@5; ~a@6; +b@2; ^^7", "initial a@1, initial b@2, updated a@1 a@5"),
        ("watch: +a@5; -a@6; +b@2; ^^7", "initial a@1, initial b@2, missed a@1"),
    ] {
        let transform = |object: &mut Thing| assert_ne!(object.revision(), "6", "on purpose");
        let answers = ["watch: +a@1; +b@2; ^^5; 5s; !expired", second];
        let world = world_with(&answers, |builder| builder.transform(transform));
        let world = world.listening().runs(60).await;
        assert_eq!((world.told().as_str(), world.version().as_str()), (told, "7"), "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_on_what_is_deleted_does_not_keep_it() {
    let transform = |object: &mut Thing| assert_ne!(object.revision(), "11", "on purpose");
    let world = world_with(&["10 a@1", "watch: -a@11"], |builder| builder.transform(transform));
    let world = world.listening().runs(1).await;
    assert_eq!((world.told().as_str(), world.store().as_str()), ("initial a@1, missed a@1", ""));
}

#[tokio::test(start_paused = true)]
async fn what_was_read_of_a_state_outlives_what_cannot_be_read_of_it() {
    let answers = ["watch: +a@1; ^^5; 5s; !expired", "watch: +a@6; ?a@7; ^^8"];
    let world = world(&answers).listening().runs(60).await;
    assert_eq!(world.told(), "initial a@1, updated a@1 a@6");
}

/// SI-18: a connection that breaks before there is an answer is a failure, though it is tried again at once.
#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_opened_is_reported_and_opened_again() {
    let answers = ["10 a@1", "watch: ~a@11; 2s; end", "slow !reset", "slow !reset", "watch:"];
    let world = world(&answers).runs(8).await;
    let Status::Retrying { attempt, .. } = *world.informer.status().borrow() else { panic!("it is synced") };
    assert_eq!((attempt, world.errors().as_str()), (1, "open: reset"));
    let world = world.goes_on(60).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, WATCH 10, 2s WATCH 11, 7s WATCH 11, 12s WATCH 11");
    assert_eq!((world.errors().as_str(), world.informer.watched()[0].resumes), ("open: reset", 1));
}

/// A server that no longer knows a version says so in an answer like any other.
#[tokio::test(start_paused = true)]
async fn who_waits_to_list_anew_does_not_claim_to_be_synced() {
    let world = world(&["10 a@1", "watch: 5s; !expired", "20 a@12", "watch:"]);
    let status = world.informer.status();
    let world = world.runs(5).await.goes_on(0).await;
    sleep(SECOND / 2).await;
    assert!(matches!(*status.borrow(), Status::Listing), "{status:?}");
    let _world = world.goes_on(1).await;
    assert!(matches!(*status.borrow(), Status::Synced { .. }), "{status:?}");
}

/// SI-18.
#[tokio::test(start_paused = true)]
async fn what_goes_wrong_again_and_again_went_wrong_first_long_ago() {
    let started = tokio::time::Instant::now();
    let world = world(&["watch: 1s; !429", "watch: 1s; !429"]).runs(3).await;
    let Status::Retrying { since, attempt, .. } = *world.informer.status().borrow() else {
        panic!("it is well")
    };
    assert_eq!((since.duration_since(started), attempt), (SECOND, 2));
}

/// SI-18.
#[tokio::test(start_paused = true)]
async fn the_status_says_what_goes_wrong_and_since_when() {
    let world = world(&["!403", "!403", "10", "watch:"]);
    let started = tokio::time::Instant::now();
    let status = world.informer.status();
    assert!(matches!(*status.borrow(), Status::Starting));
    let world = world.runs(2).await;
    let Status::Retrying { error, at, attempt, since } = status.borrow().clone() else {
        panic!("{status:?}")
    };
    assert_eq!((error.to_string().as_str(), attempt), ("list: 403", 2));
    assert_eq!(at.duration_since(started), Duration::from_millis(2400));
    assert_eq!(since, started);
    let _world = world.goes_on(1).await;
    assert!(matches!(&*status.borrow(), Status::Synced { version } if version == "10"));
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_are_counted_over_watches_that_said_nothing() {
    for (watch, expected) in [("watch: 1s; !429", 2), ("watch: ^11; 1s; !429", 1)] {
        let world = world(&["10", "!429", watch]).runs(3).await;
        let Status::Retrying { attempt, .. } = *world.informer.status().borrow() else { panic!("{watch}") };
        assert_eq!(attempt, expected, "{watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_nobody_can_run_any_more_tells_so() {
    let world = world(&[]);
    let mut events = world.informer.subscribe();
    let registration = world.informer.add_handler(|_: Event<Thing>| {}, HandlerOptions::default()).unwrap();
    drop(world);
    assert!(events.next().await.is_none());
    assert_eq!(registration.synced().await, Err(Stopped));
    assert_eq!(events.synced().await, Err(Stopped));
}

#[tokio::test(start_paused = true)]
async fn whatever_an_error_handler_does_the_informer_goes_on() {
    let world =
        world_with(&["!403", "10 a@1", "watch:"], |builder| builder.on_error(|_| panic!("on purpose")));
    assert_eq!(world.runs(10).await.store(), "a@1");
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_one_can_ask_for_are_no_trouble() {
    let world = world_with(&["10 a@1", "watch:"], |builder| {
        builder.resync(Duration::MAX).watch_timeout(Duration::MAX).idle_timeout(Duration::MAX)
    });
    let options = HandlerOptions::default().resync(Duration::MAX);
    world.informer.add_handler(|_: Event<Thing>| {}, options).unwrap();
    assert_eq!(world.runs(10).await.store(), "a@1");
}

/// SI-8 and SI-11: the last of the first state that was to be delivered is gone.
#[tokio::test(start_paused = true)]
async fn whoever_need_not_be_told_of_the_first_state_any_more_has_heard_of_it() {
    use crate::{backlog::VERBATIM_MAX, listener::Listener, testing::config_map};
    let listener = Listener::<Thing>::new(0, Overflow::Coalesce);
    let added = |text: &str, initial| Event::Added { obj: config_map(text), initial };
    listener.push((0..VERBATIM_MAX).map(|_| added("x@1", false)));
    listener.push([added("a@2", true)]);
    listener.informer_synced();
    assert!(*listener.synced().borrow() == crate::listener::Hearing::Waiting);
    listener.push([Event::Deleted { obj: config_map("a@3"), final_state_unknown: false }]);
    assert!(*listener.synced().borrow() == crate::listener::Hearing::Synced);
}

#[tokio::test(start_paused = true)]
async fn what_an_informer_does_is_counted() {
    let world = world(&["!403", "10 a@1 b@2", "watch: ~a@11; ^12; 5s; end"]).runs(60).await;
    let counts = world.informer.counts();
    assert_eq!((counts.lists, counts.last_list_objects, counts.watches, counts.events), (1, 2, 2, 2));
    assert_eq!(counts.errors[&("list", "forbidden")], 1);
    assert_eq!(counts.backoff, Duration::from_millis(800));
}

/// MX-2.
#[tokio::test(start_paused = true)]
async fn a_relist_is_counted_by_what_made_it_necessary() {
    for (answers, relists) in [
        (&["!403", "10 a@1", "!429", "watch: 5s; end", "watch:"][..], &[][..]),
        (&["10", "watch: 5s; !expired", "!500", "20", "watch:"], &[("expired", 1), ("internal", 1)]),
        (
            &["10", "watch: end", "20", "!refused", "watch: !expired", "30"],
            &[("expired", 1), ("very_short", 1)],
        ),
        (&["watch: ^^10; !gone", "watch: +a@1; end", "watch: ^^20"], &[("ended", 1), ("gone", 1)]),
    ] {
        let world = world(answers).runs(60).await;
        assert_eq!(world.informer.counts().relists, relists.iter().copied().collect(), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_asked_for_everything_gets_everything() {
    let world = world(&["10", "watch: +a@11"]);
    let events = world.informer.subscribe_with(HandlerOptions::default().overflow(Overflow::Unbounded));
    let world = world.runs(1).await;
    for version in 12..2012 {
        let object = crate::testing::config_map(&format!("a@{version}"));
        let mut queue = crate::OrderedQueue::default();
        queue.push(object.key(), crate::Delta::Updated(object));
        world.informer.shared.processor.apply(0, None, queue.pop_batch(1).unwrap());
    }
    assert_eq!(events.pending(), 2001);
}

#[tokio::test(start_paused = true)]
async fn going_on_is_told_from_beginning_anew() {
    let answers = ["10 a@1", "watch: ~a@11; 5s; !expired", "20 a@12", "watch: ~a@21; 2s; end", "watch:"];
    let world = world(&answers).runs(60).await;
    let watched = &world.informer.watched()[0];
    assert_eq!((watched.states, watched.resumes), (2, 1));
    assert_eq!((watched.before_state.as_str(), watched.state_version.as_str()), ("11", "20"));
    assert!(matches!(&watched.status, Status::Synced { version } if version == "21"));
}

/// A client of a server that sends this state of each of some namespaces, and then nothing. Others may not be looked at.
fn cluster(states: &'static [(&'static str, &'static [&'static str])]) -> kube_client::Client {
    use futures::stream;
    use http_body::Frame;
    let answer = move |request: http::Request<kube_client::client::Body>| async move {
        let path = request.uri().path().to_owned();
        let state = states.iter().find(|(namespace, _)| path.contains(&format!("/{namespace}/")));
        let (code, lines) = match state {
            Some((namespace, names)) => (200, sent(namespace, names)),
            None => (403, r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}"#.to_owned()),
        };
        let frames =
            stream::iter([Ok::<_, std::convert::Infallible>(Frame::data(bytes::Bytes::from(lines)))]);
        let rest = if code == 200 { stream::pending().boxed() } else { stream::empty().boxed() };
        let body = http_body_util::StreamBody::new(frames.chain(rest));
        http::Response::builder().status(code).body(body)
    };
    kube_client::Client::new(tower::service_fn(answer), "default")
}

fn sent(namespace: &str, names: &[&str]) -> String {
    let added = names.iter().map(|name| {
        let metadata =
            format!(r#"{{"name":"{name}","namespace":"{namespace}","resourceVersion":"3","uid":"u"}}"#);
        format!(
            r#"{{"type":"ADDED","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata}}}}}{}"#,
            "\n"
        )
    });
    let end = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    format!("{}{end}\n", added.collect::<String>())
}

/// API-8.
#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_store_and_known_when_all_are() {
    let client = cluster(&[("x", &["a", "b"]), ("y", &["a"])]);
    let informer = Informer::<Thing>::builder(client.clone()).namespaces(["y", "x"]).build();
    informer.start(CancellationToken::new());
    informer.synced().await.unwrap();
    let mut keys: Vec<_> = informer.store().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    assert_eq!((keys.join(" ").as_str(), informer.store().resource_version().as_str()), ("x/a x/b y/a", "5"));
    assert_eq!(informer.watched().len(), 2);
}

/// API-8, SI-18: what cannot be seen of one namespace keeps nobody from what can be seen of another, resyncs included.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_forbidden_does_not_stand_in_the_way_of_others() {
    let informer = Informer::<Thing>::builder(cluster(&[("x", &["a"])]))
        .namespaces(["forbidden", "x"])
        .resync(10 * SECOND)
        .on_error(|_| {})
        .build();
    let mut events = informer.subscribe();
    informer.start(CancellationToken::new());
    assert_eq!(told(&[events.next().await.unwrap()]), "initial x/a@3");
    assert_eq!(told(&[events.next().await.unwrap()]), "updated x/a@3 x/a@3");
    assert!(!informer.has_synced());
    assert!(
        matches!(&*informer.status().borrow(), Status::Retrying { error, .. } if error.error.class == Class::Forbidden)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_in_no_namespace_does_not_mind_being_asked_for_in_one() {
    use k8s_openapi::api::core::v1::Node;
    let client = cluster(&[]);
    assert_eq!(Informer::<Node>::builder(client.clone()).namespaces(["x", "y"]).build().watched().len(), 1);
    assert_eq!(Informer::<Thing>::builder(client.clone()).namespaces(["x", "y"]).build().watched().len(), 2);
    assert_eq!(
        Informer::<Thing>::builder(client).namespaces(["x", ""]).build().watched().len(),
        1,
        "that is all"
    );
}

/// However much there is to tell, others get their turn.
#[tokio::test]
async fn a_handler_with_much_to_do_lets_others_run() {
    let names: String = (0..2000).map(|number| format!(" a{number}@1")).collect();
    let world = world(&[format!("10{names}").leak(), "watch:"]);
    let count = Arc::new(AtomicUsize::new(0));
    let handler = {
        let count = Arc::clone(&count);
        move |_: Event<Thing>| {
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    world.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    world.informer.start(world.stop.clone());
    let mut seen = Vec::new();
    while count.load(Ordering::SeqCst) < 2000 {
        tokio::task::yield_now().await;
        seen.push(count.load(Ordering::SeqCst));
    }
    assert!(seen.iter().any(|count| (1..2000).contains(count)), "{seen:?}");
}
