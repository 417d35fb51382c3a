//! The promises of a watch, as functions over a recorded stream.
//!
//! The same five hold at every hop (storage, watch cache, HTTP stream), so each hop turns what it saw into
//! [`RecordedEvent`] events and asks the same functions. A stream may have been cut anywhere: what lies after the last
//! revision it delivered is not judged.
//!
//! The events that must have been delivered come from a [`History`]: every change of the store in order, best collected
//! from the answers to the writes and not from a watch.

use crate::{Object, WatchEvent};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A change of an object, or the note that everything up to a revision was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It came into view.
    Added,
    /// It changed.
    Modified,
    /// It went out of view.
    Deleted,
    /// Everything up to here was delivered.
    Bookmark,
    /// The same, and the initial state ends here.
    InitialStateEnd,
}

/// One event of a recorded stream.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The change.
    pub kind: Kind,
    /// To which object; empty for bookmarks.
    pub key: String,
    /// At which revision.
    pub revision: u64,
    /// The object's content, without its revision; empty for bookmarks.
    pub content: Bytes,
}

impl RecordedEvent {
    /// Everything up to `revision` was delivered.
    pub fn bookmark(revision: u64) -> Self {
        Self { kind: Kind::Bookmark, key: String::new(), revision, content: Bytes::new() }
    }

    fn object(kind: Kind, object: &Object) -> Self {
        let content = object.value.clone();
        Self { kind, key: object.key.to_string(), revision: object.revision.get(), content }
    }

    fn is_bookmark(&self) -> bool {
        matches!(self.kind, Kind::Bookmark | Kind::InitialStateEnd)
    }
}

impl From<&WatchEvent> for RecordedEvent {
    fn from(event: &WatchEvent) -> Self {
        match event {
            WatchEvent::Added(object) => Self::object(Kind::Added, object),
            WatchEvent::Modified(object) => Self::object(Kind::Modified, object),
            WatchEvent::Deleted(object) => Self::object(Kind::Deleted, object),
            WatchEvent::Bookmark { revision, initial_state_end } => Self {
                kind: if *initial_state_end { Kind::InitialStateEnd } else { Kind::Bookmark },
                ..Self::bookmark(revision.get())
            },
        }
    }
}

impl fmt::Debug for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Bookmark | Kind::InitialStateEnd => write!(f, "{:?}@{}", self.kind, self.revision),
            kind => write!(f, "{kind:?} {}@{} {:?}", self.key, self.revision, self.content),
        }
    }
}

/// The beginning of a recorded stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the initial state, which ends at [`Kind::InitialStateEnd`]. A stream that does not mark the end
    /// must be recorded with one all the same: put it after the last addition, at the revision of the read.
    State,
    /// With the first change after this revision.
    After(u64),
}

/// A stream as it was seen.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its beginning.
    pub start: Start,
    /// The events that it delivered.
    pub events: Vec<RecordedEvent>,
}

impl Recorded {
    /// Records what a storage's watch delivered.
    pub fn of<'a>(start: Start, events: impl IntoIterator<Item = &'a WatchEvent>) -> Self {
        Self { start, events: events.into_iter().map(RecordedEvent::from).collect() }
    }

    /// The revision up to which it has delivered everything.
    pub fn reached(&self) -> Option<u64> {
        let (_, followed, changes) = self.parts();
        changes.last().map(|event| event.revision).or(followed)
    }

    /// The initial state, the revision from which changes follow (unknown while the state is incomplete), and
    /// the changes with their bookmarks.
    fn parts(&self) -> (&[RecordedEvent], Option<u64>, &[RecordedEvent]) {
        match self.start {
            Start::After(revision) => (&[], Some(revision), &self.events),
            Start::State => match self.events.iter().position(|event| event.kind == Kind::InitialStateEnd) {
                Some(end) => (&self.events[..end], Some(self.events[end].revision), &self.events[end + 1..]),
                None => (&self.events, None, &[]),
            },
        }
    }
}

