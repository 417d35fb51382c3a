//! Maintenance: old history is compacted, and keys whose time is up are deleted.
//!
//! Kept true by [`Retention`], whichever of these reaches further back:
//! - changes younger than `age_min` are kept, and so are the newest `events_min` changes;
//! - changes that a watcher has yet to read are kept for as long again: up to twice `age_min`, or twice `events_min`.
//!
//! The history takes no more than `bytes_max`, except for writes during a compaction. That limit wins.
//! While room on the disk is short, there is hardly any history, so that deletions make room.

use crate::{
    commit::{Committer, Proposal},
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

/// Changes that a watcher has yet to read are kept for so many times as long.
const HELD_TIMES: u32 = 2;
/// When the history exceeds its limit in bytes, so much less than the limit is kept, so that it is not reached again at once.
const SPARE_PART: usize = 16;

/// The limit of the history in bytes while room on the disk is short, and the interval at which the store looks for room.
const SHORT_HISTORY_BYTES_MAX: usize = 64 << 10;
const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// The amount of history that is kept for watches and reads of old versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Changes younger than this are kept, and those that a watcher has yet to read for as long again.
    pub age_min: Duration,
    /// The newest changes are kept, this many, however old they are, and as many again that a watcher has yet to read.
    pub events_min: usize,
    /// The history takes no more bytes than this, values and 512 bytes for each change, whatever the rest says. If
    /// absent, 1 GiB on disk and 256 MiB in memory.
    pub bytes_max: Option<usize>,
}

impl Default for Retention {
    /// Five minutes or 100,000 changes, whichever is longer.
    fn default() -> Self {
        Self { age_min: Duration::from_secs(5 * 60), events_min: 100_000, bytes_max: None }
    }
}

impl Retention {
    /// The interval between compactions: so short that each has little to do.
    fn interval(&self) -> Duration {
        (self.age_min / 30).clamp(Duration::from_millis(10), Duration::from_secs(10))
    }

    /// The revision to compact to. Some reader has yet to read the changes after `needed`.
    fn goal(
        &self,
        mvcc: &Mvcc,
        samples: &Samples,
        now: Instant,
        bytes_max: usize,
        needed: Option<ResourceVersion>,
    ) -> Option<ResourceVersion> {
        let is_new = |goal: &ResourceVersion| Some(*goal) > mvcc.compacted();
        let unheld = self.beyond(mvcc, samples, now, 1).filter(is_new);
        let wanted = unheld.map(|goal| match needed.filter(|needed| *needed < goal) {
            Some(needed) => self.beyond(mvcc, samples, now, HELD_TIMES).map_or(needed, |max| max.max(needed)),
            None => goal,
        });
        wanted.max(too_big(mvcc, bytes_max)).filter(is_new)
    }

    /// The last revision that neither age nor number keeps, if both are multiplied by `times`.
    fn beyond(&self, mvcc: &Mvcc, samples: &Samples, now: Instant, times: u32) -> Option<ResourceVersion> {
        let by_age = samples.at_age(now, self.age_min.saturating_mul(times))?;
        let by_count = mvcc.revision_beyond_newest(self.events_min.saturating_mul(times as usize))?;
        Some(by_age.min(by_count))
    }
}

/// The revision to compact to so that about as much of the history is left as there is room for, if that is less.
fn too_big(mvcc: &Mvcc, bytes_max: usize) -> Option<ResourceVersion> {
    let (bytes, changes) = (mvcc.history_bytes(), mvcc.changes_kept());
    let room = bytes_max - bytes_max / SPARE_PART;
    // As if all were of one size. If they are not, the next look compacts the rest.
    let left = (changes as f64 * room as f64 / bytes as f64) as usize;
    (bytes > bytes_max).then(|| mvcc.revision_beyond_newest(left.min(changes.saturating_sub(1))))?
}

/// The revisions that were current at earlier times, oldest first, as far back as retention asks.
#[derive(Default)]
pub(crate) struct Samples(VecDeque<(Instant, ResourceVersion)>);

