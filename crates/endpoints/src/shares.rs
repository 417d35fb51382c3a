//! What all requests share: places among those that are answered, and bytes that are held for them.
//!
//! Kept true:
//! - never is more given out than there is;
//! - a user has no more than half of it, and nine tenths go to all users together: the rest is for the group
//!   `system:masters`, whose members have no limit of their own;
//! - what is not held any more is given back.

use crate::auth::{SYSTEM_MASTERS, User};
use parking_lot::Mutex;
use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Something that there is only so much of.
pub(crate) struct Shares {
    max: usize,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    total: usize,
    by_user: HashMap<ByName, usize>,
}

/// A user, known by name.
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

impl Shares {
    pub(crate) fn new(max: usize) -> Arc<Shares> {
        Arc::new(Shares { max, given: Mutex::default() })
    }

    /// A share that has nothing yet.
    pub(crate) fn share(self: &Arc<Shares>, user: &Arc<User>) -> Share {
        Share { shares: Arc::clone(self), user: Arc::clone(user), amount: 0 }
    }

    /// A share of this size, if there is one for the user.
    pub(crate) fn take(self: &Arc<Shares>, user: &Arc<User>, amount: usize) -> Option<Share> {
        let mut share = self.share(user);
        share.grow(amount).then_some(share)
    }

    fn give(&self, user: &Arc<User>, more: usize) -> bool {
        let (all_max, own_max) = match user.is_in(SYSTEM_MASTERS) {
            true => (self.max, self.max),
            false => (self.max - self.max / 10, self.max.div_ceil(2)),
        };
        let given = &mut *self.given.lock();
        let own = given.by_user.get(user.name.as_str()).copied().unwrap_or_default();
        if given.total + more > all_max || own + more > own_max {
            return false;
        }
        given.total += more;
        *given.by_user.entry(ByName(Arc::clone(user))).or_default() += more;
        true
    }

    fn give_back(&self, user: &User, amount: usize) {
        let given = &mut *self.given.lock();
        given.total -= amount;
        if let Some(own) = given.by_user.get_mut(user.name.as_str()) {
            *own -= amount;
            if *own == 0 {
                given.by_user.remove(user.name.as_str());
            }
        }
    }
}

/// What a user has of something, for as long as this lives.
pub(crate) struct Share {
    shares: Arc<Shares>,
    user: Arc<User>,
    amount: usize,
}

impl Share {
    /// Takes more, if there is more for the user.
    #[must_use]
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let given = self.shares.give(&self.user, more);
        self.amount += if given { more } else { 0 };
        given
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.shares.give_back(&self.user, self.amount);
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
    fn nobody_takes_everything_and_masters_always_have_some() {
        let shares = Shares::new(20);
        let (ann, bob, root) = (user("ann", "a"), user("bob", "a"), user("root", SYSTEM_MASTERS));
        let mut anns: Vec<_> = (0..10).map(|_| shares.take(&ann, 1).expect("half")).collect();
        assert!(shares.take(&user("ann", "b"), 1).is_none(), "it is the name that counts");
        let bobs = shares.take(&bob, 8).expect("what is left for users");
        assert!(shares.take(&bob, 1).is_none() && shares.take(&user("eve", "a"), 1).is_none());
        let roots = shares.take(&root, 2).expect("what is kept");
        assert!(shares.take(&root, 1).is_none());
        drop(anns.pop());
        assert!(shares.take(&bob, 1).is_none(), "there are no more than nine tenths for users");
        assert!(shares.take(&root, 1).is_some());
        drop((anns, bobs, roots));
        assert_eq!(shares.given.lock().total, 0);
        assert!(shares.given.lock().by_user.is_empty());
        assert!(shares.take(&root, 20).is_some());
    }

    #[test]
    fn a_share_grows_as_far_as_there_is_room_and_gives_everything_back() {
        let shares = Shares::new(20);
        let mut share = shares.share(&user("ann", ""));
        assert!(share.grow(4) && share.grow(6) && !share.grow(1));
        assert_eq!(shares.given.lock().total, 10);
        drop(share);
        assert_eq!(shares.given.lock().total, 0);
    }

    #[test]
    fn one_place_is_a_place() {
        assert!(Shares::new(1).take(&user("ann", ""), 1).is_some());
        assert!(Shares::new(0).take(&user("root", SYSTEM_MASTERS), 1).is_none());
    }
}
