//! Reads, and writes that compare before they swap.
//!
//! Kept true: every read is linearizable; every write is one transaction that compares the key's last revision,
//! and on a conflict the same round trip brings what the key holds.

use crate::{
    api::{
        self, CompactionRequest, Compare, LeaseGrantRequest, Operation, RangeResponse, ResponseHeader,
        TxnRequest, TxnResponse,
    },
    compact::{self, KnownCompaction},
    error::{ConnectError, Fault},
    full::Sent,
    lease::Leases,
    members::{self, Members},
    options::EtcdOptions,
    watch::{self, ReportsProgress},
};
use async_trait::async_trait;
use bytes::Bytes;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendWatch, HistoryExtent, HistoryReader, HistoryReaders, Key, KeyValue, Range, RangeRequest,
    Scope, StorageError, Swap, Unchanged, Value,
};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, timeout_at},
};

/// The number of attempts of a read at a revision that etcd calls a future one while it goes past that very revision.
const FUTURE_READS_MAX: usize = 3;

/// The number of times that a key gets another lease because etcd does not know the one before any more.
const LEASE_TRIES_MAX: usize = 3;

/// A cluster of etcd as a [`Backend`]. Dropping it ends its background tasks; watches go on until they are
/// dropped themselves.
pub struct EtcdBackend {
    shared: Arc<Shared>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

/// The state that watches and background tasks share.
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) compacted: KnownCompaction,
    pub(crate) compaction_interval: Duration,
    /// Readers that may need old changes.
    pub(crate) readers: HistoryReaders,
    /// Counts the requests for progress. Watches that report progress look at it.
    pub(crate) progress_requests: tokio::sync::watch::Sender<u64>,
    leases: Mutex<Leases>,
    /// Whether requests for progress are answered reliably.
    reports_progress: AtomicBool,
}

impl EtcdBackend {
    /// Connects to a cluster. At least one member must answer within the request timeout.
    pub async fn connect(options: EtcdOptions) -> Result<Self, ConnectError> {
        let shared = Arc::new(Shared {
            members: Members::new(&options)?,
            compacted: KnownCompaction::default(),
            compaction_interval: options.compaction_interval,
            readers: HistoryReaders::default(),
            progress_requests: tokio::sync::watch::Sender::new(0),
            leases: Mutex::new(Leases::new(options.leases.clone())),
            reports_progress: AtomicBool::new(true),
        });
        let user = options.user.as_ref().map(|user| user.name.as_str());
        shared
            .current_revision()
            .await
            .map_err(|fault| ConnectError::from_fault(fault, &options.endpoints, user))?;
        match shared.members.status().await {
            Ok(status) => shared.reports_progress.store(reports_progress(&status.version), Ordering::Release),
            // Without the right to ask, the etcd is a newer one: old ones have no such right.
            Err(Fault::Answer(_)) => {}
            Err(_) => shared.reports_progress.store(false, Ordering::Release),
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(compact::learn(shared.clone()));
        if !options.compaction_interval.is_zero() {
            tasks.spawn(compact::compact_from_time_to_time(shared.clone(), options.compaction_interval));
        }
        Ok(Self { shared, _tasks: tasks })
    }
}

/// Whether an etcd of this version answers every request for progress with what its watches have delivered: from 3.4.31 on in
/// its line, from 3.5.13 on in the next, and in all later ones.
fn reports_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) >= (3, 6),
    }
}

impl Shared {
    async fn current_revision(&self) -> Result<i64, Fault> {
        self.members.read(members::current_revision).await
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        let doing = "reading a key from etcd";
        let answer = self
            .members
            .call(&api::RangeRequest::key(key))
            .await
            .map_err(|fault| fault.into_storage_error(doing))?;
        let current = header_revision(answer.header)?;
        let item = answer.kvs.into_iter().next().map(read_item).transpose()?;
        Ok((current, item))
    }

    pub(crate) async fn commit(&self, txn: &TxnRequest, deadline: Instant) -> Result<TxnResponse, Fault> {
        self.members.write(deadline, |member| async move { member.client.call(txn).await }).await
    }

    /// A lease for one more key.
    async fn lease(&self, ttl: Duration, deadline: Instant) -> Result<i64, Fault> {
        timeout_at(deadline, self.share_or_grant(ttl)).await.unwrap_or(Err(Fault::Timeout))
    }

    async fn share_or_grant(&self, ttl: Duration) -> Result<i64, Fault> {
        // Held while a lease is granted, so that writers who need the same one wait and share it.
        let mut leases = self.leases.lock().await;
        let now = Instant::now();
        if let Some(id) = leases.reuse(ttl, now) {
            return Ok(id);
        }
        let seconds = leases.grant_seconds(ttl);
        // A lease that was granted without our knowing expires unused.
        let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = self.members.call(&LeaseGrantRequest { ttl }).await?;
        leases.granted(granted.id, seconds, now);
        Ok(granted.id)
    }

