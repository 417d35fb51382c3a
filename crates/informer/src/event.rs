//! What an informer tells.

use crate::{Object, ObjectKey};
use std::sync::Arc;

/// Something happened to an object. The store shows it already, and maybe more.
#[non_exhaustive]
pub enum Event<O> {
    /// There is a new object.
    Added {
        /// The object.
        obj: Arc<O>,
        /// Whether it belongs to the state from which one starts, rather than to what happened since.
        initial: bool,
    },
    /// An object is another than before.
    Updated {
        /// What it was.
        old: Arc<O>,
        /// What it is.
        new: Arc<O>,
        /// From where that is known.
        cause: Cause,
    },
    /// An object is no more.
    Deleted {
        /// The last that is known of it.
        obj: Arc<O>,
        /// Whether its deletion was missed, so that it may have changed before that.
        final_state_unknown: bool,
    },
}

/// From where an update is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing changed: all objects are told once more, as was asked for.
    Resync,
    /// Everything was listed again.
    Relist,
    /// The server said so.
    Watch,
}

impl<O: Object> Event<O> {
    /// Of which object it is.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }

    /// Whether it is an update that changed nothing.
    pub fn is_same_version(&self) -> bool {
        matches!(self, Event::Updated { old, new, .. } if old.is_same(new))
    }
}

impl<O> Event<O> {
    /// The object, as new as it is known.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Event::Added { obj, .. } | Event::Deleted { obj, .. } => obj,
            Event::Updated { new, .. } => new,
        }
    }

    /// The same, for somebody who wants to know only of some objects: one that comes to be among them is added, and one
    /// that is no longer among them is deleted.
    pub fn filtered(self, wanted: impl Fn(&O) -> bool) -> Option<Self> {
        match self {
            Event::Updated { old, new, cause } => match (wanted(&old), wanted(&new)) {
                (true, true) => Some(Event::Updated { old, new, cause }),
                (false, true) => Some(Event::Added { obj: new, initial: false }),
                (true, false) => Some(Event::Deleted { obj: old, final_state_unknown: false }),
                (false, false) => None,
            },
            event => wanted(event.object()).then_some(event),
        }
    }

    pub(crate) fn is_initial(&self) -> bool {
        matches!(self, Event::Added { initial: true, .. })
    }
}

impl<O> Clone for Event<O> {
    fn clone(&self) -> Self {
        match self {
            Event::Added { obj, initial } => Event::Added { obj: Arc::clone(obj), initial: *initial },
            Event::Updated { old, new, cause } => {
                Event::Updated { old: Arc::clone(old), new: Arc::clone(new), cause: *cause }
            }
            Event::Deleted { obj, final_state_unknown } => {
                Event::Deleted { obj: Arc::clone(obj), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<O: Object> std::fmt::Debug for Event<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::Added { obj, initial } => {
                let word = if *initial { "Initial" } else { "Added" };
                write!(f, "{word} {}@{}", obj.key(), obj.revision())
            }
            Event::Updated { old, new, cause } => {
                write!(f, "Updated {}@{}->{} ({cause:?})", new.key(), old.revision(), new.revision())
            }
            Event::Deleted { obj, final_state_unknown } => {
                let word = if *final_state_unknown { "Missed" } else { "Deleted" };
                write!(f, "{word} {}@{}", obj.key(), obj.revision())
            }
        }
    }
}
