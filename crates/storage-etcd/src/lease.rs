//! Leases shared among keys with the same time to live.
//!
//! Kept true: a key lives at least as long as asked, and longer by 5 % of that or by
//! [`LeaseOptions::reuse_max`] at the most (and by less than a second, for etcd counts whole ones); no lease
//! has more keys than [`LeaseOptions::objects_max`].

use crate::options::LeaseOptions;
use std::time::Duration;
use tokio::time::Instant;

/// The number of leases that are remembered for reuse. One for each time to live in use is enough.
const LEASES_REMEMBERED_MAX: usize = 16;

/// etcd grants no longer leases than this, which is 285 years. Who asks for more gets this.
const GRANT_SECONDS_MAX: u64 = 9_000_000_000;

/// The leases that may be used again.
pub(crate) struct Leases {
    options: LeaseOptions,
    /// Newest last.
    open: Vec<Lease>,
}

struct Lease {
    id: i64,
    /// Never later than etcd's own idea of it.
    expires: Instant,
    objects: usize,
}

impl Leases {
    pub(crate) fn new(options: LeaseOptions) -> Self {
        Self { options, open: Vec::new() }
    }

    /// A lease that a key with this time to live can hang on, if there is one. Counts the key.
    pub(crate) fn reuse(&mut self, ttl: Duration, now: Instant) -> Option<i64> {
        let wanted = Duration::from_secs(whole_seconds(ttl));
        let most = Duration::from_secs(self.grant_seconds(ttl));
        let objects_max = self.options.objects_max;
        self.open.retain(|lease| lease.expires > now && lease.objects < objects_max);
        let lease = self.open.iter_mut().find(|lease| (wanted..=most).contains(&(lease.expires - now)))?;
        lease.objects += 1;
        Some(lease.id)
    }

    /// For how long to grant a lease that serves this time to live.
    pub(crate) fn grant_seconds(&self, ttl: Duration) -> u64 {
        let seconds = whole_seconds(ttl);
        let reuse = (seconds / 20).min(self.options.reuse_max.as_secs());
        seconds.saturating_add(reuse).min(GRANT_SECONDS_MAX)
    }

    /// Remembers a lease that was granted for a key, by a request sent at `asked`.
    pub(crate) fn granted(&mut self, id: i64, seconds: u64, asked: Instant) {
        if self.open.len() == LEASES_REMEMBERED_MAX {
            self.open.remove(0);
        }
        self.open.push(Lease { id, expires: asked + Duration::from_secs(seconds), objects: 1 });
    }

    /// Forgets a lease that etcd does not know any more.
    pub(crate) fn forget(&mut self, id: i64) {
        self.open.retain(|lease| lease.id != id);
    }
}

/// etcd counts whole seconds. A key must not live shorter than asked.
fn whole_seconds(ttl: Duration) -> u64 {
    ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0)).clamp(1, GRANT_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn leases() -> Leases {
        Leases::new(LeaseOptions::default())
    }

    #[test]
    fn a_lease_is_granted_for_a_little_more_than_asked() {
        for (ttl_seconds, granted) in
            [(1, 1), (10, 10), (19, 19), (20, 21), (100, 105), (1_200, 1_260), (3_600, 3_660)]
        {
            assert_eq!(leases().grant_seconds(Duration::from_secs(ttl_seconds)), granted);
        }
        assert_eq!(leases().grant_seconds(Duration::from_millis(1_500)), 2);
        assert_eq!(leases().grant_seconds(Duration::ZERO), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_for_ever_is_as_long_as_etcd_grants() {
        let mut leases = leases();
        for ttl in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(GRANT_SECONDS_MAX)] {
            assert_eq!(leases.grant_seconds(ttl), GRANT_SECONDS_MAX);
            leases.granted(7, leases.grant_seconds(ttl), Instant::now());
            assert_eq!(leases.reuse(ttl, Instant::now()), Some(7));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_shared_while_it_still_gives_the_full_time() {
        let mut leases = leases();
        assert_eq!(leases.reuse(HOUR, Instant::now()), None);
        leases.granted(7, 3_660, Instant::now());
        for _ in 0..4 {
            assert_eq!(leases.reuse(HOUR, Instant::now()), Some(7));
            advance(Duration::from_secs(20)).await;
        }
        assert_eq!(leases.reuse(HOUR, Instant::now()), None);
        leases.granted(8, 3_660, Instant::now());
        assert_eq!(leases.reuse(HOUR, Instant::now()), Some(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_serves_only_times_close_to_its_own() {
        let mut leases = leases();
        leases.granted(7, 3_660, Instant::now());
        leases.granted(8, 630, Instant::now());
        assert_eq!(leases.reuse(Duration::from_secs(600), Instant::now()), Some(8));
        assert_eq!(leases.reuse(HOUR, Instant::now()), Some(7));
        assert_eq!(leases.reuse(Duration::from_secs(60), Instant::now()), None);
        assert_eq!(leases.reuse(HOUR * 2, Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_takes_a_limited_number_of_objects() {
        let mut leases = Leases::new(LeaseOptions { objects_max: 3, ..LeaseOptions::default() });
        leases.granted(7, 3_660, Instant::now());
        assert_eq!(leases.reuse(HOUR, Instant::now()), Some(7));
        assert_eq!(leases.reuse(HOUR, Instant::now()), Some(7));
        assert_eq!(leases.reuse(HOUR, Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_leases_is_limited_and_forgets() {
        let mut leases = leases();
        for id in 0..100 {
            leases.granted(id, 3_660, Instant::now());
        }
        assert_eq!(leases.open.len(), LEASES_REMEMBERED_MAX);
        let first = leases.reuse(HOUR, Instant::now()).unwrap();
        leases.forget(first);
        assert_ne!(leases.reuse(HOUR, Instant::now()), Some(first));
        advance(HOUR * 2).await;
        assert_eq!(leases.reuse(HOUR, Instant::now()), None);
        assert!(leases.open.is_empty());
    }
}
