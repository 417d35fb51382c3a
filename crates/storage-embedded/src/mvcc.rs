//! Every key's versions back to the last compaction, in memory, as plain data.
//!
//! Kept true by [`Mvcc::apply`] and [`Mvcc::compact`] alone:
//! - every write has the revision after the one before it, and `current` is the last one applied;
//! - `changes` holds the key of every change after `compacted`, so that a change's place gives its revision;
//! - a key has the versions that were current at some revision ≥ `compacted`, and none else;
//! - superseded values beyond the resident limit are left to the log, which holds every version a key has.
//!
//! Not here: disk, locks, waiting.

mod deadlines;
mod superseded;

use self::{deadlines::Deadlines, superseded::Superseded};
use crate::entry::{Entry, EntryKind, Unneeded, log_bytes};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, Scope, Value};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

/// The versions of all keys.
pub(crate) struct Mvcc {
    current: ResourceVersion,
    compacted: Option<ResourceVersion>,
    /// Boxed, because a tree keeps much of its nodes empty.
    keys: BTreeMap<Key, Box<Chain>>,
    changes: VecDeque<Key>,
    /// The number of bytes of the values that are no longer current, in memory or in the log.
    past_value_bytes: usize,
    superseded: Superseded,
    deadlines: Deadlines,
}

/// The bytes that a change takes beside its value: its key, its place, and its frame in the log.
const CHANGE_BYTES: usize = 512;

/// One key's versions.
struct Chain {
    newest: Version,
    /// Oldest first; absent for the many keys that were written once.
    #[expect(clippy::box_collection, reason = "8 bytes for each of those keys instead of 32")]
    older: Option<Box<VecDeque<Older>>>,
}

struct Version {
    modified: ResourceVersion,
    /// Absent if it is a deletion.
    created: Option<ResourceVersion>,
    value: Value,
}

/// A version that is no longer current: 24 bytes, however large its value is.
#[derive(Clone, Copy)]
struct Older {
    modified: ResourceVersion,
    /// Absent if it is a deletion.
    created: Option<ResourceVersion>,
    bytes: u32,
}

/// A value, or a note that only the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    InMemory(Value),
    /// Only the log has it, under the version's revision.
    InLog,
}

impl Stored {
    pub(crate) fn is_in_log(&self) -> bool {
        matches!(self, Self::InLog)
    }
}

/// A version as it is found: its value may have to be fetched from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: Key,
    pub(crate) created: ResourceVersion,
    pub(crate) modified: ResourceVersion,
    pub(crate) value: Stored,
}

/// A change as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundChange {
    pub(crate) key: Key,
    pub(crate) revision: ResourceVersion,
    /// The version it wrote; absent if it deleted the key.
    pub(crate) now: Option<Found>,
    pub(crate) before: Option<Found>,
}

/// A page of keys.
pub(crate) struct Page {
    pub(crate) items: Vec<Found>,
    pub(crate) more: bool,
    pub(crate) count: Option<usize>,
}

/// A reference to one version of a key.
#[derive(Clone, Copy)]
enum VersionRef<'a> {
    Newest(&'a Version),
    /// With the revision of the version after it.
    Older(&'a Older, ResourceVersion),
}

impl Chain {
    /// The version that was current at a revision. A key may have very many: they are searched, not scanned.
    fn at(&self, revision: ResourceVersion) -> Option<VersionRef<'_>> {
        if self.newest.modified <= revision {
            return Some(VersionRef::Newest(&self.newest));
        }
        let older = self.older.as_ref()?;
        let index = older.partition_point(|version| version.modified <= revision).checked_sub(1)?;
        let superseded_at = older.get(index + 1).map_or(self.newest.modified, |next| next.modified);
        Some(VersionRef::Older(older.get(index)?, superseded_at))
    }

    fn before(&self, revision: ResourceVersion) -> Option<VersionRef<'_>> {
        self.at(ResourceVersion::new(revision.get() - 1)?)
    }

    fn has(&self, revision: ResourceVersion) -> bool {
        let older = || self.older.iter().any(|older| has_revision(older, revision));
        self.newest.modified == revision || older()
    }
}

fn has_revision(versions: &VecDeque<Older>, revision: ResourceVersion) -> bool {
    versions.binary_search_by_key(&revision, |version| version.modified).is_ok()
}

