//! The limit on the number of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as allowed: every connection is an open file, and the default is often 1,024.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, opening more files fails later.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
