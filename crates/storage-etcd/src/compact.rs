//! Forgetting the past, by one server of the group at a time.
//!
//! The servers share one key, [`COMPACT_REV_KEY`]: its version is the group's clock, its value the revision it
//! was last compacted to. Once per interval each server tries to move the clock on from where it last saw it.
//! The one that succeeds compacts to the revision that was current when it last looked, so one interval of
//! history is left, or two after a server was lost. The others learn from the key how far that is.
//! A server whose turn it is leaves what its own watchers have yet to read for one more interval.
//!
//! [`CompactionTurn`] decides, as plain data; the rest does I/O. Kubernetes uses the same key in the same way.

use crate::{
    api::{Compare, Operation, TxnRequest},
    store::{Shared, as_etcd, as_version},
    watch::ReportsProgress,
};
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, Key, KeyValue, Scope, StorageError};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The key the servers share. Outside the prefix of objects, where Kubernetes has it.
pub(crate) const COMPACT_REV_KEY: &str = "compact_rev_key";

/// The time after which the key is followed again when that failed.
const LEARN_PAUSE: Duration = Duration::from_secs(1);

/// The group's clock, as far as one server knows it. Zeroes before it first looked.
#[derive(Debug, Default, PartialEq)]
struct CompactionTurn {
    /// The key's version when last seen.
    clock: i64,
    /// The store's revision at that time: what this turn compacts to.
    revision: i64,
    /// The same of the turn before: what this turn compacts to for sure.
    before: i64,
}

/// The outcome of moving the clock on.
enum Outcome {
    /// We moved it; the store is at `revision`.
    Moved { revision: i64 },
    /// Another server did; the clock shows this.
    Missed { clock: i64, revision: i64 },
}

impl CompactionTurn {
    /// The revision that this turn compacts to, if a reader has changes to read after `needed`.
    fn goal(&self, needed: Option<i64>) -> i64 {
        needed.map_or(self.revision, |needed| needed.max(self.before).min(self.revision))
    }

    /// Records the outcome. Returns whether this server has to compact.
    fn settle(&mut self, outcome: Outcome) -> bool {
        let before = self.revision;
        let (clock, revision, is_ours) = match outcome {
            Outcome::Moved { revision } => (self.clock + 1, revision, true),
            Outcome::Missed { clock, revision } => (clock, revision, false),
        };
        *self = Self { clock, revision, before };
        is_ours
    }
}

/// Once per interval takes part in the compaction of the store.
pub(crate) async fn compact_from_time_to_time(shared: Arc<Shared>, interval: Duration) {
    let mut turn = CompactionTurn::default();
    loop {
        sleep(interval).await;
        match take_turn(&shared, &mut turn).await {
            Ok(Some(revision)) => tracing::info!(%revision, "compacted etcd"),
            Ok(None) => {}
            Err(error) => tracing::warn!(
                %error,
                cause = std::error::Error::source(&error).map(tracing::field::display),
                "etcd was not compacted; trying again after the next interval"
            ),
        }
    }
}

async fn take_turn(
    shared: &Shared,
    turn: &mut CompactionTurn,
) -> Result<Option<ResourceVersion>, StorageError> {
    let goal = turn.goal(shared.readers.oldest_needed().map(as_etcd));
    let txn = TxnRequest {
        compare: vec![Compare::version(COMPACT_REV_KEY, turn.clock)],
        success: vec![Operation::put(COMPACT_REV_KEY, goal.to_string()).into()],
        failure: vec![Operation::read(COMPACT_REV_KEY).into()],
    };
    // If the outcome is unknown and it was done after all, the next turn is missed against ourselves.
    let deadline = shared.members.deadline();
    let answer = shared
        .commit(&txn, deadline)
        .await
        .map_err(|fault| fault.into_storage_error("taking a turn at compacting etcd"))?;
    let revision = answer.header.map_or(0, |header| header.revision);
    let outcome = if answer.succeeded {
        Outcome::Moved { revision }
    } else {
        let clock = answer.into_read().flatten().map_or(0, |item| item.version);
        Outcome::Missed { clock, revision }
    };
    // On the very first turn the revision that was current one interval ago is not known yet.
    let compact_to = if turn.settle(outcome) { as_version(goal).ok() } else { None };
    if let Some(revision) = compact_to {
        shared.compact(revision).await?;
    }
    Ok(compact_to)
}

/// The revision up to which the store is compacted, as far as is known. Only ever rises.
#[derive(Default)]
pub(crate) struct KnownCompaction(Mutex<Option<Compacted>>);

struct Compacted {
    revision: ResourceVersion,
    learned: Instant,
    /// The least age of the revision at that time.
    age: Duration,
}

impl KnownCompaction {
    /// The store is compacted to a revision that was current so long ago, at the least.
    pub(crate) fn raise(&self, revision: ResourceVersion, age: Duration) {
        let mut known = self.0.lock();
        if known.as_ref().is_none_or(|known| (known.revision, known.age) < (revision, age)) {
            *known = Some(Compacted { revision, learned: Instant::now(), age });
        }
    }

