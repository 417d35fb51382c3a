//! The cases of the specification, by number, and some more. Requests are written as `LIST version limit`, `WATCH version`
//! and `STATE version` (a watch that begins with the state), each with the second at which it was made if that is not that of
//! the one before.

use super::script::{world, world_of, world_with};
use crate::{
    BackoffPolicy, Cause, Class, Event, HandlerOptions, Informer, Object, Overflow, Status, Stopped,
    UnchangedOnRelist, VERBATIM_MAX,
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

/// Lets a script run for an hour and compares what was asked.
async fn check(answers: &[&'static str], requests: &str) {
    assert_eq!(world(answers).runs(3600).await.requests(), requests, "{answers:?}");
}

/// Case 1.
#[tokio::test(start_paused = true)]
async fn at_first_any_state_is_listed_and_then_watched() {
    check(&["10 a@1", "watch:"], "LIST 0 limit=500, WATCH 10, 305s WATCH 10").await;
}

/// Case 2.
#[tokio::test(start_paused = true)]
async fn after_an_expired_watch_nothing_older_is_listed() {
    check(&["10 a@1", "watch: 5s; !expired"], "LIST 0 limit=500, WATCH 10, 5.8s LIST 10").await;
    check(&["10 a@1", "watch: 5s; !gone"], "LIST 0 limit=500, WATCH 10, 5.8s LIST 10").await;
    check(&["10 a@1", "!expired"], "LIST 0 limit=500, WATCH 10, 0.8s LIST 10").await;
}

/// Cases 3 and 4; the wire forms are those of `error`.
#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_had_is_given_up_at_once() {
    for error in ["!expired", "!gone", "!large"] {
        let answers = ["10 a@1", "watch: 5s; !expired", error];
        check(&answers, "LIST 0 limit=500, WATCH 10, 5.8s LIST 10, LIST").await;
    }
}

/// Case 5.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_twice_stays_with_any_version() {
    let answers = ["10 a@1", "watch: 5s; !expired", "!expired", "!expired"];
    check(&answers, "LIST 0 limit=500, WATCH 10, 5.8s LIST 10, LIST, 7.4s LIST limit=500").await;
}

/// Case 6.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_cache_is_asked_for_pages() {
    let answers = ["10 a@1 >x", "10 b@1 >y", "10 c@1", "watch: 5s; !expired"];
    let requests = "LIST 0 limit=500, LIST >x limit=500, LIST >y limit=500, WATCH 10, 5.8s LIST 10 limit=500";
    check(&answers, requests).await;
}

/// Case 7.
#[tokio::test(start_paused = true)]
async fn if_a_page_has_expired_the_list_is_fetched_in_one() {
    let world = world(&["10 a@1 >x", "!expired", "12 a@1 b@2", "watch:"]).runs(1).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, LIST >x limit=500, LIST 0, WATCH 12");
    assert_eq!((world.store().as_str(), world.version().as_str()), ("a@1 b@2", "12"));
}

/// Case 8.
#[tokio::test(start_paused = true)]
async fn a_list_has_the_version_of_its_first_page() {
    let world = world(&["10 a@1 >x", "11 b@1 >y", "12 c@1", "watch:"]).runs(1).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, LIST >x limit=500, LIST >y limit=500, WATCH 10");
    assert_eq!(world.store(), "a@1 b@1 c@1");
}

/// Case 10.
#[tokio::test(start_paused = true)]
async fn a_page_size_that_was_asked_for_is_used_always() {
    let world = world_with(&["10 a@1", "watch: 5s; !expired"], |builder| builder.page_size(4)).runs(60).await;
    assert_eq!(world.requests(), "LIST 0 limit=4, WATCH 10, 5.8s LIST 10 limit=4");
}

/// Case 11.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_sent_needs_no_list() {
    let world = world(&["watch: +a@1; +b@2; ^^2; ~a@3"]).listening().runs(1).await;
    assert_eq!((world.requests().as_str(), world.store().as_str()), ("STATE", "a@3 b@2"));
    assert_eq!((world.version().as_str(), world.informer.has_synced()), ("3", true));
    assert_eq!(world.told(), "initial a@1, initial b@2, updated a@1 a@3");
}

/// Case 12.
#[tokio::test(start_paused = true)]
async fn a_state_without_its_end_is_none() {
    let world = world(&["watch: +a@1; +b@2; ^2"]).runs(1).await;
    assert_eq!((world.store().as_str(), world.version().as_str()), ("", ""));
    assert!(!world.informer.has_synced());
    assert!(matches!(*world.informer.status().borrow(), Status::Listing));
}

/// Case 13.
#[tokio::test(start_paused = true)]
async fn what_changes_while_the_state_is_sent_is_part_of_it() {
    let world = world(&["watch: +p1@1; +p2@2; ~p1@3; +p3@4; -p3@5; ^^5"]).listening().runs(1).await;
    assert_eq!(world.store(), "p1@3 p2@2");
    assert_eq!(world.told(), "initial p1@3, initial p2@2");
}

