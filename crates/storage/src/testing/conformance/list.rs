//! Lists: pages, selectors, and the revision they are read at.

use super::{
    Fixture, assert_corrupt, assert_too_large, end_of_time, fields, labels, later, names, pod, pods_prefix,
    token_after,
};
use crate::{List, ListRequest, RangeRequest, StorageError};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ListAt},
};

fn page(limit: usize, at: ListAt) -> ListRequest {
    ListRequest { limit: Some(limit), at, ..ListRequest::all() }
}

fn at(at: ListAt) -> ListRequest {
    ListRequest { at, ..ListRequest::all() }
}

async fn create_all(fixture: &Fixture, names: &str) {
    for name in names.split(' ') {
        fixture.create(&pod(name)).await;
    }
}

/// Every page of a list, the way a client asks for them.
async fn pages(fixture: &Fixture, first: ListRequest) -> Vec<List> {
    let mut pages = vec![fixture.list(first.clone()).await];
    while let Some(token) = pages.last().and_then(|page| page.next.clone()) {
        pages.push(fixture.list(ListRequest { at: ListAt::Continue(token), ..first.clone() }).await);
    }
    pages
}

/// No object is no error, and the revision is that of the store.
pub async fn an_empty_list_has_no_items_and_a_revision(fixture: &Fixture) {
    let revision = fixture.write_elsewhere().await;
    for request in [ListRequest::all(), page(5, ListAt::MostRecent), at(ListAt::Any)] {
        let list = fixture.list(request.clone()).await;
        assert_eq!((list.items.len(), list.next, list.remaining), (0, None, None));
        if request.at == ListAt::MostRecent {
            assert_eq!(list.revision, revision);
        }
    }
}

/// A list's revision is the store's, not the highest among its items; each item has its own.
pub async fn a_list_carries_the_revision_it_was_read_at(fixture: &Fixture) {
    let b = fixture.create(&pod("b")).await;
    let a = fixture.create(&pod("a")).await;
    let revision = fixture.write_elsewhere().await;
    let list = fixture.list(ListRequest::all()).await;
    assert_eq!(list.items, [a, b]);
    assert_eq!((list.revision, list.next, list.remaining), (revision, None, None));
}

/// A list that is not recursive is of one object or of none.
pub async fn a_list_of_one_key_holds_that_object_or_nothing(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    fixture.create(&pod("ab")).await;
    fixture.create(&pod("x").in_namespace("ns/a")).await;
    let list = async |key: &str| fixture.storage.get_list(key, ListRequest::default()).await.expect("a list");
    assert_eq!(list("/pods/ns/a").await.items, [a]);
    assert_eq!(list("/pods/ns/missing").await.items, []);
    assert_eq!(list("/pods/ns").await.items, []);
}

/// A page says where the next begins and how many objects are left; all pages are of one revision.
pub async fn pages_cover_everything_once_at_one_revision(fixture: &Fixture) {
    create_all(fixture, "a b c d e").await;
    for (limit, expected) in [
        (1, vec![("a", Some(4)), ("b", Some(3)), ("c", Some(2)), ("d", Some(1)), ("e", None)]),
        (2, vec![("a b", Some(3)), ("c d", Some(1)), ("e", None)]),
        (4, vec![("a b c d", Some(1)), ("e", None)]),
        (5, vec![("a b c d e", None)]),
        (6, vec![("a b c d e", None)]),
    ] {
        let pages = pages(fixture, page(limit, ListAt::MostRecent)).await;
        let found: Vec<_> = pages.iter().map(|page| (names(page), page.remaining)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(names, left)| (names.to_owned(), left)).collect();
        assert_eq!(found, expected, "pages of {limit}");
        assert!(pages.iter().all(|page| page.revision == pages[0].revision));
    }
}

/// The token names the revision of the list and the place right after the last key, below the list's prefix.
pub async fn a_token_names_the_place_right_after_the_last_key(fixture: &Fixture) {
    create_all(fixture, "a b").await;
    let request = page(1, ListAt::MostRecent);
    let all = fixture.storage.get_list("/pods", request.clone()).await.expect("a list");
    assert_eq!(all.next, Some(token_after("ns/a", "", ContinueAt::Exact(all.revision))));
    let below = fixture.storage.get_list("/pods/ns", request).await.expect("a list");
    assert_eq!(below.next, Some(token_after("a", "ns/", ContinueAt::Exact(below.revision))));
}

/// A change between two pages shows in neither.
pub async fn a_write_between_pages_is_not_seen(fixture: &Fixture) {
    create_all(fixture, "a b c").await;
    let first = fixture.list(page(1, ListAt::MostRecent)).await;
    fixture.create(&pod("aa")).await;
    fixture.create(&pod("d")).await;
    fixture.put(&pod("b").data(1)).await;
    fixture.delete(&pod("c")).await;
    let rest = fixture.list(page(5, ListAt::Continue(first.next.expect("more")))).await;
    assert_eq!((names(&rest).as_str(), rest.revision, rest.next), ("b c", first.revision, None));
    assert_eq!(rest.items[0].value, pod("b").value());
}