impl VersionRef<'_> {
    fn created(self) -> Option<ResourceVersion> {
        match self {
            Self::Newest(version) => version.created,
            Self::Older(version, _) => version.created,
        }
    }

    fn found(self, key: &Key, superseded: &Superseded) -> Option<Found> {
        let created = self.created()?;
        let (modified, value) = match self {
            Self::Newest(version) => (version.modified, Stored::InMemory(version.value.clone())),
            Self::Older(version, _) if version.bytes == 0 => {
                (version.modified, Stored::InMemory(Value::default()))
            }
            Self::Older(version, superseded_at) => {
                (version.modified, superseded.get(superseded_at).map_or(Stored::InLog, Stored::InMemory))
            }
        };
        Some(Found { key: key.clone(), created, modified, value })
    }
}

impl Version {
    fn is_deletion(&self) -> bool {
        self.created.is_none()
    }

    fn unneeded(&self, key: &str) -> Unneeded {
        Unneeded { revision: self.modified, bytes: log_bytes(key, self.value.bytes.len()) }
    }
}

impl Older {
    fn of(version: &Version) -> Self {
        // No value is near 4 GiB; of one that were, only the room that it takes would be misjudged.
        let bytes = u32::try_from(version.value.bytes.len()).unwrap_or(u32::MAX);
        Self { modified: version.modified, created: version.created, bytes }
    }

    fn unneeded(&self, key: &str) -> Unneeded {
        Unneeded { revision: self.modified, bytes: log_bytes(key, self.bytes as usize) }
    }
}

impl Mvcc {
    /// An empty store. `superseded_bytes_max` bounds the values in memory that are no longer current; without
    /// it all stay, because there is no log to fetch them from.
    pub(crate) fn new(superseded_bytes_max: Option<usize>) -> Self {
        Self {
            current: FIRST_REVISION,
            compacted: None,
            keys: BTreeMap::new(),
            changes: VecDeque::new(),
            past_value_bytes: 0,
            superseded: Superseded::new(superseded_bytes_max),
            deadlines: Deadlines::default(),
        }
    }

    /// Goes on rebuilding a state that was compacted up to here, whether or not all of those changes were applied yet. Returns
    /// the versions that the log need not keep any more.
    pub(crate) fn resume_compacted(&mut self, compacted: ResourceVersion) -> Vec<Unneeded> {
        let unneeded = self.compact(compacted);
        self.current = self.current.max(compacted);
        unneeded
    }

    /// Ends the rebuilding: gives back the room that growing left unused.
    pub(crate) fn settle(&mut self) {
        // The nodes of a tree that is made in order are full; those of a tree that grew are little more than half full.
        self.keys = std::mem::take(&mut self.keys).into_iter().collect();
        self.changes.shrink_to_fit();
    }

    pub(crate) fn current(&self) -> ResourceVersion {
        self.current
    }

    pub(crate) fn compacted(&self) -> Option<ResourceVersion> {
        self.compacted
    }

    pub(crate) fn changes_kept(&self) -> usize {
        self.changes.len()
    }

    /// The number of bytes that the history takes, in memory and on disk.
    pub(crate) fn history_bytes(&self) -> usize {
        self.past_value_bytes + self.changes.len() * CHANGE_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.values().filter(|chain| !chain.newest.is_deletion()).count()
    }

    /// The key's current version.
    pub(crate) fn get(&self, key: &str) -> Option<Found> {
        let (key, chain) = self.keys.get_key_value(key)?;
        VersionRef::Newest(&chain.newest).found(key, &self.superseded)
    }

    /// Whether a read or a watch may need a version of a key.
    pub(crate) fn needs(&self, key: &str, revision: ResourceVersion) -> bool {
        self.keys.get(key).is_some_and(|chain| chain.has(revision))
    }

    /// The revisions of the key's creation and last write, if it exists.
    pub(crate) fn stamp(&self, key: &str) -> Option<(ResourceVersion, ResourceVersion)> {
        let chain = self.keys.get(key)?;
        Some((chain.newest.created?, chain.newest.modified))
    }

    /// The number of bytes of the key's current value, if it exists.
    pub(crate) fn value_bytes(&self, key: &str) -> Option<usize> {
        let chain = self.keys.get(key)?;
        chain.newest.created.map(|_| chain.newest.value.bytes.len())
    }