/// One change of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub key: String,
    /// At which revision.
    pub revision: u64,
    /// The written value; absent for a deletion.
    pub content: Option<Bytes>,
}

impl Change {
    /// The write that returned this object.
    pub fn write(object: &Object) -> Self {
        let content = Some(object.value.clone());
        Self { key: object.key.to_string(), revision: object.revision.get(), content }
    }

    /// The deletion that returned this object.
    pub fn deletion(object: &Object) -> Self {
        Self { content: None, ..Self::write(object) }
    }
}

/// Whether a watcher may see an object: its scope and its selectors.
pub type Visible<'a> = &'a dyn Fn(&str, &[u8]) -> bool;

/// Sees everything.
pub fn everything(_: &str, _: &[u8]) -> bool {
    true
}

/// Every change of a store in order of revision.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Change>);

impl History {
    /// Puts changes in order.
    pub fn new(changes: impl IntoIterator<Item = Change>) -> Self {
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|change| change.revision);
        Self(changes)
    }

    /// Adds the newest change.
    ///
    /// # Panics
    /// If it is not the newest.
    pub fn push(&mut self, change: Change) {
        let last = self.last();
        assert!(change.revision > last, "{change:?} is not after revision {last}");
        self.0.push(change);
    }

    /// The changes.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }

    /// The revision of the last change; zero if there is none.
    pub fn last(&self) -> u64 {
        self.0.last().map_or(0, |change| change.revision)
    }

    /// The objects that existed at a revision, with the revision of their last write.
    pub fn state_at(&self, revision: u64) -> BTreeMap<&str, (u64, &Bytes)> {
        let mut state = BTreeMap::new();
        for change in self.0.iter().take_while(|change| change.revision <= revision) {
            match &change.content {
                Some(content) => state.insert(change.key.as_str(), (change.revision, content)),
                None => state.remove(change.key.as_str()),
            };
        }
        state
    }

    /// The events that a watch must deliver for the changes with revisions above `after` and not above `until`.
    pub fn expected(&self, after: u64, until: u64, visible: Visible<'_>) -> Vec<RecordedEvent> {
        let mut expected = Vec::new();
        let mut state: BTreeMap<&str, &Bytes> = BTreeMap::new();
        for Change { key, revision, content } in self.0.iter().take_while(|change| change.revision <= until) {
            let old = match content {
                Some(content) => state.insert(key, content),
                None => state.remove(key.as_str()),
            };
            if *revision <= after {
                continue;
            }
            let seen = |content: &&Bytes| visible(key, content);
            let (kind, content) = match (old.filter(seen), content.as_ref().filter(seen)) {
                (None, None) => continue,
                (None, Some(new)) => (Kind::Added, new),
                (Some(_), Some(new)) => (Kind::Modified, new),
                (Some(old), None) => (Kind::Deleted, old),
            };
            expected.push(RecordedEvent {
                kind,
                key: key.clone(),
                revision: *revision,
                content: content.clone(),
            });
        }
        expected
    }
}

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub guarantee: &'static str,
    /// By which events.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}: {}", self.guarantee, self.message)
    }
}

impl std::error::Error for Violation {}

fn violation(guarantee: &'static str, message: String) -> Result<(), Violation> {
    Err(Violation { guarantee, message })
}

/// Revisions grow from change to change and never fall at a bookmark; the initial state is in key order and
/// not newer than its end.
pub fn ordered(stream: &Recorded) -> Result<(), Violation> {
    const ORDERED: &str = "ordered";
    let (state, followed, changes) = stream.parts();
    for pair in state.windows(2) {
        if pair[0].key > pair[1].key {
            return violation(ORDERED, format!("{:?} follows {:?} in the initial state", pair[1], pair[0]));
        }
    }
    let Some(mut reached) = followed else { return Ok(()) };
    if let Some(event) = state.iter().find(|event| event.revision > reached) {
        return violation(ORDERED, format!("the initial state at {reached} holds {event:?}"));
    }
    for event in changes {
        if event.revision < reached || (event.revision == reached && !event.is_bookmark()) {
            return violation(ORDERED, format!("{event:?} comes when {reached} was reached already"));
        }
        reached = event.revision;
    }
    Ok(())
}

