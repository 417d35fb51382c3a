//! Changes that are older than the history in memory, read from storage in pages that watchers of the same scope share.
//!
//! A watcher that lags behind the history, or starts before it, requests the page after its position, again and again,
//! until the history holds the next event. When many watchers resume at about the same revision, each page is read and
//! encoded once: pages are cached as long as a watcher reads old history and there is room.
//!
//! Kept true:
//! - a page holds every change in its scope after one revision, up to another;
//! - two watchers never read the same page from storage at the same time: the second one waits;
//! - the concurrent reads and the cached bytes have limits ([`HistoryReadLimits`]) that all caches of a server share;
//! - a view has no cached pages and no open reads while no watcher reads its old history.

use crate::history::Event;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    CacheSource, OldObject, PastChange, PastChanges, ResourcePrefix, Scope, StorageError,
};
use parking_lot::Mutex;
use prometheus::IntCounter;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};

/// The number of changes that a page holds, and the size of their values. A page holds the changes of at least one
/// revision.
const PAGE_EVENTS_MAX: usize = 512;
const PAGE_BYTES_MAX: usize = 512 << 10;
/// The size of a change in a page without its values.
const EVENT_BYTES: usize = 512;
/// The number of pages that are read concurrently.
const READS_MAX: usize = 8;
/// The size of the pages that are cached.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// The size of the pages that are cached for a resource even if other resources have taken all the room.
const CACHED_BYTES_PER_RESOURCE_MIN: usize = 2 << 20;
/// The number of reads that stay open to be continued, on the server and for one resource. Each holds what its backend
/// reads at a time: up to 1 MiB, or one change.
const OPEN_READS_MAX: usize = 32;
const OPEN_READS_PER_RESOURCE_MAX: usize = 8;

/// Limits on the reads of old history. A clone shares the limits, so that all caches of a server have the same ones.
#[derive(Clone, Debug)]
pub struct HistoryReadLimits(Arc<Limits>);

#[derive(Debug)]
struct Limits {
    reads: Semaphore,
    open: Arc<Semaphore>,
    cached_bytes: AtomicUsize,
    cached_bytes_max: usize,
}

impl Default for HistoryReadLimits {
    /// Eight concurrent reads, and 16 MiB of cached pages, or 2 MiB for each resource if that is more.
    fn default() -> Self {
        Self::new(READS_MAX, CACHED_BYTES_MAX)
    }
}

impl HistoryReadLimits {
    /// Limits the concurrent reads of pages, each of at most 512 KiB or one change, and the bytes of cached pages. Each
    /// resource may cache 2 MiB in any case.
    pub fn new(reads_max: usize, cached_bytes_max: usize) -> Self {
        let reads = Semaphore::new(reads_max.max(1));
        let open = Arc::new(Semaphore::new(OPEN_READS_MAX));
        Self(Arc::new(Limits { reads, open, cached_bytes: AtomicUsize::new(0), cached_bytes_max }))
    }

    fn is_full(&self) -> bool {
        self.0.cached_bytes.load(Ordering::Relaxed) > self.0.cached_bytes_max
    }
}

/// Every change in a scope after one revision, up to another.
pub(crate) struct Page {
    after: ResourceVersion,
    pub(crate) through: ResourceVersion,
    pub(crate) events: Vec<Event>,
    bytes: usize,
}

impl Page {
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn new(after: ResourceVersion, through: ResourceVersion, events: Vec<Event>) -> Self {
        Self { after, through, events, bytes: 0 }
    }

    /// The changes after a revision.
    pub(crate) fn after(&self, revision: ResourceVersion) -> &[Event] {
        &self.events[self.events.partition_point(|event| event.revision <= revision)..]
    }
}

/// The old history of one resource.
pub(crate) struct HistoryPages {
    storage: Arc<dyn CacheSource>,
    keys: ResourcePrefix,
    limits: HistoryReadLimits,
    /// Counts the pages that were read.
    reads: IntCounter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    views: HashMap<View, Pages>,
    /// Reads that can be continued. The one that was used last is at the end.
    open: VecDeque<(View, OpenRead)>,
    cached_bytes: usize,
    /// Counts the uses of all pages.
    last_use: u64,
}