/// Case 14, and what is remembered of it.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_send_a_state_is_listed_at_once() {
    let answers = ["!422", "10 a@1", "watch: 5s; !expired"];
    let world = world_of(&answers, true, |builder| builder).runs(60).await;
    assert_eq!(world.requests(), "STATE, LIST 0 limit=500, WATCH 10, 5.8s LIST 10", "it is not asked again");
    assert_eq!(world.errors(), "");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_to_send_a_state_is_listed_and_asked_again_next_time() {
    for error in ["!403", "!500", "watch: !frame", "watch: end"] {
        let answers = [error, "10 a@1", "watch: 5s; !expired"];
        let world = world_of(&answers, true, |builder| builder).runs(60).await;
        assert_eq!(world.requests(), "STATE, LIST 0 limit=500, WATCH 10, 5.8s STATE 10", "{error}");
    }
}

/// Case 15.
#[tokio::test(start_paused = true)]
async fn a_state_that_breaks_off_is_asked_for_anew() {
    let world = world(&["watch: +a@1; end", "watch: +b@2; ^^2"]).listening().runs(1).await;
    assert_eq!((world.requests().as_str(), world.told().as_str()), ("STATE, STATE", "initial b@2"));
    let broken = super::script::world(&["watch: +a@1; !reset", "watch: ^^2"]).runs(1).await;
    assert_eq!((broken.requests().as_str(), broken.store().as_str()), ("STATE, STATE", ""));
}

/// Case 16.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_state_again_after_a_while() {
    let world = world_of(&["!429", "!429", "watch: ^^2"], true, |builder| builder).runs(60).await;
    assert_eq!(world.requests(), "STATE, 0.8s STATE, 2.4s STATE");
    let inside = world_of(&["watch: +a@1; !429", "watch: ^^2"], true, |builder| builder).runs(60).await;
    assert_eq!(inside.requests(), "STATE, 0.8s STATE");
}

/// Case 17.
#[tokio::test(start_paused = true)]
async fn a_state_at_a_version_that_cannot_be_had_is_asked_for_at_any() {
    for answer in ["!expired", "!large", "watch: !gone"] {
        let answers = ["watch: ^^7; 5s; !expired", answer, "watch: ^^9"];
        check(&answers, "STATE, 5.8s STATE 7, STATE, 310.8s WATCH 9").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_no_version_at_all_is_not_asked_without_end() {
    let world = world_of(&["!expired", "!expired", "!expired"], true, |builder| builder).runs(60).await;
    assert_eq!(world.requests(), "STATE, STATE, 0.8s STATE, 2.4s STATE");
}

/// Case 18.
#[tokio::test(start_paused = true)]
async fn after_the_state_a_watch_goes_on_where_it_was() {
    check(&["watch: +a@1; ^^2; 5s; end"], "STATE, 5s WATCH 2").await;
}

/// Case 19.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_opened_at_once_where_it_was() {
    let world = world(&["10 a@1", "watch: 60s; ~a@12; 300s; end", "watch: 400s; !reset"]).runs(3600).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, WATCH 10, 360s WATCH 12, 665s WATCH 12");
    assert_eq!(world.errors(), "");
}

/// Case 20.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_before_it_said_anything_is_a_failure() {
    let short = world(&["10", "watch: 0.5s; end"]).runs(60).await;
    assert_eq!(short.requests(), "LIST 0 limit=500, WATCH 10, 1.3s LIST 10");
    assert!(short.errors().starts_with("stream: very short watch"));
    check(&["10", "watch: +a@11; 0.5s; end"], "LIST 0 limit=500, WATCH 10, 0.5s WATCH 11").await;
    check(&["10", "watch: 1s; end"], "LIST 0 limit=500, WATCH 10, 1s WATCH 10").await;
}

/// Case 21.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_watched_again_without_a_list() {
    for error in ["!429", "!refused"] {
        let requests =
            "LIST 0 limit=500, WATCH 10, 0.8s WATCH 10, 2.4s WATCH 10, 5.6s WATCH 10, 12s WATCH 10";
        check(&["10", error, error, error, error], requests).await;
    }
}

