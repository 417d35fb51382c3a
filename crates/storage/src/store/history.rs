//! Reading old changes: a backend's watch from an old revision, which ends where the reader wants it to.
//!
//! Kept true: every change in the scope between the two revisions is read once and in order, each with the object
//! before it; the stream ends only when the backend has delivered everything up to the second revision.

use super::{Store, watch::known};
use crate::{
    backend::{BackendEvent, BackendWatch, KeyValue},
    error::StorageError,
    history::{OldObject, PastChange, PastChanges},
    interface::Object,
    key::{Key, Scope},
};
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use std::{collections::HashMap, time::Duration};
use tokio::time::timeout;

/// The time that a backend may be silent before the store asks for its progress.
const SILENCE_MAX: Duration = Duration::from_millis(100);
/// The number of bytes of objects that are remembered because the next change of each carries it again; at least one is.
const RECENT_BYTES_MAX: usize = 256 << 10;
/// The memory that an object takes beside its value.
const OBJECT_BYTES: usize = 512;

pub(super) async fn read(
    store: Store,
    scope: Scope,
    after: ResourceVersion,
    until: ResourceVersion,
    with_old: bool,
) -> Result<PastChanges, StorageError> {
    let events = store.backend.watch_past(scope, after, with_old).await?;
    let reading = Reading { store, events, until, with_old, recent: HashMap::new(), recent_bytes: 0 };
    let changes = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.next().await {
            Ok(change) => Some((Ok(change?), Some(reading))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(changes.boxed())
}

struct Reading {
    store: Store,
    events: BackendWatch,
    until: ResourceVersion,
    with_old: bool,
    /// The newest versions that were read, by key.
    recent: HashMap<Key, Object>,
    recent_bytes: usize,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<PastChange>, StorageError> {
        loop {
            let change = match self.next_event().await? {
                BackendEvent::Progress(revision) if revision >= self.until => return Ok(None),
                BackendEvent::Progress(_) => continue,
                BackendEvent::Put { item, .. } if item.modified > self.until => return Ok(None),
                BackendEvent::Delete { revision, .. } if revision > self.until => return Ok(None),
                BackendEvent::Put { item, previous } => {
                    let old = match previous {
                        None if item.created == item.modified => OldObject::Absent,
                        _ if !self.with_old => OldObject::Unread,
                        previous => OldObject::Read(self.read_old(known(previous)?)?),
                    };
                    let (revision, new) = (item.modified, self.read_new(item)?);
                    PastChange { revision, old, new: Some(new) }
                }
                BackendEvent::Delete { revision, previous, .. } => {
                    let old = OldObject::Read(self.read_old(known(previous)?)?);
                    PastChange { revision, old, new: None }
                }
            };
            return Ok(Some(change));
        }
    }

    /// The next event. While the backend has nothing to say it is asked how far it is, again and again, because a
    /// request may be lost.
    async fn next_event(&mut self) -> Result<BackendEvent, StorageError> {
        loop {
            match timeout(SILENCE_MAX, self.events.next()).await {
                Ok(Some(event)) => return event,
                Ok(None) => return Err(StorageError::WatchFailed("storage ended a watch".to_owned())),
                Err(_) => self.store.backend.request_progress().await?,
            }
        }
    }

    fn read_old(&mut self, item: KeyValue) -> Result<Object, StorageError> {
        let recent = self.recent.remove(&item.key);
        self.recent_bytes -= recent.as_ref().map_or(0, bytes_of);
        match recent {
            Some(object) if object.revision == item.modified => Ok(object),
            _ => Ok(self.store.values.decode(item)?.0),
        }
    }

    fn read_new(&mut self, item: KeyValue) -> Result<Object, StorageError> {
        let (object, _) = self.store.values.decode(item)?;
        if self.recent_bytes >= RECENT_BYTES_MAX {
            self.recent.clear();
            self.recent_bytes = 0;
        }
        self.recent_bytes += bytes_of(&object);
        let replaced = self.recent.insert(object.key.clone(), object.clone());
        self.recent_bytes -= replaced.as_ref().map_or(0, bytes_of);
        Ok(object)
    }
}

fn bytes_of(object: &Object) -> usize {
    object.value.len() + OBJECT_BYTES
}
