//! The events that handlers receive, and the status that an informer reports.

use crate::{
    error::Class,
    informer::{
        Cause, Event, HandlerOptions, Informer, Overflow, Status, Stopped, UNMERGED_EVENTS_MAX,
        UnchangedOnRelist,
        script::{scripted, scripted_with},
    },
    object::Object,
    testing::{Thing, describe, name},
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

/// Case 32, with the default and with client-go's behaviour.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_deletions_and_no_unchanged_objects() {
    let answers = ["10 a@1 b@2", "watch: 5s; !expired", "20 a@1", "watch:"];
    let scripted = scripted(&answers).with_handler().run_for(60).await;
    assert_eq!(scripted.delivered(), "initial a@1, initial b@2, missed b@2");

    let go = scripted_with(&answers, |builder| builder.unchanged_on_relist(UnchangedOnRelist::Deliver));
    let go = go.with_handler().run_for(60).await;
    assert_eq!(go.delivered(), "initial a@1, initial b@2, missed b@2, updated a@1 a@1");
}

/// Case 33.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_deletions_first_and_handlers_find_the_new_state_in_the_store() {
    let scripted = scripted(&["10 p1@1 p2@2 p3@3", "watch: 5s; !expired", "20 p1@11 p2@12 p4@14", "watch:"]);
    let store = scripted.informer.store();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        move |event: Event<Thing>| seen.lock().push((event, store.len(), store.get("p4").is_some()))
    };
    scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    scripted.run_for(60).await;
    let seen = std::mem::take(&mut *seen.lock());
    let (first, relist) = seen.split_at(3);
    assert!(first.iter().all(|(_, count, _)| *count == 3));
    assert!(relist.iter().all(|(_, count, has_new)| *count == 3 && *has_new));
    let events: Vec<_> = relist.iter().map(|(event, ..)| event.clone()).collect();
    assert_eq!(describe(&events), "missed p3@3, updated p1@1 p1@11, updated p2@2 p2@12, added p4@14");
    assert!(matches!(events[1], Event::Updated { cause: Cause::Relist, .. }));
}

/// PG-6: an unchanged object is kept in memory once.
#[tokio::test(start_paused = true)]
async fn an_object_that_a_relist_did_not_change_stays_the_same_in_memory() {
    for answers in [
        ["10 a@1 b@2", "watch: 5s; !expired", "20 a@1 b@3", "watch:"],
        ["watch: +a@1; +b@2; ^^10; 5s; !expired", "watch: +a@1; +b@3; ^^20", "", ""],
    ] {
        let scripted = scripted(&answers).run_for(1).await;
        let (a, b) =
            (scripted.informer.store().get("a").unwrap(), scripted.informer.store().get("b").unwrap());
        let scripted = scripted.advance(60).await;
        assert_eq!(scripted.store(), "a@1 b@3");
        assert!(Arc::ptr_eq(&a, &scripted.informer.store().get("a").unwrap()));
        assert!(!Arc::ptr_eq(&b, &scripted.informer.store().get("b").unwrap()));
    }
}

/// OQ-1, with the default and with client-go's behaviour.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_unknown_object_is_delivered_only_on_request() {
    let answers = ["10", "watch: -a@11"];
    assert_eq!(scripted(&answers).with_handler().run_for(1).await.delivered(), "");
    let go = scripted_with(&answers, |builder| builder.unknown_deletes(true)).with_handler().run_for(1).await;
    assert_eq!(go.delivered(), "deleted a@11");
}

