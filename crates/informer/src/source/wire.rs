//! Decodes responses: bytes become objects and events. Nothing here does I/O.
//!
//! Invariants: an object is decoded once, directly from the received bytes, and keeps none of them alive. An object
//! that cannot be decoded is reported with its key and affects no other object. A response of another form than
//! requested is an error, never an empty list.
//!
//! [`Scanner`] finds where an object begins and ends, which is several times as fast as decoding. The object's
//! decoder then checks that the bytes are JSON.

use crate::{
    error::{ApiError, Class},
    object::{
        Fetch, ObjectKey,
        json_scanner::{Malformed, Scanner, Text},
    },
    source::{Change, Page, Unreadable, WatchEvent},
};
use kube_core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The kind of the requested objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

impl Kind {
    pub(crate) fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Kind { api_version: api_version.into(), kind: kind.into() }
    }
}

/// Decodes one line of a watch.
pub(crate) fn watch_event<O: Fetch>(line: &[u8], kind: &Kind) -> Result<WatchEvent<O>, ApiError> {
    if let Some(event) = fast_event(line, kind) {
        return Ok(event);
    }
    let frame: Frame =
        serde_json::from_slice(line).map_err(|error| unreadable("a line of the watch", error))?;
    match (frame.event, frame.object) {
        (Some(event), Some(object)) => any_event(&event, object.get().as_bytes(), kind),
        _ if frame.kind.as_deref() == Some("Status") => Err(server_error(line)),
        _ => Err(ApiError::new(Class::Unreadable, "a line of the watch is not an event")),
    }
}

/// A line of a watch with its fields in any order, or a bare `Status`, as some servers send it.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
}

impl Change {
    fn of<O>(self, object: O) -> WatchEvent<O> {
        let object = Arc::new(object);
        match self {
            Change::Added => WatchEvent::Added(object),
            Change::Modified => WatchEvent::Modified(object),
            Change::Deleted => WatchEvent::Deleted(object),
        }
    }
}

/// The fast path for a change in the form in which servers write it: the object is the line without a known beginning
/// and end. If anything else follows the object, its decoder fails.
fn fast_event<O: Fetch>(line: &[u8], kind: &Kind) -> Option<WatchEvent<O>> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (change, rest) =
        [(&b"ADDED"[..], Change::Added), (b"MODIFIED", Change::Modified), (b"DELETED", Change::Deleted)]
            .into_iter()
            .find_map(|(name, change)| Some((change, rest.strip_prefix(name)?)))?;
    let object = rest.strip_prefix(br#"","object":"#)?.trim_ascii_end().strip_suffix(b"}")?;
    let head = Head::of(object)?;
    if !head.is(kind) || head.lacks_kind::<O>() {
        return None;
    }
    O::decode(object).ok().map(|object| change.of(object))
}

fn any_event<O: Fetch>(event: &str, object: &[u8], kind: &Kind) -> Result<WatchEvent<O>, ApiError> {
    let change = match event {
        "ADDED" => Change::Added,
        "MODIFIED" => Change::Modified,
        "DELETED" => Change::Deleted,
        "BOOKMARK" => return Ok(bookmark(object, kind)),
        "ERROR" => return Err(server_error(object)),
        other => return Err(ApiError::new(Class::Unreadable, format!("unknown event type {other:?}"))),
    };
    let Some(head) = Head::of(object).filter(|head| head.is(kind)) else {
        return Ok(unexpected_kind(object, kind));
    };
    Ok(match head.decode::<O>(object, kind) {
        Ok(decoded) => change.of(decoded),
        Err(error) => {
            WatchEvent::Unreadable(Unreadable { change: Some(change), ..undecodable(object, &error) })
        }
    })
}

/// The fields at the top of an object.
#[derive(Clone, Copy, Default)]
struct Head<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    has_metadata: bool,
}