/// Case 22.
#[tokio::test(start_paused = true)]
async fn a_server_that_becomes_busy_is_watched_again_without_a_list() {
    check(&["10", "watch: 5s; !429"], "LIST 0 limit=500, WATCH 10, 5.8s WATCH 10").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_how_long_to_wait_is_left_alone_for_so_long() {
    check(&["10", "!429 after 20"], "LIST 0 limit=500, WATCH 10, 20s WATCH 10").await;
}

/// Cases 23 and 24; how waits grow is tested with `backoff`.
#[tokio::test(start_paused = true)]
async fn waits_grow_from_cycle_to_cycle() {
    let requests = "LIST 0 limit=500, 0.8s LIST 0 limit=500, 2.4s LIST 0 limit=500, 5.6s LIST 0 limit=500";
    check(&["!403", "!refused", "!500"], requests).await;
}

#[tokio::test(start_paused = true)]
async fn waits_grow_as_one_asks() {
    let policy = BackoffPolicy { base: SECOND, factor: 1.0, ..BackoffPolicy::default() };
    let world = world_with(&["!403", "!403"], |builder| builder.backoff(policy)).runs(60).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, 1s LIST 0 limit=500, 2s LIST 0 limit=500");
}

/// Case 25.
#[tokio::test(start_paused = true)]
async fn failures_of_the_server_inside_a_watch_are_forgiven_for_as_long_as_one_asks() {
    let mut answers = vec!["10"];
    answers.extend(["watch: 1s; !500"; 40]);
    answers[33] = "11";
    answers.truncate(34);
    let world = world_with(&answers, |builder| builder.internal_retry(30 * SECOND)).runs(34).await;
    assert_eq!(
        world.requests().matches("WATCH").count(),
        32 + 1,
        "the first, 31 again, and one after the list"
    );
    assert_eq!(world.requests().matches("LIST").count(), 2);
    check(&["10", "watch: 1s; !500"], "LIST 0 limit=500, WATCH 10, 1.8s LIST 10").await;
    check(&["10", "watch: 1s; !frame"], "LIST 0 limit=500, WATCH 10, 1.8s LIST 10").await;
}

/// Case 26.
#[tokio::test(start_paused = true)]
async fn a_bookmark_is_where_a_watch_goes_on() {
    let world = world(&["10", "watch: ^30; 5s; end"]).listening().runs(60).await;
    assert_eq!(world.requests(), "LIST 0 limit=500, WATCH 10, 5s WATCH 30");
    assert_eq!((world.told().as_str(), world.informer.store().resource_version().as_str()), ("", "30"));
}

/// Case 27.
#[tokio::test(start_paused = true)]
async fn what_comes_in_no_order_says_nothing_about_the_version() {
    check(&["0", "watch: +a@5; +b@3; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 0").await;
    check(&["0", "watch: +a@5; ?+b@3; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 0").await;
    check(&["0", "watch: +a@5; +b@3; ~a@9; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 9").await;
}

/// Case 28.
#[tokio::test(start_paused = true)]
async fn something_of_another_kind_is_passed_over() {
    let world = world(&["10", "watch: +a@11; %; +b@12"]).listening().runs(1).await;
    assert_eq!(world.told(), "added a@11, added b@12");
    check(&["10", "watch: %; end"], "LIST 0 limit=500, WATCH 10, 0.8s LIST 10").await;
}

/// Case 29.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_reported_and_passed_over() {
    let world = world(&["10 b@9", "watch: +a@11; ?b@12; ~a@13; ?b@14; 5s; end"]).listening().runs(60).await;
    assert_eq!(world.told(), "initial b@9, added a@11, updated a@11 a@13");
    assert_eq!(world.errors(), "decode: unreadable (b), decode: unreadable (b)");
    assert_eq!(world.requests(), "LIST 0 limit=500, WATCH 10, 5s WATCH 14");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_when_it_is_deleted_is_gone_all_the_same() {
    let world = world(&["10 a@1 b@2", "watch: 1s; ?-a@12"]).listening().runs(2).await;
    assert_eq!(
        (world.told().as_str(), world.store().as_str()),
        ("initial a@1, initial b@2, missed a@1", "b@2")
    );
    let sent = super::script::world(&["watch: ^^5; !expired", "watch: +a@6; ?-a@7; ^^8"]).runs(60).await;
    assert_eq!(sent.store(), "");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_any_more_is_not_gone() {
    let world = world(&["10 a@1 b@2 ?c@3", "watch: 5s; !expired", "20 a@1 ?b@15", "watch:"]).listening();
    let world = world.runs(60).await;
    assert_eq!((world.told().as_str(), world.store().as_str()), ("initial a@1, initial b@2", "a@1 b@2"));
    assert_eq!(world.errors(), "decode: unreadable (c), decode: unreadable (b)");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_is_not_kept() {
    let world = world(&["10 a@1 @2", "watch: +@11; +b@12"]).listening().runs(1).await;
    assert_eq!((world.told().as_str(), world.version().as_str()), ("initial a@1, added b@12", "12"));
    assert_eq!(world.errors(), "decode: an object has no name, decode: an object has no name");
}

/// Case 30.
#[tokio::test(start_paused = true)]
async fn a_watch_on_which_nothing_comes_is_opened_anew() {
    check(&["10", "watch: 100s; ~a@11"], "LIST 0 limit=500, WATCH 10, 405s WATCH 11").await;
    let world = world_with(&["10", "watch: 100s; ~a@11"], |builder| builder.idle_timeout(120 * SECOND));
    assert_eq!(world.runs(600).await.requests(), "LIST 0 limit=500, WATCH 10, 220s WATCH 11");
}

/// Case 31; how an answer becomes an error is tested with `ApiSource`.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forbidden_is_reported() {
    let world = world(&["10", "!403"]).runs(60).await;
    assert_eq!(
        (world.requests().as_str(), world.errors().as_str()),
        ("LIST 0 limit=500, WATCH 10, 0.8s LIST 10", "open: 403")
    );
}

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
fn counting(world: &super::script::World, options: HandlerOptions) -> Arc<AtomicUsize> {
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
