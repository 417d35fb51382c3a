//! What callers get: the objects of one resource, with Kubernetes' rules for changing and following them.
//!
//! Implemented by [`crate::Store`] straight on a backend, and by a watch cache in front of one.
//!
//! Kept true by every implementation: an object's revision is that of its last write (for a deleted one,
//! of the deletion); a list's revision is the one it was read at; a watch's revisions only grow once its
//! initial state is delivered, and an error is its last item.

use crate::{
    backend::Unchanged,
    error::{Rejection, StorageError},
    key::Key,
    predicate::{Attributes, Predicate},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueToken, ListAt, Position, WatchStart},
};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
    time::Duration,
};

/// How long watches of storage without a cache have to deliver what they have not delivered yet.
const FINISH_WATCHES_FOR: Duration = Duration::from_secs(1);

/// One object at one revision. Cloning shares it, so that a list, an event and every watcher of it hold the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Arc<Version>);

/// What an [`Object`] is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Where it is stored.
    pub key: Key,
    /// Its value, without a resourceVersion: that is `revision`, which is inserted when the object is sent.
    pub value: Bytes,
    /// The revision of its last write, or of its deletion.
    pub revision: ResourceVersion,
    /// What was found in the value. A backend that has the value in memory shares them.
    pub attributes: Arc<Attributes>,
}

impl Object {
    /// The same object at another revision: as it is delivered when it is gone.
    pub fn at(&self, revision: ResourceVersion) -> Self {
        Self(Arc::new(Version { revision, ..Version::clone(self) }))
    }

    /// A way back to it that does not keep it.
    pub fn downgrade(&self) -> WeakObject {
        WeakObject(Arc::downgrade(&self.0))
    }

    /// Whether this is that very object, and not only one like it.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Identifies an object in memory: no two that exist at the same time have the same.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// A weak reference to an [`Object`].
#[derive(Clone, Debug, Default)]
pub struct WeakObject(Weak<Version>);

impl WeakObject {
    /// The object.
    pub fn upgrade(&self) -> Option<Object> {
        self.0.upgrade().map(Object)
    }
}

impl From<Version> for Object {
    fn from(version: Version) -> Self {
        Self(Arc::new(version))
    }
}

impl Deref for Object {
    type Target = Version;
    fn deref(&self) -> &Version {
        &self.0
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What must be so for a write to go ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's revision.
    pub revision: Option<ResourceVersion>,
}

impl Preconditions {
    /// Checks them against what is stored under a key; the error is a [`StorageError::InvalidObject`].
    pub fn check(&self, key: &Key, stored: Option<&Object>) -> Result<(), StorageError> {
        let must_be = |what: &str, wanted: &str, found: &str| {
            if wanted == found {
                return Ok(());
            }
            let message = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            Err(StorageError::InvalidObject { key: key.clone(), message })
        };
        if let Some(uid) = &self.uid {
            must_be(
                "UID",
                uid,
                stored.and_then(|object| object.attributes.uid.as_deref()).unwrap_or_default(),
            )?;
        }
        if let Some(revision) = self.revision {
            let found = stored.map(|object| object.revision.to_string()).unwrap_or_default();
            must_be("ResourceVersion", &revision.to_string(), &found)?;
        }
        Ok(())
    }
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// What must be so.
    pub preconditions: Preconditions,
    /// The object as the caller last saw it. Saves a read if it is right and costs one if it is not.
    pub hint: Option<Object>,
}

/// How to update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Whether a missing object is created instead of being an error.
    pub ignore_not_found: bool,
    /// What must be so. An object that does not exist has neither uid nor revision.
    pub preconditions: Preconditions,
    /// The object as the caller last saw it. Saves a read if it is right and costs one if it is not.
    pub hint: Option<Object>,
}

/// What an update wants to be stored.
#[derive(Clone, Debug)]
pub struct Update {
    /// The new value, without a resourceVersion.
    pub value: Bytes,
    /// How long the object lives from now on; for ever if absent or zero, whatever it was before.
    pub ttl: Option<Duration>,
}

impl Update {
    /// An update that lives for ever.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self { value: value.into(), ttl: None }
    }
}

/// Looks at the stored object and allows its deletion or says why not. Called again if the object changes.
pub type Validate<'a> = &'a mut (dyn FnMut(&Object) -> Result<(), Rejection> + Send);

/// Makes the new value from the stored object (absent if there is none). Called again if it changes.
pub type TryUpdate<'a> = &'a mut (dyn FnMut(Option<&Object>) -> Result<Update, Rejection> + Send);

/// The object that a change begins with.
#[derive(Clone, Debug)]
pub struct Existing {
    /// The object. That there is none is always known for sure.
    pub object: Option<Object>,
    /// Whether it is the newest. If not, it may be out of date: a write that is based on its revision notices that, but a
    /// refusal because of what it contains has to be checked against the newest.
    pub is_current: bool,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Everything below the key, or (if not) the key alone.
    pub recursive: bool,
    /// At which revision.
    pub at: ListAt,
    /// How many objects a page holds at the most.
    pub limit: Option<usize>,
    /// Which objects.
    pub predicate: Predicate,
}