impl Samples {
    /// Notes the current revision, and forgets all but one of the samples older than `age`.
    fn add(&mut self, now: Instant, current: ResourceVersion, age: Duration) {
        self.0.push_back((now, current));
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= age) {
            self.0.pop_front();
        }
    }

    /// The newest revision that was current at least so long ago.
    fn at_age(&self, now: Instant, age: Duration) -> Option<ResourceVersion> {
        let old = self.0.iter().rev().find(|(at, _)| now.saturating_duration_since(*at) >= age);
        old.map(|(_, revision)| *revision)
    }

    /// A duration in which every write had a higher revision than this one.
    pub(crate) fn age_of(&self, revision: Option<ResourceVersion>, now: Instant) -> Option<Duration> {
        let since = self.0.iter().find(|(_, current)| Some(*current) >= revision)?;
        Some(now.saturating_duration_since(since.0))
    }
}

/// Unix time that does not jump: the system's at the start, plus the time since.
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

/// Compacts, expires and cleans when that is due, for ever.
pub(crate) async fn maintain(
    shared: Arc<Shared>,
    committer: Arc<Committer>,
    retention: Retention,
    clock: WallClock,
) {
    let mut next_look = Instant::now();
    let mut may_clean = true;
    loop {
        let deadline = shared.state.read().mvcc.next_deadline_ms().map(|ms| clock.instant(ms));
        let wake = deadline.map_or(next_look, |deadline| deadline.min(next_look));
        let _ = tokio::time::timeout_at(wake, shared.attention.notified()).await;
        if let Err(error) = expire(&shared, &committer, clock).await {
            tracing::warn!(%error, "keys whose time is up could not be deleted; trying again");
            tokio::time::sleep(RETRY_AFTER).await;
        }
        let now = Instant::now();
        let is_due = now >= next_look;
        if is_due {
            committer.look_for_room();
            let interval = retention.interval();
            let is_short = shared.log.is_short_of_room();
            next_look = now + if is_short { interval.min(SHORT_INTERVAL) } else { interval };
        }
        if let Some(goal) = look(&shared, retention, now, is_due)
            && let Err(error) = committer.compact(&shared, goal).await
        {
            tracing::warn!(%error, "history could not be compacted; trying again");
        }
        // A failed step is tried again at the next look.
        may_clean |= is_due;
        if may_clean {
            match clean(&committer).await {
                Ok(true) => shared.attention.notify_one(),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "room on the disk could not be given back; trying again");
                    may_clean = false;
                }
            }
        }
    }
}

/// The number of cleaning steps between two looks at what else is due.
const CLEANING_STEPS_MAX: usize = 32;