    pub(crate) fn get(&self) -> Option<ResourceVersion> {
        self.0.lock().as_ref().map(|known| known.revision)
    }

    /// The least time since that revision was current.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.0.lock().as_ref().map(|known| known.age + known.learned.elapsed())
    }
}

/// Follows the group's key for as long as the task lives.
pub(crate) async fn learn(shared: Arc<Shared>) {
    loop {
        if let Err(error) = follow(&shared).await {
            tracing::debug!(%error, "compactions cannot be followed for the moment");
        }
        sleep(LEARN_PAUSE).await;
    }
}

async fn follow(shared: &Arc<Shared>) -> Result<(), StorageError> {
    let key = Key::from_backend(COMPACT_REV_KEY);
    let (current, item) = shared.get(&key).await?;
    if let Some(item) = item {
        note(shared, &item);
    }
    let mut watch =
        crate::watch::start(shared.clone(), Scope::Object(key), current, ReportsProgress::Never).await?;
    while let Some(event) = watch.next().await {
        if let BackendEvent::Put { item, .. } = event? {
            note(shared, &item);
        }
    }
    Ok(())
}

fn note(shared: &Shared, item: &KeyValue) {
    let revision = std::str::from_utf8(&item.value.bytes).ok().and_then(|text| text.parse().ok());
    if let Some(revision) = revision.and_then(ResourceVersion::new) {
        // The server that moved the clock chose the revision that was current one interval before.
        shared.compacted.raise(revision, shared.compaction_interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group's key, as etcd would treat it.
    #[derive(Default)]
    struct Group {
        clock: i64,
        /// After which revision a server has changes to read.
        needed: Option<i64>,
    }

    impl Group {
        fn tick(&mut self, turn: &mut CompactionTurn, revision: i64) -> Option<i64> {
            let outcome = if self.clock == turn.clock {
                self.clock += 1;
                Outcome::Moved { revision }
            } else {
                Outcome::Missed { clock: self.clock, revision }
            };
            let goal = turn.goal(self.needed);
            turn.settle(outcome).then_some(goal).filter(|goal| *goal > 0)
        }
    }

    #[test]
    fn the_first_turn_only_takes_note_and_later_ones_compact_one_interval_back() {
        let (mut group, mut turn) = (Group::default(), CompactionTurn::default());
        assert_eq!(group.tick(&mut turn, 100), None);
        assert_eq!(group.tick(&mut turn, 200), Some(100));
        assert_eq!(group.tick(&mut turn, 300), Some(200));
    }

    #[test]
    fn one_server_of_a_group_compacts_and_another_takes_over() {
        let mut group = Group::default();
        let (mut a, mut b) = (CompactionTurn::default(), CompactionTurn::default());
        assert_eq!((group.tick(&mut a, 100), group.tick(&mut b, 101)), (None, None));
        // Both know the clock; the first to tick wins, the other follows.
        assert_eq!((group.tick(&mut a, 200), group.tick(&mut b, 201)), (Some(100), None));
        assert_eq!((group.tick(&mut a, 300), group.tick(&mut b, 301)), (Some(200), None));
        // `a` is gone: `b` compacts to what it last saw.
        assert_eq!(group.tick(&mut b, 401), Some(301));
        assert_eq!(group.tick(&mut b, 501), Some(401));
    }

    #[test]
    fn a_server_that_starts_later_does_not_disturb() {
        let (mut group, mut a) = (Group { clock: 17, needed: None }, CompactionTurn::default());
        assert_eq!(group.tick(&mut a, 100), None);
        assert_eq!(a, CompactionTurn { clock: 17, revision: 100, before: 0 });
        assert_eq!(group.tick(&mut a, 200), Some(100));
    }

    #[test]
    fn events_that_a_watch_has_yet_to_read_are_left_for_one_more_interval() {
        let (mut group, mut turn) = (Group::default(), CompactionTurn::default());
        for (needed, revision, compacted) in [
            (Some(50), 100, None),
            (Some(50), 200, Some(50)),
            (Some(50), 300, Some(100)),
            (Some(250), 400, Some(250)),
            (Some(450), 500, Some(400)),
            (None, 600, Some(500)),
        ] {
            group.needed = needed;
            assert_eq!(group.tick(&mut turn, revision), compacted, "{needed:?} at {revision}");
        }
    }

    #[test]
    fn the_known_compacted_revision_only_rises() {
        let learned = KnownCompaction::default();
        assert_eq!(learned.get(), None);
        for revision in [5, 9, 7] {
            learned.raise(ResourceVersion::new(revision).unwrap(), Duration::ZERO);
        }
        assert_eq!(learned.get(), ResourceVersion::new(9));
    }
}
