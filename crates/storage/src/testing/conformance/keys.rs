//! The keys that are taken, and the scope of a read.

use super::{Fixture, names, pod};
use crate::{
    DeleteOptions, InvalidKey, Key, ListRequest, StorageError, Update, UpdateOptions, WatchEvent,
    WatchRequest,
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};

/// Keys that any read or write of one object refuses, and why.
fn refused() -> Vec<(&'static str, InvalidKey, &'static str)> {
    let empty = |key: &str| InvalidKey::Empty(key.to_owned());
    let element = |key: &str| InvalidKey::Element(key.to_owned());
    let lacks = |key: &str| InvalidKey::LacksPrefix { key: key.to_owned(), prefix: "/pods/".to_owned() };
    vec![
        ("", empty(""), r#"empty key: """#),
        ("/", empty("/"), r#"empty key: "/""#),
        (".", element("."), r#"invalid key: ".""#),
        ("..", element(".."), r#"invalid key: "..""#),
        ("/pods/../x", element("/pods/../x"), r#"invalid key: "/pods/../x""#),
        ("/pods/./x", element("/pods/./x"), r#"invalid key: "/pods/./x""#),
        ("/pods/x/..", element("/pods/x/.."), r#"invalid key: "/pods/x/..""#),
        ("../pods/x", element("../pods/x"), r#"invalid key: "../pods/x""#),
        ("/pods/", element("/pods/"), r#"invalid key: "/pods/""#),
        ("/pods/ns/", element("/pods/ns/"), r#"invalid key: "/pods/ns/""#),
        ("/pods/ns/a/", element("/pods/ns/a/"), r#"invalid key: "/pods/ns/a/""#),
        ("pods", lacks("pods"), r#"invalid key: "pods" lacks resource prefix: "/pods/""#),
        ("/pods", lacks("/pods"), r#"invalid key: "/pods" lacks resource prefix: "/pods/""#),
        ("/pods.apps", lacks("/pods.apps"), r#"invalid key: "/pods.apps" lacks resource prefix: "/pods/""#),
        ("/foo/", lacks("/foo/"), r#"invalid key: "/foo/" lacks resource prefix: "/pods/""#),
    ]
}

fn assert_refused(error: StorageError, why: &InvalidKey, text: &str) {
    assert_eq!(error.to_string(), text);
    match error {
        StorageError::InvalidKey(found) => assert_eq!(&found, why),
        other => panic!("{why:?} was due, not {other:?}"),
    }
}

/// Every operation refuses a key that names nothing, climbs out or belongs to another resource.
pub async fn keys_that_name_nothing_or_climb_out_are_refused_by_every_operation(fixture: &Fixture) {
    let storage = &fixture.storage;
    let before = fixture.revision().await;
    let value = pod("a").value();
    for (key, why, text) in refused() {
        let created = storage.create(key, value.clone(), None).await;
        assert_refused(created.unwrap_err(), &why, text);
        assert_refused(storage.get(key, Position::MostRecent).await.unwrap_err(), &why, text);
        let deleted = storage.delete(key, DeleteOptions::default(), &mut |_| Ok(())).await;
        assert_refused(deleted.unwrap_err(), &why, text);
        let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
        let mut replace = |_: Option<&_>| Ok(Update::new(value.clone()));
        let updated = storage.guaranteed_update(key, options, &mut replace).await;
        assert_refused(updated.unwrap_err(), &why, text);
        let one = ListRequest::default();
        assert_refused(storage.get_list(key, one).await.unwrap_err(), &why, text);
        let one = WatchRequest { recursive: false, ..WatchRequest::from(WatchStart::now()) };
        assert_refused(storage.watch(key, one).await.err().expect("no watch"), &why, text);
    }
    assert_eq!(fixture.revision().await, before, "nothing was written");
}

/// So do recursive reads, which only differ in that a slash at the end makes no difference to them.
pub async fn recursive_reads_refuse_the_same_keys_but_take_the_bare_prefix(fixture: &Fixture) {
    for key in ["", "/", ".", "..", "/pods/../x", "/pods/./x", "pods", "/pods.apps", "/foo/"] {
        let listed = fixture.storage.get_list(key, ListRequest::all()).await;
        assert!(matches!(listed, Err(StorageError::InvalidKey(_))), "{key:?}");
        let watched = fixture.storage.watch(key, WatchRequest::from(WatchStart::now())).await;
        assert!(matches!(watched, Err(StorageError::InvalidKey(_))), "{key:?}");
    }
    fixture.create(&pod("a")).await;
    for key in ["/pods", "/pods/", "/pods/ns", "/pods/ns/"] {
        let list = fixture.storage.get_list(key, ListRequest::all()).await.expect("a list");
        assert_eq!(names(&list), "a", "{key}");
    }
}

/// A dot is a character like any other inside a name.
pub async fn dots_inside_a_name_are_fine(fixture: &Fixture) {
    for name in ["bar..baz", "..bar", "bar.", "...", "a.b"] {
        let created = fixture.create(&pod(name)).await;
        assert_eq!(created.key.as_str(), format!("/registry/pods/ns/{name}"));
        assert_eq!(fixture.get(&pod(name)).await, Some(created));
    }
}

/// `/pods/ns` covers nothing of `/pods/ns2`.
pub async fn a_recursive_read_never_takes_in_a_neighbour_with_a_longer_name(fixture: &Fixture) {
    let mut watch = fixture.watch_with("/pods/ns", WatchRequest::from(WatchStart::now())).await;
    fixture.create(&pod("x").in_namespace("ns2")).await;
    fixture.create(&pod("x").in_namespace("ns-2")).await;
    fixture.create(&pod("x").in_namespace("n")).await;
    let own = fixture.create(&pod("a")).await;
    let list = fixture.storage.get_list("/pods/ns", ListRequest::all()).await.expect("a list");
    assert_eq!(list.items, std::slice::from_ref(&own));
    assert_eq!(watch.event().await, WatchEvent::Added(own));
}

/// An object at the prefix itself is not among its children.
pub async fn a_recursive_read_takes_in_children_never_the_key_itself(fixture: &Fixture) {
    let mut watch = fixture.watch_with("/pods/ns", WatchRequest::from(WatchStart::now())).await;
    let value = pod("ns").value();
    fixture.storage.create("/pods/ns", value, None).await.expect("an object beside the namespace");
    let child = fixture.create(&pod("a")).await;
    let list = fixture.storage.get_list("/pods/ns", ListRequest::all()).await.expect("a list");
    assert_eq!(list.items, std::slice::from_ref(&child));
    assert_eq!(watch.event().await, WatchEvent::Added(child));
}

/// Lists and initial states are in byte order of the key, however it was written.
pub async fn objects_are_listed_in_byte_order_of_the_key(fixture: &Fixture) {
    let in_order = ["B", "a", "a-a", "a.a", "a0", "b", "é"];
    for name in ["b", "é", "a.a", "a", "B", "a0", "a-a"] {
        fixture.create(&pod(name)).await;
    }
    assert_eq!(names(&fixture.list(ListRequest::all()).await), in_order.join(" "));
    let mut watch = fixture.watch(WatchStart::state()).await;
    for name in in_order {
        let WatchEvent::Added(object) = watch.event().await else { panic!("{name} was due") };
        assert_eq!(object.key, fixture.full_key(&pod(name)));
    }
}

/// Other resources share the counter and nothing else, even with a prefix that begins alike.
pub async fn other_resources_raise_the_revision_and_stay_unseen(fixture: &Fixture) {
    let mut watch = fixture.watch(WatchStart::now()).await;
    let before = fixture.revision().await;
    for key in ["/registry/pods2/ns/a", "/registry/pods.apps/ns/a", "/registry/other/a"] {
        let revision = fixture.put_raw(&Key::from_backend(key), "not a pod").await;
        assert!(revision > before);
    }
    let list = fixture.list(ListRequest::all()).await;
    assert_eq!(names(&list), "");
    assert!(list.revision > before);
    let own = fixture.create(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(own));
}