/// No version of an object is delivered twice, neither as state nor as change; the initial state has an end.
pub fn unique(stream: &Recorded) -> Result<(), Violation> {
    const UNIQUE: &str = "unique";
    let mut seen = BTreeSet::new();
    for event in stream.events.iter().filter(|event| !event.is_bookmark()) {
        if !seen.insert((&event.key, event.revision)) {
            return violation(UNIQUE, format!("{event:?} was delivered before"));
        }
    }
    let (state, _, changes) = stream.parts();
    let mut keys = BTreeSet::new();
    if let Some(event) = state.iter().find(|event| !keys.insert(&event.key)) {
        return violation(UNIQUE, format!("{event:?} is in the initial state twice"));
    }
    match changes.iter().find(|event| event.kind == Kind::InitialStateEnd) {
        Some(event) => violation(UNIQUE, format!("{event:?} ends a state that ended before or never began")),
        None => Ok(()),
    }
}

/// The delivered events are the changes that happened: the state at its revision, then every visible change, none left out and
/// none made up, up to the last revision delivered.
pub fn reliable(stream: &Recorded, history: &History, visible: Visible<'_>) -> Result<(), Violation> {
    const RELIABLE: &str = "reliable";
    let (state, followed, changes) = stream.parts();
    let Some(followed) = followed else { return Ok(()) };
    if stream.start == Start::State {
        let existing = history.state_at(followed);
        let expected = existing.into_iter().filter(|(key, (_, content))| visible(key, content)).map(
            |(key, (revision, content))| RecordedEvent {
                kind: Kind::Added,
                key: key.to_owned(),
                revision,
                content: content.clone(),
            },
        );
        same(RELIABLE, &expected.collect::<Vec<_>>(), state)?;
    }
    let until = stream.reached().unwrap_or(followed);
    let delivered: Vec<_> = changes.iter().filter(|event| !event.is_bookmark()).cloned().collect();
    same(RELIABLE, &history.expected(followed, until, visible), &delivered)
}

/// Streams that each began where the one before broke off are together as good as one that never broke.
pub fn resumable(streams: &[Recorded], history: &History, visible: Visible<'_>) -> Result<(), Violation> {
    const RESUMABLE: &str = "resumable";
    let Some((first, rest)) = streams.split_first() else { return Ok(()) };
    let mut whole = first.clone();
    for stream in rest {
        let reached = whole.reached();
        if Some(stream.start) != reached.map(Start::After) {
            return violation(
                RESUMABLE,
                format!("{reached:?} was reached, but resumed from {:?}", stream.start),
            );
        }
        whole.events.extend(stream.events.iter().cloned());
    }
    for found in [ordered(&whole), unique(&whole), reliable(&whole, history, visible)] {
        found.map_err(|found| Violation { guarantee: RESUMABLE, message: found.to_string() })?;
    }
    Ok(())
}

/// Before a bookmark every visible change up to it was delivered, and after it none.
pub fn bookmarkable(stream: &Recorded, history: &History, visible: Visible<'_>) -> Result<(), Violation> {
    const BOOKMARKABLE: &str = "bookmarkable";
    let (_, followed, changes) = stream.parts();
    let Some(followed) = followed else { return Ok(()) };
    for (index, bookmark) in changes.iter().enumerate().filter(|(_, event)| event.is_bookmark()) {
        let late = changes[index + 1..]
            .iter()
            .find(|event| event.revision <= bookmark.revision && !event.is_bookmark());
        if let Some(late) = late {
            return violation(BOOKMARKABLE, format!("{late:?} comes after {bookmark:?}"));
        }
        let delivered: Vec<_> =
            changes[..index].iter().filter(|event| !event.is_bookmark()).cloned().collect();
        same(BOOKMARKABLE, &history.expected(followed, bookmark.revision, visible), &delivered).map_err(
            |found| Violation { message: format!("before {bookmark:?} {}", found.message), ..found },
        )?;
    }
    Ok(())
}