/// Adds a handler that counts resync events.
fn counting(scripted: &crate::informer::script::Scripted, options: HandlerOptions) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let handler = move |event: Event<Thing>| {
        if let Event::Updated { old, new, cause: Cause::Resync } = event {
            assert!(Arc::ptr_eq(&old, &new));
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    scripted.informer.add_handler(handler, options).unwrap();
    count
}

/// Case 41.
#[tokio::test(start_paused = true)]
async fn every_listener_is_resynced_when_it_is_due() {
    let scripted = scripted_with(&["10 a@1 b@2", "watch:"], |builder| builder.resync(SECOND));
    let never = counting(&scripted, HandlerOptions::default().resync(Duration::ZERO));
    let second = counting(&scripted, HandlerOptions::default().resync(2 * SECOND));
    let third = counting(&scripted, HandlerOptions::default().resync(3 * SECOND));
    let counts = || [&never, &second, &third].map(|count| count.load(Ordering::SeqCst));
    scripted.informer.start(scripted.stop.clone());
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(counts(), [0, 2, 0]);
    sleep(SECOND).await;
    assert_eq!(counts(), [0, 2, 2]);
}

/// Case 42.
#[tokio::test(start_paused = true)]
async fn the_shortest_period_before_the_start_is_the_resync_check_period() {
    let scripted = scripted_with(&["10 a@1", "watch:"], |builder| builder.resync(12 * 3600 * SECOND));
    let check = || scripted.informer.shared.processor.check_period().as_secs();
    for (period, expected) in [(60, 60), (55, 55), (5, 5)] {
        counting(&scripted, HandlerOptions::default().resync(Duration::from_secs(period)));
        assert_eq!(check(), expected);
    }
    scripted.informer.start(scripted.stop.clone());
    sleep(SECOND).await;
    let late = counting(&scripted, HandlerOptions::default().resync(SECOND));
    assert_eq!(check(), 5);
    sleep(13 * SECOND).await;
    assert_eq!(late.load(Ordering::SeqCst), 1, "at 10 seconds: at 5 it was not due yet");
}

/// RS-4: the resync period continues across watches.
#[tokio::test(start_paused = true)]
async fn a_resync_period_may_be_longer_than_a_watch() {
    let answers = ["10 a@1", "watch: 300s; end", "watch: 300s; end", "watch: 300s; end", "watch: 300s; end"];
    let scripted = scripted_with(&answers, |builder| builder.resync(1000 * SECOND));
    let resyncs = counting(&scripted, HandlerOptions::default());
    scripted.run_for(1100).await;
    assert_eq!(resyncs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_does_not_delay_a_resync() {
    let answers = ["watch: +a@1; ^^2; 2s; ^3; 2s; ^4; 2s; ^5; 2s; ^6; 2s; ^7; 2s; ^8"];
    let scripted = scripted_with(&answers, |builder| builder.resync(3 * SECOND));
    let resyncs = counting(&scripted, HandlerOptions::default());
    scripted.run_for(10).await;
    assert_eq!(resyncs.load(Ordering::SeqCst), 3);
}

/// WL-11.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_can_be_verified_with_a_normal_list() {
    for (listed, message) in
        [("2 a@1 b@2", ""), ("2 a@1", "stream: a streamed list differs from the list at 2")]
    {
        let answers = ["watch: +a@1; +b@2; ^^2; +c@3", listed];
        let scripted = scripted_with(&answers, |builder| builder.verify_states(true)).run_for(1).await;
        assert_eq!(scripted.requests(), "STATE, LIST 2 Exact");
        let errors = scripted.errors();
        assert!(errors.starts_with(message) && errors.is_empty() == message.is_empty(), "{errors}");
    }
}

/// Case 43.
#[tokio::test(start_paused = true)]
async fn an_informer_without_a_resync_period_resyncs_no_listener() {
    let scripted = scripted(&["10 a@1", "watch:"]);
    let resyncs = counting(&scripted, HandlerOptions::default().resync(30 * SECOND));
    scripted.run_for(200).await;
    assert_eq!(resyncs.load(Ordering::SeqCst), 0);
}

/// Case 44.
#[tokio::test(start_paused = true)]
async fn a_handler_added_late_first_receives_every_existing_object() {
    let scripted = scripted(&["10 a@1 b@2", "watch: 60s; +c@11"]).run_for(1).await;
    let mut events = scripted.informer.subscribe();
    let synced = tokio::spawn(events.synced());
    let mut names = vec![events.next().await.unwrap(), events.next().await.unwrap()];
    names.sort_by_key(Event::key);
    assert_eq!(describe(&names), "initial a@1, initial b@2");
    synced.await.unwrap().unwrap();
    assert_eq!(describe(&[events.next().await.unwrap()]), "added c@11");

    let registration = {
        let handler = |_: Event<Thing>| {};
        scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap()
    };
    assert!(!registration.has_synced(), "the handler was not called yet");
    registration.synced().await.unwrap();
}

/// Case 45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_never_returns_delays_no_other_handler() {
    let changes: String = (12..10_012).map(|version| format!("~a@{version};")).collect();
    let scripted = scripted(&["10", format!("watch: +a@11; {changes}").leak()]);
    let (release, block) = std::sync::mpsc::channel::<()>();
    let block = Mutex::new(block);
    let blocked = move |_: Event<Thing>| {
        _ = block.lock().recv();
    };
    let blocked = scripted.informer.add_handler(blocked, HandlerOptions::default()).unwrap();
    let mut events = scripted.informer.subscribe();
    scripted.informer.start(scripted.stop.clone());
    let mut last = String::new();
    while last != "a@10011" {
        last = name(events.next().await.unwrap().object());
    }
    assert_eq!(scripted.store(), "a@10011");
    assert!(blocked.pending() <= UNMERGED_EVENTS_MAX + 1, "{}", blocked.pending());
    drop(release);
}

/// Case 47.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_reported_and_receives_the_next_event() {
    let scripted = scripted(&["10 a@1 b@2 c@3", "watch:"]);
    let count = Arc::new(AtomicUsize::new(0));
    let handler = {
        let count = Arc::clone(&count);
        move |_: Event<Thing>| assert!(count.fetch_add(1, Ordering::SeqCst) > 0, "on purpose")
    };
    let options = HandlerOptions::default().name("clumsy");
    let registration = scripted.informer.add_handler(handler, options).unwrap();
    let scripted = scripted.with_handler().run_for(1).await;
    registration.synced().await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
    assert_eq!(scripted.errors(), "handler: handler clumsy panicked (a)");
    assert_eq!(scripted.delivered(), "initial a@1, initial b@2, initial c@3");
}

