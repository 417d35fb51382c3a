//! Which reads the cache answers, and which it leaves to storage.

use super::{
    gate::{Call, Gate},
    world::{World, list_at, listed, named, no_leader, refused, timed, version},
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

/// Compares a list of all pods, and what it asked of storage.
async fn check(world: &World, request: ListRequest, list: &str, asked: &str) {
    let at = request.at.clone();
    let (found, took) = world.asked_by(world.lists(request)).await;
    assert_eq!((found.as_str(), took.as_str()), (list, asked), "{at:?}");
}

/// The token of a list that goes on.
async fn next_page(world: &World, request: ListRequest) -> ContinueToken {
    world.cacher.get_list("/pods", request).await.unwrap().next.expect("the list goes on")
}

#[tokio::test(start_paused = true)]
async fn a_list_not_older_than_a_revision_comes_from_the_cache() {
    for world in [World::abc().await, World::far_abc().await] {
        for revision in 1..=4 {
            check(&world, list_at(ListAt::NotOlderThan(version(revision))), "a b c @4", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_any_state_comes_from_the_cache_in_one_page() {
    for world in [World::abc().await, World::far_abc().await] {
        check(&world, list_at(ListAt::Any), "a b c @4", "").await;
        let list = world.cacher.get_list("/pods", page(ListAt::Any)).await.unwrap();
        assert_eq!((listed(&list).as_str(), list.next, list.remaining), ("a b c @4", None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_most_recent_state_comes_from_the_cache_when_that_is_known_to_be_fresh() {
    check(&World::abc().await, ListRequest::all(), "a b c @4", "").await;
    check(&World::far_abc().await, ListRequest::all(), "a b c @4", "Revision 1").await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_makes_pages_whose_token_names_the_revision_that_was_served() {
    for world in [World::abc().await, World::far_abc().await] {
        for at in [ListAt::NotOlderThan(version(2)), ListAt::MostRecent] {
            let first = world.cacher.get_list("/pods", page(at)).await.unwrap();
            assert_eq!((listed(&first).as_str(), first.remaining), ("a @4", Some(2)));
            let token = first.next.unwrap();
            check(&world, list_at(ListAt::Continue(token)), "b c @4", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_selector_nobody_counts_what_remains() {
    let world = World::empty().await;
    for created in [pod("a").label("x", "1"), pod("b"), pod("c")] {
        world.create(&created).await;
    }
    let request = ListRequest { predicate: labels("x=1"), ..page(ListAt::MostRecent) };
    let first = world.cacher.get_list("/pods", request.clone()).await.unwrap();
    assert_eq!((listed(&first).as_str(), first.remaining), ("a @4", None));
    let rest = ListRequest { at: ListAt::Continue(first.next.unwrap()), ..request };
    let rest = world.cacher.get_list("/pods", rest).await.unwrap();
    assert_eq!((listed(&rest).as_str(), rest.next), (" @4", None));
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_show_one_state_whatever_is_written_between() {
    let world = World::abc().await;
    let token = next_page(&world, page(ListAt::MostRecent)).await;
    world.create(&pod("d")).await;
    world.delete(&pod("c")).await;
    world.put(&pod("b").data(1)).await;
    world.caught_up().await;
    check(&world, list_at(ListAt::Continue(token.clone())), "b c @4", "").await;
    let rest = world.cacher.get_list("/pods", list_at(ListAt::Continue(token))).await.unwrap();
    assert_eq!(rest.items.iter().map(named).collect::<Vec<_>>(), ["b@3", "c@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_revision_that_the_cache_remembers_comes_from_it() {
    for world in [World::abc().await, World::far_abc().await] {
        for (revision, list) in [(1, " @1"), (2, "a @2"), (3, "a b @3"), (4, "a b c @4")] {
            let exact = || ListAt::Exact(version(revision));
            check(&world, list_at(exact()), list, "").await;
            check(&world, ListRequest { limit: Some(5), ..list_at(exact()) }, list, "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_revision_before_the_cache_was_filled_comes_from_storage() {
    let gate = World::abc().await.gate.clone();
    let world = World::over(gate, CacherOptions::default()).await;
    check(&world, list_at(ListAt::Exact(version(4))), "a b c @4", "").await;
    check(&world, list_at(ListAt::Exact(version(3))), "a b @3", "Range 1").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_revision_that_is_compacted_is_expired_by_storage() {
    let world = World::abc().await;
    world.compact(version(4)).await;
    let too_old = "The resourceVersion for the provided list is too old.";
    check(&world, list_at(ListAt::Exact(version(3))), too_old, "Range 1").await;
    check(&world, list_at(ListAt::Exact(version(4))), "a b c @4", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_compacted_can_go_on_in_the_newest_state() {
    for world in [World::abc().await, World::far_abc().await] {
        let token = next_page(&world, page(ListAt::MostRecent)).await;
        world.put(&pod("b").data(1)).await;
        world.compact(version(5)).await;
        let expired = world.cacher.get_list("/pods", list_at(ListAt::Continue(token))).await.unwrap_err();
        let StorageError::Expired(ExpiredRead::Continue(fresh)) = expired else { panic!("{expired:?}") };
        let (list, asked) = world.asked_by(world.lists(list_at(ListAt::Continue(fresh)))).await;
        assert_eq!(list, "b c @5");
        assert!(!asked.contains("Range"), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_object_at_a_revision_comes_from_storage() {
    let world = World::abc().await;
    let one = |at| ListRequest { recursive: false, ..list_at(at) };
    for (at, list, asked) in [
        (ListAt::Exact(version(3)), "a @3", "Range 1"),
        (ListAt::Any, "a @4", ""),
        (ListAt::MostRecent, "a @4", ""),
        (ListAt::NotOlderThan(version(3)), "a @4", ""),
    ] {
        let (found, took) = world.asked_by(world.cacher.get_list("/pods/ns/a", one(at))).await;
        assert_eq!((listed(&found.unwrap()).as_str(), took.as_str()), (list, asked));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_the_cache_unless_only_storage_knows_the_newest() {
    let (near, far) = (World::abc().await, World::far_abc().await);
    for (world, position, asked) in [
        (&near, Position::Any, ""),
        (&near, Position::At(version(4)), ""),
        (&near, Position::MostRecent, ""),
        (&far, Position::Any, ""),
        (&far, Position::At(version(4)), ""),
        (&far, Position::MostRecent, "Get 1"),
    ] {
        for (name, found) in [("a", Some("a@2")), ("missing", None)] {
            let (object, took) =
                world.asked_by(world.cacher.get(&format!("/pods/ns/{name}"), position)).await;
            let object = object.unwrap().as_ref().map(named);
            assert_eq!((object.as_deref(), took.as_str()), (found, asked), "{position:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_object_is_read_from_storage_while_the_cache_is_behind() {
    let world = World::abc().await;
    world.gate.hold();
    world.put(&pod("a").data(1)).await;
    let ((object, took), asked) =
        world.asked_by(timed(world.cacher.get("/pods/ns/a", Position::MostRecent))).await;
    assert_eq!((named(&object.unwrap().unwrap()).as_str(), took, asked.as_str()), ("a=1@5", 0.0, "Get 1"));
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_that_the_cache_cannot_give_in_time_comes_from_storage() {
    for (world, asked) in [(World::abc().await, "Range 1"), (World::far_abc().await, "Range 1, Revision 1")] {
        world.gate.hold();
        world.create(&pod("d")).await;
        let (list, took) = world.asked_by(timed(world.lists(ListRequest::all()))).await;
        assert_eq!((list, took.as_str()), (("a b c d @5".to_owned(), 3.0), asked));
        let count = |success, fallback| {
            world.metric(CONSISTENT_READS, &[("success", success), ("fallback", fallback)])
        };
        assert_eq!([count("true", "true"), count("true", "false"), count("false", "true")], [1.0, 0.0, 0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn if_storage_does_not_tell_of_progress_a_consistent_list_comes_from_it() {
    let world = World::far_abc().await;
    world.gate.fail(Call::Progress, refused);
    world.write_elsewhere().await;
    let (list, asked) = world.asked_by(timed(world.lists(ListRequest::all()))).await;
    assert_eq!((list, asked.as_str()), (("a b c @5".to_owned(), 3.0), "Range 1, Revision 1"));
    assert_eq!(world.metric(CONSISTENT_READS, &[("success", "true"), ("fallback", "true")]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_from_the_cache_is_counted_as_such() {
    let world = World::far_abc().await;
    let count = || world.metric(CONSISTENT_READS, &[("success", "true"), ("fallback", "false")]);
    let before = count();
    world.lists(ListRequest::all()).await;
    world.lists(list_at(ListAt::Any)).await;
    world.lists(list_at(ListAt::NotOlderThan(version(2)))).await;
    assert_eq!(count() - before, 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_that_storage_fails_too_is_counted_as_failed() {
    let world = World::abc().await;
    world.gate.hold();
    world.create(&pod("d")).await;
    world.gate.fail(Call::Range, refused);
    let error = world.cacher.get_list("/pods", ListRequest::all()).await.unwrap_err();
    assert!(matches!(error, StorageError::Unreachable { .. }), "{error:?}");
    assert_eq!(world.metric(CONSISTENT_READS, &[("success", "false"), ("fallback", "true")]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn if_storage_does_not_say_where_it_is_a_consistent_list_fails() {
    let world = World::far_abc().await;
    world.gate.fail(Call::Revision, no_leader);
    check(&world, ListRequest::all(), "etcdserver: no leader", "Revision 1").await;
    check(&world, list_at(ListAt::Any), "a b c @4", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_by_an_indexed_field_looks_at_no_other_objects() {
    let options = CacherOptions { indexed_fields: &["spec.nodeName"], ..CacherOptions::default() };
    let world = World::over(Gate::near(), options).await;
    for (name, node) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "")] {
        world.create(&pod(name).node(node)).await;
    }
    let by = |selector| ListRequest { predicate: fields(selector), ..ListRequest::all() };
    let looked_at = |index| world.metric("apiserver_cache_list_fetched_objects_total", &[("index", index)]);
    for (selector, list, by_index, by_scan) in [
        ("spec.nodeName=x", "a c @5", 2.0, 0.0),
        ("spec.nodeName=x,metadata.name=c", "c @5", 2.0, 0.0),
        ("spec.nodeName=z", " @5", 0.0, 0.0),
        ("spec.nodeName!=x", "b d @5", 0.0, 4.0),
    ] {
        let before = (looked_at("f:spec.nodeName"), looked_at(""));
        assert_eq!(world.lists(by(selector)).await, list);
        let after = (looked_at("f:spec.nodeName"), looked_at(""));
        assert_eq!((after.0 - before.0, after.1 - before.1), (by_index, by_scan), "{selector}");
    }
}

/// Others have their turn in between.
#[tokio::test(start_paused = true)]
async fn a_list_of_very_many_objects_is_whole_and_in_order() {
    let gate = Gate::near();
    let storage = Fixture::new(gate.inner.clone());
    for at in 0..9000 {
        storage.create(&pod(&format!("p{at:04}")).node(if at % 10 == 0 { "x" } else { "" })).await;
    }
    for indexed_fields in [&[][..], &["spec.nodeName"]] {
        let options = CacherOptions { indexed_fields, ..CacherOptions::default() };
        let world = World::over(gate.clone(), options).await;
        for (selector, step) in [("", 1), ("spec.nodeName=x", 10)] {
            let expected: Vec<_> = (0..9000).step_by(step).map(|at| format!("p{at:04}")).collect();
            let mut request = ListRequest { predicate: fields(selector), ..ListRequest::all() };
            assert_eq!(world.lists(request.clone()).await, format!("{} @9001", expected.join(" ")));
            request.limit = Some(7000 / step);
            let first = world.cacher.get_list("/pods", request.clone()).await.unwrap();
            assert_eq!(first.items.len(), 7000 / step);
            assert_eq!(first.remaining, (step == 1).then_some(2000));
            let rest = ListRequest { at: ListAt::Continue(first.next.unwrap()), ..request };
            assert_eq!(world.lists(rest).await, format!("{} @9001", expected[7000 / step..].join(" ")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_share_the_objects() {
    let world = World::abc().await;
    let first = world.cacher.get_list("/pods", ListRequest::all()).await.unwrap();
    for at in [ListAt::Any, ListAt::Exact(version(4)), ListAt::NotOlderThan(version(2))] {
        let second = world.cacher.get_list("/pods", list_at(at)).await.unwrap();
        assert!(first.items.iter().zip(&second.items).all(|(one, other)| one.is(other)));
    }
}