    /// The keys of a scope at a revision that is neither compacted nor in the future.
    pub(crate) fn range(
        &self,
        scope: &Scope,
        from: Option<&str>,
        limit: Option<usize>,
        at: ResourceVersion,
        count: bool,
    ) -> Page {
        let begin = from.unwrap_or(scope.key());
        let end = scope.end();
        if begin >= end.as_str() {
            return Page { items: Vec::new(), more: false, count: count.then_some(0) };
        }
        let bounds = (Bound::Included(begin), Bound::Excluded(end.as_str()));
        let mut found = self
            .keys
            .range::<str, _>(bounds)
            .filter(|(key, _)| scope.contains(key))
            .filter_map(|(key, chain)| Some((key, chain.at(at)?)))
            .filter(|(_, version)| version.created().is_some());
        let items: Vec<Found> = found
            .by_ref()
            .take(limit.unwrap_or(usize::MAX))
            .filter_map(|(key, version)| version.found(key, &self.superseded))
            .collect();
        let unread = if count { found.count() } else { usize::from(found.next().is_some()) };
        Page { more: unread > 0, count: count.then_some(items.len() + unread), items }
    }

    /// Up to `limit` changes of a scope after a revision that is not compacted, among up to `looked_at_max` changes, and
    /// the revision up to which it looked.
    pub(crate) fn changes_after(
        &self,
        after: ResourceVersion,
        scope: &Scope,
        limit: usize,
        looked_at_max: usize,
    ) -> (Vec<FoundChange>, ResourceVersion) {
        let mut found = Vec::new();
        let begin = after.get().saturating_sub(self.base().get()) as usize;
        let mut revision = after.max(self.base());
        for key in self.changes.range(begin.min(self.changes.len())..).take(looked_at_max) {
            revision = revision.next();
            if !scope.contains(key) {
                continue;
            }
            found.push(self.found_change(key, revision));
            if found.len() == limit {
                break;
            }
        }
        (found, revision)
    }

    fn found_change(&self, key: &Key, revision: ResourceVersion) -> FoundChange {
        let chain = self.keys.get(key).expect("a key has versions while a change of it is kept");
        let found = |version: VersionRef<'_>| version.found(key, &self.superseded);
        FoundChange {
            key: key.clone(),
            revision,
            now: chain.at(revision).and_then(found),
            before: chain.before(revision).and_then(found),
        }
    }

    /// The revision before the first change that is kept.
    pub(crate) fn base(&self) -> ResourceVersion {
        self.compacted.unwrap_or(FIRST_REVISION)
    }

    fn base_plus(&self, changes: usize) -> ResourceVersion {
        ResourceVersion::new(self.base().get() + changes as u64).expect("above zero")
    }

    /// Whether this can be the next write of a log, without a gap before it.
    pub(crate) fn is_next(&self, entry: &Entry) -> bool {
        entry.revision <= self.base() || entry.revision == self.current.next()
    }

    /// Applies the next write. Returns the versions that the log need not keep any more:
    /// none for a new write, some for a write that was compacted before the log was rebuilt.
    pub(crate) fn apply(&mut self, entry: Entry) -> Vec<Unneeded> {
        debug_assert!(self.is_next(&entry));
        let Entry { revision, key, what } = entry;
        self.current = self.current.max(revision);
        let version = match what {
            EntryKind::Put { value, created, expires_ms } => {
                self.deadlines.set(&key, revision, expires_ms);
                Version { modified: revision, created: Some(created), value }
            }
            EntryKind::Delete { .. } => {
                self.deadlines.set(&key, revision, None);
                Version { modified: revision, created: None, value: Value::default() }
            }
        };
        if self.compacted.is_some_and(|compacted| revision <= compacted) {
            return self.replace_compacted(key, version);
        }
        match self.keys.get_mut(&key) {
            Some(chain) => {
                let old = std::mem::replace(&mut chain.newest, version);
                self.past_value_bytes += old.value.bytes.len();
                let older = chain.older.get_or_insert_with(|| Box::new(VecDeque::with_capacity(1)));
                older.push_back(Older::of(&old));
                self.superseded.add(old.value, revision);
            }
            None => {
                self.keys.insert(key.clone(), Box::new(Chain { newest: version, older: None }));
            }
        }
        self.changes.push_back(key);
        Vec::new()
    }

