//! What happens by itself: old history is compacted, keys whose time is up are deleted.
//!
//! Kept true by [`Retention`]: history younger than `age_min` is kept, and so are the newest `events_min`
//! changes, whichever reaches further back; but no more than `events_max` changes, and in a store without a disk no
//! more than `bytes_max` of superseded values, beyond what is written while that is being looked after.

use crate::{
    commit::{Committer, Proposal, Proposed},
    mvcc::Mvcc,
    state::Shared,
};
use futures::future;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::StorageError;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// How much history is kept for watches and reads that come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Changes younger than this are kept.
    pub age_min: Duration,
    /// The newest changes are kept, this many, however old they are.
    pub events_min: usize,
    /// No more changes than this are kept, however young they are.
    pub events_max: usize,
    /// In a store without a disk, no more bytes of superseded values than this are kept.
    pub bytes_max: usize,
}

impl Default for Retention {
    /// Five minutes or 100,000 changes, whichever is longer, and a million changes at the most.
    fn default() -> Self {
        Self {
            age_min: Duration::from_secs(5 * 60),
            events_min: 100_000,
            events_max: 1_000_000,
            bytes_max: 256 << 20,
        }
    }
}

impl Retention {
    /// How often to look: often enough that each look has little to compact.
    fn interval(&self) -> Duration {
        (self.age_min / 30).clamp(Duration::from_millis(10), Duration::from_secs(10))
    }

    /// Up to where to compact, given the revision that was current `age_min` ago.
    fn goal(
        &self,
        mvcc: &Mvcc,
        old_enough: Option<ResourceVersion>,
        in_memory: bool,
    ) -> Option<ResourceVersion> {
        let beyond_min = mvcc.revision_beyond_newest(self.events_min);
        let wanted = old_enough.zip(beyond_min).map(|(by_age, by_count)| by_age.min(by_count));
        let too_many = mvcc.revision_beyond_newest(self.events_max);
        let too_big = (in_memory && mvcc.superseded_bytes() > self.bytes_max)
            .then(|| mvcc.revision_beyond_newest(mvcc.changes_kept() / 2))
            .flatten();
        wanted.max(too_many).max(too_big).filter(|goal| Some(*goal) > mvcc.compacted())
    }
}

/// Which revision was current when, as far back as retention asks.
#[derive(Default)]
struct Samples(VecDeque<(Instant, ResourceVersion)>);

impl Samples {
    /// Notes the current revision and returns the newest one that is at least `age` old.
    fn add(&mut self, now: Instant, current: ResourceVersion, age: Duration) -> Option<ResourceVersion> {
        self.0.push_back((now, current));
        let is_old = |(at, _): &(Instant, ResourceVersion)| now.duration_since(*at) >= age;
        while self.0.get(1).is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.front().filter(|sample| is_old(sample)).map(|(_, revision)| *revision)
    }
}

/// Unix time that does not jump: the system's at the start, and what has passed since.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    started: Instant,
    started_ms: u64,
}

impl WallClock {
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ms: since_epoch.as_millis() as u64 }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.started_ms + self.started.elapsed().as_millis() as u64
    }

    fn instant(&self, ms: u64) -> Instant {
        self.started + Duration::from_millis(ms.saturating_sub(self.started_ms))
    }
}