/// A token without a revision goes on from its key in the newest state.
pub async fn a_token_without_a_revision_goes_on_in_the_newest_state(fixture: &Fixture) {
    create_all(fixture, "a b c d").await;
    fixture.delete(&pod("c")).await;
    let token = token_after("ns/a", "", ContinueAt::Newest);
    let list = fixture.list(page(1, ListAt::Continue(token))).await;
    assert_eq!((names(&list).as_str(), list.remaining), ("b", Some(1)));
    assert_eq!(list.revision, fixture.revision().await);
    assert_eq!(list.next, Some(token_after("ns/b", "", ContinueAt::Exact(list.revision))));
}

/// Objects that do not match do not count towards the limit.
pub async fn a_list_with_a_selector_reads_on_until_the_limit_is_filled(fixture: &Fixture) {
    for number in 0..40 {
        let app = if number % 13 == 0 { "web" } else { "db" };
        fixture.create(&pod(&format!("{number:02}")).label("app", app)).await;
    }
    let request = ListRequest { predicate: labels("app=web"), ..page(3, ListAt::MostRecent) };
    let list = fixture.list(request.clone()).await;
    assert_eq!((names(&list).as_str(), list.remaining), ("00 13 26", None));
    let rest = fixture.list(ListRequest { at: ListAt::Continue(list.next.expect("more")), ..request }).await;
    assert_eq!((names(&rest).as_str(), rest.next, rest.remaining), ("39", None, None));
}

/// Keys remain although none of them matches: the next page is empty, and the last.
pub async fn the_last_page_may_be_empty(fixture: &Fixture) {
    fixture.create(&pod("a").label("x", "1")).await;
    create_all(fixture, "b c").await;
    let request = ListRequest { predicate: labels("x=1"), ..page(1, ListAt::MostRecent) };
    let pages = pages(fixture, request).await;
    assert_eq!(pages.iter().map(names).collect::<Vec<_>>(), ["a", ""]);
    assert!(pages.iter().all(|page| page.remaining.is_none()), "with a selector it is unknown");
}

/// A limit of zero is none.
pub async fn a_limit_of_zero_is_no_limit(fixture: &Fixture) {
    create_all(fixture, "a b c").await;
    let list = fixture.list(page(0, ListAt::MostRecent)).await;
    assert_eq!((names(&list).as_str(), list.next, list.remaining), ("a b c", None, None));
}

/// The past can be read: with what was deleted since, without what was created, as it was before changes.
pub async fn a_list_at_an_exact_revision_shows_that_state(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let b = fixture.create(&pod("b")).await;
    let a2 = fixture.put(&pod("a").data(1)).await;
    let b_gone = fixture.delete(&pod("b")).await;
    let c = fixture.create(&pod("c")).await;
    for (revision, items) in [
        (a.revision, vec![a.clone()]),
        (b.revision, vec![a, b.clone()]),
        (a2.revision, vec![a2.clone(), b]),
        (b_gone.revision, vec![a2.clone()]),
        (c.revision, vec![a2, c]),
    ] {
        for limit in [None, Some(5)] {
            let request = ListRequest { limit, ..at(ListAt::Exact(revision)) };
            let list = fixture.list(request).await;
            assert_eq!((list.revision, &list.items), (revision, &items));
        }
    }
}

/// Pages of the past are pages like any other.
pub async fn a_list_at_an_exact_revision_has_pages(fixture: &Fixture) {
    create_all(fixture, "a b c").await;
    let then = fixture.revision().await;
    fixture.delete(&pod("b")).await;
    let pages = pages(fixture, page(2, ListAt::Exact(then))).await;
    assert_eq!(pages.iter().map(names).collect::<Vec<_>>(), ["a b", "c"]);
    assert_eq!(pages.iter().map(|page| page.remaining).collect::<Vec<_>>(), [Some(1), None]);
    assert!(pages.iter().all(|page| page.revision == then));
}

/// The future cannot be read.
pub async fn a_list_at_a_future_revision_is_too_large(fixture: &Fixture) {
    let current = fixture.create(&pod("a")).await.revision;
    for future in [later(current, 1), later(current, 1000)] {
        for read in [ListAt::Exact(future), ListAt::NotOlderThan(future)] {
            assert_too_large(fixture, fixture.try_list(at(read)).await.unwrap_err(), future, current);
        }
    }
}

/// Nor can what lies past every revision.
pub async fn a_list_at_the_end_of_time_is_too_large(fixture: &Fixture) {
    let current = fixture.create(&pod("a")).await.revision;
    for read in [ListAt::Exact(end_of_time()), ListAt::NotOlderThan(end_of_time())] {
        for limit in [None, Some(1)] {
            let request = ListRequest { limit, ..at(read.clone()) };
            let too_large = fixture.try_list(request).await.unwrap_err();
            assert_too_large(fixture, too_large, end_of_time(), current);
        }
    }
}

