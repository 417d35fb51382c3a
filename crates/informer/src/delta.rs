//! What happens to an object on its way from the server to the cache.

use crate::ObjectKey;
use std::sync::Arc;

/// One thing that happened to an object.
#[derive(Debug)]
pub enum Delta<O> {
    /// It was created.
    Added(Arc<O>),
    /// It was changed.
    Updated(Arc<O>),
    /// It was in a list.
    Replaced(Arc<O>),
    /// It is told once more.
    Sync(Arc<O>),
    /// It is gone.
    Deleted(Gone<O>),
}

/// An object that is gone.
#[derive(Debug)]
pub enum Gone<O> {
    /// Its last state is known.
    Seen(Arc<O>),
    /// Its deletion was missed: this is what was last heard of it, if anything was.
    Missed(ObjectKey, Option<Arc<O>>),
}

impl<O> Gone<O> {
    /// The last that is known of it.
    pub fn object(&self) -> Option<&Arc<O>> {
        match self {
            Gone::Seen(object) => Some(object),
            Gone::Missed(_, last) => last.as_ref(),
        }
    }

    /// Whether its deletion was missed.
    pub fn is_missed(&self) -> bool {
        matches!(self, Gone::Missed(..))
    }
}

impl<O> Delta<O> {
    /// The object; absent if it is gone and was never known.
    pub fn object(&self) -> Option<&Arc<O>> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                Some(object)
            }
            Delta::Deleted(gone) => gone.object(),
        }
    }

    /// Whether the object is gone.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }
}

impl<O> Clone for Gone<O> {
    fn clone(&self) -> Self {
        match self {
            Gone::Seen(object) => Gone::Seen(Arc::clone(object)),
            Gone::Missed(key, last) => Gone::Missed(key.clone(), last.clone()),
        }
    }
}

impl<O> Clone for Delta<O> {
    fn clone(&self) -> Self {
        match self {
            Delta::Added(object) => Delta::Added(Arc::clone(object)),
            Delta::Updated(object) => Delta::Updated(Arc::clone(object)),
            Delta::Replaced(object) => Delta::Replaced(Arc::clone(object)),
            Delta::Sync(object) => Delta::Sync(Arc::clone(object)),
            Delta::Deleted(gone) => Delta::Deleted(gone.clone()),
        }
    }
}

/// The objects that a queue's consumer has already.
pub trait Known<O> {
    /// All keys.
    fn keys(&self) -> Vec<ObjectKey>;

    /// An object, if it can be found.
    fn get(&self, key: &ObjectKey) -> Option<Arc<O>>;
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl<O> Known<O> for Nothing {
    fn keys(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn get(&self, _: &ObjectKey) -> Option<Arc<O>> {
        None
    }
}