fn same(
    guarantee: &'static str,
    expected: &[RecordedEvent],
    delivered: &[RecordedEvent],
) -> Result<(), Violation> {
    let differs = (0..expected.len().max(delivered.len())).find(|at| expected.get(*at) != delivered.get(*at));
    match differs.map(|at| (expected.get(at), delivered.get(at))) {
        None => Ok(()),
        Some((Some(due), Some(event))) => {
            violation(guarantee, format!("{due:?} was due, {event:?} was delivered"))
        }
        Some((Some(due), None)) => violation(guarantee, format!("{due:?} was not delivered")),
        Some((None, event)) => violation(guarantee, format!("{event:?} was delivered and never happened")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::*;

    /// `a` is created at 2, changed at 4 and deleted at 6; `b` is created at 3 and changed at 5.
    fn history() -> History {
        let change = |key: &str, revision, content: Option<&'static str>| Change {
            key: key.to_owned(),
            revision,
            content: content.map(|content| Bytes::from_static(content.as_bytes())),
        };
        History::new([
            change("b", 3, Some("b3")),
            change("a", 2, Some("a2")),
            change("a", 4, Some("a4")),
            change("b", 5, Some("b5")),
            change("a", 6, None),
        ])
    }

    fn seen(kind: Kind, key: &str, revision: u64, content: &'static str) -> RecordedEvent {
        RecordedEvent { kind, key: key.to_owned(), revision, content: Bytes::from_static(content.as_bytes()) }
    }

    fn state_end(revision: u64) -> RecordedEvent {
        RecordedEvent { kind: InitialStateEnd, ..RecordedEvent::bookmark(revision) }
    }

    /// The state at 3, then everything.
    fn good() -> Vec<RecordedEvent> {
        vec![
            seen(Added, "a", 2, "a2"),
            seen(Added, "b", 3, "b3"),
            state_end(3),
            seen(Modified, "a", 4, "a4"),
            RecordedEvent::bookmark(4),
            seen(Modified, "b", 5, "b5"),
            seen(Deleted, "a", 6, "a4"),
            RecordedEvent::bookmark(9),
        ]
    }

    fn from_state(events: Vec<RecordedEvent>) -> Recorded {
        Recorded { start: Start::State, events }
    }

    fn after(revision: u64, events: Vec<RecordedEvent>) -> Recorded {
        Recorded { start: Start::After(revision), events }
    }

    fn all_five(stream: &Recorded) -> Vec<&'static str> {
        let history = history();
        let found = [
            ordered(stream),
            unique(stream),
            reliable(stream, &history, &everything),
            resumable(std::slice::from_ref(stream), &history, &everything),
            bookmarkable(stream, &history, &everything),
        ];
        found.into_iter().filter_map(|found| found.err().map(|found| found.guarantee)).collect()
    }

    #[test]
    fn a_good_stream_keeps_all_five_however_early_it_is_cut() {
        for length in 0..=good().len() {
            assert_eq!(
                all_five(&from_state(good()[..length].to_vec())),
                [""; 0],
                "the first {length} events"
            );
        }
    }

    #[test]
    fn a_change_out_of_order_is_found() {
        let mut events = good();
        events.swap(3, 5);
        let found = ordered(&from_state(events)).unwrap_err();
        assert_eq!(found.to_string(), r#"not ordered: Bookmark@4 comes when 5 was reached already"#);
    }

    #[test]
    fn a_state_out_of_order_is_found() {
        let mut events = good();
        events.swap(0, 1);
        let found = ordered(&from_state(events)).unwrap_err();
        assert_eq!(
            found.to_string(),
            r#"not ordered: Added a@2 b"a2" follows Added b@3 b"b3" in the initial state"#
        );
    }

    #[test]
    fn a_change_at_the_start_revision_is_found() {
        let found = ordered(&after(4, vec![seen(Modified, "a", 4, "a4")])).unwrap_err();
        assert_eq!(found.to_string(), r#"not ordered: Modified a@4 b"a4" comes when 4 was reached already"#);
    }

    #[test]
    fn a_change_delivered_twice_is_found() {
        let mut events = good();
        events.push(events[5].clone());
        let found = unique(&from_state(events)).unwrap_err();
        assert_eq!(found.to_string(), r#"not unique: Modified b@5 b"b5" was delivered before"#);
    }

    #[test]
    fn a_state_that_ends_twice_is_found() {
        let mut events = good();
        events.push(state_end(9));
        assert!(unique(&from_state(events)).is_err());
    }

    #[test]
    fn a_change_left_out_is_found() {
        let mut events = good();
        events.remove(5);
        let found = reliable(&from_state(events), &history(), &everything).unwrap_err();
        assert_eq!(
            found.to_string(),
            r#"not reliable: Modified b@5 b"b5" was due, Deleted a@6 b"a4" was delivered"#
        );
    }

    #[test]
    fn a_state_with_an_object_left_out_is_found() {
        let mut events = good();
        events.remove(1);
        let found = reliable(&from_state(events), &history(), &everything).unwrap_err();
        assert_eq!(found.to_string(), r#"not reliable: Added b@3 b"b3" was not delivered"#);
    }

    #[test]
    fn a_deletion_with_the_wrong_content_is_found() {
        let mut events = good();
        events[6] = seen(Deleted, "a", 6, "a2");
        assert_eq!(all_five(&from_state(events)), ["reliable", "resumable", "bookmarkable"]);
    }

    #[test]
    fn a_change_that_never_happened_is_found() {
        let stream = after(6, vec![seen(Added, "c", 7, "c7")]);
        let found = reliable(&stream, &history(), &everything).unwrap_err();
        assert!(found.message.ends_with("was delivered and never happened"), "{found}");
    }

    #[test]
    fn objects_that_enter_and_leave_the_view_are_added_and_deleted() {
        let only_a4 = |_: &str, content: &[u8]| content == b"a4";
        let delivered = vec![seen(Added, "a", 4, "a4"), seen(Deleted, "a", 6, "a4")];
        assert_eq!(reliable(&after(2, delivered), &history(), &only_a4), Ok(()));
        let not_a4 = |_: &str, content: &[u8]| content != b"a4";
        let delivered =
            vec![seen(Added, "b", 3, "b3"), seen(Deleted, "a", 4, "a2"), seen(Modified, "b", 5, "b5")];
        assert_eq!(reliable(&after(2, delivered), &history(), &not_a4), Ok(()));
    }

    #[test]
    fn a_gap_where_a_stream_was_resumed_is_found() {
        let (first, rest) = (from_state(good()[..4].to_vec()), good()[5..].to_vec());
        let resumed = [first.clone(), after(4, rest.clone())];
        assert_eq!(resumable(&resumed, &history(), &everything), Ok(()));

        let gap = [first.clone(), after(4, rest[1..].to_vec())];
        let found = resumable(&gap, &history(), &everything).unwrap_err();
        assert!(found.to_string().starts_with("not resumable: not reliable: Modified b@5"), "{found}");

        let elsewhere = resumable(&[first, after(3, rest)], &history(), &everything).unwrap_err();
        assert_eq!(elsewhere.to_string(), "not resumable: Some(4) was reached, but resumed from After(3)");
    }

    #[test]
    fn a_bookmark_that_comes_too_early_is_found() {
        let mut events = good();
        events[4] = RecordedEvent::bookmark(5);
        let found = bookmarkable(&from_state(events), &history(), &everything).unwrap_err();
        assert!(found.message.ends_with("comes after Bookmark@5"), "{found}");

        let early = from_state(vec![state_end(3), seen(Modified, "a", 4, "a4"), RecordedEvent::bookmark(5)]);
        let found = bookmarkable(&early, &history(), &everything).unwrap_err();
        assert_eq!(
            found.to_string(),
            r#"not bookmarkable: before Bookmark@5 Modified b@5 b"b5" was not delivered"#
        );
    }
}