impl ListRequest {
    /// Everything below the key, as it is now.
    pub fn all() -> Self {
        Self { recursive: true, ..Self::default() }
    }
}

/// A list, or a page of one.
#[derive(Clone, Debug)]
pub struct List {
    /// The objects in key order.
    pub items: Vec<Object>,
    /// The revision it was read at.
    pub revision: ResourceVersion,
    /// Where the next page begins, if keys remain. They need not match the selector.
    pub next: Option<ContinueToken>,
    /// How many objects remain after this page, if that is known.
    pub remaining: Option<usize>,
    /// How many objects were looked at for it.
    pub looked_at: usize,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Everything below the key, or (if not) the key alone.
    pub recursive: bool,
    /// Where to begin. A state that the store has not reached ends the watch with [`StorageError::TooLarge`];
    /// changes may be asked for from a revision that lies in the future.
    pub start: WatchStart,
    /// Whether bookmarks report progress, on request and from time to time.
    pub progress: bool,
    /// Which objects.
    pub predicate: Predicate,
    /// After what time the watch ends by itself, without an error.
    pub timeout: Option<Duration>,
    /// The turns in which the watch reads what it does not receive live. Without them it reads at any time. Only a watch
    /// cache takes turns.
    pub turns: Option<Arc<dyn WatchTurns>>,
}

/// The turns in which watches read what they do not receive live: their initial states, and events that they missed. So
/// thousands of watches that start at once leave time for other work.
pub trait WatchTurns: fmt::Debug + Send + Sync {
    /// Waits for a turn, in which the watch reads a few objects or events.
    fn turn(&self) -> BoxFuture<'static, WatchTurn>;
}

/// The turn of one watch, until it is dropped.
pub type WatchTurn = Box<dyn Send + Sync>;

impl WatchRequest {
    /// Everything below the key, from `start` on.
    pub fn from(start: WatchStart) -> Self {
        let predicate = Predicate::everything();
        Self { recursive: true, start, progress: false, predicate, timeout: None, turns: None }
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object came into view: it was created, began to match, or is part of the initial state.
    Added(Object),
    /// The object changed and stays in view. (A [`crate::Backend`] also delivers the value before; here it would have to
    /// be decoded for callers that do not need it.)
    Modified(Object),
    /// The object went out of view: it was deleted or no longer matches. Its last visible content, with the
    /// revision of the change that removed it.
    Deleted(Object),
    /// Everything up to this revision has been delivered.
    Bookmark {
        /// The revision.
        revision: ResourceVersion,
        /// Whether this marks the end of the initial state.
        initial_state_end: bool,
    },
}

impl WatchEvent {
    /// The revision of the change, or of the bookmark.
    pub fn revision(&self) -> ResourceVersion {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object.revision,
            Self::Bookmark { revision, .. } => *revision,
        }
    }
}

/// A watch. An error is its last item. Dropping it ends it.
pub type Watch = BoxStream<'static, Result<WatchEvent, StorageError>>;

/// The objects of one resource. Keys are given as `/<resource>/[<namespace>/]<name>`.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// Writes a new object, which with a `ttl` lives that long; without one, or with one of zero, for ever.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Object, StorageError> {
        self.create_while(key, value, ttl, None).await
    }

    /// The same, if another object, which may be one of another resource, has not changed: if it has, this is
    /// [`StorageError::OtherChanged`].
    async fn create_while(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError>;

    /// Reads an object from a state at `position`; a version there means that one or a newer one.
    /// A missing object is `None`: whether that is an error is the caller's affair.
    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError>;

    /// The object that a change begins with: the newest one or, where that has to be asked for, the one that is known
    /// here.
    async fn get_existing(&self, key: &str) -> Result<Existing, StorageError> {
        let object = self.get(key, Position::MostRecent).await?;
        Ok(Existing { object, is_current: true })
    }

    /// Deletes an object and returns its last value with the revision of the deletion.
    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError>;

    /// Reads an object, lets the caller change it and writes the result, again and again until nobody has
    /// written in between. Writes nothing if the value stays the same.
    async fn guaranteed_update(
        &self,
        key: &str,
        options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError>;

    /// Lists objects.
    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError>;

    /// Follows objects.
    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError>;

    /// Waits until it can do all this, if it was opened just now.
    async fn until_ready(&self) {}

    /// Gives its watches the time to deliver what happened up to `through`, before it is dropped. A cache ends each as soon
    /// as it has; other storage does not know how far its watches are.
    async fn finish_watches(&self, _through: ResourceVersion) {
        tokio::time::sleep(FINISH_WATCHES_FOR).await;
    }
}
