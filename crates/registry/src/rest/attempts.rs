//! Retries of a write that is based on an object: the version of it that each attempt begins with, and the limit on
//! attempts.
//!
//! The first version may be out of date. Storage detects that when it is written, as the write names the version that
//! it is based on; a request that is refused before a write is tried again with the newest version.

use super::Target;
use crate::error::Error;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{Existing, Storage, StorageError};

/// The largest number of attempts of a write that conflicts with others. Each time some other write succeeded.
pub(super) const RACES_LOST_MAX: usize = 100;

/// The versions of an object that the attempts of one write begin with: the first may be out of date, so that most writes
/// read nothing; those after it are the newest. Their number is limited.
pub(crate) struct Attempts {
    left: usize,
    must_be_current: bool,
}

impl Attempts {
    /// A dry run writes nothing, so it would not find out that an object is out of date.
    pub(crate) fn new(dry_run: bool) -> Attempts {
        Attempts { left: RACES_LOST_MAX, must_be_current: dry_run }
    }

    pub(crate) async fn next(
        &mut self,
        storage: &dyn Storage,
        key: &str,
    ) -> Option<Result<Existing, StorageError>> {
        self.left = self.left.checked_sub(1)?;
        if !std::mem::replace(&mut self.must_be_current, true) {
            return Some(storage.get_existing(key).await);
        }
        let object = storage.get(key, Position::MostRecent).await;
        Some(object.map(|object| Existing { object, is_current: true }))
    }
}

/// The reason why an attempt did not write.
pub(super) enum AttemptError {
    /// Another write came first.
    Conflict,
    /// The change cannot be made to the object that it began with, or there is none.
    Refused(Error),
    /// Storage failed. Whether it wrote may be unknown, so the attempt is the last one.
    Storage(Error),
}

impl AttemptError {
    /// The error of a write of an existing object for a failure of storage.
    pub(super) fn of_write(target: Target<'_>, operation: &'static str, error: StorageError) -> AttemptError {
        match error {
            StorageError::InvalidObject { .. } => AttemptError::Conflict,
            StorageError::NotFound { .. } => target.not_found().into(),
            other => AttemptError::Storage(target.failed(operation, other)),
        }
    }
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> AttemptError {
        AttemptError::Refused(error)
    }
}
