//! What a server's answers say: bytes become objects and events, and nothing is waited for.
//!
//! Kept true here: an object is decoded once, straight from the bytes it came in, and keeps none of them alive. One
//! object that cannot be read is reported by its key and costs nothing else. An answer that is not what was asked for is
//! never taken for an empty one.
//!
//! Where an object begins and ends is found by [`Scanner`], which is several times as fast as decoding; whether what lies
//! between is JSON, the object's own decoder says.

use crate::{
    ApiError, Change, Class, Fetch, ObjectKey, Page, Unreadable, WatchEvent,
    scan::{Malformed, Scanner, Text},
};
use kube_core::Status;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// How long one line of a watch may be. Servers refuse objects of more than a few MiB; beyond this the watch fails.
pub(crate) const LINE_MAX_BYTES: usize = 64 << 20;

/// How much room for lines is kept while there is none to be read.
const IDLE_MAX_BYTES: usize = 1 << 20;

/// The annotation of the bookmark that ends the state a watch began with.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Of which kind the objects are that were asked for.
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

/// What one line of a watch says.
pub(crate) fn watch_event<O: Fetch>(line: &[u8], kind: &Kind) -> Result<WatchEvent<O>, ApiError> {
    if let Some(event) = usual_event(line, kind) {
        return Ok(event);
    }
    let frame: Frame =
        serde_json::from_slice(line).map_err(|error| unreadable("a line of the watch", error))?;
    match (frame.event, frame.object) {
        (Some(event), Some(object)) => any_event(&event, object.get().as_bytes(), kind),
        _ if frame.kind.as_deref() == Some("Status") => Err(server_error(line)),
        _ => Err(ApiError::new(Class::Unreadable, "a line of the watch is no event")),
    }
}

/// A line of a watch, however its fields are ordered, or a bare `Status` as some servers send it.
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

/// A change, if the line is written as servers write it: then the object is all of it but a known beginning and end.
/// Should there be anything else after the object, the object's decoder does not take that.
fn usual_event<O: Fetch>(line: &[u8], kind: &Kind) -> Option<WatchEvent<O>> {
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
        other => return Err(ApiError::new(Class::Unreadable, format!("there is no event {other:?}"))),
    };
    let Some(head) = Head::of(object).filter(|head| head.is(kind)) else {
        return Ok(foreign(object, kind));
    };
    Ok(match head.decode::<O>(object, kind) {
        Ok(decoded) => change.of(decoded),
        Err(error) => {
            WatchEvent::Unreadable(Unreadable { change: Some(change), ..not_decoded(object, &error) })
        }
    })
}

/// What stands at the top of an object.
#[derive(Clone, Copy, Default)]
struct Head<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    has_metadata: bool,
}

impl<'a> Head<'a> {
    /// Looks no further than it must, which is not far: servers write these first.
    fn of(object: &'a [u8]) -> Option<Self> {
        let mut head = Head::default();
        let mut scanner = Scanner::new(object);
        head.look(&mut scanner, Head::is_complete).ok()?;
        Some(head)
    }

    /// Goes through an object until it has seen enough.
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

    /// Whether this is what was asked for. What does not say is taken for it.
    fn is(&self, kind: &Kind) -> bool {
        self.has_metadata
            && self.api_version.is_none_or(|text| text.is(&kind.api_version))
            && self.kind.is_none_or(|text| text.is(&kind.kind))
    }

    fn lacks_kind<O: Fetch>(&self) -> bool {
        O::NEEDS_KIND && (self.api_version.is_none() || self.kind.is_none())
    }

    /// Decodes the object of which this is the top. If it has to say of which kind it is and does not, this kind it is.
    fn decode<O: Fetch>(&self, object: &[u8], kind: &Kind) -> Result<O, serde_json::Error> {
        if self.lacks_kind::<O>() { O::decode(&self.spliced(object, kind)) } else { O::decode(object) }
    }