/// Does what is due, for ever.
pub(crate) async fn maintain(
    shared: Arc<Shared>,
    committer: Arc<Committer>,
    retention: Retention,
    clock: WallClock,
) {
    let in_memory = matches!(*committer, Committer::InPlace);
    let mut samples = Samples::default();
    let mut next_look = Instant::now();
    loop {
        let deadline = shared.state.read().mvcc.next_deadline_ms().map(|ms| clock.instant(ms));
        let wake = deadline.map_or(next_look, |deadline| deadline.min(next_look));
        let _ = tokio::time::timeout_at(wake, shared.attention.notified()).await;
        if let Err(error) = expire(&shared, &committer, clock).await {
            tracing::warn!(%error, "keys whose time is up could not be deleted; trying again");
            tokio::time::sleep(RETRY_AFTER).await;
        }
        let goal = {
            let mvcc = &shared.state.read().mvcc;
            let old_enough = if Instant::now() >= next_look {
                next_look = Instant::now() + retention.interval();
                samples.add(Instant::now(), mvcc.current(), retention.age_min)
            } else {
                None
            };
            retention.goal(mvcc, old_enough, in_memory)
        };
        if let Some(goal) = goal
            && let Err(error) = committer.compact(&shared, goal).await
        {
            tracing::warn!(%error, "history could not be compacted; trying again");
        }
    }
}

/// How long to wait before deleting again what could not be deleted.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many keys are deleted together when their time is up.
const EXPIRE_TOGETHER_MAX: usize = 256;

/// Deletes keys whose time is up, unless they were written meanwhile.
async fn expire(shared: &Shared, committer: &Committer, clock: WallClock) -> Result<(), StorageError> {
    loop {
        let due = shared.state.read().mvcc.expired(clock.now_ms(), EXPIRE_TOGETHER_MAX);
        if due.is_empty() {
            return Ok(());
        }
        let deletions = due.into_iter().map(|(key, revision)| {
            committer.write(shared, Proposal { key, expected: Some(revision), change: Proposed::Delete })
        });
        future::try_join_all(deletions).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, What};
    use keepwatch_storage::Key;

    fn revision(n: u64) -> ResourceVersion {
        ResourceVersion::new(n).unwrap()
    }

    /// A state after one write for each revision from 2 to `last`.
    fn written_up_to(last: u64) -> Mvcc {
        let mut mvcc = Mvcc::new(None);
        for n in 2..=last {
            let what = What::Put { value: vec![0; 10].into(), created: revision(2), expires_ms: None };
            mvcc.apply(Entry { revision: revision(n), key: Key::from_backend("/k"), what });
        }
        mvcc
    }

    fn keeping(events_min: usize, events_max: usize, bytes_max: usize) -> Retention {
        Retention { age_min: Duration::from_secs(300), events_min, events_max, bytes_max }
    }

    #[test]
    fn the_longer_of_age_and_count_decides() {
        let mvcc = written_up_to(101);
        let goal = |retention: Retention, old| retention.goal(&mvcc, old, false).map(ResourceVersion::get);
        assert_eq!(goal(keeping(50, 1000, 0), Some(revision(90))), Some(51), "count keeps more");
        assert_eq!(goal(keeping(5, 1000, 0), Some(revision(40))), Some(40), "age keeps more");
        assert_eq!(goal(keeping(5, 1000, 0), None), None, "nothing is old enough");
        assert_eq!(goal(keeping(200, 1000, 0), Some(revision(90))), None, "too few changes");
    }

    #[test]
    fn the_limits_hold_whatever_age_and_count_say() {
        let mvcc = written_up_to(101);
        assert_eq!(keeping(50, 60, 0).goal(&mvcc, None, false).map(ResourceVersion::get), Some(41));
        assert_eq!(keeping(500, 500, 100).goal(&mvcc, None, true).map(ResourceVersion::get), Some(51));
        assert_eq!(keeping(500, 500, 100).goal(&mvcc, None, false), None, "bytes are the disk's affair");
    }

    #[tokio::test(start_paused = true)]
    async fn samples_tell_what_was_current_long_enough_ago() {
        let mut samples = Samples::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let age = Duration::from_secs(300);
        assert_eq!(samples.add(at(0), revision(5), age), None);
        assert_eq!(samples.add(at(200), revision(6), age), None);
        assert_eq!(samples.add(at(300), revision(7), age), Some(revision(5)));
        assert_eq!(samples.add(at(499), revision(8), age), Some(revision(5)));
        assert_eq!(samples.add(at(500), revision(9), age), Some(revision(6)));
    }
}
