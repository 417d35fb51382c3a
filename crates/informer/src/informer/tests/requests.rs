//! The requests that an informer sends, and its handling of the responses.

use crate::{
    backoff::BackoffPolicy,
    informer::{
        Status,
        script::{scripted, scripted_of, scripted_with},
    },
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Runs the script for an hour and compares the requests.
async fn check(answers: &[&'static str], requests: &str) {
    assert_eq!(scripted(answers).run_for(3600).await.requests(), requests, "{answers:?}");
}

/// Case 1.
#[tokio::test(start_paused = true)]
async fn the_first_list_has_version_0_and_a_watch_follows() {
    check(&["10 a@1", "watch:"], "LIST 0 limit=500, WATCH 10, 305s WATCH 10").await;
}

/// Case 2.
#[tokio::test(start_paused = true)]
async fn after_an_expired_watch_the_list_is_not_older() {
    check(&["10 a@1", "watch: 5s; !expired"], "LIST 0 limit=500, WATCH 10, 5.8s LIST 10").await;
    check(&["10 a@1", "watch: 5s; !gone"], "LIST 0 limit=500, WATCH 10, 5.8s LIST 10").await;
    check(&["10 a@1", "!expired"], "LIST 0 limit=500, WATCH 10, 0.8s LIST 10").await;
}

/// Cases 3 and 4; the wire forms are those of `error`.
#[tokio::test(start_paused = true)]
async fn an_unavailable_version_is_replaced_by_the_newest_at_once() {
    for error in ["!expired", "!gone", "!large"] {
        let answers = ["10 a@1", "watch: 5s; !expired", error];
        check(&answers, "LIST 0 limit=500, WATCH 10, 5.8s LIST 10, LIST").await;
    }
}

/// Case 5.
#[tokio::test(start_paused = true)]
async fn after_two_expired_lists_the_newest_version_is_listed() {
    let answers = ["10 a@1", "watch: 5s; !expired", "!expired", "!expired"];
    check(&answers, "LIST 0 limit=500, WATCH 10, 5.8s LIST 10, LIST, 7.4s LIST limit=500").await;
}

/// Case 6.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_watch_cache_is_listed_in_pages() {
    let answers = ["10 a@1 >x", "10 b@1 >y", "10 c@1", "watch: 5s; !expired"];
    let requests = "LIST 0 limit=500, LIST >x limit=500, LIST >y limit=500, WATCH 10, 5.8s LIST 10 limit=500";
    check(&answers, requests).await;
}

/// Case 7.
#[tokio::test(start_paused = true)]
async fn after_an_expired_page_the_list_is_fetched_in_one_page() {
    let scripted = scripted(&["10 a@1 >x", "!expired", "12 a@1 b@2", "watch:"]).run_for(1).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, LIST >x limit=500, LIST 0, WATCH 12");
    assert_eq!((scripted.store().as_str(), scripted.version().as_str()), ("a@1 b@2", "12"));
}

/// Case 8.
#[tokio::test(start_paused = true)]
async fn a_list_has_the_version_of_its_first_page() {
    let scripted = scripted(&["10 a@1 >x", "11 b@1 >y", "12 c@1", "watch:"]).run_for(1).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, LIST >x limit=500, LIST >y limit=500, WATCH 10");
    assert_eq!(scripted.store(), "a@1 b@1 c@1");
}

/// Case 10.
#[tokio::test(start_paused = true)]
async fn a_configured_page_size_is_always_used() {
    let scripted =
        scripted_with(&["10 a@1", "watch: 5s; !expired"], |builder| builder.page_size(4)).run_for(60).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=4, WATCH 10, 5.8s LIST 10 limit=4");
}

/// Case 11.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_needs_no_list_request() {
    let scripted = scripted(&["watch: +a@1; +b@2; ^^2; ~a@3"]).with_handler().run_for(1).await;
    assert_eq!((scripted.requests().as_str(), scripted.store().as_str()), ("STATE", "a@3 b@2"));
    assert_eq!((scripted.version().as_str(), scripted.informer.has_synced()), ("3", true));
    assert_eq!(scripted.delivered(), "initial a@1, initial b@2, updated a@1 a@3");
}

/// Case 12.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_its_final_bookmark_is_not_applied() {
    let scripted = scripted(&["watch: +a@1; +b@2; ^2"]).run_for(1).await;
    assert_eq!((scripted.store().as_str(), scripted.version().as_str()), ("", ""));
    assert!(!scripted.informer.has_synced());
    assert!(matches!(*scripted.informer.status().borrow(), Status::Listing));
}

/// Case 13.
#[tokio::test(start_paused = true)]
async fn changes_during_a_streamed_list_are_part_of_it() {
    let scripted =
        scripted(&["watch: +p1@1; +p2@2; ~p1@3; +p3@4; -p3@5; ^^5"]).with_handler().run_for(1).await;
    assert_eq!(scripted.store(), "p1@3 p2@2");
    assert_eq!(scripted.delivered(), "initial p1@3, initial p2@2");
}