/// The scope of watchers that can share pages. Storage skips the objects outside of it, and reads the old versions of
/// objects only for watchers that have a selector.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) scope: Scope,
    pub(crate) with_old: bool,
}

#[derive(Default)]
struct Pages {
    /// The cached pages, by the revision after which each starts.
    cached: BTreeMap<ResourceVersion, CachedPage>,
    /// The reads that are under way, by the revision after which each starts. The channel is closed when the read ends.
    reads_in_progress: BTreeMap<ResourceVersion, watch::Receiver<()>>,
    /// The number of watchers that read these pages.
    watchers: usize,
}

struct CachedPage {
    page: Arc<Page>,
    /// The value of `State::last_use` when the page was last used.
    last_use: u64,
}

/// A watcher's access to old history. It counts as a reader of its view until it is dropped.
pub(crate) struct PageReader {
    pages: Arc<HistoryPages>,
    view: View,
}

impl PageReader {
    pub(crate) fn new(pages: &Arc<HistoryPages>, view: View) -> Self {
        pages.state.lock().views.entry(view.clone()).or_default().watchers += 1;
        Self { pages: pages.clone(), view }
    }

    /// Returns the page with the changes after a revision. The page ends at `until` at the latest; storage has reached
    /// that revision.
    pub(crate) async fn page(
        &self,
        after: ResourceVersion,
        until: ResourceVersion,
    ) -> Result<Arc<Page>, StorageError> {
        loop {
            match self.find(after) {
                PageLookup::Page(page) => return Ok(page),
                // No value is ever sent: the channel is closed when the read ends.
                PageLookup::Wait(mut finished) => drop(finished.changed().await),
                PageLookup::Read { guard, open, next_page } => {
                    let page = self.read(after, until, next_page, open).await;
                    drop(guard);
                    return page;
                }
            }
        }
    }

    /// The page with the changes after a revision, if it is cached.
    pub(crate) fn cached(&self, after: ResourceVersion) -> Option<Arc<Page>> {
        self.pages.state.lock().cached(&self.view, after)
    }