/// A list not older than a revision is of the newest state there is.
pub async fn a_list_not_older_than_a_reached_revision_is_answered(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let b = fixture.create(&pod("b")).await;
    let list = fixture.list(at(ListAt::NotOlderThan(b.revision))).await;
    assert!(list.revision >= b.revision);
    assert_eq!(list.items, [a, b]);
}

/// Label selectors, a row for each operator.
pub async fn label_selectors_choose_by_labels(fixture: &Fixture) {
    fixture.create(&pod("a").label("e", "").label("f", "3")).await;
    fixture.create(&pod("b").label("e", "x").label("g", "1")).await;
    for (selector, expected) in [
        ("", "a b"),
        ("e=", "a"),
        ("e", "a b"),
        ("f>2", "a"),
        ("f<3", ""),
        ("g=1", "b"),
        ("g!=1", "a"),
        ("g in (1,2)", "b"),
        ("g notin (1)", "a"),
        ("!g", "a"),
        ("e,!f", "b"),
    ] {
        let list = fixture.list(ListRequest { predicate: labels(selector), ..ListRequest::all() }).await;
        assert_eq!(names(&list), expected, "{selector}");
    }
}

/// Field selectors; a field that is not set has the value "".
pub async fn field_selectors_choose_by_fields(fixture: &Fixture) {
    fixture.create(&pod("a").node("x")).await;
    fixture.create(&pod("b").node("y")).await;
    fixture.create(&pod("c").in_namespace("other")).await;
    for (selector, expected) in [
        ("spec.nodeName=x", "a"),
        ("spec.nodeName!=x", "b c"),
        ("spec.nodeName=", "c"),
        ("metadata.name=b", "b"),
        ("metadata.namespace=ns", "a b"),
        ("metadata.namespace=ns,metadata.name!=a", "b"),
    ] {
        let list = fixture.list(ListRequest { predicate: fields(selector), ..ListRequest::all() }).await;
        assert_eq!(names(&list), expected, "{selector}");
    }
}

/// There are no partial lists, even where a selector would have left the broken object out.
pub async fn an_undecodable_value_fails_the_whole_list(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    create_all(fixture, "a c").await;
    let key = fixture.full_key(&pod("b"));
    fixture.put_raw(&key, "not JSON").await;
    assert_corrupt(fixture.try_list(ListRequest::all()).await.unwrap_err(), &key);
    let selected = ListRequest { predicate: labels("app=web"), ..ListRequest::all() };
    assert_corrupt(fixture.try_list(selected).await.unwrap_err(), &key);
    assert_corrupt(fixture.try_list(page(2, ListAt::MostRecent)).await.unwrap_err(), &key);
}

/// While others write, every list is a state that was: no half of a change, never an older one than before.
pub async fn concurrent_lists_are_states_that_were(fixture: &Fixture) {
    let storage = fixture.storage.clone();
    // Each round creates `a` before `b` and deletes `b` before `a`, so `b` never exists alone.
    let writer = tokio::spawn(async move {
        for _ in 0..25 {
            for name in ["a", "b"] {
                storage.create(&pod(name).key(), pod(name).value(), None).await.expect("a creation");
            }
            for name in ["b", "a"] {
                let gone = storage.delete(&pod(name).key(), Default::default(), &mut |_| Ok(())).await;
                gone.expect("a deletion");
            }
        }
    });
    let mut last = None;
    while !writer.is_finished() {
        let list = fixture.list(ListRequest::all()).await;
        assert!(["", "a", "a b"].contains(&names(&list).as_str()), "{:?}", names(&list));
        assert!(Some(list.revision) >= last, "{} after {last:?}", list.revision);
        assert!(list.items.iter().all(|object| object.revision <= list.revision));
        last = Some(list.revision);
    }
    writer.await.expect("the writer is done");
}

/// A backend that is asked for no items still reports that there are some.
pub async fn a_range_of_no_items_reports_whether_there_are_any(fixture: &Fixture) {
    create_all(fixture, "a b").await;
    let scope = pods_prefix().all();
    let request = RangeRequest { limit: Some(0), count: true, ..RangeRequest::all(scope) };
    let range = fixture.backend.range(request).await.expect("a read");
    assert_eq!((range.items.len(), range.more, range.count), (0, true, Some(2)));
}

/// A backend asked for what lies past a scope still looks at the revision it is asked for.
pub async fn a_range_past_its_scope_checks_its_revision(fixture: &Fixture) {
    create_all(fixture, "a b").await;
    let current = fixture.revision().await;
    fixture.compact(current).await;
    let past = |at| RangeRequest {
        from: Some("/registry/zzz".to_owned()),
        at: Some(at),
        ..RangeRequest::all(pods_prefix().all())
    };
    let future = fixture.backend.range(past(later(current, 1000))).await;
    assert!(matches!(future, Err(StorageError::TooLarge { .. })), "{future:?}");
    let compacted =
        fixture.backend.range(past(ResourceVersion::new(current.get() - 1).expect("above zero"))).await;
    assert!(matches!(compacted, Err(StorageError::Expired(_))), "{compacted:?}");
    let now = fixture.backend.range(past(current)).await.expect("a read");
    assert_eq!((now.items.len(), now.more), (0, false));
}