/// Case 48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_handler_finishes_its_call_and_receives_no_more_events() {
    let scripted = scripted(&["10 a@1 b@2 c@3", "watch:"]);
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
    let registration = scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    scripted.informer.start(scripted.stop.clone());
    scripted.informer.synced().await.unwrap();
    while count.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    registration.remove();
    registration.remove();
    drop(release);
    scripted.stop.cancel();
    scripted.informer.shared.handlers.wait().await;
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(registration.synced().await, Err(Stopped));
}

/// Case 49.
#[tokio::test(start_paused = true)]
async fn after_the_informer_stopped_nothing_runs_and_no_handler_can_be_added() {
    let scripted = scripted(&["10 a@1", "watch:"]);
    let handler = |_: Event<Thing>| {};
    let registration = scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    let mut events = scripted.informer.subscribe();
    let task = scripted.informer.start(scripted.stop.clone());
    scripted.informer.synced().await.unwrap();
    assert!(!scripted.informer.is_stopped());
    scripted.stop.cancel();
    task.await.unwrap();
    assert!(
        scripted.informer.is_stopped() && matches!(*scripted.informer.status().borrow(), Status::Stopped)
    );
    assert!(scripted.informer.shared.handlers.is_empty());
    assert_eq!(scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap_err(), Stopped);
    assert!(events.next().await.is_none() && scripted.informer.subscribe().next().await.is_none());
    registration.remove();
    scripted.informer.run(CancellationToken::new()).await;
    assert_eq!(scripted.store(), "a@1", "the store can still be read");
    assert!(scripted.informer.synced().await.is_ok(), "it was once");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_informer_that_stops_returns_an_error() {
    let scripted = scripted(&[]);
    let waiting = tokio::spawn({
        let informer = scripted.informer.clone();
        async move { informer.synced().await }
    });
    let scripted = scripted.run_for(1).await;
    scripted.stop.cancel();
    assert_eq!(waiting.await.unwrap(), Err(Stopped));
}

/// Case 58.
#[tokio::test(start_paused = true)]
async fn every_object_is_transformed_once_whether_listed_or_watched() {
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
        let scripted =
            scripted_with(&answers, |builder| builder.transform(transform)).with_handler().run_for(60).await;
        let events = scripted.events();
        assert_eq!(describe(&events), "initial a@1, initial b@2, updated a@1 a@11, deleted b@12");
        assert!(events.iter().all(|event| is_transformed(event.object())));
        assert!(scripted.informer.store().all().iter().all(|object| is_transformed(object)));
        assert!(
            (4..=5).contains(&count.load(Ordering::SeqCst)),
            "an object that the list did not change need not be transformed again"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_drops_the_event_and_keeps_the_watch() {
    let transform = |object: &mut Thing| assert_ne!(object.revision(), "11", "on purpose");
    let scripted = scripted_with(&["10 a@1", "watch: ~a@11; +b@12"], |builder| builder.transform(transform));
    let scripted = scripted.with_handler().run_for(1).await;
    assert_eq!(scripted.delivered(), "initial a@1, added b@12");
    assert_eq!(scripted.errors(), "transform: the transform of the informer panicked (a)");
    assert_eq!(scripted.version(), "12");
}

/// An object of a streamed list whose transform panics keeps its last state.
#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_during_a_streamed_list_does_not_delete_the_object() {
    for (second, expected) in [
        ("watch: +a@6; +b@2; ^^7", "initial a@1, initial b@2"),
        ("watch: +a@5; ~a@6; +b@2; ^^7", "initial a@1, initial b@2, updated a@1 a@5"),
        ("watch: +a@5; -a@6; +b@2; ^^7", "initial a@1, initial b@2, missed a@1"),
    ] {
        let transform = |object: &mut Thing| assert_ne!(object.revision(), "6", "on purpose");
        let answers = ["watch: +a@1; +b@2; ^^5; 5s; !expired", second];
        let scripted = scripted_with(&answers, |builder| builder.transform(transform));
        let scripted = scripted.with_handler().run_for(60).await;
        assert_eq!((scripted.delivered().as_str(), scripted.version().as_str()), (expected, "7"), "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_on_a_deletion_still_deletes_the_object() {
    let transform = |object: &mut Thing| assert_ne!(object.revision(), "11", "on purpose");
    let scripted = scripted_with(&["10 a@1", "watch: -a@11"], |builder| builder.transform(transform));
    let scripted = scripted.with_handler().run_for(1).await;
    assert_eq!((scripted.delivered().as_str(), scripted.store().as_str()), ("initial a@1, missed a@1", ""));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_of_a_streamed_list_does_not_affect_the_others() {
    let answers = ["watch: +a@1; ^^5; 5s; !expired", "watch: +a@6; ?a@7; ^^8"];
    let scripted = scripted(&answers).with_handler().run_for(60).await;
    assert_eq!(scripted.delivered(), "initial a@1, updated a@1 a@6");
}

/// SI-18: a connection that breaks before the response is a failure, although the watch is reopened at once.
#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_opened_is_reported_and_opened_again() {
    let answers = ["10 a@1", "watch: ~a@11; 2s; end", "slow !reset", "slow !reset", "watch:"];
    let scripted = scripted(&answers).run_for(8).await;
    let Status::Retrying { attempt, .. } = *scripted.informer.status().borrow() else {
        panic!("it is synced")
    };
    assert_eq!((attempt, scripted.errors().as_str()), (1, "open: reset"));
    let scripted = scripted.advance(60).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, WATCH 10, 2s WATCH 11, 7s WATCH 11, 12s WATCH 11");
    assert_eq!(
        (scripted.errors().as_str(), scripted.informer.watch_statuses()[0].resumes),
        ("open: reset", 1)
    );
}

/// A server may report an expired version in a normal error response.
#[tokio::test(start_paused = true)]
async fn an_informer_that_waits_for_a_relist_does_not_report_synced() {
    let scripted = scripted(&["10 a@1", "watch: 5s; !expired", "20 a@12", "watch:"]);
    let status = scripted.informer.status();
    let scripted = scripted.run_for(5).await.advance(0).await;
    sleep(SECOND / 2).await;
    assert!(matches!(*status.borrow(), Status::Listing), "{status:?}");
    let _scripted = scripted.advance(1).await;
    assert!(matches!(*status.borrow(), Status::Synced { .. }), "{status:?}");
}

/// SI-18.
#[tokio::test(start_paused = true)]
async fn the_status_keeps_the_time_of_the_first_of_several_failures() {
    let started = tokio::time::Instant::now();
    let scripted = scripted(&["watch: 1s; !429", "watch: 1s; !429"]).run_for(3).await;
    let Status::Retrying { since, attempt, .. } = *scripted.informer.status().borrow() else {
        panic!("it is well")
    };
    assert_eq!((since.duration_since(started), attempt), (SECOND, 2));
}

/// SI-18.
#[tokio::test(start_paused = true)]
async fn the_status_shows_the_error_and_since_when_it_occurs() {
    let scripted = scripted(&["!403", "!403", "10", "watch:"]);
    let started = tokio::time::Instant::now();
    let status = scripted.informer.status();
    assert!(matches!(*status.borrow(), Status::Starting));
    let scripted = scripted.run_for(2).await;
    let Status::Retrying { error, at, attempt, since } = status.borrow().clone() else {
        panic!("{status:?}")
    };
    assert_eq!((error.to_string().as_str(), attempt), ("list: 403", 2));
    assert_eq!(at.duration_since(started), Duration::from_millis(2400));
    assert_eq!(since, started);
    let _scripted = scripted.advance(1).await;
    assert!(matches!(&*status.borrow(), Status::Synced { version } if version == "10"));
}

#[tokio::test(start_paused = true)]
async fn consecutive_failures_are_counted_across_watches_without_events() {
    for (watch, expected) in [("watch: 1s; !429", 2), ("watch: ^11; 1s; !429", 1)] {
        let scripted = scripted(&["10", "!429", watch]).run_for(3).await;
        let Status::Retrying { attempt, .. } = *scripted.informer.status().borrow() else {
            panic!("{watch}")
        };
        assert_eq!(attempt, expected, "{watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_informer_ends_its_streams() {
    let scripted = scripted(&[]);
    let mut events = scripted.informer.subscribe();
    let registration =
        scripted.informer.add_handler(|_: Event<Thing>| {}, HandlerOptions::default()).unwrap();
    drop(scripted);
    assert!(events.next().await.is_none());
    assert_eq!(registration.synced().await, Err(Stopped));
    assert_eq!(events.synced().await, Err(Stopped));
}

#[tokio::test(start_paused = true)]
async fn an_error_handler_that_panics_does_not_stop_the_informer() {
    let scripted =
        scripted_with(&["!403", "10 a@1", "watch:"], |builder| builder.on_error(|_| panic!("on purpose")));
    assert_eq!(scripted.run_for(10).await.store(), "a@1");
}

#[tokio::test(start_paused = true)]
async fn the_longest_possible_durations_do_not_overflow() {
    let scripted = scripted_with(&["10 a@1", "watch:"], |builder| {
        builder.resync(Duration::MAX).watch_timeout(Duration::MAX).idle_timeout(Duration::MAX)
    });
    let options = HandlerOptions::default().resync(Duration::MAX);
    scripted.informer.add_handler(|_: Event<Thing>| {}, options).unwrap();
    assert_eq!(scripted.run_for(10).await.store(), "a@1");
}

/// SI-8 and SI-11: the last initial event may disappear from the queue before it is delivered.
#[tokio::test(start_paused = true)]
async fn a_listener_whose_initial_events_were_merged_away_is_synced() {
    use crate::{
        informer::{coalescing_queue::UNMERGED_EVENTS_MAX, listener::Listener},
        testing::config_map,
    };
    let listener = Listener::<Thing>::new(0, Overflow::Coalesce);
    let added = |text: &str, initial| Event::Added { obj: config_map(text), initial };
    listener.push((0..UNMERGED_EVENTS_MAX).map(|_| added("x@1", false)));
    listener.push([added("a@2", true)]);
    listener.informer_synced();
    assert!(*listener.synced().borrow() == crate::informer::listener::SyncState::Waiting);
    listener.push([Event::Deleted { obj: config_map("a@3"), final_state_unknown: false }]);
    assert!(*listener.synced().borrow() == crate::informer::listener::SyncState::Synced);
}

#[tokio::test(start_paused = true)]
async fn an_informer_counts_its_requests_and_events() {
    let scripted = scripted(&["!403", "10 a@1 b@2", "watch: ~a@11; ^12; 5s; end"]).run_for(60).await;
    let counts = scripted.informer.counts();
    assert_eq!((counts.lists, counts.last_list_objects, counts.watches, counts.events), (1, 2, 2, 2));
    assert_eq!(counts.errors[&("list", "forbidden")], 1);
    assert_eq!(counts.backoff, Duration::from_millis(800));
}

/// MX-2.
#[tokio::test(start_paused = true)]
async fn relists_are_counted_by_reason() {
    for (answers, relists) in [
        (&["!403", "10 a@1", "!429", "watch: 5s; end", "watch:"][..], &[][..]),
        (&["10", "watch: 5s; !expired", "!500", "20", "watch:"], &[("expired", 1), ("internal", 1)]),
        (
            &["10", "watch: end", "20", "!refused", "watch: !expired", "30"],
            &[("expired", 1), ("very_short", 1)],
        ),
        (&["watch: ^^10; !gone", "watch: +a@1; end", "watch: ^^20"], &[("ended", 1), ("gone", 1)]),
    ] {
        let scripted = scripted(answers).run_for(60).await;
        assert_eq!(scripted.informer.counts().relists, relists.iter().copied().collect(), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_with_an_unbounded_queue_receives_every_event() {
    let scripted = scripted(&["10", "watch: +a@11"]);
    let events = scripted.informer.subscribe_with(HandlerOptions::default().overflow(Overflow::Unbounded));
    let scripted = scripted.run_for(1).await;
    for version in 12..2012 {
        let object = crate::testing::config_map(&format!("a@{version}"));
        let mut queue = crate::reflector::DeltaFifo::default();
        queue.push(object.key(), crate::reflector::Delta::Updated(object));
        scripted.informer.shared.processor.apply(0, None, queue.pop_batch(1).unwrap());
    }
    assert_eq!(events.pending(), 2001);
}

#[tokio::test(start_paused = true)]
async fn resuming_a_watch_is_reported_differently_from_a_relist() {
    let answers = ["10 a@1", "watch: ~a@11; 5s; !expired", "20 a@12", "watch: ~a@21; 2s; end", "watch:"];
    let scripted = scripted(&answers).run_for(60).await;
    let watched = &scripted.informer.watch_statuses()[0];
    assert_eq!((watched.states, watched.resumes), (2, 1));
    assert_eq!((watched.before_state.as_str(), watched.state_version.as_str()), ("11", "20"));
    assert!(matches!(&watched.status, Status::Synced { version } if version == "21"));
}

/// A client whose server sends each of these namespaces this list and then nothing, and forbids all others.
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
async fn several_namespaces_share_a_store_that_is_synced_when_all_are() {
    let client = cluster(&[("x", &["a", "b"]), ("y", &["a"])]);
    let informer = Informer::<Thing>::builder(client.clone()).namespaces(["y", "x"]).build();
    informer.start(CancellationToken::new());
    informer.synced().await.unwrap();
    let mut keys: Vec<_> = informer.store().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    assert_eq!((keys.join(" ").as_str(), informer.store().resource_version().as_str()), ("x/a x/b y/a", "5"));
    assert_eq!(informer.watch_statuses().len(), 2);
}

/// API-8, SI-18: a forbidden namespace does not affect the others, resyncs included.
#[tokio::test(start_paused = true)]
async fn a_forbidden_namespace_does_not_affect_the_others() {
    let informer = Informer::<Thing>::builder(cluster(&[("x", &["a"])]))
        .namespaces(["forbidden", "x"])
        .resync(10 * SECOND)
        .on_error(|_| {})
        .build();
    let mut events = informer.subscribe();
    informer.start(CancellationToken::new());
    assert_eq!(describe(&[events.next().await.unwrap()]), "initial x/a@3");
    assert_eq!(describe(&[events.next().await.unwrap()]), "updated x/a@3 x/a@3");
    assert!(!informer.has_synced());
    assert!(
        matches!(&*informer.status().borrow(), Status::Retrying { error, .. } if error.error.class == Class::Forbidden)
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_kind_ignores_the_namespace() {
    use k8s_openapi::api::core::v1::Node;
    let client = cluster(&[]);
    assert_eq!(
        Informer::<Node>::builder(client.clone()).namespaces(["x", "y"]).build().watch_statuses().len(),
        1
    );
    assert_eq!(
        Informer::<Thing>::builder(client.clone()).namespaces(["x", "y"]).build().watch_statuses().len(),
        2
    );
    assert_eq!(
        Informer::<Thing>::builder(client).namespaces(["x", ""]).build().watch_statuses().len(),
        1,
        "that is all"
    );
}

/// A long queue of events must not starve other tasks.
#[tokio::test]
async fn a_handler_with_many_events_lets_other_tasks_run() {
    let names: String = (0..2000).map(|number| format!(" a{number}@1")).collect();
    let scripted = scripted(&[format!("10{names}").leak(), "watch:"]);
    let count = Arc::new(AtomicUsize::new(0));
    let handler = {
        let count = Arc::clone(&count);
        move |_: Event<Thing>| {
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    scripted.informer.add_handler(handler, HandlerOptions::default()).unwrap();
    scripted.informer.start(scripted.stop.clone());
    let mut seen = Vec::new();
    while count.load(Ordering::SeqCst) < 2000 {
        tokio::task::yield_now().await;
        seen.push(count.load(Ordering::SeqCst));
    }
    assert!(seen.iter().any(|count| (1..2000).contains(count)), "{seen:?}");
}