    /// A permit to read from storage, valid until it is dropped.
    pub(crate) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.pages.limits.0.reads.acquire().await.ok()
    }

    fn find(&self, after: ResourceVersion) -> PageLookup<'_> {
        let state = &mut *self.pages.state.lock();
        if let Some(page) = state.cached(&self.view, after) {
            return PageLookup::Page(page);
        }
        let pages = state.views.entry(self.view.clone()).or_default();
        if let Some((begin, finished)) = pages.reads_in_progress.range(..=after).next_back()
            && after.get() - begin.get() < PAGE_EVENTS_MAX as u64
        {
            return PageLookup::Wait(finished.clone());
        }
        let (sender, finished) = watch::channel(());
        pages.reads_in_progress.insert(after, finished);
        let later = (Bound::Excluded(after), Bound::Unbounded);
        let next_page = pages.cached.range(later).next().map(|(begin, _)| *begin);
        let next_read = pages.reads_in_progress.range(later).next().map(|(begin, _)| *begin);
        let is_same = |(view, open): &(View, OpenRead)| open.position == after && *view == self.view;
        let open = state.open.iter().position(is_same);
        PageLookup::Read {
            guard: PageReadGuard { reader: self, after, _finished: sender },
            open: open.and_then(|index| state.open.remove(index)).map(|(_, open)| open),
            next_page: next_page.into_iter().chain(next_read).min(),
        }
    }

    async fn read(
        &self,
        after: ResourceVersion,
        until: ResourceVersion,
        next_page: Option<ResourceVersion>,
        open: Option<OpenRead>,
    ) -> Result<Arc<Page>, StorageError> {
        let _permit = self.permit().await;
        let mut open_read = match open {
            Some(open) => open,
            None => self.begin(after, until).await?,
        };
        let page = Arc::new(open_read.page(next_page).await?);
        self.pages.reads.inc();
        self.cache(&page);
        // The read is not needed any more if the next changes are in another page already.
        if !open_read.is_finished && Some(page.through) != next_page {
            self.keep_open(open_read);
        }
        Ok(page)
    }

    async fn begin(&self, after: ResourceVersion, until: ResourceVersion) -> Result<OpenRead, StorageError> {
        let View { scope, with_old } = &self.view;
        let key = self.pages.keys.relative(scope.key());
        let is_recursive = matches!(scope, Scope::Children(_));
        let changes = self.pages.storage.past_changes(key, is_recursive, after, until, *with_old).await?;
        Ok(OpenRead { changes, position: after, until, next: None, is_finished: false, permit: None })
    }

    /// Caches a page for other watchers. If there is no room, the least recently used pages are removed.
    fn cache(&self, page: &Arc<Page>) {
        let state = &mut *self.pages.state.lock();
        let last_use = state.last_use;
        let pages = state.views.entry(self.view.clone()).or_default();
        let replaced = pages.cached.insert(page.after, CachedPage { page: page.clone(), last_use });
        self.pages.count(state, page.bytes, replaced.map_or(0, |replaced| replaced.page.bytes));
        while self.pages.limits.is_full()
            && state.cached_bytes > CACHED_BYTES_PER_RESOURCE_MIN
            && let Some(oldest) = state.take_least_recently_used()
        {
            self.pages.count(state, 0, oldest.page.bytes);
        }
    }

    /// Keeps a read open. If there are too many, the least recently used one is closed.
    fn keep_open(&self, mut open_read: OpenRead) {
        let mut closed = Vec::new();
        let mut state = self.pages.state.lock();
        if state.open.len() >= OPEN_READS_PER_RESOURCE_MAX {
            closed.extend(state.open.pop_front());
        }
        loop {
            open_read.permit =
                open_read.permit.or_else(|| self.pages.limits.0.open.clone().try_acquire_owned().ok());
            if open_read.permit.is_some() {
                state.open.push_back((self.view.clone(), open_read));
                break;
            }
            let Some((view, mut oldest)) = state.open.pop_front() else { break };
            open_read.permit = oldest.permit.take();
            closed.push((view, oldest));
        }
        drop(state);
        drop(closed);
    }
}

impl Drop for PageReader {
    fn drop(&mut self) {
        let mut closed = VecDeque::new();
        let mut state = self.pages.state.lock();
        let Some(pages) = state.views.get_mut(&self.view) else { return };
        pages.watchers -= 1;
        if pages.watchers == 0 {
            let pages = state.views.remove(&self.view);
            let cached = pages.iter().flat_map(|pages| pages.cached.values());
            let bytes = cached.map(|cached| cached.page.bytes).sum();
            self.pages.count(&mut state, 0, bytes);
            let (own, others) =
                std::mem::take(&mut state.open).into_iter().partition(|(view, _)| *view == self.view);
            state.open = others;
            closed = own;
            drop(state);
        }
        drop(closed);
    }
}

impl State {
    fn cached(&mut self, view: &View, after: ResourceVersion) -> Option<Arc<Page>> {
        self.last_use += 1;
        let (_, cached) = self.views.get_mut(view)?.cached.range_mut(..=after).next_back()?;
        cached.last_use = self.last_use;
        (cached.page.through > after).then(|| cached.page.clone())
    }

    /// Removes the least recently used page.
    fn take_least_recently_used(&mut self) -> Option<CachedPage> {
        let oldest = |pages: &Pages| pages.cached.values().map(|cached| cached.last_use).min();
        let pages = self.views.values_mut().min_by_key(|pages| oldest(pages).unwrap_or(u64::MAX))?;
        let (after, _) = pages.cached.iter().min_by_key(|(_, cached)| cached.last_use)?;
        let after = *after;
        pages.cached.remove(&after)
    }
}

/// Ends the registration of a read when it is dropped.
struct PageReadGuard<'a> {
    reader: &'a PageReader,
    after: ResourceVersion,
    _finished: watch::Sender<()>,
}

