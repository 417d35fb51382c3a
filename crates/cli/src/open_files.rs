//! How many files this program may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many as can be allowed: every connection is one, and often only 1,024 may be open until a program asks for
/// more.
pub(crate) fn allow_most() {
    let limit = getrlimit(Resource::Nofile);
    // If it may not be raised, what cannot be opened will say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
