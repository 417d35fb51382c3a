//! The events that handlers and streams receive.

use crate::object::{Object, ObjectKey};
use std::sync::Arc;

/// A change of an object. The store already holds this state or a later one.
#[non_exhaustive]
pub enum Event<O> {
    /// An object was added.
    Added {
        /// The object.
        obj: Arc<O>,
        /// Whether the object existed when the listener was added, or belongs to the first list.
        initial: bool,
    },
    /// An object was updated.
    Updated {
        /// The previous state.
        old: Arc<O>,
        /// The new state.
        new: Arc<O>,
        /// The source of the update.
        cause: Cause,
    },
    /// An object was deleted.
    Deleted {
        /// The last known state.
        obj: Arc<O>,
        /// Whether the deletion was missed, so that the object may have changed before it.
        final_state_unknown: bool,
    },
}

/// The source of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A resync: nothing changed.
    Resync,
    /// A relist.
    Relist,
    /// A watch event.
    Watch,
}

impl<O: Object> Event<O> {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }

    /// Whether it is an update without a change.
    pub fn is_same_version(&self) -> bool {
        matches!(self, Event::Updated { old, new, .. } if old.is_same(new))
    }
}

impl<O> Event<O> {
    /// The object in its newest known state.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Event::Added { obj, .. } | Event::Deleted { obj, .. } => obj,
            Event::Updated { new, .. } => new,
        }
    }

    /// The same event for a listener that wants only some objects: an update that makes an object match becomes
    /// `Added`, and one that makes it no longer match becomes `Deleted`. client-go calls this
    /// `FilteringResourceEventHandler`.
    pub fn filtered(self, filter: impl Fn(&O) -> bool) -> Option<Self> {
        match self {
            Event::Updated { old, new, cause } => match (filter(&old), filter(&new)) {
                (true, true) => Some(Event::Updated { old, new, cause }),
                (false, true) => Some(Event::Added { obj: new, initial: false }),
                (true, false) => Some(Event::Deleted { obj: old, final_state_unknown: false }),
                (false, false) => None,
            },
            event => filter(event.object()).then_some(event),
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
