//! Limits on open watches: how many there are, how much memory their selectors take, and how many terms they have.
//!
//! Kept true: what a watch takes is given back when its permit is dropped; no single user can take all of it.

use crate::{
    auth::User,
    fair_semaphore::{FairPermit, FairSemaphore},
};
use std::sync::Arc;

/// The number of watches that may be open.
const WATCHES_MAX: usize = 1 << 16;
/// The number of terms that the selectors of all of them may have. An event is compared with each of them while nothing
/// else is dispatched, in a few nanoseconds; those of one user take two milliseconds then.
const TERMS_MAX: usize = 1 << 20;
/// The number of bytes that a watch needs for each byte of its selectors: of a short value, its terms take much more than
/// its text.
const BYTES_PER_SELECTOR_BYTE: usize = 16;

pub(crate) struct WatchLimits {
    watches: Arc<FairSemaphore>,
    terms: Arc<FairSemaphore>,
}

/// The right to an open watch, and to what its selectors take.
pub(crate) struct WatchPermit {
    _watch: FairPermit,
    _selectors: Option<[FairPermit; 2]>,
}

/// The limit that a user has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    Watches,
    /// Terms of selectors, or bytes for them.
    Selectors,
}

impl WatchLimits {
    pub(crate) fn new() -> WatchLimits {
        WatchLimits { watches: FairSemaphore::new(WATCHES_MAX), terms: FairSemaphore::new(TERMS_MAX) }
    }

    /// A permit for a watch with these selectors. Their memory is taken from `held`, all of it: a little of each watch is
    /// much of all of them.
    pub(crate) fn permit(
        &self,
        user: &Arc<User>,
        selectors: [&str; 2],
        held: &Arc<FairSemaphore>,
    ) -> Result<WatchPermit, TooMany> {
        let watch = self.watches.acquire(user, 1).ok_or(TooMany::Watches)?;
        let bytes: usize = selectors.iter().map(|selector| selector.len()).sum();
        if bytes == 0 {
            return Ok(WatchPermit { _watch: watch, _selectors: None });
        }
        let terms = selectors.iter().map(|selector| terms_of(selector)).sum();
        let terms = self.terms.acquire(user, terms).ok_or(TooMany::Selectors)?;
        let bytes = held.acquire(user, bytes * BYTES_PER_SELECTOR_BYTE).ok_or(TooMany::Selectors)?;
        Ok(WatchPermit { _watch: watch, _selectors: Some([terms, bytes]) })
    }
}

/// The number of terms that a selector has at most: the values of a set count as well.
fn terms_of(selector: &str) -> usize {
    if selector.is_empty() { 0 } else { memchr::memchr_iter(b',', selector.as_bytes()).count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(limits: &WatchLimits, user: &Arc<User>, selectors: [&str; 2]) -> (Vec<WatchPermit>, TooMany) {
        let held = FairSemaphore::new(256 << 20);
        let mut permits = Vec::new();
        loop {
            match limits.permit(user, selectors, &held) {
                Ok(permit) => permits.push(permit),
                Err(reason) => return (permits, reason),
            }
        }
    }

    /// Selectors of less than a kilobyte were free: 27,000 watches with 250 terms each delayed everybody for a second.
    #[test]
    fn the_terms_of_all_watches_of_a_user_are_limited() {
        let limits = WatchLimits::new();
        let [mallory, bob] =
            ["mallory", "bob"].map(|name| Arc::new(User { name: name.to_owned(), ..User::default() }));
        let long = vec!["!a0"; 250].join(",");
        let (watches, reason) = opened(&limits, &mallory, [&long, ""]);
        assert_eq!(reason, TooMany::Selectors);
        assert!((1500..2000).contains(&watches.len()), "{} were admitted", watches.len());
        let held = FairSemaphore::new(256 << 20);
        assert!(limits.permit(&bob, [&long, ""], &held).is_ok());
        assert!(limits.permit(&mallory, ["", ""], &held).is_ok());
        drop(watches);
        assert!(limits.permit(&mallory, [&long, ""], &held).is_ok());
    }

    #[test]
    fn watches_with_ordinary_selectors_are_limited_by_their_number_alone() {
        let user = Arc::new(User { name: "kubelets".to_owned(), ..User::default() });
        let (watches, reason) =
            opened(&WatchLimits::new(), &user, ["app=web,tier in (a,b)", "metadata.name=kube-root-ca.crt"]);
        assert_eq!(reason, TooMany::Watches);
        assert!(watches.len() > 29_000, "{} were admitted", watches.len());
    }

    #[test]
    fn terms_are_counted_by_their_commas() {
        for (selector, terms) in [("", 0), ("a", 1), ("a=b,c!=d", 2), ("a in (b,c,d)", 3)] {
            assert_eq!(terms_of(selector), terms, "{selector}");
        }
    }
}
