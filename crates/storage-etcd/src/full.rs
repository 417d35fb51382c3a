//! The outcome of a write that etcd refused because it is full.
//!
//! etcd looks at its quota before it takes a transaction and once more when it applies it; the second time it
//! applies it all the same and then answers that there is no space. So the answer alone says nothing of the
//! write. The key's history does: a write that compares the key's last revision can only be the first change
//! after that revision.
//!
//! Kept true: a write that is answered with [`StorageError::Full`] is not in the store. Where etcd does not say whose
//! a change is, the outcome is unknown ([`StorageError::Timeout`]).
//!
//! Not distinguished: two writers of the same bytes over the same revision, who both hear that it was done; and a
//! creation that another client has undone again by the time we look from one that never was.

use crate::{
    error::Fault,
    store::Shared,
    watch::{self, ReportsProgress},
};
use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, Key, KeyValue, Scope, StorageError, Swap};
use std::sync::Arc;
use tokio::time::timeout_at;

/// A write as it was sent.
pub(crate) struct Sent<'a> {
    pub(crate) key: &'a Key,
    pub(crate) expected: Option<ResourceVersion>,
    /// Absent if it was a deletion.
    pub(crate) value: Option<Bytes>,
    pub(crate) doing: &'static str,
}

impl Sent<'_> {
    /// Finds out what became of it, after etcd said that it has no space.
    pub(crate) async fn outcome(&self, shared: &Arc<Shared>, no_space: Fault) -> Result<Swap, StorageError> {
        let (_, item) = shared.get(self.key).await?;
        let unchanged = item.as_ref().map(|item| item.modified) == self.expected;
        match self.expected.or_else(|| before_creation(item.as_ref()?)) {
            Some(before) if !unchanged => self.judge(self.first_change(shared, before).await?, item),
            _ => Err(no_space.into_storage_error(self.doing)),
        }
    }

    /// The first change of the key after a revision. There is one, unless the caller made the revision up.
    async fn first_change(
        &self,
        shared: &Arc<Shared>,
        before: ResourceVersion,
    ) -> Result<BackendEvent, StorageError> {
        let first = async {
            let scope = Scope::Object(self.key.clone());
            watch::start(shared.clone(), scope, before, ReportsProgress::Never)
                .await?
                .next()
                .await
                .transpose()
        };
        match timeout_at(shared.members.deadline(), first).await {
            Ok(Ok(Some(change))) => Ok(change),
            // Not in time, or it is compacted away.
            _ => Err(self.unknown()),
        }
    }

    fn judge(&self, first: BackendEvent, item: Option<KeyValue>) -> Result<Swap, StorageError> {
        match (first, &self.value) {
            (BackendEvent::Put { item: written, .. }, Some(value)) if written.value.bytes == value => {
                Ok(Swap::Done(written.modified))
            }
            // Ours, or that of a client that expected the same.
            (BackendEvent::Delete { .. }, None) => Err(self.unknown()),
            _ => Ok(Swap::Conflict(item)),
        }
    }

    fn unknown(&self) -> StorageError {
        StorageError::Timeout { doing: self.doing }
    }
}

/// The last revision at which the item was not there.
fn before_creation(item: &KeyValue) -> Option<ResourceVersion> {
    ResourceVersion::new(item.created.get() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: u64) -> ResourceVersion {
        ResourceVersion::new(revision).unwrap()
    }

    fn item(value: &'static str, modified: u64) -> KeyValue {
        let key = Key::from_backend("/registry/x");
        KeyValue { key, value: value.into(), created: version(3), modified: version(modified) }
    }

    #[test]
    fn the_first_change_shows_the_outcome_of_a_write() {
        let key = Key::from_backend("/registry/x");
        let sent = |value: Option<&'static str>| Sent {
            key: &key,
            expected: Some(version(3)),
            value: value.map(Bytes::from),
            doing: "testing",
        };
        let put = |value| BackendEvent::Put { item: item(value, 5), previous: None };
        let deletion = || BackendEvent::Delete { key: key.clone(), revision: version(5), previous: None };
        let now = Some(item("now", 7));

        assert_eq!(sent(Some("mine")).judge(put("mine"), now.clone()).unwrap(), Swap::Done(version(5)));
        let conflict = Swap::Conflict(now.clone());
        assert_eq!(sent(Some("mine")).judge(put("theirs"), now.clone()).unwrap(), conflict);
        assert_eq!(sent(Some("mine")).judge(deletion(), now.clone()).unwrap(), conflict);
        assert_eq!(sent(None).judge(put("theirs"), now).unwrap(), conflict);
        let unknown = sent(None).judge(deletion(), None).unwrap_err();
        assert!(matches!(unknown, StorageError::Timeout { doing: "testing" }), "{unknown:?}");
    }
}
