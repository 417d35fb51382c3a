//! What is asked of a server, and what becomes of its answers.

use crate::{
    BackoffPolicy, Status,
    informer::script::{world, world_of, world_with},
};
use std::time::Duration;

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
    let broken = crate::informer::script::world(&["watch: +a@1; !reset", "watch: ^^2"]).runs(1).await;
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
    let sent =
        crate::informer::script::world(&["watch: ^^5; !expired", "watch: +a@6; ?-a@7; ^^8"]).runs(60).await;
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