/// Gives back room on the disk. Returns whether there is more to do.
async fn clean(committer: &Committer) -> Result<bool, StorageError> {
    for _ in 0..CLEANING_STEPS_MAX {
        if !committer.clean().await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The revision to compact to now. Unless it is due, only the limit in bytes counts.
fn look(shared: &Shared, retention: Retention, now: Instant, is_due: bool) -> Option<ResourceVersion> {
    let bytes_max = match shared.log.is_short_of_room() {
        true => shared.history_bytes_max.min(SHORT_HISTORY_BYTES_MAX),
        false => shared.history_bytes_max,
    };
    if !is_due {
        return too_big(&shared.state.read().mvcc, bytes_max);
    }
    // Readers look at their own state, and must not do that while ours is held.
    let needed = shared.oldest_needed();
    let state = shared.state.read();
    let mut samples = shared.samples.lock();
    samples.add(now, state.mvcc.current(), retention.age_min.saturating_mul(HELD_TIMES));
    retention.goal(&state.mvcc, &samples, now, bytes_max, needed)
}

/// The time until keys that could not be deleted are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The number of expired keys that are deleted together.
const EXPIRE_TOGETHER_MAX: usize = 256;

/// Deletes keys whose time is up, unless they were written meanwhile.
async fn expire(shared: &Shared, committer: &Committer, clock: WallClock) -> Result<(), StorageError> {
    loop {
        let due = shared.state.read().mvcc.expired(clock.now_ms(), EXPIRE_TOGETHER_MAX);
        if due.is_empty() {
            return Ok(());
        }
        let deletions =
            due.into_iter().map(|(key, revision)| committer.write(shared, Proposal::expire(key, revision)));
        future::try_join_all(deletions).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, EntryKind};
    use keepwatch_storage::Key;

    fn revision(n: u64) -> ResourceVersion {
        ResourceVersion::new(n).unwrap()
    }

    /// A state after one write for each revision from 2 to `last`.
    fn written_up_to(last: u64) -> Mvcc {
        let mut mvcc = Mvcc::new(None);
        for n in 2..=last {
            let what = EntryKind::Put { value: vec![0; 10].into(), created: revision(2), expires_ms: None };
            mvcc.apply(Entry { revision: revision(n), key: Key::from_backend("/k"), what });
        }
        mvcc
    }

    fn keeping(age_seconds: u64, events_min: usize) -> Retention {
        Retention { age_min: Duration::from_secs(age_seconds), events_min, bytes_max: None }
    }

    /// A second for each write, until now.
    fn one_a_second(last: u64) -> (Samples, Instant) {
        let mut samples = Samples::default();
        let start = Instant::now();
        for n in 1..=last {
            samples.add(start + Duration::from_secs(n), revision(n), Duration::MAX);
        }
        (samples, start + Duration::from_secs(last))
    }

    /// The revision to which 100 changes, one a second, are compacted.
    fn goal(retention: Retention, bytes_max: usize, needed: Option<u64>) -> Option<u64> {
        let mvcc = written_up_to(101);
        let (samples, now) = one_a_second(101);
        let needed = needed.and_then(ResourceVersion::new);
        retention.goal(&mvcc, &samples, now, bytes_max, needed).map(ResourceVersion::get)
    }

    #[test]
    fn the_longer_of_age_and_count_decides() {
        let goal = |retention| goal(retention, usize::MAX, None);
        assert_eq!(goal(keeping(10, 50)), Some(51), "count keeps more");
        assert_eq!(goal(keeping(60, 5)), Some(41), "age keeps more");
        assert_eq!(goal(keeping(300, 5)), None, "nothing is old enough");
        assert_eq!(goal(keeping(10, 200)), None, "too few changes");
    }

    #[test]
    fn events_that_a_watch_has_yet_to_read_are_kept_for_as_long_again() {
        let goal = |needed| goal(keeping(20, 5), usize::MAX, Some(needed));
        assert_eq!(goal(90), Some(81), "it is kept anyway");
        assert_eq!(goal(70), Some(70), "held back");
        assert_eq!(goal(5), Some(61), "twice the age, and no longer");
    }

    #[test]
    fn the_limit_in_bytes_wins() {
        let all = written_up_to(101).history_bytes();
        for needed in [None, Some(2)] {
            assert_eq!(goal(keeping(300, 500), all, needed), None);
            // Half of it, less a sixteenth.
            assert_eq!(goal(keeping(300, 500), all / 2, needed), Some(55));
        }
        assert_eq!(goal(keeping(300, 500), 1, None), Some(101), "no change fits");
    }

    #[test]
    fn samples_give_the_revision_that_was_current_long_enough_ago() {
        let mut samples = Samples::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let age = Duration::from_secs(300);
        for (seconds, current, old) in
            [(0, 5, None), (200, 6, None), (300, 7, Some(5)), (499, 8, Some(5)), (500, 9, Some(6))]
        {
            samples.add(at(seconds), revision(current), age);
            assert_eq!(samples.at_age(at(seconds), age).map(ResourceVersion::get), old, "{seconds}");
        }
        assert_eq!(samples.0.len(), 4, "what is older than asked for is forgotten");
    }

    #[test]
    fn samples_give_the_least_age_of_the_history() {
        let (samples, now) = one_a_second(100);
        let age = |revision| samples.age_of(revision, now).map(|age| age.as_secs());
        assert_eq!(age(None), Some(99), "nothing is compacted");
        assert_eq!(age(Some(revision(40))), Some(60));
        assert_eq!(age(Some(revision(101))), None, "not looked at since");
    }
}
