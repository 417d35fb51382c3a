//! Forgetting the past, by one server of the group at a time.
//!
//! The servers share one key, [`COMPACT_REV_KEY`]: its version is the group's clock, its value the revision it
//! was last compacted to. Once per interval each server tries to move the clock on from where it last saw it.
//! The one that succeeds compacts to the revision that was current when it last looked, so one interval of
//! history is left, or two after a server was lost. The others learn from the key how far that is.
//!
//! [`Turn`] decides, as plain data; the rest does I/O. Kubernetes uses the same key in the same way.

use crate::store::{Shared, as_version};
use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse};
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, Key, KeyValue, Scope, StorageError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// The key the servers share. Outside the prefix of objects, where Kubernetes has it.
pub(crate) const COMPACT_REV_KEY: &str = "compact_rev_key";

/// How long to wait before following the key again after that failed.
const LEARN_PAUSE: Duration = Duration::from_secs(1);

/// What one server knows of the group's clock. Zeroes before it first looked.
#[derive(Debug, Default, PartialEq)]
struct Turn {
    /// The key's version when last seen.
    clock: i64,
    /// The store's revision at that time: what this turn compacts to.
    revision: i64,
}

/// How moving the clock on went.
enum Outcome {
    /// We moved it; the store is at `revision`.
    Moved { revision: i64 },
    /// Somebody else did; the clock shows this.
    Missed { clock: i64, revision: i64 },
}

impl Turn {
    /// Takes note of the outcome. Tells what to compact to, if that is up to us.
    fn settle(&mut self, outcome: Outcome) -> Option<ResourceVersion> {
        match outcome {
            Outcome::Moved { revision } => {
                let mine = std::mem::replace(self, Self { clock: self.clock + 1, revision });
                // On the very first turn nobody knows yet what was current one interval ago.
                as_version(mine.revision).ok()
            }
            Outcome::Missed { clock, revision } => {
                *self = Self { clock, revision };
                None
            }
        }
    }
}

/// Once per interval takes part in the compaction of the store.
pub(crate) async fn compact_from_time_to_time(shared: Arc<Shared>, interval: Duration) {
    let mut turn = Turn::default();
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

async fn take_turn(shared: &Shared, turn: &mut Turn) -> Result<Option<ResourceVersion>, StorageError> {
    let txn = Txn::new()
        .when([Compare::version(COMPACT_REV_KEY, CompareOp::Equal, turn.clock)])
        .and_then([TxnOp::put(COMPACT_REV_KEY, turn.revision.to_string(), None)])
        .or_else([TxnOp::get(COMPACT_REV_KEY, None)]);
    // If the outcome is unknown and it was done after all, the next turn is missed against ourselves.
    let deadline = shared.members.deadline();
    let answer =
        shared.commit(txn, deadline).await.map_err(|fault| fault.told("taking a turn at compacting etcd"))?;
    let revision = answer.header().map_or(0, |header| header.revision());
    let outcome = if answer.succeeded() {
        Outcome::Moved { revision }
    } else {
        let clock = match answer.op_responses().first() {
            Some(TxnOpResponse::Get(found)) => found.kvs().first().map_or(0, |item| item.version()),
            _ => 0,
        };
        Outcome::Missed { clock, revision }
    };
    let compact_to = turn.settle(outcome);
    if let Some(revision) = compact_to {
        shared.compact(revision).await?;
    }
    Ok(compact_to)
}

/// How far the store is compacted, as far as is known. Only ever rises.
#[derive(Default)]
pub(crate) struct Learned(AtomicU64);

impl Learned {
    pub(crate) fn raise(&self, revision: ResourceVersion) {
        self.0.fetch_max(revision.get(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<ResourceVersion> {
        ResourceVersion::new(self.0.load(Ordering::Relaxed))
    }
}

/// Follows the group's key for as long as the task lives.
pub(crate) async fn learn(shared: Arc<Shared>) {
    loop {
        if let Err(error) = follow(&shared).await {
            tracing::debug!(%error, "not told of compactions for the moment");
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
    let mut watch = crate::watch::start(shared.clone(), Scope::Object(key), current, false).await?;
    while let Some(event) = watch.next().await {
        if let BackendEvent::Put { item, .. } = event? {
            note(shared, &item);
        }
    }
    Ok(())
}

fn note(shared: &Shared, item: &KeyValue) {
    let revision = std::str::from_utf8(&item.value).ok().and_then(|text| text.parse().ok());
    if let Some(revision) = revision.and_then(ResourceVersion::new) {
        shared.compacted.raise(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group's key, as etcd would treat it.
    #[derive(Default)]
    struct Group {
        clock: i64,
    }

    impl Group {
        fn tick(&mut self, turn: &mut Turn, revision: i64) -> Option<u64> {
            let outcome = if self.clock == turn.clock {
                self.clock += 1;
                Outcome::Moved { revision }
            } else {
                Outcome::Missed { clock: self.clock, revision }
            };
            turn.settle(outcome).map(ResourceVersion::get)
        }
    }

    #[test]
    fn the_first_turn_only_takes_note_and_later_ones_compact_one_interval_back() {
        let (mut group, mut turn) = (Group::default(), Turn::default());
        assert_eq!(group.tick(&mut turn, 100), None);
        assert_eq!(group.tick(&mut turn, 200), Some(100));
        assert_eq!(group.tick(&mut turn, 300), Some(200));
    }

    #[test]
    fn one_server_of_a_group_compacts_and_another_takes_over() {
        let mut group = Group::default();
        let (mut a, mut b) = (Turn::default(), Turn::default());
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
        let (mut group, mut a) = (Group { clock: 17 }, Turn::default());
        assert_eq!(group.tick(&mut a, 100), None);
        assert_eq!(a, Turn { clock: 17, revision: 100 });
        assert_eq!(group.tick(&mut a, 200), Some(100));
    }

    #[test]
    fn what_is_learned_only_rises() {
        let learned = Learned::default();
        assert_eq!(learned.get(), None);
        for revision in [5, 9, 7] {
            learned.raise(ResourceVersion::new(revision).unwrap());
        }
        assert_eq!(learned.get(), ResourceVersion::new(9));
    }
}