impl<'a> Head<'a> {
    /// Scans only as far as necessary: servers write these fields first.
    fn of(object: &'a [u8]) -> Option<Self> {
        let mut head = Head::default();
        let mut scanner = Scanner::new(object);
        head.look(&mut scanner, Head::is_complete).ok()?;
        Some(head)
    }

    /// Scans an object until `enough` returns true.
    fn look(&mut self, scanner: &mut Scanner<'a>, enough: fn(&Self) -> bool) -> Result<(), Malformed> {
        scanner.open(b'{')?;
        while let Some(key) = scanner.key()? {
            match key.read().as_deref() {
                Some("apiVersion") => self.api_version = scanner.text_or_other()?,
                Some("kind") => self.kind = scanner.text_or_other()?,
                Some("metadata") => {
                    self.has_metadata = scanner.peek()? == b'{';
                    if enough(self) {
                        return Ok(());
                    }
                    scanner.value()?;
                }
                _ => {
                    scanner.value()?;
                }
            }
            if enough(self) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.has_metadata && self.api_version.is_some() && self.kind.is_some()
    }

    /// Whether this is the requested kind. A missing field counts as equal.
    fn is(&self, kind: &Kind) -> bool {
        self.has_metadata
            && self.api_version.is_none_or(|text| text.is(&kind.api_version))
            && self.kind.is_none_or(|text| text.is(&kind.kind))
    }

    fn lacks_kind<O: Fetch>(&self) -> bool {
        O::NEEDS_KIND && (self.api_version.is_none() || self.kind.is_none())
    }

    /// Decodes the object. If its type needs `kind` and `apiVersion` and they are missing, they are added.
    fn decode<O: Fetch>(&self, object: &[u8], kind: &Kind) -> Result<O, serde_json::Error> {
        if self.lacks_kind::<O>() { O::decode(&self.with_kind(object, kind)) } else { O::decode(object) }
    }

    /// The object with the missing fields added.
    fn with_kind(&self, object: &[u8], kind: &Kind) -> Vec<u8> {
        let mut whole = Vec::with_capacity(object.len() + kind.kind.len() + kind.api_version.len() + 32);
        whole.push(b'{');
        for (name, value, there) in
            [("apiVersion", &kind.api_version, self.api_version), ("kind", &kind.kind, self.kind)]
        {
            if there.is_none() {
                let value = serde_json::Value::from(value.as_str());
                whole.extend_from_slice(format!("\"{name}\":{value},").as_bytes());
            }
        }
        whole.extend_from_slice(&object.trim_ascii_start()[1..]);
        whole
    }
}

fn unexpected_kind<O>(object: &[u8], kind: &Kind) -> WatchEvent<O> {
    let text =
        |text: Option<Text<'_>>| text.and_then(|text| Some(text.read()?.into_owned())).unwrap_or_default();
    let head = Head::of(object).unwrap_or_default();
    let got = match (text(head.api_version), text(head.kind)) {
        (version, name) if version.is_empty() && name.is_empty() => "something without a kind".to_owned(),
        (version, name) => format!("{version} {name}"),
    };
    let lack = if head.has_metadata { "" } else { " without metadata" };
    WatchEvent::UnexpectedKind(format!("got {got}{lack}, not {} {}", kind.api_version, kind.kind))
}

#[derive(Deserialize)]
struct Partial {
    metadata: PartialMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialMetadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

/// The known properties of an object that cannot be decoded.
fn undecodable(object: &[u8], error: &serde_json::Error) -> Unreadable {
    let metadata =
        serde_json::from_slice(object).map_or_else(|_| Default::default(), |it: Partial| it.metadata);
    let name = metadata.name.filter(|name| !name.is_empty());
    Unreadable {
        change: None,
        key: name.map(|name| ObjectKey::new(metadata.namespace.as_deref().unwrap_or_default(), &name)),
        version: metadata.resource_version.unwrap_or_default(),
        message: error.to_string(),
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

/// A bookmark without a version is ignored.
fn bookmark<O>(object: &[u8], kind: &Kind) -> WatchEvent<O> {
    if !Head::of(object).is_some_and(|head| head.is(kind)) {
        return unexpected_kind(object, kind);
    }
    let metadata = match serde_json::from_slice::<Bookmark>(object) {
        Ok(bookmark) => bookmark.metadata,
        Err(error) => return WatchEvent::Unreadable(undecodable(object, &error)),
    };
    match metadata.resource_version {
        Some(version) if !version.is_empty() => {
            let end = metadata.annotations.and_then(|mut annotations| annotations.remove(INITIAL_EVENTS_END));
            WatchEvent::Bookmark { version, ends_initial: end.as_deref() == Some("true") }
        }
        _ => WatchEvent::UnexpectedKind("got a bookmark without a version".to_owned()),
    }
}

/// The error in an `ERROR` event.
fn server_error(object: &[u8]) -> ApiError {
    match status(object) {
        Some(status) => ApiError::from_status(status),
        None => ApiError::new(Class::Other, "the server sent an ERROR event without a Status"),
    }
}

/// Decodes a `Status`; nothing if the object is of another kind.
pub(crate) fn status(object: &[u8]) -> Option<Status> {
    let mut head = Head::default();
    head.look(&mut Scanner::new(object), |head| head.kind.is_some()).ok()?;
    if !head.kind?.is("Status") {
        return None;
    }
    serde_json::from_slice(object).ok()
}

/// Decodes one page of a list.
pub(crate) fn list_page<O: Fetch>(body: &[u8], kind: &Kind) -> Result<Page<O>, ApiError> {
    let list = List::of(body).map_err(|_| ApiError::new(Class::Unreadable, "the list is incomplete"))?;
    let said = |text: Option<Text<'_>>| text.and_then(|text| Some(text.read()?.into_owned()));
    let list_kind = said(list.head.kind).unwrap_or_default();
    if list_kind == "Table" || list_kind == "Status" {
        return Err(ApiError::new(Class::Unreadable, format!("got a {list_kind}, not a list")));
    }
    let Some(items) = list.items else {
        return Err(ApiError::new(Class::Unreadable, "got a response without items, not a list"));
    };
    let metadata: ListMetadata = match list.metadata {
        Some(json) => {
            serde_json::from_slice(json).map_err(|error| unreadable("the list's metadata", error))?
        }
        None => ListMetadata::default(),
    };
    let item_kind = Kind {
        api_version: said(list.head.api_version).unwrap_or_else(|| kind.api_version.clone()),
        kind: match list_kind.strip_suffix("List") {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => kind.kind.clone(),
        },
    };
    let mut page = Page {
        objects: Vec::new(),
        unreadable: Vec::new(),
        version: metadata.resource_version.unwrap_or_default(),
        next: metadata.token.filter(|token| !token.is_empty()),
    };
    read_items(items, &item_kind, &mut page)
        .map_err(|_| ApiError::new(Class::Unreadable, "the list is incomplete"))?;
    Ok(page)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// The parts of a list.
#[derive(Default)]
struct List<'a> {
    head: Head<'a>,
    metadata: Option<&'a [u8]>,
    /// The rest of the list, from its items on.
    items: Option<Scanner<'a>>,
}

impl<'a> List<'a> {
    /// Servers write the items last: scanning stops there if all other fields were found.
    fn of(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut list = List::default();
        let mut scanner = Scanner::new(body);
        scanner.open(b'{')?;
        while let Some(key) = scanner.key()? {
            match key.read().as_deref() {
                Some("apiVersion") => list.head.api_version = scanner.text_or_other()?,
                Some("kind") => list.head.kind = scanner.text_or_other()?,
                Some("metadata") => list.metadata = Some(scanner.value()?),
                Some("items") => {
                    list.items = Some(scanner.clone());
                    if list.metadata.is_some() && list.head.kind.is_some() && list.head.api_version.is_some()
                    {
                        break;
                    }
                    scanner.value()?;
                }
                _ => {
                    scanner.value()?;
                }
            }
        }
        Ok(list)
    }
}

/// Decodes the items, one after the other. `null` counts as an empty list.
fn read_items<O: Fetch>(mut items: Scanner<'_>, kind: &Kind, page: &mut Page<O>) -> Result<(), Malformed> {
    if items.peek()? != b'[' {
        return if items.value()? == b"null" { Ok(()) } else { Err(Malformed) };
    }
    items.open(b'[')?;
    while items.element()? {
        let mut head = Head::default();
        let item = if O::NEEDS_KIND && items.peek()? == b'{' {
            items.span_of(|items| head.look(items, |_| false))?
        } else {
            items.value()?
        };
        match head.decode::<O>(item, kind) {
            Ok(object) => page.objects.push(Arc::new(object)),
            Err(error) => page.unreadable.push(undecodable(item, &error)),
        }
    }
    while items.key()?.is_some() {
        items.value()?;
    }
    Ok(())
}

fn unreadable(what: &str, error: serde_json::Error) -> ApiError {
    ApiError::caused(Class::Unreadable, format!("{what} cannot be decoded: {error}"), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Lean, Object};
    use k8s_openapi::api::core::v1::Pod;
    use kube_core::{DynamicObject, metadata::PartialObjectMeta};

    fn pod_kind() -> Kind {
        Kind::new("v1", "Pod")
    }

    /// As `added apps/a@1`.
    fn event_as_text<O: Fetch>(line: &str, kind: &Kind) -> String {
        let object = |object: &O| format!("{}@{}", object.key(), object.revision());
        match watch_event::<O>(line.as_bytes(), kind) {
            Ok(WatchEvent::Added(it)) => format!("added {}", object(&it)),
            Ok(WatchEvent::Modified(it)) => format!("modified {}", object(&it)),
            Ok(WatchEvent::Deleted(it)) => format!("deleted {}", object(&it)),
            Ok(WatchEvent::Bookmark { version, ends_initial: true }) => {
                format!("end of the initial events @{version}")
            }
            Ok(WatchEvent::Bookmark { version, ends_initial: false }) => format!("bookmark @{version}"),
            Ok(WatchEvent::UnexpectedKind(what)) => format!("unexpected kind: {what}"),
            Ok(WatchEvent::Unreadable(Unreadable { key: Some(key), version, .. })) => {
                format!("unreadable {key}@{version}")
            }
            Ok(WatchEvent::Unreadable(Unreadable { key: None, version, .. })) => {
                format!("unreadable @{version}")
            }
            Err(error) => format!("failed {error:?}"),
        }
    }

    fn check(line: &str, expected: &str) {
        assert_eq!(event_as_text::<Pod>(line, &pod_kind()), expected, "{line}");
    }

    const A1: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"apps","resourceVersion":"1"}}"#;

    #[test]
    fn a_change_is_decoded_in_any_field_order() {
        for (event, expected) in [("ADDED", "added"), ("MODIFIED", "modified"), ("DELETED", "deleted")] {
            let expected = format!("{expected} apps/a@1");
            check(&format!(r#"{{"type":"{event}","object":{A1}}}"#), &expected);
            check(&format!(r#"{{"type":"{event}","object":{A1}}} "#), &expected);
            check(&format!(r#"{{"type":"{event}","object":{A1},"more":{{}}}}"#), &expected);
            check(&format!(r#"{{ "object" : {A1}, "type" : "{event}" }}"#), &expected);
        }
        let late =
            r#"{"metadata":{"name":"a","resourceVersion":"1"},"status":{},"apiVersion":"v1","kind":"Pod"}"#;
        check(&format!(r#"{{"type":"ADDED","object":{late}}}"#), "added a@1");
    }

    #[test]
    fn an_object_of_another_kind_is_unexpected() {
        for (object, expected) in [
            (r#"{"kind":"Node","apiVersion":"v1","metadata":{}}"#, "got v1 Node, not v1 Pod"),
            (r#"{"kind":"Pod","apiVersion":"v2","metadata":{}}"#, "got v2 Pod, not v1 Pod"),
            (
                r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}"#,
                "got meta.k8s.io/v1 Table, not v1 Pod",
            ),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#, "got v1 Pod without metadata, not v1 Pod"),
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":null}"#,
                "got v1 Pod without metadata, not v1 Pod",
            ),
            ("7", "got something without a kind without metadata, not v1 Pod"),
        ] {
            for event in ["ADDED", "BOOKMARK"] {
                check(
                    &format!(r#"{{"type":"{event}","object":{object}}}"#),
                    &format!("unexpected kind: {expected}"),
                );
            }
        }
    }

    #[test]
    fn metadata_objects_have_their_own_kind() {
        let line = r#"{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"1"}}}"#;
        let kind = Kind::new("meta.k8s.io/v1", "PartialObjectMetadata");
        assert_eq!(event_as_text::<PartialObjectMeta<Pod>>(line, &kind), "added a@1");
    }

    #[test]
    fn an_undecodable_object_is_reported_with_its_key() {
        for (object, expected) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"3"},"spec":5}"#,
                "unreadable n/a@3",
            ),
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":7,"resourceVersion":"3"}}"#,
                "unreadable a@3",
            ),
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"3"},"spec":5}"#,
                "unreadable @3",
            ),
            (r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":5}}"#, "unreadable @"),
        ] {
            check(&format!(r#"{{"type":"MODIFIED","object":{object}}}"#), expected);
        }
    }

    #[test]
    fn only_a_bookmark_with_the_annotation_ends_the_initial_events() {
        for (rest, expected) in [
            (r#""resourceVersion":"9""#, "bookmark @9"),
            (
                r#""resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}"#,
                "end of the initial events @9",
            ),
            (r#""resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"false"}"#, "bookmark @9"),
            (r#""resourceVersion":"9","annotations":null"#, "bookmark @9"),
            (r#""resourceVersion":"9","annotations":7"#, "unreadable @9"),
            ("", "unexpected kind: got a bookmark without a version"),
        ] {
            let object = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{rest}}}}}"#);
            check(&format!(r#"{{"type":"BOOKMARK","object":{object}}}"#), expected);
        }
    }

    #[test]
    fn an_error_event_becomes_the_error_of_its_status() {
        for (line, expected) in [
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#,
                "failed Expired: old",
            ),
            (r#"{"kind":"Status","apiVersion":"v1","code":403,"message":"no"}"#, "failed Forbidden: no"),
            (
                r#"{"type":"ERROR","object":{"kind":"Pod","code":410}}"#,
                "failed Other: the server sent an ERROR event without a Status",
            ),
            (
                r#"{"type":"ERROR","object":7}"#,
                "failed Other: the server sent an ERROR event without a Status",
            ),
            (r#"{"type":"RENAMED","object":{}}"#, r#"failed Unreadable: unknown event type "RENAMED""#),
            (r#"{"type":"ADDED"}"#, "failed Unreadable: a line of the watch is not an event"),
            ("{}", "failed Unreadable: a line of the watch is not an event"),
        ] {
            check(line, expected);
        }
        for line in ["", "x", "[]", r#"{"type":"ADDED","object":{"#, r#"{"type":"ADDED","object":}"#] {
            let error = watch_event::<Pod>(line.as_bytes(), &pod_kind()).unwrap_err();
            assert_eq!(error.class, Class::Unreadable, "{line}");
        }
    }

    fn page<O: Fetch>(body: &str) -> Page<O> {
        list_page(body.as_bytes(), &pod_kind()).unwrap()
    }

    fn names<O: Object>(page: &Page<O>) -> Vec<String> {
        page.objects.iter().map(|object| object.key().to_string()).collect()
    }

    #[test]
    fn a_list_is_decoded_in_any_field_order() {
        let items = r#""items" : [ {"metadata":{"name":"a"}} , {"metadata":{"name":"b","namespace":"n"}} ]"#;
        let rest = r#""kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"t"}"#;
        for body in [
            format!("{{{rest},{items}}}"),
            format!("{{{items},{rest}}}"),
            format!("{{\n{rest},\n{items}\n,\"x\":[]}}\n"),
        ] {
            let page = page::<Pod>(&body);
            assert_eq!(
                (names(&page), &*page.version, page.next.as_deref()),
                (vec!["a".into(), "n/b".into()], "7", Some("t"))
            );
        }
    }

    #[test]
    fn only_a_list_without_items_is_empty() {
        for items in ["[]", "null", " [ ] "] {
            let page = page::<Pod>(&format!(
                r#"{{"metadata":{{"resourceVersion":"7","continue":""}},"items":{items}}}"#
            ));
            assert_eq!((page.objects.len(), page.next), (0, None));
        }
        for body in [
            "",
            "{}",
            "[]",
            r#"{"metadata":{},"items":7}"#,
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]"#,
            r#"{"metadata":{},"items":[{"metadata":{"name":"a"}}"#,
            r#"{"metadata":7,"items":[]}"#,
        ] {
            let error = list_page::<Pod>(body.as_bytes(), &pod_kind()).unwrap_err();
            assert_eq!(error.class, Class::Unreadable, "{body}");
        }
    }

    #[test]
    fn a_table_is_an_error() {
        let error = list_page::<Pod>(br#"{"kind":"Table","metadata":{},"rows":[],"items":[]}"#, &pod_kind())
            .unwrap_err();
        assert_eq!(format!("{error:?}"), "Unreadable: got a Table, not a list");
    }

    #[test]
    fn an_undecodable_item_does_not_affect_the_others() {
        let bad = r#"{"metadata":{"name":"b","resourceVersion":"2"},"spec":7}"#;
        let page = page::<Pod>(&format!(
            r#"{{"items":[{{"metadata":{{"name":"a"}}}},{bad},5,{{"metadata":{{"name":"c"}}}}]}}"#
        ));
        assert_eq!(names(&page), ["a", "c"]);
        let keys: Vec<_> = page.unreadable.iter().map(|it| (it.key.clone(), it.version.as_str())).collect();
        assert_eq!(keys, [(Some("b".into()), "2"), (None, "")]);
        assert!(page.unreadable[0].message.contains("invalid type"), "{}", page.unreadable[0].message);
    }

    #[test]
    fn items_get_the_missing_kind_and_api_version() {
        for (list, item, expected) in [
            (
                r#""kind":"PodList","apiVersion":"v1","#,
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
            ),
            (
                r#""kind":"WidgetList","apiVersion":"x.y/v1","#,
                r#"{"metadata":{}}"#,
                r#"{"apiVersion":"x.y/v1","kind":"Widget","metadata":{}}"#,
            ),
            ("", r#"{"metadata":{}}"#, r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#),
            (r#""kind":"List","#, r#"{"metadata":{}}"#, r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#),
            ("", r#"{"metadata":{},"kind":"Pod"}"#, r#"{"apiVersion":"v1","metadata":{},"kind":"Pod"}"#),
            (
                "",
                r#"{"metadata":{},"kind":"Pod","apiVersion":"v1"}"#,
                r#"{"metadata":{},"kind":"Pod","apiVersion":"v1"}"#,
            ),
        ] {
            let body = format!(r#"{{{list}"metadata":{{}},"items":[{item}]}}"#);
            let lean = page::<Lean<Pod>>(&body);
            assert_eq!(std::str::from_utf8(lean.objects[0].json()).unwrap(), expected);
            assert!(page::<DynamicObject>(&body).objects[0].types.is_some());
        }
        assert_eq!(
            event_as_text::<Lean<Pod>>(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#, &pod_kind()),
            "added a@"
        );
        assert_eq!(page::<Lean<Pod>>(r#"{"items":[{}, 7, "}", [1]]}"#).unreadable.len(), 4);
    }
}