    /// The object with what it lacks.
    fn spliced(&self, object: &[u8], kind: &Kind) -> Vec<u8> {
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

fn foreign<O>(object: &[u8], kind: &Kind) -> WatchEvent<O> {
    let text =
        |text: Option<Text<'_>>| text.and_then(|text| Some(text.read()?.into_owned())).unwrap_or_default();
    let head = Head::of(object).unwrap_or_default();
    let got = match (text(head.api_version), text(head.kind)) {
        (version, name) if version.is_empty() && name.is_empty() => "something without a kind".to_owned(),
        (version, name) => format!("{version} {name}"),
    };
    let lack = if head.has_metadata { "" } else { " without metadata" };
    WatchEvent::Foreign(format!("got {got}{lack}, not {} {}", kind.api_version, kind.kind))
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

/// What can still be said of an object that cannot be decoded.
fn not_decoded(object: &[u8], error: &serde_json::Error) -> Unreadable {
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

/// A bookmark that names no version says nothing.
fn bookmark<O>(object: &[u8], kind: &Kind) -> WatchEvent<O> {
    if !Head::of(object).is_some_and(|head| head.is(kind)) {
        return foreign(object, kind);
    }
    let metadata = match serde_json::from_slice::<Bookmark>(object) {
        Ok(bookmark) => bookmark.metadata,
        Err(error) => return WatchEvent::Unreadable(not_decoded(object, &error)),
    };
    match metadata.resource_version {
        Some(version) if !version.is_empty() => {
            let end = metadata.annotations.and_then(|mut annotations| annotations.remove(INITIAL_EVENTS_END));
            WatchEvent::Bookmark { version, ends_initial: end.as_deref() == Some("true") }
        }
        _ => WatchEvent::Foreign("got a bookmark without a version".to_owned()),
    }
}

/// The failure that a server tells of.
fn server_error(object: &[u8]) -> ApiError {
    match status(object) {
        Some(status) => ApiError::from_status(status),
        None => ApiError::new(Class::Other, "the server tells of a failure, but not which"),
    }
}

/// A `Status`; anything else is none, though it may have the fields of one.
pub(crate) fn status(object: &[u8]) -> Option<Status> {
    let mut head = Head::default();
    head.look(&mut Scanner::new(object), |head| head.kind.is_some()).ok()?;
    if !head.kind?.is("Status") {
        return None;
    }
    serde_json::from_slice(object).ok()
}

/// What one page of a list says.
pub(crate) fn list_page<O: Fetch>(body: &[u8], kind: &Kind) -> Result<Page<O>, ApiError> {
    let list = List::of(body).map_err(|_| ApiError::new(Class::Unreadable, "the list is not whole"))?;
    let said = |text: Option<Text<'_>>| text.and_then(|text| Some(text.read()?.into_owned()));
    let list_kind = said(list.head.kind).unwrap_or_default();
    if list_kind == "Table" || list_kind == "Status" {
        return Err(ApiError::new(Class::Unreadable, format!("got a {list_kind}, not a list")));
    }
    let Some(items) = list.items else {
        return Err(ApiError::new(Class::Unreadable, "got something without items, not a list"));
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
        .map_err(|_| ApiError::new(Class::Unreadable, "the list is not whole"))?;
    Ok(page)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// Where things stand in a list.
#[derive(Default)]
struct List<'a> {
    head: Head<'a>,
    metadata: Option<&'a [u8]>,
    /// Everything from the items on.
    items: Option<Scanner<'a>>,
}

impl<'a> List<'a> {
    /// Servers write the items last: they are not passed over if nothing is missed by that.
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

/// Decodes the items, one after the other. Those of nothing at all are none.
fn read_items<O: Fetch>(mut items: Scanner<'_>, kind: &Kind, page: &mut Page<O>) -> Result<(), Malformed> {
    if items.peek()? != b'[' {
        return if items.value()? == b"null" { Ok(()) } else { Err(Malformed) };
    }
    items.open(b'[')?;
    while items.element()? {
        let mut head = Head::default();
        let item = if O::NEEDS_KIND && items.peek()? == b'{' {
            items.passing(|items| head.look(items, |_| false))?
        } else {
            items.value()?
        };
        match head.decode::<O>(item, kind) {
            Ok(object) => page.objects.push(Arc::new(object)),
            Err(error) => page.unreadable.push(not_decoded(item, &error)),
        }
    }
    while items.key()?.is_some() {
        items.value()?;
    }
    Ok(())
}

fn unreadable(what: &str, error: serde_json::Error) -> ApiError {
    ApiError::caused(Class::Unreadable, format!("{what} cannot be read: {error}"), error)
}

/// Cuts what arrives into lines.
///
/// No byte is looked at twice, however small the pieces are in which a line arrives. Empty lines are none.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// What has been taken out of the buffer already.
    taken: usize,
    /// Up to where there is no end of a line.
    searched: usize,
}

impl Lines {
    /// Takes what arrived. Fails if a line is longer than [`LINE_MAX_BYTES`].
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), ApiError> {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_MAX_BYTES {
            self.buffer = Vec::new();
        }
        if self.buffer.len() + chunk.len() > LINE_MAX_BYTES && self.is_too_long(chunk) {
            return Err(ApiError::new(
                Class::Unreadable,
                format!("a line of more than {LINE_MAX_BYTES} bytes"),
            ));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    fn is_too_long(&self, chunk: &[u8]) -> bool {
        memchr::memchr(b'\n', chunk).is_none_or(|end| self.buffer.len() + end > LINE_MAX_BYTES)
    }

    /// The next whole line, without its end.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return None;
            };
            let (start, end) = (self.taken, self.searched + found);
            self.taken = end + 1;
            self.searched = self.taken;
            if !self.buffer[start..end].trim_ascii().is_empty() {
                return Some(self.buffer[start..end].trim_ascii());
            }
        }
    }

    /// Nothing more arrives: the last line, if it is whole though nothing ends it.
    pub(crate) fn rest(&mut self) -> Option<&[u8]> {
        let start = std::mem::replace(&mut self.taken, self.buffer.len());
        self.searched = self.taken;
        let rest = self.buffer[start..].trim_ascii();
        serde_json::from_slice::<IgnoredAny>(rest).is_ok().then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lean, Object};
    use k8s_openapi::api::core::v1::Pod;
    use kube_core::{DynamicObject, metadata::PartialObjectMeta};

    fn pod_kind() -> Kind {
        Kind::new("v1", "Pod")
    }

    /// As `added apps/a@1`.
    fn words<O: Fetch>(line: &str, kind: &Kind) -> String {
        let object = |object: &O| format!("{}@{}", object.key(), object.revision());
        match watch_event::<O>(line.as_bytes(), kind) {
            Ok(WatchEvent::Added(it)) => format!("added {}", object(&it)),
            Ok(WatchEvent::Modified(it)) => format!("modified {}", object(&it)),
            Ok(WatchEvent::Deleted(it)) => format!("deleted {}", object(&it)),
            Ok(WatchEvent::Bookmark { version, ends_initial: true }) => {
                format!("end of the state @{version}")
            }
            Ok(WatchEvent::Bookmark { version, ends_initial: false }) => format!("bookmark @{version}"),
            Ok(WatchEvent::Foreign(what)) => format!("foreign: {what}"),
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
        assert_eq!(words::<Pod>(line, &pod_kind()), expected, "{line}");
    }

    const A1: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"apps","resourceVersion":"1"}}"#;

    #[test]
    fn a_change_is_read_however_its_line_is_written() {
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
    fn what_is_not_of_the_kind_that_was_asked_for_is_foreign() {
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
                check(&format!(r#"{{"type":"{event}","object":{object}}}"#), &format!("foreign: {expected}"));
            }
        }
    }

    #[test]
    fn metadata_alone_is_another_kind() {
        let line = r#"{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"1"}}}"#;
        let kind = Kind::new("meta.k8s.io/v1", "PartialObjectMetadata");
        assert_eq!(words::<PartialObjectMeta<Pod>>(line, &kind), "added a@1");
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_named() {
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
    fn only_a_bookmark_that_says_true_ends_the_state_there_is() {
        for (rest, expected) in [
            (r#""resourceVersion":"9""#, "bookmark @9"),
            (
                r#""resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}"#,
                "end of the state @9",
            ),
            (r#""resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"false"}"#, "bookmark @9"),
            (r#""resourceVersion":"9","annotations":null"#, "bookmark @9"),
            (r#""resourceVersion":"9","annotations":7"#, "unreadable @9"),
            ("", "foreign: got a bookmark without a version"),
        ] {
            let object = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{rest}}}}}"#);
            check(&format!(r#"{{"type":"BOOKMARK","object":{object}}}"#), expected);
        }
    }

    #[test]
    fn a_failure_in_a_watch_is_what_its_status_says() {
        for (line, expected) in [
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#,
                "failed Expired: old",
            ),
            (r#"{"kind":"Status","apiVersion":"v1","code":403,"message":"no"}"#, "failed Forbidden: no"),
            (
                r#"{"type":"ERROR","object":{"kind":"Pod","code":410}}"#,
                "failed Other: the server tells of a failure, but not which",
            ),
            (r#"{"type":"ERROR","object":7}"#, "failed Other: the server tells of a failure, but not which"),
            (r#"{"type":"RENAMED","object":{}}"#, r#"failed Unreadable: there is no event "RENAMED""#),
            (r#"{"type":"ADDED"}"#, "failed Unreadable: a line of the watch is no event"),
            ("{}", "failed Unreadable: a line of the watch is no event"),
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
    fn a_list_is_read_however_its_fields_are_ordered() {
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
    fn an_empty_list_is_one_that_says_so() {
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
    fn a_table_is_no_list() {
        let error = list_page::<Pod>(br#"{"kind":"Table","metadata":{},"rows":[],"items":[]}"#, &pod_kind())
            .unwrap_err();
        assert_eq!(format!("{error:?}"), "Unreadable: got a Table, not a list");
    }

    #[test]
    fn one_bad_item_costs_only_itself() {
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
    fn items_that_need_a_kind_get_what_they_lack_of_it() {
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
            words::<Lean<Pod>>(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#, &pod_kind()),
            "added a@"
        );
        assert_eq!(page::<Lean<Pod>>(r#"{"items":[{}, 7, "}", [1]]}"#).unreadable.len(), 4);
    }

    /// The lines that come of these pieces, joined by `|`.
    fn lines(pieces: &[&str]) -> String {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece.as_bytes()).unwrap();
            while let Some(line) = lines.next() {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        seen.extend(lines.rest().map(|line| String::from_utf8(line.to_vec()).unwrap()));
        assert!(lines.next().is_none());
        seen.join("|")
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        for (pieces, expected) in [
            (&["1\n2\n"][..], "1|2"),
            (&["1", "2", "\n3", "4\n5\n"], "12|34|5"),
            (&["\n\r\n1\r\n\n \n", "\n2\n"], "1|2"),
            (&["1\n{\"a\":", "2}"], "1|{\"a\":2}"),
            (&["1\n{\"a\":"], "1"),
            (&[], ""),
        ] {
            assert_eq!(lines(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_long_line_in_small_pieces_is_searched_once() {
        let mut lines = Lines::default();
        for _ in 0..200_000 {
            lines.push(&[b'1'; 16]).unwrap();
            assert!(lines.next().is_none());
            assert_eq!(lines.searched, lines.buffer.len());
        }
        lines.push(b"\n").unwrap();
        assert_eq!(lines.next().map(<[u8]>::len), Some(3_200_000));
        lines.push(b"1").unwrap();
        assert!(lines.buffer.capacity() <= IDLE_MAX_BYTES, "what a long line took is given back");
    }

    #[test]
    fn a_line_has_a_limit() {
        let chunk = vec![b'1'; LINE_MAX_BYTES / 2];
        let mut lines = Lines::default();
        lines.push(&chunk).unwrap();
        lines.push(&chunk).unwrap();
        assert_eq!(lines.push(b"1").unwrap_err().class, Class::Unreadable);
        lines.push(b"\n1").unwrap();
        assert_eq!(lines.next().map(<[u8]>::len), Some(LINE_MAX_BYTES));
    }
}