impl Drop for PageReadGuard<'_> {
    fn drop(&mut self) {
        if let Some(pages) = self.reader.pages.state.lock().views.get_mut(&self.reader.view) {
            pages.reads_in_progress.remove(&self.after);
        }
    }
}

/// The next step of a watcher that needs a page.
enum PageLookup<'a> {
    Page(Arc<Page>),
    /// Wait for a read that is under way, of this page or of one before it that may contain the changes.
    Wait(watch::Receiver<()>),
    /// Read the page. It ends where the next page starts, if one is known.
    Read {
        guard: PageReadGuard<'a>,
        open: Option<OpenRead>,
        next_page: Option<ResourceVersion>,
    },
}

impl HistoryPages {
    pub(crate) fn new(
        storage: Arc<dyn CacheSource>,
        keys: ResourcePrefix,
        limits: HistoryReadLimits,
        reads: IntCounter,
    ) -> Arc<Self> {
        Arc::new(Self { storage, keys, limits, reads, state: Mutex::default() })
    }

    /// Adds and subtracts bytes of cached pages.
    fn count(&self, state: &mut State, more: usize, less: usize) {
        state.cached_bytes = state.cached_bytes + more - less;
        let all = &self.limits.0.cached_bytes;
        all.fetch_add(more, Ordering::Relaxed);
        all.fetch_sub(less, Ordering::Relaxed);
    }
}

/// An open read of old history.
struct OpenRead {
    changes: PastChanges,
    /// All changes up to here have been read. The one after it is in `next`, or not read yet.
    position: ResourceVersion,
    /// The end of the read.
    until: ResourceVersion,
    next: Option<PastChange>,
    is_finished: bool,
    /// The permit to stay open.
    permit: Option<OwnedSemaphorePermit>,
}

impl OpenRead {
    /// The next page. It ends where another page starts, if one is known.
    async fn page(&mut self, next_page: Option<ResourceVersion>) -> Result<Page, StorageError> {
        let after = self.position;
        let (mut events, mut bytes): (Vec<Event>, usize) = (Vec::new(), 0);
        loop {
            let next = match self.next.take() {
                Some(change) => Some(Ok(change)),
                None => self.changes.next().await,
            };
            let change = match next {
                Some(Ok(change)) => change,
                Some(Err(error)) => {
                    self.position = remove_last_revision(&mut events).ok_or(error)?;
                    self.is_finished = true;
                    break;
                }
                None => {
                    self.position = self.until;
                    self.is_finished = true;
                    break;
                }
            };
            if let Some(end) = next_page.filter(|end| change.revision > *end) {
                self.position = end;
                self.next = Some(change);
                break;
            }
            // No watch can resume between changes of one revision.
            let is_full = events.len() >= PAGE_EVENTS_MAX || bytes >= PAGE_BYTES_MAX;
            if is_full && change.revision > self.position {
                self.next = Some(change);
                break;
            }
            self.position = change.revision;
            bytes += EVENT_BYTES + value_bytes(&change);
            events.extend(Event::from_past_change(change));
        }
        Ok(Page { after, through: self.position, events, bytes })
    }
}

/// Removes the last revision from a page, because storage failed and there may be more changes of that revision.
/// Returns the revision at which the page ends then, if any changes are left.
fn remove_last_revision(events: &mut Vec<Event>) -> Option<ResourceVersion> {
    let last = events.last()?.revision;
    events.truncate(events.partition_point(|event| event.revision < last));
    events.last().map(|event| event.revision)
}

