//! The history of a store: changes that can be read again, how far back they reach, and which readers still need them.
//!
//! A store keeps changes until it compacts them. A watch cache keeps the newest ones in memory and reads older ones
//! from here; it is a [`HistoryReader`], so that a store can put compaction off while a watcher is catching up.

use crate::{error::StorageError, interface::Object};
use futures::stream::BoxStream;
use keepwatch_apimachinery::ResourceVersion;
use parking_lot::Mutex;
use std::{sync::Weak, time::Duration};

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastChange {
    /// The revision of the write or deletion.
    pub revision: ResourceVersion,
    /// The object before the change.
    pub old: OldObject,
    /// The object after the change; absent if the change deleted it.
    pub new: Option<Object>,
}

/// The object before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldObject {
    /// Nothing: the change created the object.
    Absent,
    /// An object that was not read, because it was not requested.
    Unread,
    /// This object.
    Read(Object),
}

/// Changes in order of revision. An error is the last item. Without an error the stream ends after the last change that
/// was asked for.
pub type PastChanges = BoxStream<'static, Result<PastChange, StorageError>>;

/// A reader of old changes on behalf of others, such as a watch cache.
pub trait HistoryReader: Send + Sync {
    /// Changes after this revision will still be read; none will be if it is absent.
    fn oldest_needed(&self) -> Option<ResourceVersion>;
}

/// The readers that a backend asks before it compacts.
#[derive(Default)]
pub struct HistoryReaders(Mutex<Vec<Weak<dyn HistoryReader>>>);

impl HistoryReaders {
    /// Adds a reader, which is asked for as long as it exists.
    pub fn add(&self, reader: Weak<dyn HistoryReader>) {
        let mut readers = self.0.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(reader);
    }

    /// The oldest revision that any of them needs. The readers take locks of their own, so a caller holds none.
    pub fn oldest_needed(&self) -> Option<ResourceVersion> {
        let readers = self.0.lock().clone();
        readers.iter().filter_map(|reader| reader.upgrade()?.oldest_needed()).min()
    }
}

/// The extent of a store's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryExtent {
    /// A watch can begin after this revision or any later one; absent if the store does not know it.
    pub oldest: Option<ResourceVersion>,
    /// Every change of at least this long is kept; absent if the store does not know it.
    pub age: Option<Duration>,
    /// The number of changes that are kept; absent if the store does not count them.
    pub events: Option<u64>,
    /// The number of bytes of the values that are kept for them; absent if the store does not count them.
    pub bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Needs(Option<u64>);

    impl HistoryReader for Needs {
        fn oldest_needed(&self) -> Option<ResourceVersion> {
            self.0.and_then(ResourceVersion::new)
        }
    }

    #[test]
    fn the_reader_that_is_furthest_behind_counts_and_one_that_is_gone_does_not() {
        let readers = HistoryReaders::default();
        assert_eq!(readers.oldest_needed(), None);
        let all: Vec<Arc<dyn HistoryReader>> =
            [Some(7), None, Some(5)].map(|needs| Arc::new(Needs(needs)) as Arc<dyn HistoryReader>).into();
        all.iter().for_each(|reader| readers.add(Arc::downgrade(reader)));
        assert_eq!(readers.oldest_needed(), ResourceVersion::new(5));
        drop(all);
        assert_eq!(readers.oldest_needed(), None);
    }
}
