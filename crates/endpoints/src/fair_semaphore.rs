//! A semaphore that no single user can exhaust: requests in flight, bodies being read, and bytes in memory are counted
//! by one each.
//!
//! Kept true:
//! - the permits never exceed the limit together;
//! - all users together have at most nine tenths of them: the rest is for the group `system:masters`, whose members have
//!   no limit of their own;
//! - a user has at most as many as it leaves to all others. So one user has at most half, and somebody with two identities,
//!   such as a service account for which it requested a token, still leaves a quarter;
//! - somebody with very many identities leaves almost nothing by that rule. So where a user needs some in any case, it has
//!   that much (`of_each`) as long as all users together have at most 19 of 20;
//! - a permit that is dropped gives back what it had.

use crate::auth::{SYSTEM_MASTERS, User};
use parking_lot::Mutex;
use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// A limit on permits, as a whole and for each user.
pub(crate) struct FairSemaphore {
    max: usize,
    /// The amount that a user may have in any case.
    of_each: usize,
    taken: Mutex<PermitCounts>,
}

#[derive(Default)]
struct PermitCounts {
    total: usize,
    by_user: HashMap<ByName, usize>,
}

/// A user, compared by name.
struct ByName(Arc<User>);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl FairSemaphore {
    pub(crate) fn new(max: usize) -> Arc<FairSemaphore> {
        FairSemaphore::with_some_for_each(max, 0)
    }

    /// One of which a user may have `of_each` in any case.
    pub(crate) fn with_some_for_each(max: usize, of_each: usize) -> Arc<FairSemaphore> {
        Arc::new(FairSemaphore { max, of_each, taken: Mutex::default() })
    }

    /// A permit for nothing yet, which can grow.
    pub(crate) fn empty_permit(self: &Arc<FairSemaphore>, user: &Arc<User>) -> FairPermit {
        FairPermit { semaphore: Arc::clone(self), user: Arc::clone(user), amount: 0 }
    }

    /// A permit for this amount, if the limits leave it to the user.
    pub(crate) fn acquire(self: &Arc<FairSemaphore>, user: &Arc<User>, amount: usize) -> Option<FairPermit> {
        let mut permit = self.empty_permit(user);
        permit.grow(amount).then_some(permit)
    }

    fn try_take(&self, user: &Arc<User>, more: usize) -> bool {
        let taken = &mut *self.taken.lock();
        let own = taken.by_user.get(user.name.as_str()).copied().unwrap_or_default() + more;
        let total = taken.total + more;
        let is_admitted = match user.is_in(SYSTEM_MASTERS) {
            true => total <= self.max,
            // The first permit of a user needs to leave nothing.
            false => {
                let free = (self.max - self.max / 10).checked_sub(total);
                free.is_some_and(|free| own <= free.max(1))
                    || (own <= self.of_each && total <= self.max - self.max / 20)
            }
        };
        if !is_admitted {
            return false;
        }
        taken.total = total;
        *taken.by_user.entry(ByName(Arc::clone(user))).or_default() += more;
        true
    }

    fn give_back(&self, user: &User, amount: usize) {
        let taken = &mut *self.taken.lock();
        taken.total -= amount;
        if let Some(own) = taken.by_user.get_mut(user.name.as_str()) {
            *own -= amount;
            if *own == 0 {
                taken.by_user.remove(user.name.as_str());
            }
        }
    }
}

/// An amount that a user has until this is dropped.
pub(crate) struct FairPermit {
    semaphore: Arc<FairSemaphore>,
    user: Arc<User>,
    amount: usize,
}

impl FairPermit {
    /// Adds an amount, if the limits leave it to the user.
    #[must_use]
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let is_taken = self.semaphore.try_take(&self.user, more);
        self.amount += if is_taken { more } else { 0 };
        is_taken
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.semaphore.give_back(&self.user, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, group: &str) -> Arc<User> {
        Arc::new(User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() })
    }

    #[test]
    fn no_user_takes_everything_and_masters_always_have_some() {
        let semaphore = FairSemaphore::new(20);
        let (ann, bob, root) = (user("ann", "a"), user("bob", "a"), user("root", SYSTEM_MASTERS));
        let anns = semaphore.acquire(&ann, 9).expect("half of what users have");
        assert!(semaphore.acquire(&user("ann", "b"), 1).is_none(), "it is the name that counts");
        let bobs = semaphore.acquire(&bob, 4).expect("half of what is left");
        assert!(semaphore.acquire(&bob, 1).is_none());
        let others = ["c", "d", "e", "f"].map(|name| semaphore.acquire(&user(name, "a"), 1));
        assert!(others.iter().all(Option::is_some), "others still have one each");
        let roots = semaphore.acquire(&root, 3).expect("what is kept, and what is left");
        assert!(semaphore.acquire(&root, 1).is_none());
        drop(anns);
        assert!(semaphore.acquire(&bob, 1).is_some());
        drop((bobs, others, roots));
        assert_eq!(semaphore.taken.lock().total, 0);
        assert!(semaphore.taken.lock().by_user.is_empty());
        assert!(semaphore.acquire(&root, 20).is_some());
    }

    #[test]
    fn a_user_has_some_in_any_case_beside_somebody_with_very_many_identities() {
        let semaphore = FairSemaphore::with_some_for_each(20_000, 20);
        let mut taken = Vec::new();
        for number in 0..40 {
            let mut permit = semaphore.empty_permit(&user(&format!("account-{number}"), "a"));
            for step in [4096, 512, 64, 8, 1] {
                while permit.grow(step) {}
            }
            taken.push(permit);
        }
        let ann = user("ann", "a");
        let mut anns = semaphore.empty_permit(&ann);
        assert!(anns.grow(15) && anns.grow(5), "its part");
        assert!(!anns.grow(1), "and no more");
        drop(taken);
        assert!(anns.grow(1));
    }

    #[test]
    fn what_users_have_in_any_case_is_bounded_for_all_together() {
        let semaphore = FairSemaphore::with_some_for_each(20_000, 1000);
        let users: Vec<_> = (0..40).map(|number| user(&number.to_string(), "a")).collect();
        let permits: Vec<_> = users.iter().filter_map(|user| semaphore.acquire(user, 1000)).collect();
        assert_eq!(permits.len(), 19);
        assert!(semaphore.acquire(&user("root", SYSTEM_MASTERS), 1000).is_some());
    }

    #[test]
    fn a_permit_grows_up_to_the_limit_and_gives_everything_back() {
        let semaphore = FairSemaphore::new(20);
        let mut permit = semaphore.empty_permit(&user("ann", ""));
        assert!(permit.grow(4) && permit.grow(5) && !permit.grow(1));
        assert_eq!(semaphore.taken.lock().total, 9);
        drop(permit);
        assert_eq!(semaphore.taken.lock().total, 0);
    }

    #[test]
    fn a_limit_of_one_admits_one() {
        assert!(FairSemaphore::new(1).acquire(&user("ann", ""), 1).is_some());
        assert!(FairSemaphore::new(0).acquire(&user("root", SYSTEM_MASTERS), 1).is_none());
    }
}