fn value_bytes(change: &PastChange) -> usize {
    let old = if let OldObject::Read(old) = &change.old { Some(old) } else { None };
    old.into_iter().chain(&change.new).map(|object| object.value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, stream};
    use keepwatch_storage::{Attributes, Key, Object, Version};

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    fn change(revision: u64, bytes: usize) -> PastChange {
        let key = Key::from_backend(format!("/r/pods/n/{revision}"));
        let (revision, attributes) = (version(revision), Attributes::default());
        let new: Object =
            Version { key, value: vec![b' '; bytes].into(), revision, attributes: attributes.into() }.into();
        PastChange { revision, old: OldObject::Absent, new: Some(new) }
    }

    /// A read of these changes, after revision 1 and until 10,000.
    fn open_read(changes: impl IntoIterator<Item = PastChange>) -> OpenRead {
        let changes: Vec<_> = changes.into_iter().map(Ok).collect();
        let changes = stream::iter(changes).boxed();
        let (position, until) = (version(1), version(10_000));
        OpenRead { changes, position, until, next: None, is_finished: false, permit: None }
    }

    /// The revision after which the next page starts, the revision at which it ends, and the number of its changes.
    fn next_page(read: &mut OpenRead, ends_at: Option<u64>) -> (u64, u64, usize) {
        let page = read.page(ends_at.map(version)).now_or_never().unwrap().ok().unwrap();
        (page.after.get(), page.through.get(), page.events.len())
    }

    #[test]
    fn pages_follow_one_another_without_a_gap() {
        let mut read = open_read((2..=1300).map(|revision| change(revision, 10)));
        assert_eq!(next_page(&mut read, None), (1, 513, 512));
        assert_eq!(next_page(&mut read, None), (513, 1025, 512));
        assert!(!read.is_finished);
        assert_eq!(next_page(&mut read, None), (1025, 10_000, 275));
        assert!(read.is_finished);
    }

    #[test]
    fn a_page_of_large_changes_is_short_but_holds_at_least_one() {
        let mut read = open_read((2..=5).map(|revision| change(revision, PAGE_BYTES_MAX / 2)));
        assert_eq!(next_page(&mut read, None), (1, 3, 2));
        let mut read = open_read((2..=5).map(|revision| change(revision, 2 * PAGE_BYTES_MAX)));
        assert_eq!(next_page(&mut read, None), (1, 2, 1));
        assert_eq!(next_page(&mut read, None), (2, 3, 1));
    }

    /// No watch could resume between them.
    #[test]
    fn changes_of_one_revision_are_in_the_same_page() {
        let revisions = (2..=512).chain([513; 5]).chain([514]);
        let mut read = open_read(revisions.map(|revision| change(revision, 10)));
        assert_eq!(next_page(&mut read, None), (1, 513, 516));
        assert_eq!(next_page(&mut read, None), (513, 10_000, 1));
    }

    /// Otherwise no page could be completed while storage fails again and again.
    #[test]
    fn changes_read_before_storage_failed_make_a_page() {
        let failing = |revisions: &[u64]| {
            let changes = revisions.iter().map(|revision| Ok(change(*revision, 10)));
            let failure = StorageError::WatchFailed("cut".to_owned());
            let changes: Vec<_> = changes.chain([Err(failure)]).collect();
            OpenRead { changes: stream::iter(changes).boxed(), ..open_read([]) }
        };
        let mut read = failing(&[2, 5, 7, 7]);
        assert_eq!(next_page(&mut read, None), (1, 5, 2), "there may be more of the last revision");
        assert!(read.is_finished);
        for revisions in [&[][..], &[2], &[2, 2]] {
            assert!(failing(revisions).page(None).now_or_never().unwrap().is_err(), "{revisions:?}");
        }
    }

    #[test]
    fn a_page_ends_where_the_next_cached_page_begins() {
        let mut read = open_read([5, 9, 12, 20].map(|revision| change(revision, 10)));
        assert_eq!(next_page(&mut read, Some(10)), (1, 10, 2));
        assert_eq!(next_page(&mut read, Some(12)), (10, 12, 1));
        assert_eq!(next_page(&mut read, None), (12, 10_000, 1));
    }

    #[test]
    fn a_watcher_that_has_read_part_of_a_page_reads_the_rest() {
        let mut read = open_read([5, 9, 12, 20].map(|revision| change(revision, 10)));
        let page = read.page(None).now_or_never().unwrap().ok().unwrap();
        let after = |revision| page.after(version(revision)).len();
        assert_eq!([1, 4, 5, 12, 20, 30].map(after), [4, 4, 3, 1, 0, 0]);
    }
}
