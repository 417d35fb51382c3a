//! A change of one object on its way from the server to the store.

use crate::object::ObjectKey;
use std::sync::Arc;

/// A change of one object.
#[derive(Debug)]
pub enum Delta<O> {
    /// The watch reported `ADDED`.
    Added(Arc<O>),
    /// The watch reported `MODIFIED`.
    Updated(Arc<O>),
    /// The object was deleted.
    Deleted(DeletedObject<O>),
}

/// The known state of a deleted object.
#[derive(Debug)]
pub enum DeletedObject<O> {
    /// The deletion was watched, so the final state is known.
    FinalState(Arc<O>),
    /// The deletion was missed. This is the last known state, if there is one; client-go calls this
    /// `DeletedFinalStateUnknown`.
    FinalStateUnknown(ObjectKey, Option<Arc<O>>),
}

impl<O> DeletedObject<O> {
    /// The last known state.
    pub fn object(&self) -> Option<&Arc<O>> {
        match self {
            DeletedObject::FinalState(object) => Some(object),
            DeletedObject::FinalStateUnknown(_, last) => last.as_ref(),
        }
    }

    /// Whether the deletion was missed.
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, DeletedObject::FinalStateUnknown(..))
    }
}

impl<O> Delta<O> {
    /// The object; absent if it was deleted and no state of it is known.
    pub fn object(&self) -> Option<&Arc<O>> {
        match self {
            Delta::Added(object) | Delta::Updated(object) => Some(object),
            Delta::Deleted(deleted) => deleted.object(),
        }
    }

    /// Whether the object was deleted.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }
}