/// Case 14. The informer remembers that the server cannot stream lists.
#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_streamed_lists_is_listed_at_once() {
    let answers = ["!422", "10 a@1", "watch: 5s; !expired"];
    let scripted = scripted_of(&answers, true, |builder| builder).run_for(60).await;
    assert_eq!(
        scripted.requests(),
        "STATE, LIST 0 limit=500, WATCH 10, 5.8s LIST 10",
        "it is not asked again"
    );
    assert_eq!(scripted.errors(), "");
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_streamed_list_a_list_follows_and_the_next_relist_streams_again() {
    for error in ["!403", "!500", "watch: !frame", "watch: end"] {
        let answers = [error, "10 a@1", "watch: 5s; !expired"];
        let scripted = scripted_of(&answers, true, |builder| builder).run_for(60).await;
        assert_eq!(scripted.requests(), "STATE, LIST 0 limit=500, WATCH 10, 5.8s STATE 10", "{error}");
    }
}

/// Case 15.
#[tokio::test(start_paused = true)]
async fn an_interrupted_streamed_list_is_requested_again() {
    let scripted = scripted(&["watch: +a@1; end", "watch: +b@2; ^^2"]).with_handler().run_for(1).await;
    assert_eq!(
        (scripted.requests().as_str(), scripted.delivered().as_str()),
        ("STATE, STATE", "initial b@2")
    );
    let broken = crate::informer::script::scripted(&["watch: +a@1; !reset", "watch: ^^2"]).run_for(1).await;
    assert_eq!((broken.requests().as_str(), broken.store().as_str()), ("STATE, STATE", ""));
}

/// Case 16.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_a_streamed_list_again_after_a_wait() {
    let scripted = scripted_of(&["!429", "!429", "watch: ^^2"], true, |builder| builder).run_for(60).await;
    assert_eq!(scripted.requests(), "STATE, 0.8s STATE, 2.4s STATE");
    let inside = scripted_of(&["watch: +a@1; !429", "watch: ^^2"], true, |builder| builder).run_for(60).await;
    assert_eq!(inside.requests(), "STATE, 0.8s STATE");
}

/// Case 17.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_at_an_unavailable_version_is_requested_at_the_newest() {
    for answer in ["!expired", "!large", "watch: !gone"] {
        let answers = ["watch: ^^7; 5s; !expired", answer, "watch: ^^9"];
        check(&answers, "STATE, 5.8s STATE 7, STATE, 310.8s WATCH 9").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_every_version_is_not_asked_in_a_loop() {
    let scripted =
        scripted_of(&["!expired", "!expired", "!expired"], true, |builder| builder).run_for(60).await;
    assert_eq!(scripted.requests(), "STATE, STATE, 0.8s STATE, 2.4s STATE");
}

/// Case 18.
#[tokio::test(start_paused = true)]
async fn after_a_streamed_list_a_watch_resumes_at_its_last_version() {
    check(&["watch: +a@1; ^^2; 5s; end"], "STATE, 5s WATCH 2").await;
}

/// Case 19.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_at_once() {
    let scripted =
        scripted(&["10 a@1", "watch: 60s; ~a@12; 300s; end", "watch: 400s; !reset"]).run_for(3600).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, WATCH 10, 360s WATCH 12, 665s WATCH 12");
    assert_eq!(scripted.errors(), "");
}

/// Case 20.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_without_events_is_a_failure() {
    let short = scripted(&["10", "watch: 0.5s; end"]).run_for(60).await;
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
async fn retry_after_is_respected() {
    check(&["10", "!429 after 20"], "LIST 0 limit=500, WATCH 10, 20s WATCH 10").await;
}

/// Cases 23 and 24. The module `backoff` tests the durations.
#[tokio::test(start_paused = true)]
async fn the_backoff_grows_from_failure_to_failure() {
    let requests = "LIST 0 limit=500, 0.8s LIST 0 limit=500, 2.4s LIST 0 limit=500, 5.6s LIST 0 limit=500";
    check(&["!403", "!refused", "!500"], requests).await;
}

#[tokio::test(start_paused = true)]
async fn the_backoff_policy_can_be_configured() {
    let policy = BackoffPolicy { base: SECOND, factor: 1.0, ..BackoffPolicy::default() };
    let scripted = scripted_with(&["!403", "!403"], |builder| builder.backoff(policy)).run_for(60).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, 1s LIST 0 limit=500, 2s LIST 0 limit=500");
}

