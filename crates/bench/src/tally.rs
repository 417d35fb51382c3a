//! Whether everybody was told everything: what was written, and what each watcher heard, as sums.
//!
//! Versions rise in every watch, so nothing comes twice or out of order if each is larger than the one before; and nothing
//! is missing if there are as many as were written, with the same sum of their mixed-up bits. So a watcher is followed in
//! a few words of memory, however much it hears. A write that was not answered may or may not have happened: one event more
//! for each is no fault. What an event says of an object beside its version, and whether it calls it new or changed, is not
//! looked at.

use crate::events::{Told, What};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Some versions, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) changes: u64,
    sum: u64,
    /// Deletions are only counted: who deletes is not told the version.
    pub(crate) deletions: u64,
    /// What may have been written besides.
    pub(crate) unanswered: u64,
}

impl Tally {
    pub(crate) fn total(&self) -> u64 {
        self.changes + self.deletions
    }
}

/// What was written, by anybody: to all objects, and to each of the first so many.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    all: Account,
    each: Vec<Account>,
    not_created: Mutex<HashSet<usize>>,
}

#[derive(Debug, Default)]
struct Account {
    changes: AtomicU64,
    sum: AtomicU64,
    deletions: AtomicU64,
    unanswered: AtomicU64,
}

impl Ledger {
    /// Keeps the first so many objects apart.
    pub(crate) fn of_each(objects: usize) -> Self {
        Ledger { each: (0..objects).map(|_| Account::default()).collect(), ..Ledger::default() }
    }

    pub(crate) fn changed(&self, object: usize, version: u64) {
        for account in self.accounts(object) {
            account.sum.fetch_add(mixed(version), Relaxed);
            account.changes.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn deleted(&self, object: usize) {
        for account in self.accounts(object) {
            account.deletions.fetch_add(1, Relaxed);
        }
    }

    /// Something was written to it, or not: the answer did not come.
    pub(crate) fn unanswered(&self, object: usize) {
        for account in self.accounts(object) {
            account.unanswered.fetch_add(1, Relaxed);
        }
    }

    /// An object could not be created, as far as is known.
    pub(crate) fn not_created(&self, object: usize) {
        self.not_created.lock().insert(object);
    }

    pub(crate) fn may_be_missing(&self, object: usize) -> bool {
        self.not_created.lock().contains(&object)
    }

    fn accounts(&self, object: usize) -> impl Iterator<Item = &Account> {
        std::iter::once(&self.all).chain(self.each.get(object))
    }

    pub(crate) fn tally(&self) -> Tally {
        self.all.tally()
    }

    /// What was written to one of those that are kept apart.
    pub(crate) fn of(&self, object: usize) -> Tally {
        self.each.get(object).map(Account::tally).unwrap_or_default()
    }
}

impl Account {
    fn tally(&self) -> Tally {
        Tally {
            changes: self.changes.load(Relaxed),
            sum: self.sum.load(Relaxed),
            deletions: self.deletions.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
        }
    }
}

/// What one watcher heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) tally: Tally,
    /// Where a watch that breaks goes on.
    pub(crate) version: u64,
    /// The first thing that was wrong.
    pub(crate) fault: Option<String>,
}

impl Heard {
    /// From this version on.
    pub(crate) fn after(version: u64) -> Self {
        Heard { version, ..Heard::default() }
    }

    pub(crate) fn hear(&mut self, told: &Told<'_>) {
        let is_new = if told.what == What::Bookmark {
            told.version >= self.version
        } else {
            told.version > self.version
        };
        if !is_new && self.fault.is_none() {
            self.fault =
                Some(format!("version {} of {} came after {}", told.version, told.name, self.version));
        }
        self.version = told.version;
        match told.what {
            What::Changed => {
                self.tally.changes += 1;
                self.tally.sum = self.tally.sum.wrapping_add(mixed(told.version));
            }
            What::Deleted => self.tally.deletions += 1,
            What::Bookmark | What::Expired => {}
        }
    }

