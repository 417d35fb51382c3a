//! Every rule of the watch cache as a named test, over a store in memory and in virtual time.
//!
//! The events that a client receives are written as text: `ADDED a@2; BOOKMARK @5; END`. An object is its name and
//! revision, and its data (`a=7@3`) if that is not zero. A fresh store is at revision 1, so pods `a`, `b` and `c` are
//! at 2, 3, 4.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

mod rules {
    mod controlled_backend;
    mod test_cache;

    mod feed;
    mod watch_start;
    mod delivery;
    mod bookmarks;
    mod slow_watchers;
    mod turns;
    mod old_history;
    mod freshness;
    mod lists;
    mod snapshots;
    mod readiness;
    mod writes;
    mod metrics;
    mod regressions;
}