    async fn forget_lease(&self, id: i64, deadline: Instant) {
        // The next caller finds out again.
        if let Ok(mut leases) = timeout_at(deadline, self.leases.lock()).await {
            leases.forget(id);
        }
    }

    pub(crate) async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        let request = CompactionRequest { revision: as_etcd(revision), physical: false };
        match self.members.call(&request).await {
            Ok(()) => {}
            Err(fault) if fault.is_compacted() => {}
            Err(fault) if fault.is_future_revision() => return Err(self.too_large(revision).await?),
            Err(fault) => return Err(fault.into_storage_error("compacting etcd")),
        }
        self.compacted.raise(revision, Duration::ZERO);
        Ok(())
    }

    async fn too_large(&self, requested: ResourceVersion) -> Result<StorageError, StorageError> {
        let doing = "asking etcd for its revision";
        let current =
            as_version(self.current_revision().await.map_err(|fault| fault.into_storage_error(doing))?)?;
        Ok(StorageError::TooLarge { requested, current, retry_after_seconds: None })
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.shared.get(key).await
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        let doing = "writing to etcd";
        // One for all that it takes, however many wait for the same lease.
        let deadline = self.shared.members.deadline();
        for _ in 0..LEASE_TRIES_MAX {
            let lease = match ttl {
                Some(ttl) => {
                    let lease = self.shared.lease(ttl, deadline).await;
                    lease.map_err(|fault| fault.into_storage_error("asking etcd for a lease"))?
                }
                None => 0,
            };
            let put = Operation::put_with_lease(key, value.bytes.clone(), lease);
            match self.shared.commit(&swap(key, expected, unchanged, put), deadline).await {
                Ok(answer) => return swapped(answer, expected, unchanged),
                // Another client revoked it, or we lost count of time; nothing was written.
                Err(fault) if lease != 0 && fault.is_lease_not_found() => {
                    self.shared.forget_lease(lease, deadline).await;
                }
                Err(fault) if fault.is_no_space() => {
                    let sent = Sent { key, expected, value: Some(value.bytes), doing };
                    return sent.outcome(&self.shared, fault).await;
                }
                Err(fault) => return Err(fault.into_storage_error(doing)),
            }
        }
        Err(StorageError::backend(doing, "etcd does not know the leases it has just granted"))
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        let deadline = self.shared.members.deadline();
        let (doing, expected) = ("deleting from etcd", Some(expected));
        match self.shared.commit(&swap(key, expected, None, Operation::delete(key)), deadline).await {
            Ok(answer) => swapped(answer, expected, None),
            Err(fault) if fault.is_no_space() => {
                Sent { key, expected, value: None, doing }.outcome(&self.shared, fault).await
            }
            Err(fault) => Err(fault.into_storage_error(doing)),
        }
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        let query = query(&request);
        for _ in 0..FUTURE_READS_MAX {
            match (self.shared.members.call(&query).await, request.at) {
                (Ok(answer), _) => return read_range(&request, answer),
                (Err(fault), Some(requested)) if fault.is_future_revision() => {
                    match self.shared.too_large(requested).await? {
                        // Reached in between.
                        StorageError::TooLarge { current, .. } if current >= requested => {}
                        error => return Err(error),
                    }
                }
                (Err(fault), _) => return Err(fault.into_storage_error("reading from etcd")),
            }
        }
        Err(StorageError::backend("reading from etcd", "etcd disagrees with itself on its revision"))
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        let progress = if progress { ReportsProgress::OnRequest } else { ReportsProgress::Never };
        watch::start(self.shared.clone(), scope, after, progress).await
    }

    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        _with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        watch::start(self.shared.clone(), scope, after, ReportsProgress::WhenCaughtUp).await
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        // An answer that overtakes events would make us believe that there were none.
        if !self.reports_progress() {
            return Ok(());
        }
        self.shared.progress_requests.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        let doing = "asking etcd for its revision";
        as_version(self.shared.current_revision().await.map_err(|fault| fault.into_storage_error(doing))?)
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.shared.compact(revision).await
    }

    async fn size_bytes(&self) -> Result<Option<u64>, StorageError> {
        let doing = "asking etcd for its size";
        let status = self.shared.members.status().await.map_err(|fault| fault.into_storage_error(doing))?;
        Ok(status.db_size.try_into().ok())
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.shared.compacted.get()
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.shared.readers.add(reader);
    }

    fn history(&self) -> HistoryExtent {
        let (oldest, age) = (self.shared.compacted.get(), self.shared.compacted.age());
        HistoryExtent { oldest, age, ..HistoryExtent::default() }
    }

    fn reports_progress(&self) -> bool {
        self.shared.reports_progress.load(Ordering::Acquire)
    }
}

fn query(request: &RangeRequest) -> api::RangeRequest {
    let (begin, end) = bounds(&request.scope);
    let revision = request.at.map_or(0, as_etcd);
    if begins_past_the_end(request) {
        // There is nothing to read, but the revision is still to be checked. One key is the least to ask for.
        return api::RangeRequest { revision, count_only: true, ..api::RangeRequest::key(&begin) };
    }
    let start = request.from.clone().filter(|from| *from > begin).unwrap_or(begin);
    api::RangeRequest {
        key: start.into(),
        range_end: end.into(),
        // To etcd, 0 is no limit.
        limit: request.limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        revision,
        count_only: request.limit == Some(0),
        keys_only: false,
    }
}

