//! Which reads the cache answers, and which storage answers.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{
        TestCache, describe_list, describe_object, list_at, no_leader, timed, unreachable, version,
    },
};
use keepwatch_apimachinery::list_options::{ContinueToken, ListAt, Position};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    ExpiredRead, ListRequest, Storage, StorageError,
    testing::{Fixture, fields, labels, pod},
};

const CONSISTENT_READS: &str = "apiserver_watch_cache_consistent_read_total";

fn page(at: ListAt) -> ListRequest {
    ListRequest { limit: Some(1), ..list_at(at) }
}

/// Compares a list of all pods, and the calls to storage that it caused.
async fn check(cache: &TestCache, request: ListRequest, list: &str, calls: &str) {
    let at = request.at.clone();
    let (found, took) = cache.calls_during(cache.list_names(request)).await;
    assert_eq!((found.as_str(), took.as_str()), (list, calls), "{at:?}");
}

/// The continue token of a list.
async fn next_page(cache: &TestCache, request: ListRequest) -> ContinueToken {
    cache.cacher.get_list("/pods", request).await.unwrap().next.expect("the list goes on")
}

#[tokio::test(start_paused = true)]
async fn a_list_not_older_than_a_revision_comes_from_the_cache() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        for revision in 1..=4 {
            check(&cache, list_at(ListAt::NotOlderThan(version(revision))), "a b c @4", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_any_state_comes_from_the_cache_in_one_page() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        check(&cache, list_at(ListAt::Any), "a b c @4", "").await;
        let list = cache.cacher.get_list("/pods", page(ListAt::Any)).await.unwrap();
        assert_eq!((describe_list(&list).as_str(), list.next, list.remaining), ("a b c @4", None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_most_recent_state_comes_from_a_fresh_cache() {
    check(&TestCache::abc().await, ListRequest::all(), "a b c @4", "").await;
    check(&TestCache::abc_without_frontier().await, ListRequest::all(), "a b c @4", "Revision 1").await;
}

#[tokio::test(start_paused = true)]
async fn the_continue_token_of_a_page_names_the_revision_of_the_list() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        for at in [ListAt::NotOlderThan(version(2)), ListAt::MostRecent] {
            let first = cache.cacher.get_list("/pods", page(at)).await.unwrap();
            assert_eq!((describe_list(&first).as_str(), first.remaining), ("a @4", Some(2)));
            let token = first.next.unwrap();
            check(&cache, list_at(ListAt::Continue(token)), "b c @4", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_remaining_count_is_absent_with_a_selector() {
    let cache = TestCache::empty().await;
    for created in [pod("a").label("x", "1"), pod("b"), pod("c")] {
        cache.create(&created).await;
    }
    let request = ListRequest { predicate: labels("x=1"), ..page(ListAt::MostRecent) };
    let first = cache.cacher.get_list("/pods", request.clone()).await.unwrap();
    assert_eq!((describe_list(&first).as_str(), first.remaining), ("a @4", None));
    let rest = ListRequest { at: ListAt::Continue(first.next.unwrap()), ..request };
    let rest = cache.cacher.get_list("/pods", rest).await.unwrap();
    assert_eq!((describe_list(&rest).as_str(), rest.next), (" @4", None));
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_show_one_state_despite_later_writes() {
    let cache = TestCache::abc().await;
    let token = next_page(&cache, page(ListAt::MostRecent)).await;
    cache.create(&pod("d")).await;
    cache.delete(&pod("c")).await;
    cache.put(&pod("b").data(1)).await;
    cache.caught_up().await;
    check(&cache, list_at(ListAt::Continue(token.clone())), "b c @4", "").await;
    let rest = cache.cacher.get_list("/pods", list_at(ListAt::Continue(token))).await.unwrap();
    assert_eq!(rest.items.iter().map(describe_object).collect::<Vec<_>>(), ["b@3", "c@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_revision_in_the_history_comes_from_the_cache() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        for (revision, list) in [(1, " @1"), (2, "a @2"), (3, "a b @3"), (4, "a b c @4")] {
            let exact = || ListAt::Exact(version(revision));
            check(&cache, list_at(exact()), list, "").await;
            check(&cache, ListRequest { limit: Some(5), ..list_at(exact()) }, list, "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_revision_before_the_first_list_comes_from_storage() {
    let backend = TestCache::abc().await.backend.clone();
    let cache = TestCache::ready(backend, CacherOptions::default()).await;
    check(&cache, list_at(ListAt::Exact(version(4))), "a b c @4", "").await;
    check(&cache, list_at(ListAt::Exact(version(3))), "a b @3", "Range 1").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_compacted_revision_is_expired() {
    let cache = TestCache::abc().await;
    cache.compact(version(4)).await;
    let too_old = "The resourceVersion for the provided list is too old.";
    check(&cache, list_at(ListAt::Exact(version(3))), too_old, "Range 1").await;
    check(&cache, list_at(ListAt::Exact(version(4))), "a b c @4", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_compacted_page_continues_in_the_newest_state() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        let token = next_page(&cache, page(ListAt::MostRecent)).await;
        cache.put(&pod("b").data(1)).await;
        cache.compact(version(5)).await;
        let expired = cache.cacher.get_list("/pods", list_at(ListAt::Continue(token))).await.unwrap_err();
        let StorageError::Expired(ExpiredRead::Continue(fresh)) = expired else { panic!("{expired:?}") };
        let (list, calls) = cache.calls_during(cache.list_names(list_at(ListAt::Continue(fresh)))).await;
        assert_eq!(list, "b c @5");
        assert!(!calls.contains("Range"), "{calls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_object_at_a_revision_comes_from_storage() {
    let cache = TestCache::abc().await;
    let one = |at| ListRequest { recursive: false, ..list_at(at) };
    for (at, list, calls) in [
        (ListAt::Exact(version(3)), "a @3", "Range 1"),
        (ListAt::Any, "a @4", ""),
        (ListAt::MostRecent, "a @4", ""),
        (ListAt::NotOlderThan(version(3)), "a @4", ""),
    ] {
        let (found, took) = cache.calls_during(cache.cacher.get_list("/pods/ns/a", one(at))).await;
        assert_eq!((describe_list(&found.unwrap()).as_str(), took.as_str()), (list, calls));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_the_cache_unless_only_storage_has_the_newest_version() {
    let (near, far) = (TestCache::abc().await, TestCache::abc_without_frontier().await);
    for (cache, position, calls) in [
        (&near, Position::Any, ""),
        (&near, Position::At(version(4)), ""),
        (&near, Position::MostRecent, ""),
        (&far, Position::Any, ""),
        (&far, Position::At(version(4)), ""),
        (&far, Position::MostRecent, "Get 1"),
    ] {
        for (name, found) in [("a", Some("a@2")), ("missing", None)] {
            let (object, took) =
                cache.calls_during(cache.cacher.get(&format!("/pods/ns/{name}"), position)).await;
            let object = object.unwrap().as_ref().map(describe_object);
            assert_eq!((object.as_deref(), took.as_str()), (found, calls), "{position:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_object_is_read_from_storage_while_the_cache_is_behind() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.put(&pod("a").data(1)).await;
    let ((object, took), calls) =
        cache.calls_during(timed(cache.cacher.get("/pods/ns/a", Position::MostRecent))).await;
    assert_eq!(
        (describe_object(&object.unwrap().unwrap()).as_str(), took, calls.as_str()),
        ("a=1@5", 0.0, "Get 1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_falls_back_to_storage_after_a_timeout() {
    for (cache, calls) in [
        (TestCache::abc().await, "Range 1"),
        (TestCache::abc_without_frontier().await, "Range 1, Revision 1"),
    ] {
        cache.backend.pause_watches();
        cache.create(&pod("d")).await;
        let (list, took) = cache.calls_during(timed(cache.list_names(ListRequest::all()))).await;
        assert_eq!((list, took.as_str()), (("a b c d @5".to_owned(), 3.0), calls));
        let count = |success, fallback| {
            cache.metric(CONSISTENT_READS, &[("success", success), ("fallback", fallback)])
        };
        assert_eq!([count("true", "true"), count("true", "false"), count("false", "true")], [1.0, 0.0, 0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_comes_from_storage_without_progress_notifications() {
    let cache = TestCache::abc_without_frontier().await;
    cache.backend.fail(Call::Progress, unreachable);
    cache.write_elsewhere().await;
    let (list, calls) = cache.calls_during(timed(cache.list_names(ListRequest::all()))).await;
    assert_eq!((list, calls.as_str()), (("a b c @5".to_owned(), 3.0), "Range 1, Revision 1"));
    assert_eq!(cache.metric(CONSISTENT_READS, &[("success", "true"), ("fallback", "true")]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_from_the_cache_is_counted() {
    let cache = TestCache::abc_without_frontier().await;
    let count = || cache.metric(CONSISTENT_READS, &[("success", "true"), ("fallback", "false")]);
    let before = count();
    cache.list_names(ListRequest::all()).await;
    cache.list_names(list_at(ListAt::Any)).await;
    cache.list_names(list_at(ListAt::NotOlderThan(version(2)))).await;
    assert_eq!(count() - before, 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_that_also_fails_in_storage_is_counted_as_failed() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.create(&pod("d")).await;
    cache.backend.fail(Call::Range, unreachable);
    let error = cache.cacher.get_list("/pods", ListRequest::all()).await.unwrap_err();
    assert!(matches!(error, StorageError::Unreachable { .. }), "{error:?}");
    assert_eq!(cache.metric(CONSISTENT_READS, &[("success", "false"), ("fallback", "true")]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_fails_without_the_revision_of_storage() {
    let cache = TestCache::abc_without_frontier().await;
    cache.backend.fail(Call::Revision, no_leader);
    check(&cache, ListRequest::all(), "etcdserver: no leader", "Revision 1").await;
    check(&cache, list_at(ListAt::Any), "a b c @4", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_by_an_indexed_field_examines_no_other_objects() {
    let options = CacherOptions { indexed_fields: vec!["spec.nodeName".into()], ..CacherOptions::default() };
    let cache = TestCache::ready(ControlledBackend::in_memory(), options).await;
    for (name, node) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "")] {
        cache.create(&pod(name).node(node)).await;
    }
    let by = |selector| ListRequest { predicate: fields(selector), ..ListRequest::all() };
    let looked_at = |index| cache.metric("apiserver_cache_list_fetched_objects_total", &[("index", index)]);
    for (selector, list, by_index, by_scan) in [
        ("spec.nodeName=x", "a c @5", 2.0, 0.0),
        ("spec.nodeName=x,metadata.name=c", "c @5", 2.0, 0.0),
        ("spec.nodeName=z", " @5", 0.0, 0.0),
        ("spec.nodeName!=x", "b d @5", 0.0, 4.0),
    ] {
        let before = (looked_at("f:spec.nodeName"), looked_at(""));
        assert_eq!(cache.list_names(by(selector)).await, list);
        let after = (looked_at("f:spec.nodeName"), looked_at(""));
        assert_eq!((after.0 - before.0, after.1 - before.1), (by_index, by_scan), "{selector}");
    }
}

/// Other tasks have their turn in between.
#[tokio::test(start_paused = true)]
async fn a_list_of_very_many_objects_is_complete_and_in_order() {
    let backend = ControlledBackend::in_memory();
    let storage = Fixture::new(backend.inner.clone());
    for at in 0..9000 {
        storage.create(&pod(&format!("p{at:04}")).node(if at % 10 == 0 { "x" } else { "" })).await;
    }
    for indexed_fields in [vec![], vec!["spec.nodeName".into()]] {
        let options = CacherOptions { indexed_fields, ..CacherOptions::default() };
        let cache = TestCache::ready(backend.clone(), options).await;
        for (selector, step) in [("", 1), ("spec.nodeName=x", 10)] {
            let expected: Vec<_> = (0..9000).step_by(step).map(|at| format!("p{at:04}")).collect();
            let mut request = ListRequest { predicate: fields(selector), ..ListRequest::all() };
            assert_eq!(cache.list_names(request.clone()).await, format!("{} @9001", expected.join(" ")));
            request.limit = Some(7000 / step);
            let first = cache.cacher.get_list("/pods", request.clone()).await.unwrap();
            assert_eq!(first.items.len(), 7000 / step);
            assert_eq!(first.remaining, (step == 1).then_some(2000));
            let rest = ListRequest { at: ListAt::Continue(first.next.unwrap()), ..request };
            assert_eq!(cache.list_names(rest).await, format!("{} @9001", expected[7000 / step..].join(" ")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_share_the_objects() {
    let cache = TestCache::abc().await;
    let first = cache.cacher.get_list("/pods", ListRequest::all()).await.unwrap();
    for at in [ListAt::Any, ListAt::Exact(version(4)), ListAt::NotOlderThan(version(2))] {
        let second = cache.cacher.get_list("/pods", list_at(at)).await.unwrap();
        assert!(first.items.iter().zip(&second.items).all(|(one, other)| one.is(other)));
    }
}