    /// What is wrong with it, if this should have been heard.
    pub(crate) fn fault(&self, written: &Tally) -> Option<String> {
        self.fault.clone().or_else(|| {
            let (heard, all) = (self.tally.total(), written.total());
            let is_same = Tally { unanswered: 0, ..*written } == self.tally;
            match heard {
                _ if heard < all => Some(format!("{} of {all} events did not come", all - heard)),
                _ if heard > all + written.unanswered => {
                    Some(format!("{} events came that nobody wrote", heard - all - written.unanswered))
                }
                _ if heard == all && !is_same => Some("other events came than were written".to_owned()),
                _ => None,
            }
        })
    }
}

/// Mixes the bits, so that sums of different versions are different.
fn mixed(version: u64) -> u64 {
    let mixed = version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(version: u64) -> Told<'static> {
        Told { what: What::Changed, name: "a", version, sent: None }
    }

    fn written(versions: &[u64]) -> Tally {
        let ledger = Ledger::default();
        versions.iter().for_each(|version| ledger.changed(0, *version));
        ledger.tally()
    }

    fn fault(heard: &[u64], wrote: &[u64]) -> Option<String> {
        let mut own = Heard::after(1);
        heard.iter().for_each(|version| own.hear(&told(*version)));
        own.fault(&written(wrote))
    }

    #[test]
    fn who_heard_everything_in_order_is_well() {
        assert_eq!(fault(&[2, 3, 5], &[5, 2, 3]), None);
        assert_eq!(fault(&[], &[]), None);
        let mut heard = Heard::after(7);
        heard.hear(&Told { what: What::Bookmark, ..told(7) });
        heard.hear(&Told { what: What::Deleted, ..told(8) });
        let ledger = Ledger::default();
        ledger.deleted(0);
        assert_eq!(heard.fault(&ledger.tally()), None);
    }

    #[test]
    fn whatever_is_missing_repeated_or_out_of_order_is_found() {
        assert_eq!(fault(&[2, 5], &[2, 3, 5]).as_deref(), Some("1 of 3 events did not come"));
        assert_eq!(fault(&[2, 3, 4, 5], &[2, 3, 5]).as_deref(), Some("1 events came that nobody wrote"));
        assert_eq!(fault(&[2, 4, 5], &[2, 3, 5]).as_deref(), Some("other events came than were written"));
        assert_eq!(fault(&[2, 2, 3], &[2, 3]).as_deref(), Some("version 2 of a came after 2"));
        assert_eq!(fault(&[3, 2], &[2, 3]).as_deref(), Some("version 2 of a came after 3"));
        assert_eq!(fault(&[1], &[1]).as_deref(), Some("version 1 of a came after 1"));
    }

    #[test]
    fn what_was_not_answered_may_have_happened() {
        let ledger = Ledger::default();
        [2, 3].into_iter().for_each(|version| ledger.changed(0, version));
        ledger.unanswered(0);
        let fault = |versions: &[u64]| {
            let mut own = Heard::after(1);
            versions.iter().for_each(|version| own.hear(&told(*version)));
            own.fault(&ledger.tally())
        };
        assert_eq!((fault(&[2, 3]), fault(&[2, 3, 4])), (None, None));
        assert_eq!(fault(&[2]).as_deref(), Some("1 of 2 events did not come"));
        assert_eq!(fault(&[2, 4]).as_deref(), Some("other events came than were written"));
        assert_eq!(fault(&[2, 3, 4, 5]).as_deref(), Some("1 events came that nobody wrote"));
    }

    #[test]
    fn objects_are_kept_apart_if_one_asks() {
        let ledger = Ledger::of_each(2);
        [(0, 5), (1, 6), (0, 7), (9, 8)]
            .into_iter()
            .for_each(|(object, version)| ledger.changed(object, version));
        ledger.deleted(1);
        let counts = |tally: Tally| (tally.changes, tally.deletions);
        assert_eq!(
            (counts(ledger.of(0)), counts(ledger.of(1)), counts(ledger.of(9))),
            ((2, 0), (1, 1), (0, 0))
        );
        assert_eq!((counts(ledger.tally()), ledger.of(0)), ((4, 1), written(&[5, 7])));
    }
}
