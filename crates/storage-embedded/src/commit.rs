//! Writes: decided against the state, made durable together, then made visible.
//!
//! Kept true: writes are decided one after the other against everything committed before them; none is
//! visible before it is durable, none is answered before it is visible; a batch that cannot be written
//! changes nothing. While room on the disk is short nothing is written that would grow.
//!
//! With a disk, a thread writes, and the writes that arrive while it waits for the disk go into the next batch.
//! Handing a write to that thread and waking up its caller costs a fifth of a write's CPU time, so a write that is alone is
//! committed on the thread of its caller, as long as the disk is quick. Without a disk, every write is.

use crate::{
    entry::{Entry, EntryKind, log_bytes},
    log::{Log, RESERVE_WRITE_BYTES_MAX},
    mvcc::Mvcc,
    record::BATCH_BYTES,
    room::{Budget, Spending},
    state::{Shared, fetch},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, StorageError, Swap, Unchanged, Value};
use parking_lot::Mutex;
use std::{
    collections::{HashSet, VecDeque},
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// The number of writes that may wait for the next batch. Further writers wait until there is a place in the queue.
const QUEUE_WRITES_MAX: usize = 4096;
/// The limits of a batch of several writes.
const BATCH_BYTES_MAX: usize = 8 << 20;
const BATCH_WRITES_MAX: usize = 2048;
/// The same while room is short. A batch of deletions fits into the reserve then, with all that is written around them.
const BATCH_BYTES_MAX_SHORT: usize = RESERVE_WRITE_BYTES_MAX / 4;
/// An object may become so much larger while room is short, because it is marked for deletion before it is deleted.
const GROWTH_BYTES_MAX: usize = 512;
/// The number of changes that one step of a compaction drops. A write waits for one step at the most.
const COMPACTION_STEP_CHANGES: usize = 2000;

/// A write that a caller asks for. It happens only if the key was last written at `expected` (absent: does not exist), and
/// if another key has not changed.
pub(crate) struct Proposal {
    pub(crate) key: Key,
    pub(crate) expected: Option<ResourceVersion>,
    pub(crate) unchanged: Option<Unchanged>,
    pub(crate) change: Proposed,
}

pub(crate) enum Proposed {
    Put {
        value: Value,
        expires_ms: Option<u64>,
    },
    Delete,
    /// A deletion because the key's time is up.
    Expire,
}

impl Proposed {
    /// This write as the budget counts it, if its key was last written at `before` with so many bytes; nothing if it grows.
    fn spending(&self, before: Option<ResourceVersion>, bytes_now: Option<usize>) -> Option<Spending> {
        match self {
            Self::Put { value, .. } => {
                let (before, now, then) = (before?, bytes_now?, value.bytes.len());
                (then <= now + GROWTH_BYTES_MAX).then_some(Spending::Rewrite { before, shrinks: then < now })
            }
            Self::Delete => Some(Spending::Deletion),
            Self::Expire => Some(Spending::Expiry),
        }
    }
}

/// The reason why a write does not happen.
enum Rejected {
    /// This key, which was to be written, is not as expected.
    Conflict(Key),
    /// This other key has changed.
    OtherChanged(Key),
    /// There is hardly any room, and the budget does not allow this write.
    NoRoom,
}

impl Rejected {
    fn outcome(self, shared: &Shared) -> Result<Swap, StorageError> {
        match self {
            Self::Conflict(key) => conflict(shared, &key),
            Self::OtherChanged(key) => Err(StorageError::OtherChanged { key }),
            Self::NoRoom => {
                let source = "what is left on the disk is for deletions and for compaction".into();
                Err(StorageError::Full { source })
            }
        }
    }
}

impl Proposal {
    /// Deletes a key whose time is up.
    pub(crate) fn expire(key: Key, expected: ResourceVersion) -> Self {
        Self { key, expected: Some(expected), unchanged: None, change: Proposed::Expire }
    }

    /// The write as it is committed at `revision`.
    fn decide(
        self,
        mvcc: &Mvcc,
        revision: ResourceVersion,
        budget: Option<&mut Budget>,
    ) -> Result<Entry, Rejected> {
        let bytes = log_bytes(&self.key, self.value_bytes());
        let stamp = mvcc.stamp(&self.key);
        if stamp.map(|(_, modified)| modified) != self.expected {
            return Err(Rejected::Conflict(self.key));
        }
        let is_changed =
            |other: &Unchanged| mvcc.stamp(&other.key).map(|(_, modified)| modified) != Some(other.modified);
        if let Some(other) = self.unchanged.filter(is_changed) {
            return Err(Rejected::OtherChanged(other.key));
        }
        if let Some(budget) = budget {
            let spending = self.change.spending(self.expected, mvcc.value_bytes(&self.key));
            if !spending.is_some_and(|spending| budget.spend(spending, bytes + BATCH_BYTES as u64)) {
                return Err(Rejected::NoRoom);
            }
        }
        let what = match self.change {
            Proposed::Put { value, expires_ms } => {
                let created = stamp.map_or(revision, |(created, _)| created);
                EntryKind::Put { value, created, expires_ms }
            }
            Proposed::Delete | Proposed::Expire => {
                EntryKind::Delete { created: stamp.map_or(revision, |(created, _)| created) }
            }
        };
        Ok(Entry { revision, key: self.key, what })
    }

    /// Whether this is to be decided after what a batch writes.
    fn depends_on(&self, written: &HashSet<Key>) -> bool {
        written.contains(&self.key)
            || self.unchanged.as_ref().is_some_and(|other| written.contains(&other.key))
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value_bytes()
    }

    fn value_bytes(&self) -> usize {
        match &self.change {
            Proposed::Put { value, .. } => value.bytes.len(),
            Proposed::Delete | Proposed::Expire => 0,
        }
    }
}

fn conflict(shared: &Shared, key: &Key) -> Result<Swap, StorageError> {
    let found = shared.state.read().mvcc.get(key);
    // The newest version's value is always in memory.
    Ok(Swap::Conflict(found.map(|found| fetch(&shared.log, found)).transpose()?.flatten()))
}

/// Commits the writes of a store.
pub(crate) enum Committer {
    InPlace,
    Disk(DiskCommitter),
}

pub(crate) struct DiskCommitter {
    queue: mpsc::Sender<Request>,
    log: Arc<Mutex<Option<Log>>>,
    /// Whether other tasks can go on while one waits for the disk.
    has_other_threads: bool,
    closing: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Request {
    Write(Proposal, Answer<Swap>),
    Compact(ResourceVersion, Answer<()>),
    LookForRoom,
    Clean(Answer<bool>),
    /// Makes the writer look whether the store is being closed.
    Wake,
}

type Answer<T> = oneshot::Sender<Result<T, StorageError>>;

impl Committer {
    pub(crate) fn to_disk(shared: Arc<Shared>, log: Log) -> std::io::Result<Self> {
        let (queue, requests) = mpsc::channel(QUEUE_WRITES_MAX);
        let closing = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(Some(log)));
        let writer =
            Writer { shared, log: log.clone(), requests, closing: closing.clone(), waiting: VecDeque::new() };
        let thread = std::thread::Builder::new().name("keepwatch-writer".into()).spawn(|| writer.run())?;
        let has_other_threads = Handle::current().metrics().num_workers() > 1;
        Ok(Self::Disk(DiskCommitter {
            queue,
            log,
            has_other_threads,
            closing,
            thread: Mutex::new(Some(thread)),
        }))
    }

    pub(crate) async fn write(&self, shared: &Shared, proposal: Proposal) -> Result<Swap, StorageError> {
        // A write that is committed here never waits. The tasks that it wakes must run all the same.
        tokio::task::consume_budget().await;
        match self {
            Self::InPlace => write_in_place(shared, proposal),
            Self::Disk(disk) => match disk.write_inline(shared, proposal) {
                InlineWrite::Done(outcome) => outcome,
                InlineWrite::NotNow(proposal) => disk.ask(|answer| Request::Write(proposal, answer)).await,
            },
        }
    }

    /// Compacts step by step, so that other writes get their turn in between.
    pub(crate) async fn compact(&self, shared: &Shared, goal: ResourceVersion) -> Result<(), StorageError> {
        loop {
            let step = {
                let mvcc = &shared.state.read().mvcc;
                if mvcc.compacted() >= Some(goal) {
                    return Ok(());
                }
                mvcc.compaction_step(goal, COMPACTION_STEP_CHANGES)
            };
            match self {
                Self::InPlace => {
                    shared.state.write().mvcc.compact(step);
                    tokio::task::yield_now().await;
                }
                Self::Disk(disk) => disk.ask(|answer| Request::Compact(step, answer)).await?,
            }
        }
    }

    /// Does some of the work of giving back room on the disk. Returns whether there is more to do.
    pub(crate) async fn clean(&self) -> Result<bool, StorageError> {
        match self {
            Self::InPlace => Ok(false),
            Self::Disk(disk) => disk.ask(Request::Clean).await,
        }
    }

    /// Makes the writer look how much room is left.
    pub(crate) fn look_for_room(&self) {
        if let Self::Disk(disk) = self {
            // If the queue is full, the writes in it make the writer look.
            let _ = disk.queue.try_send(Request::LookForRoom);
        }
    }

    /// Finishes the writes in the queue and releases the directory. Waits for the disk.
    pub(crate) fn close(&self) {
        let Self::Disk(disk) = self else { return };
        disk.closing.store(true, Ordering::Release);
        // If the queue is full the thread is at work and will look by itself.
        let _ = disk.queue.try_send(Request::Wake);
        if let Some(thread) = disk.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
        *disk.log.lock() = None;
    }
}

/// The outcome of trying to write without the thread.
enum InlineWrite {
    Done(Result<Swap, StorageError>),
    NotNow(Proposal),
}

impl DiskCommitter {
    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, StorageError> {
        let gone = || StorageError::backend("handing a write to the writer", "the store is closed");
        let (answer, answered) = oneshot::channel();
        self.queue.send(request(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Commits a write here if no other task is writing or waiting to, and the disk is quick.
    fn write_inline(&self, shared: &Shared, proposal: Proposal) -> InlineWrite {
        let nobody_waits = self.queue.capacity() == self.queue.max_capacity();
        let Some(mut log) = self.log.try_lock().filter(|_| self.has_other_threads && nobody_waits) else {
            return InlineWrite::NotNow(proposal);
        };
        match log.as_mut().filter(|log| log.is_quick()) {
            Some(log) => InlineWrite::Done(commit_one(shared, log, proposal)),
            None => InlineWrite::NotNow(proposal),
        }
    }
}

fn commit_one(shared: &Shared, log: &mut Log, proposal: Proposal) -> Result<Swap, StorageError> {
    let mut budget = log.budget();
    let decided = {
        let mvcc = &shared.state.read().mvcc;
        proposal.decide(mvcc, mvcc.current().next(), budget.as_mut())
    };
    match decided {
        Ok(entry) => {
            let revision = entry.revision;
            let entries = vec![entry];
            log.append(&entries)?;
            shared.publish(entries);
            Ok(Swap::Done(revision))
        }
        Err(rejected) => rejected.outcome(shared),
    }
}

fn write_in_place(shared: &Shared, proposal: Proposal) -> Result<Swap, StorageError> {
    let mut state = shared.state.write();
    let revision = state.mvcc.current().next();
    match proposal.decide(&state.mvcc, revision, None) {
        Ok(entry) => {
            shared.publish_in(&mut state, [entry]);
            Ok(Swap::Done(revision))
        }
        Err(rejected) => {
            drop(state);
            rejected.outcome(shared)
        }
    }
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    /// Its holder decides and writes; no other task changes the state meanwhile.
    log: Arc<Mutex<Option<Log>>>,
    requests: mpsc::Receiver<Request>,
    closing: Arc<AtomicBool>,
    /// Taken from the queue, not yet part of a batch.
    waiting: VecDeque<Request>,
}

/// Writes that are made durable together. None depends on another, so that each can be decided against the state.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    accepted: Vec<(ResourceVersion, Answer<Swap>)>,
    rejected: Vec<(Rejected, Answer<Swap>)>,
    keys: HashSet<Key>,
    bytes: usize,
}

impl Writer {
    fn run(mut self) {
        let log = self.log.clone();
        while self.wait() {
            match (self.waiting.front(), log.lock().as_mut()) {
                (Some(Request::Write(..)), Some(log)) => self.write_next_batch(log),
                (Some(Request::Compact(..)), Some(log)) => self.compact_next(log),
                (Some(Request::LookForRoom), Some(log)) => {
                    log.look_for_room();
                    drop(self.waiting.pop_front());
                }
                (Some(Request::Clean(_)), Some(log)) => self.clean_some(log),
                _ => drop(self.waiting.pop_front()),
            }
        }
    }

    fn clean_some(&mut self, log: &mut Log) {
        if let Some(Request::Clean(answer)) = self.waiting.pop_front() {
            let _ = answer.send(log.clean(&*self.shared));
        }
    }

    fn compact_next(&mut self, log: &mut Log) {
        if let Some(Request::Compact(revision, answer)) = self.waiting.pop_front() {
            let unneeded = self.shared.state.write().mvcc.compact(revision);
            let _ = answer.send(log.compact(revision, &unneeded));
        }
    }

    /// Waits for something to do; false when the store is closed and everything is done.
    fn wait(&mut self) -> bool {
        self.take_all_that_came();
        if self.waiting.is_empty() {
            if self.closing.load(Ordering::Acquire) {
                return false;
            }
            match self.requests.blocking_recv() {
                Some(request) => self.waiting.push_back(request),
                None => return false,
            }
            self.take_all_that_came();
        }
        true
    }

    fn take_all_that_came(&mut self) {
        while self.waiting.len() < QUEUE_WRITES_MAX
            && let Ok(request) = self.requests.try_recv()
        {
            self.waiting.push_back(request);
        }
    }

    fn write_next_batch(&mut self, log: &mut Log) {
        let batch = self.next_batch(log.budget());
        if !batch.entries.is_empty()
            && let Err(error) = log.append(&batch.entries)
        {
            return batch.fail(&error);
        }
        self.shared.publish(batch.entries);
        for (revision, answer) in batch.accepted {
            let _ = answer.send(Ok(Swap::Done(revision)));
        }
        for (rejected, answer) in batch.rejected {
            let _ = answer.send(rejected.outcome(&self.shared));
        }
    }

    /// Takes waiting writes up to the next compaction or one that depends on a key written before it, which must be
    /// decided after that is committed.
    fn next_batch(&mut self, mut budget: Option<Budget>) -> Batch {
        let mut batch = Batch::default();
        let bytes_max = if budget.is_some() { BATCH_BYTES_MAX_SHORT } else { BATCH_BYTES_MAX };
        let state = self.shared.state.read();
        let mut revision = state.mvcc.current();
        while let Some(Request::Write(proposal, _)) = self.waiting.front() {
            let is_too_large = batch.bytes > 0 && batch.bytes + proposal.bytes() > bytes_max;
            let is_full = is_too_large || batch.entries.len() >= BATCH_WRITES_MAX;
            if is_full || proposal.depends_on(&batch.keys) {
                break;
            }
            let Some(Request::Write(proposal, answer)) = self.waiting.pop_front() else { break };
            batch.bytes += proposal.bytes();
            match proposal.decide(&state.mvcc, revision.next(), budget.as_mut()) {
                Ok(entry) => {
                    revision = entry.revision;
                    batch.keys.insert(entry.key.clone());
                    batch.entries.push(entry);
                    batch.accepted.push((revision, answer));
                }
                Err(rejected) => batch.rejected.push((rejected, answer)),
            }
        }
        batch
    }
}

impl Batch {
    /// Answers every write of a batch that could not be written with the error. Writes that were rejected get it too: their
    /// callers would only try again.
    fn fail(self, error: &StorageError) {
        let answers = self.accepted.into_iter().map(|(_, answer)| answer);
        for answer in answers.chain(self.rejected.into_iter().map(|(_, answer)| answer)) {
            let _ = answer.send(Err(again(error)));
        }
    }
}

/// A copy of the error: all writers of a failed batch receive one.
fn again(error: &StorageError) -> StorageError {
    let cause = || error.source().map_or_else(String::new, ToString::to_string).into();
    match error {
        StorageError::Full { .. } => StorageError::Full { source: cause() },
        StorageError::Backend { doing, .. } => StorageError::Backend { doing, source: cause() },
        _ => StorageError::Backend { doing: "writing to the log", source: cause() },
    }
}

#[cfg(test)]
mod tests {
    use crate::{Embedded, EmbeddedOptions, commit::Committer};
    use keepwatch_storage::{Backend, Key, StorageError, Swap};

    /// Pretends that so many bytes are left on the disk of a store.
    fn pretend(store: &Embedded, bytes: u64) {
        let Committer::Disk(disk) = &*store.committer else { panic!("it has a disk") };
        let mut log = disk.log.lock();
        let log = log.as_mut().expect("it is open");
        log.pretend_room(bytes);
        log.look_for_room();
    }

    async fn put(store: &Embedded, key: &str, bytes: usize) -> Result<Swap, StorageError> {
        let key = Key::from_backend(key);
        let expected = store.get(&key).await?.1.map(|item| item.modified);
        store.put_if(&key, expected, vec![b'x'; bytes].into(), None).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn while_room_is_short_only_writes_that_do_not_grow_are_taken() {
        let root = tempfile::tempdir().unwrap();
        let store = Embedded::open(root.path(), EmbeddedOptions::default()).unwrap();
        put(&store, "/a", 1000).await.unwrap();
        put(&store, "/b", 1000).await.unwrap();
        assert_eq!(store.trouble(), None);
        pretend(&store, 0);
        assert!(store.trouble().is_some_and(|what| what.contains("delete objects, or free")));
        let is_full = |outcome: Result<Swap, StorageError>| matches!(outcome, Err(StorageError::Full { .. }));
        let before = store.current_revision().await.unwrap();
        assert!(is_full(put(&store, "/c", 10).await), "a creation");
        assert!(is_full(put(&store, "/a", 2000).await), "an update that grows");
        assert_eq!(store.current_revision().await.unwrap(), before);
        // Growth that is enough to mark an object for deletion, and the loss of a finalizer.
        for bytes in [1200, 1200, 100] {
            assert!(matches!(put(&store, "/a", bytes).await, Ok(Swap::Done(_))), "{bytes}");
        }
        let b = store.get(&Key::from_backend("/b")).await.unwrap().1.unwrap();
        assert!(matches!(store.delete_if(&b.key, b.modified).await, Ok(Swap::Done(_))));
        store.compact(store.current_revision().await.unwrap()).await.unwrap();
        pretend(&store, 1 << 30);
        assert_eq!(store.trouble(), None);
        assert!(matches!(put(&store, "/c", 10).await, Ok(Swap::Done(_))));
    }
}