/// Case 25.
#[tokio::test(start_paused = true)]
async fn internal_errors_in_a_watch_are_retried_within_the_configured_budget() {
    let mut answers = vec!["10"];
    answers.extend(["watch: 1s; !500"; 40]);
    answers[33] = "11";
    answers.truncate(34);
    let scripted = scripted_with(&answers, |builder| builder.internal_retry(30 * SECOND)).run_for(34).await;
    assert_eq!(
        scripted.requests().matches("WATCH").count(),
        32 + 1,
        "the first, 31 again, and one after the list"
    );
    assert_eq!(scripted.requests().matches("LIST").count(), 2);
    check(&["10", "watch: 1s; !500"], "LIST 0 limit=500, WATCH 10, 1.8s LIST 10").await;
    check(&["10", "watch: 1s; !frame"], "LIST 0 limit=500, WATCH 10, 1.8s LIST 10").await;
}

/// Case 26.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_at_a_bookmark() {
    let scripted = scripted(&["10", "watch: ^30; 5s; end"]).with_handler().run_for(60).await;
    assert_eq!(scripted.requests(), "LIST 0 limit=500, WATCH 10, 5s WATCH 30");
    assert_eq!(
        (scripted.delivered().as_str(), scripted.informer.store().resource_version().as_str()),
        ("", "30")
    );
}

/// Case 27.
#[tokio::test(start_paused = true)]
async fn unordered_initial_events_do_not_advance_the_version() {
    check(&["0", "watch: +a@5; +b@3; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 0").await;
    check(&["0", "watch: +a@5; ?+b@3; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 0").await;
    check(&["0", "watch: +a@5; +b@3; ~a@9; 5s; end"], "LIST 0 limit=500, WATCH 0, 5s WATCH 9").await;
}

/// Case 28.
#[tokio::test(start_paused = true)]
async fn an_event_of_an_unexpected_kind_is_skipped() {
    let scripted = scripted(&["10", "watch: +a@11; %; +b@12"]).with_handler().run_for(1).await;
    assert_eq!(scripted.delivered(), "added a@11, added b@12");
    check(&["10", "watch: %; end"], "LIST 0 limit=500, WATCH 10, 0.8s LIST 10").await;
}

/// Case 29.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_reported_and_skipped() {
    let scripted =
        scripted(&["10 b@9", "watch: +a@11; ?b@12; ~a@13; ?b@14; 5s; end"]).with_handler().run_for(60).await;
    assert_eq!(scripted.delivered(), "initial b@9, added a@11, updated a@11 a@13");
    assert_eq!(scripted.errors(), "decode: unreadable (b), decode: unreadable (b)");
    assert_eq!(scripted.requests(), "LIST 0 limit=500, WATCH 10, 5s WATCH 14");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_deletion_still_deletes_the_object() {
    let scripted = scripted(&["10 a@1 b@2", "watch: 1s; ?-a@12"]).with_handler().run_for(2).await;
    assert_eq!(
        (scripted.delivered().as_str(), scripted.store().as_str()),
        ("initial a@1, initial b@2, missed a@1", "b@2")
    );
    let sent = crate::informer::script::scripted(&["watch: ^^5; !expired", "watch: +a@6; ?-a@7; ^^8"])
        .run_for(60)
        .await;
    assert_eq!(sent.store(), "");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_unreadable_keeps_its_last_state() {
    let scripted =
        scripted(&["10 a@1 b@2 ?c@3", "watch: 5s; !expired", "20 a@1 ?b@15", "watch:"]).with_handler();
    let scripted = scripted.run_for(60).await;
    assert_eq!(
        (scripted.delivered().as_str(), scripted.store().as_str()),
        ("initial a@1, initial b@2", "a@1 b@2")
    );
    assert_eq!(scripted.errors(), "decode: unreadable (c), decode: unreadable (b)");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_is_not_stored() {
    let scripted = scripted(&["10 a@1 @2", "watch: +@11; +b@12"]).with_handler().run_for(1).await;
    assert_eq!(
        (scripted.delivered().as_str(), scripted.version().as_str()),
        ("initial a@1, added b@12", "12")
    );
    assert_eq!(scripted.errors(), "decode: an object has no name, decode: an object has no name");
}

/// Case 30.
#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_reopened() {
    check(&["10", "watch: 100s; ~a@11"], "LIST 0 limit=500, WATCH 10, 405s WATCH 11").await;
    let scripted = scripted_with(&["10", "watch: 100s; ~a@11"], |builder| builder.idle_timeout(120 * SECOND));
    assert_eq!(scripted.run_for(600).await.requests(), "LIST 0 limit=500, WATCH 10, 220s WATCH 11");
}

/// Case 31. `ApiSource` tests how a response becomes an error.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forbidden_is_reported() {
    let scripted = scripted(&["10", "!403"]).run_for(60).await;
    assert_eq!(
        (scripted.requests().as_str(), scripted.errors().as_str()),
        ("LIST 0 limit=500, WATCH 10, 0.8s LIST 10", "open: 403")
    );
}