    fn replace_compacted(&mut self, key: Key, version: Version) -> Vec<Unneeded> {
        let mut unneeded = Vec::new();
        let name = key.clone();
        let old = if version.is_deletion() {
            unneeded.push(version.unneeded(&name));
            self.keys.remove(&key)
        } else {
            self.keys.insert(key, Box::new(Chain { newest: version, older: None }))
        };
        unneeded.extend(old.map(|chain| chain.newest.unneeded(&name)));
        unneeded
    }

    /// The revision to compact to so that at most `changes_max` changes are dropped on the way to `goal`.
    pub(crate) fn compaction_step(&self, goal: ResourceVersion, changes_max: usize) -> ResourceVersion {
        self.base_plus(changes_max).min(goal)
    }

    /// The revision that, compacted to, leaves the newest `keep` changes; absent if there are no more.
    pub(crate) fn revision_beyond_newest(&self, keep: usize) -> Option<ResourceVersion> {
        let beyond = self.changes.len().checked_sub(keep).filter(|beyond| *beyond > 0)?;
        Some(self.base_plus(beyond))
    }

    /// Forgets changes up to `revision` and the versions they superseded, which are returned.
    pub(crate) fn compact(&mut self, revision: ResourceVersion) -> Vec<Unneeded> {
        let mut unneeded = Vec::new();
        while self.base() < revision
            && let Some(key) = self.changes.pop_front()
        {
            let changed_at = self.base().next();
            self.forget_versions_before(&key, changed_at, &mut unneeded);
            self.compacted = Some(changed_at);
        }
        self.superseded.forget_up_to(revision);
        self.compacted = self.compacted.max(Some(revision));
        give_back_unused(&mut self.changes);
        self.deadlines.give_back_unused();
        unneeded
    }

    fn forget_versions_before(&mut self, key: &Key, revision: ResourceVersion, unneeded: &mut Vec<Unneeded>) {
        let Some(chain) = self.keys.get_mut(key) else { return };
        let is_over = |modified, is_deletion| modified < revision || (modified == revision && is_deletion);
        if let Some(older) = &mut chain.older {
            while let Some(version) = older.pop_front_if(|old| is_over(old.modified, old.created.is_none())) {
                self.past_value_bytes -= version.bytes as usize;
                unneeded.push(version.unneeded(key));
            }
            give_back_unused(older);
            if older.is_empty() {
                chain.older = None;
            }
        }
        if is_over(chain.newest.modified, chain.newest.is_deletion()) {
            unneeded.push(chain.newest.unneeded(key));
            self.keys.remove(key);
        }
    }

    /// The earliest moment at which a key's time to live runs out, in milliseconds of Unix time.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.next_ms()
    }

    /// Keys whose time to live has run out, with the revision that gave it to them.
    pub(crate) fn expired(&self, now_ms: u64, limit: usize) -> Vec<(Key, ResourceVersion)> {
        self.deadlines.passed(now_ms, limit)
    }
}

/// The revision of an empty store. As in etcd, the first write is one more.
const FIRST_REVISION: ResourceVersion = ResourceVersion::new(1).expect("one is not zero");