fn begins_past_the_end(request: &RangeRequest) -> bool {
    request.from.as_ref().is_some_and(|from| *from >= request.scope.end())
}

fn read_range(request: &RangeRequest, answer: RangeResponse) -> Result<Range, StorageError> {
    let current = header_revision(answer.header)?;
    let count = if begins_past_the_end(request) { 0 } else { usize::try_from(answer.count).unwrap_or(0) };
    let items = answer.kvs.into_iter().map(read_item).collect::<Result<Vec<_>, _>>()?;
    Ok(Range { current, more: count > items.len(), count: request.count.then_some(count), items })
}

/// A transaction that does `operation` if the key's last write was at `expected`, and else reads the key.
fn swap(
    key: &Key,
    expected: Option<ResourceVersion>,
    unchanged: Option<&Unchanged>,
    operation: Operation,
) -> TxnRequest {
    // etcd's own way to say "absent" is revision 0.
    let own = Compare::mod_revision(key, expected.map_or(0, as_etcd));
    let other = unchanged.map(|other| Compare::mod_revision(&other.key, as_etcd(other.modified)));
    TxnRequest {
        compare: std::iter::once(own).chain(other).collect(),
        success: vec![operation.into()],
        failure: vec![Operation::read(key).into()],
    }
}

fn swapped(
    answer: TxnResponse,
    expected: Option<ResourceVersion>,
    unchanged: Option<&Unchanged>,
) -> Result<Swap, StorageError> {
    if answer.succeeded {
        return Ok(Swap::Done(header_revision(answer.header)?));
    }
    let Some(found) = answer.into_read() else {
        return Err(StorageError::backend("writing to etcd", "the answer lacks what the key holds"));
    };
    let found = found.map(read_item).transpose()?;
    match unchanged {
        Some(other) if found.as_ref().map(|item| item.modified) == expected => {
            Err(StorageError::OtherChanged { key: other.key.clone() })
        }
        _ => Ok(Swap::Conflict(found)),
    }
}

/// The first key of a scope, and the first one behind it.
pub(crate) fn bounds(scope: &Scope) -> (String, String) {
    let start = match scope {
        Scope::Object(key) => key.to_string(),
        // A prefix is not one of its children.
        Scope::Children(prefix) => format!("{prefix}\0"),
    };
    (start, scope.end())
}

/// An item with a value of its own: a slice would keep the whole message in memory, a list of everything say, for as long as
/// the item is in a cache.
pub(crate) fn read_item(item: api::KeyValue) -> Result<KeyValue, StorageError> {
    Ok(KeyValue {
        created: as_version(item.create_revision)?,
        modified: as_version(item.mod_revision)?,
        key: read_key(&item.key)?,
        value: Bytes::copy_from_slice(&item.value).into(),
    })
}

pub(crate) fn read_key(key: &[u8]) -> Result<Key, StorageError> {
    let key = std::str::from_utf8(key)
        .map_err(|error| StorageError::backend("reading a key that is not text from etcd", error))?;
    Ok(Key::from_backend(key))
}

fn header_revision(header: Option<ResponseHeader>) -> Result<ResourceVersion, StorageError> {
    as_version(header.map_or(0, |header| header.revision))
}

pub(crate) fn as_version(revision: i64) -> Result<ResourceVersion, StorageError> {
    u64::try_from(revision)
        .ok()
        .and_then(ResourceVersion::new)
        .ok_or_else(|| StorageError::backend("reading a revision from etcd", format!("{revision} is none")))
}

/// etcd's revisions are signed. None that it gave us is too large; one that a client made up may be.
pub(crate) fn as_etcd(revision: ResourceVersion) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_do_not_answer_every_request_for_progress() {
        for version in ["3.4.30", "3.5.0", "3.5.12", "3.3.99", "2.3.8", "3.5.0-rc.1", ""] {
            assert!(!reports_progress(version), "{version}");
        }
        for version in ["3.4.31", "3.4.40", "3.5.13", "3.5.16", "3.6.0", "3.6.0-rc.1", "3.10.2", "4.0.0"] {
            assert!(reports_progress(version), "{version}");
        }
    }

    #[test]
    fn an_item_does_not_keep_the_message_that_it_came_in() {
        let message = Bytes::from(vec![b'x'; 1_000]);
        let item = api::KeyValue {
            key: message.slice(..4),
            value: message.slice(500..510),
            create_revision: 1,
            mod_revision: 2,
            ..api::KeyValue::default()
        };
        let item = read_item(item).unwrap();
        assert_eq!((&*item.key, &*item.value.bytes), ("xxxx", &b"xxxxxxxxxx"[..]));
        assert!(message.is_unique());
    }
}
