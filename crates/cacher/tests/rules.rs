//! Every rule of the watch cache as a named test, over a store in memory and in virtual time.
//!
//! What a client hears is written down as text: `ADDED a@2; BOOKMARK @5; END`, an object with its revision, and with
//! its data (`a=7@3`) where that is not zero. A fresh store is at revision 1, so pods `a`, `b` and `c` are at 2, 3, 4.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

mod rules {
    mod gate;
    mod world;

    mod feeding;
    mod admission;
    mod delivery;
    mod bookmarks;
    mod slow_readers;
    mod old_history;
    mod freshness;
    mod lists;
    mod snapshots;
    mod readiness;
    mod writes;
    mod metrics;
    mod reviewed;
}