/// Gives back most of the memory of a queue that was longer.
fn give_back_unused<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 4 * (queue.len() + 4) {
        queue.shrink_to(2 * queue.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn revision(n: u64) -> ResourceVersion {
        ResourceVersion::new(n).unwrap()
    }

    fn everything() -> Scope {
        Scope::Children(Key::from_backend("/"))
    }

    /// Applies writes such as `a=1 b=1 a=2 a-`, from revision 2 on.
    fn written(writes: &str, superseded_bytes_max: Option<usize>) -> Mvcc {
        let mut mvcc = Mvcc::new(superseded_bytes_max);
        for entry in entries(writes) {
            assert!(mvcc.apply(entry).is_empty());
        }
        mvcc
    }

    fn entries(writes: &str) -> Vec<Entry> {
        let mut created = HashMap::new();
        let entry = |(n, write): (usize, &str)| {
            let revision = revision(n as u64 + 2);
            let (name, value) = write.split_once('=').unwrap_or((&write[..1], "-"));
            let key = Key::from_backend(format!("/{name}"));
            let what = if value == "-" {
                EntryKind::Delete { created: created.remove(name).unwrap_or(revision) }
            } else {
                let created = *created.entry(name.to_owned()).or_insert(revision);
                EntryKind::Put { value: value.to_owned().into(), created, expires_ms: None }
            };
            Entry { revision, key, what }
        };
        writes.split(' ').enumerate().map(entry).collect()
    }

    fn shown(found: &Found) -> String {
        let value = match &found.value {
            Stored::InMemory(value) => String::from_utf8(value.bytes.to_vec()).unwrap(),
            Stored::InLog => "log".to_owned(),
        };
        format!("{}={value}@{}", &found.key[1..], found.modified)
    }

    fn state(mvcc: &Mvcc, at: u64) -> String {
        let page = mvcc.range(&everything(), None, None, revision(at), false);
        page.items.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    fn changes(mvcc: &Mvcc, after: u64) -> String {
        let (changes, _) = mvcc.changes_after(revision(after), &everything(), 100, 100);
        let change = |change: &FoundChange| {
            let now = change
                .now
                .as_ref()
                .map_or_else(|| format!("-{}@{}", &change.key[1..], change.revision), shown);
            change.before.as_ref().map_or(now.clone(), |before| format!("{}→{now}", shown(before)))
        };
        changes.iter().map(change).collect::<Vec<_>>().join(" ")
    }

    const WRITES: &str = "a=1 b=1 a=2 a- a=3 b=2";

    #[test]
    fn every_state_since_the_last_compaction_can_be_read() {
        let mvcc = written(WRITES, None);
        let states = ["", "a=1@2", "a=1@2 b=1@3", "a=2@4 b=1@3", "b=1@3", "a=3@6 b=1@3", "a=3@6 b=2@7"];
        for (at, expected) in (1..).zip(states) {
            assert_eq!(state(&mvcc, at), expected, "at {at}");
        }
    }

    #[test]
    fn changes_carry_the_version_before() {
        let mvcc = written(WRITES, None);
        assert_eq!(changes(&mvcc, 1), "a=1@2 b=1@3 a=1@2→a=2@4 a=2@4→-a@5 a=3@6 b=1@3→b=2@7");
        assert_eq!(changes(&mvcc, 5), "a=3@6 b=1@3→b=2@7");
        assert_eq!(changes(&mvcc, 7), "");
    }

    #[test]
    fn compaction_keeps_the_versions_that_later_changes_and_states_need() {
        for (to, unneeded, rest) in [
            (2, vec![], "b=1@3 a=1@2→a=2@4 a=2@4→-a@5 a=3@6 b=1@3→b=2@7"),
            (4, vec![2], "a=2@4→-a@5 a=3@6 b=1@3→b=2@7"),
            (5, vec![2, 4, 5], "a=3@6 b=1@3→b=2@7"),
            (7, vec![2, 4, 5, 3], ""),
        ] {
            let mut mvcc = written(WRITES, None);
            let removed: Vec<u64> =
                mvcc.compact(revision(to)).into_iter().map(|version| version.revision.get()).collect();
            assert_eq!(removed, unneeded, "compacted to {to}");
            assert_eq!(changes(&mvcc, to), rest);
            assert_eq!(state(&mvcc, to), state(&written(WRITES, None), to));
            assert_eq!(state(&mvcc, 7), "a=3@6 b=2@7");
        }
    }

    #[test]
    fn a_compacted_deletion_leaves_nothing_behind() {
        let mut mvcc = written("a=1 a-", None);
        mvcc.compact(revision(3));
        assert_eq!((mvcc.keys.len(), mvcc.superseded.values.len(), mvcc.superseded.bytes), (0, 0, 0));
        assert_eq!(mvcc.history_bytes(), 0);
        assert_eq!(mvcc.current(), revision(3));
    }

    #[test]
    fn a_log_whose_clearing_was_cut_short_is_cleared_on_reading() {
        let mut mvcc = Mvcc::new(None);
        mvcc.resume_compacted(revision(5));
        let mut unneeded: Vec<u64> = entries(WRITES)
            .into_iter()
            .flat_map(|entry| mvcc.apply(entry))
            .map(|version| version.revision.get())
            .collect();
        unneeded.sort_unstable();
        assert_eq!(unneeded, [2, 4, 5]);
        assert_eq!(changes(&mvcc, 5), "a=3@6 b=1@3→b=2@7");
    }

    #[test]
    fn a_log_with_a_gap_is_noticed() {
        let mut mvcc = written("a=1", None);
        let mut next = entries("a=1 b=1 c=1");
        assert!(!mvcc.is_next(&next[2]), "3 is missing");
        assert!(mvcc.is_next(&next[1]));
        mvcc.resume_compacted(revision(3));
        next.truncate(2);
        assert!(next.iter().all(|entry| mvcc.is_next(entry)), "before a compaction gaps are its doing");
    }

    #[test]
    fn superseded_values_beyond_the_limit_are_left_to_the_log() {
        let mvcc = written("a=11 a=22 a=33 a=44", Some(2 * (64 + 2)));
        assert_eq!(state(&mvcc, 5), "a=44@5");
        assert_eq!(changes(&mvcc, 1), "a=log@2 a=log@2→a=22@3 a=22@3→a=33@4 a=33@4→a=44@5");
        assert_eq!(mvcc.superseded.values.len(), 2);
    }

    #[test]
    fn an_old_version_takes_little_memory_however_large_its_value_is() {
        assert_eq!((size_of::<Older>(), size_of::<Chain>()), (24, 64));
        let large = "x".repeat(1000);
        let mut mvcc = written(&format!("a={large} a={large} a=1"), Some(0));
        assert_eq!((mvcc.superseded.bytes, mvcc.superseded.values.len()), (0, 0));
        assert_eq!(mvcc.history_bytes(), 2000 + 3 * CHANGE_BYTES, "but it counts for the limit");
        mvcc.compact(mvcc.current());
        assert!(mvcc.changes.capacity() <= 16);
    }

    /// In memory and in the log.
    #[test]
    fn the_bytes_of_history_are_those_of_values_that_are_no_longer_current() {
        let mut mvcc = written("a=11 a=2222 b=1 a- a=3", Some(4));
        assert_eq!(mvcc.history_bytes(), 6 + 5 * CHANGE_BYTES);
        for (to, values, changes) in [(3, 4, 3), (5, 0, 1), (6, 0, 0)] {
            mvcc.compact(revision(to));
            assert_eq!(mvcc.history_bytes(), values + changes * CHANGE_BYTES, "compacted to {to}");
        }
    }

    #[test]
    fn a_look_at_changes_ends_after_so_many_of_other_scopes_too() {
        let mvcc = written("a=1 b=1 b=2 b=3 a=2", None);
        let look = |after| {
            let scope = Scope::Object(Key::from_backend("/a"));
            let (found, at) = mvcc.changes_after(revision(after), &scope, 100, 2);
            (found.len(), at.get())
        };
        assert_eq!([look(1), look(3), look(5)], [(1, 3), (0, 5), (1, 6)]);
    }

    #[test]
    fn pages_report_whether_there_is_more_and_how_much() {
        let mvcc = written("a=1 b=1 c=1 b- d=1", None);
        let page = |from: Option<&str>, limit, count| {
            let page = mvcc.range(&everything(), from, limit, mvcc.current(), count);
            (page.items.len(), page.more, page.count)
        };
        assert_eq!(page(None, Some(2), true), (2, true, Some(3)));
        assert_eq!(page(None, Some(2), false), (2, true, None));
        assert_eq!(page(Some("/c\0"), Some(2), true), (1, false, Some(1)));
        assert_eq!(page(Some("/x"), None, true), (0, false, Some(0)));
        assert_eq!(page(Some("0"), None, true), (0, false, Some(0)), "a start past the scope");
    }

    #[test]
    fn a_write_takes_an_earlier_deadline_back() {
        let mut mvcc = Mvcc::new(None);
        let put = |n: u64, expires_ms| Entry {
            revision: revision(n),
            key: Key::from_backend("/a"),
            what: EntryKind::Put { value: Value::default(), created: revision(2), expires_ms },
        };
        mvcc.apply(put(2, Some(100)));
        assert_eq!(mvcc.expired(100, 10), [(Key::from_backend("/a"), revision(2))]);
        mvcc.apply(put(3, Some(200)));
        assert_eq!((mvcc.next_deadline_ms(), mvcc.expired(199, 10).len()), (Some(200), 0));
        mvcc.apply(put(4, None));
        assert_eq!(mvcc.next_deadline_ms(), None);
    }
}
