//! Random operations against a list of all changes.
//!
//! The list ([`History`]) is the oracle: it holds what the store acknowledged and nothing else, and each
//! answer of the store is compared with what replaying it gives. A failing run shrinks to the fewest
//! operations that still fail, and prints them.

use super::{
    Fixture, Watching,
    guarantees::{self, Change, History, Recorded, RecordedEvent, Start},
    labels, pod,
};
use crate::{
    DeleteOptions, List, ListRequest, Object, Predicate, StorageError, Update, UpdateOptions, Version,
    WatchEvent, WatchRequest, testing::Pod,
};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use std::{collections::BTreeMap, future::Future};

/// The number of objects of the operations: few, so that operations meet.
const NAMES: u8 = 5;
/// The number of watches that are open at a time.
const WATCHES_MAX: usize = 4;

/// One operation. Revisions are given as how many changes ago they were.
#[derive(Clone, Debug)]
pub enum Op {
    /// Creates an object, if it is missing.
    Create(u8, Content),
    /// Updates an object, creates it if `or_create`; with a hint that may be stale.
    Update {
        /// Its number.
        name: u8,
        /// To what.
        content: Content,
        /// Whether a missing one is created.
        or_create: bool,
        /// A hint from so many changes ago.
        hint: Option<u8>,
    },
    /// Deletes an object, with a hint from so many changes ago.
    Delete(u8, Option<u8>),
    /// Reads an object.
    Get(u8),
    /// Lists in pages, at a revision of the past or now.
    List {
        /// The number of changes since.
        back: Option<u8>,
        /// The number of objects of a page.
        limit: Option<usize>,
        /// Whether only what is labelled `app=web`.
        selected: bool,
    },
    /// Writes something else between two pages.
    ListAround(usize, u8, Content),
    /// Forgets what was before the revision so many changes ago.
    Compact(u8),
    /// Opens a watch so many changes ago and leaves it open.
    Watch {
        /// The number of changes since; with the state if absent.
        back: Option<u8>,
        /// Whether only what is labelled `app=web`.
        selected: bool,
    },
    /// Closes the store and opens it again, if the fixture can.
    Reopen,
}

/// The content of an object: whether it is labelled `app=web`, and a number.
pub type Content = (bool, u8);

/// Random operations, as many as a run has.
pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let name = || 0..NAMES;
    let content = || (any::<bool>(), 0..3_u8);
    let back = || 0..12_u8;
    let hint = || proptest::option::of(0..4_u8);
    let limit = || proptest::option::of(1..4_usize);
    let op = prop_oneof![
        4 => (name(), content()).prop_map(|(name, content)| Op::Create(name, content)),
        6 => (name(), content(), any::<bool>(), hint())
            .prop_map(|(name, content, or_create, hint)| Op::Update { name, content, or_create, hint }),
        3 => (name(), hint()).prop_map(|(name, hint)| Op::Delete(name, hint)),
        2 => name().prop_map(Op::Get),
        4 => (proptest::option::of(back()), limit(), any::<bool>())
            .prop_map(|(back, limit, selected)| Op::List { back, limit, selected }),
        1 => (1..4_usize, name(), content()).prop_map(|(limit, name, content)| Op::ListAround(limit, name, content)),
        1 => back().prop_map(Op::Compact),
        3 => (proptest::option::of(back()), any::<bool>()).prop_map(|(back, selected)| Op::Watch { back, selected }),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..60)
}

/// Runs the model `cases` times, or 2000 times with `KEEPWATCH_LONG` set, each with a fresh fixture.
///
/// ```
/// use keepwatch_storage::testing::{Fixture, model, reference::Reference};
///
/// async fn fresh() -> Fixture {
///     Fixture::new(std::sync::Arc::new(Reference::default()))
/// }
///
/// model::check_model(2, fresh);
/// ```
///
/// # Panics
/// If an answer was wrong, with the fewest operations that lead there.
pub fn check_model<F: Future<Output = Fixture>>(cases: u32, fixture: impl Fn() -> F) {
    let long = std::env::var_os("KEEPWATCH_LONG").is_some_and(|set| !set.is_empty());
    let cases = if long { 2000 } else { cases };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let outcome = TestRunner::new(config).run(&ops(), |ops| {
        runtime.block_on(async { run_model(&ops, fixture().await).await }).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Runs operations on a fresh fixture and compares every answer with the oracle's.
pub async fn run_model(ops: &[Op], fixture: Fixture) -> Result<(), String> {
    let start = fixture.revision().await.get();
    let mut model = Model { fixture, history: History::default(), start, compacted: 0, watches: Vec::new() };
    for (number, op) in ops.iter().enumerate() {
        model = model.step(op).await.map_err(|wrong| format!("operation {number}, {op:?}: {wrong}"))?;
    }
    model.finish().await
}

struct Model {
    fixture: Fixture,
    history: History,
    /// The revision before the first change.
    start: u64,
    compacted: u64,
    watches: Vec<Open>,
}

/// A watch that is left open.
struct Open {
    start: Start,
    selected: bool,
    watch: Watching,
}

fn subject(name: u8, (web, data): Content) -> Pod {
    pod(&format!("p{name}")).label("app", if web { "web" } else { "db" }).data(data.into())
}

fn predicate(selected: bool) -> Predicate {
    if selected { labels("app=web") } else { Predicate::everything() }
}

fn visible(selected: bool) -> impl Fn(&str, &[u8]) -> bool {
    move |_, content| !selected || content.windows(5).any(|window| window == b"\"web\"")
}

fn version(revision: u64) -> ResourceVersion {
    ResourceVersion::new(revision).expect("above zero")
}

macro_rules! must {
    ($holds:expr, $($otherwise:tt)*) => {
        if !$holds {
            return Err(format!($($otherwise)*));
        }
    };
}

impl Model {
    async fn step(mut self, op: &Op) -> Result<Self, String> {
        match op {
            Op::Create(name, content) => self.create(&subject(*name, *content)).await?,
            Op::Update { name, content, or_create, hint } => {
                self.update(&subject(*name, *content), *or_create, *hint).await?;
            }
            Op::Delete(name, hint) => self.delete(&subject(*name, (true, 0)), *hint).await?,
            Op::Get(name) => self.get(&subject(*name, (true, 0))).await?,
            Op::List { back, limit, selected } => {
                let at = back.map(|back| self.back(back));
                self.list(at, *limit, *selected, None).await?;
            }
            Op::ListAround(limit, name, content) => {
                self.list(None, Some(*limit), false, Some(subject(*name, *content))).await?;
            }
            Op::Compact(back) => {
                let revision = self.back(*back);
                self.fixture.compact(version(revision)).await;
                self.compacted = self.compacted.max(revision);
            }
            Op::Watch { back, selected } => self.watch(*back, *selected).await?,
            Op::Reopen => {
                self.close_watches().await?;
                self.fixture.reopen().await;
            }
        }
        let current = self.fixture.revision().await.get();
        must!(current >= self.now(), "the revision fell to {current} from {}", self.now());
        Ok(self)
    }

    /// The revision of the last change.
    fn now(&self) -> u64 {
        self.history.last().max(self.start)
    }

    /// The revision that was current so many changes ago.
    fn back(&self, changes: u8) -> u64 {
        let kept = self.history.changes().len().saturating_sub(changes.into());
        kept.checked_sub(1).map_or(self.start, |last| self.history.changes()[last].revision)
    }

    fn stored(&self, pod: &Pod, at: u64) -> Option<(u64, Vec<u8>)> {
        let key = self.fixture.full_key(pod);
        self.history.state_at(at).get(key.as_str()).map(|(revision, value)| (*revision, value.to_vec()))
    }

    /// The object as it was so many changes ago, if it existed.
    async fn hint(&self, pod: &Pod, back: Option<u8>) -> Option<Object> {
        let (revision, value) = self.stored(pod, self.back(back?))?;
        let (key, value) = (self.fixture.full_key(pod), bytes::Bytes::from(value));
        let attributes =
            crate::Inspector::inspect(&super::PodInspector, &key, &value).expect("it was stored");
        Some(Version { key, value, revision: version(revision), attributes: attributes.into() }.into())
    }

    fn wrote(&mut self, object: &Object, value: &[u8]) -> Result<(), String> {
        must!(object.revision.get() > self.now(), "written at {}, below {}", object.revision, self.now());
        must!(object.value == value, "written as {:?}", object.value);
        self.history.push(Change::write(object));
        Ok(())
    }

    async fn create(&mut self, pod: &Pod) -> Result<(), String> {
        let exists = self.stored(pod, self.now()).is_some();
        match self.fixture.storage.create(&pod.key(), pod.value(), None).await {
            Ok(object) if !exists => self.wrote(&object, &pod.value()),
            Err(StorageError::KeyExists { .. }) if exists => Ok(()),
            other => Err(format!("{other:?}, and exists is {exists}")),
        }
    }

    async fn update(&mut self, pod: &Pod, or_create: bool, hint: Option<u8>) -> Result<(), String> {
        let existing = self.stored(pod, self.now());
        let hint = self.hint(pod, hint).await;
        let options = UpdateOptions { ignore_not_found: or_create, hint, ..UpdateOptions::default() };
        let mut last_seen = None;
        let mut replace = |object: Option<&Object>| {
            last_seen = object.map(|object| (object.revision.get(), object.value.to_vec()));
            Ok(Update::new(pod.value()))
        };
        let updated = self.fixture.storage.guaranteed_update(&pod.key(), options, &mut replace).await;
        match (updated, existing) {
            (Err(StorageError::NotFound { .. }), None) if !or_create => Ok(()),
            (Ok(object), None) if or_create => self.wrote(&object, &pod.value()),
            (Ok(object), Some((revision, value))) if value == pod.value() => {
                must!(object.revision.get() == revision, "a no-op wrote {object:?}");
                Ok(())
            }
            (Ok(object), existing @ Some(_)) => {
                must!(last_seen == existing, "{existing:?} was changed, but {last_seen:?} was seen");
                self.wrote(&object, &pod.value())
            }
            (other, existing) => Err(format!("{other:?}, and {existing:?} exists")),
        }
    }

    async fn delete(&mut self, pod: &Pod, hint: Option<u8>) -> Result<(), String> {
        let existing = self.stored(pod, self.now());
        let options = DeleteOptions { hint: self.hint(pod, hint).await, ..DeleteOptions::default() };
        match (self.fixture.storage.delete(&pod.key(), options, &mut |_| Ok(())).await, existing) {
            (Err(StorageError::NotFound { .. }), None) => Ok(()),
            (Ok(object), Some((_, value))) => {
                must!(object.revision.get() > self.now(), "deleted at {}", object.revision);
                must!(object.value == value, "deleted as {:?}, stored was {value:?}", object.value);
                self.history.push(Change::deletion(&object));
                Ok(())
            }
            (other, existing) => Err(format!("{other:?}, and {existing:?} exists")),
        }
    }

    async fn get(&self, pod: &Pod) -> Result<(), String> {
        let existing = self.stored(pod, self.now());
        let read = self.fixture.get(pod).await.map(|object| (object.revision.get(), object.value.to_vec()));
        must!(read == existing, "{read:?} was read, {existing:?} is stored");
        Ok(())
    }

    /// Lists page by page; with `between` writes that after the first.
    async fn list(
        &mut self,
        at: Option<u64>,
        limit: Option<usize>,
        selected: bool,
        between: Option<Pod>,
    ) -> Result<(), String> {
        let revision = at.unwrap_or(self.now());
        let mut read = at.map_or(ListAt::MostRecent, |at| ListAt::Exact(version(at)));
        let mut found: Vec<(String, u64, Vec<u8>)> = Vec::new();
        let mut between = between;
        loop {
            let request =
                ListRequest { at: read, limit, predicate: predicate(selected), ..ListRequest::all() };
            let list: List = match self.fixture.try_list(request).await {
                Ok(list) => list,
                Err(error) if error.is_expired() => {
                    let allowed = revision < self.compacted || self.fixture.capabilities.cached;
                    must!(allowed, "{revision} is expired, but only {} is compacted", self.compacted);
                    return Ok(());
                }
                Err(error) => return Err(error.to_string()),
            };
            must!(
                revision >= self.compacted || at.is_none() || self.fixture.capabilities.cached,
                "{revision} is compacted, but was listed"
            );
            must!(list.revision.get() == revision, "listed at {}, not {revision}", list.revision);
            must!(limit.is_none_or(|limit| list.items.len() <= limit), "more than {limit:?}: {list:?}");
            found.extend(
                list.items
                    .iter()
                    .map(|item| (item.key.to_string(), item.revision.get(), item.value.to_vec())),
            );
            if let Some(pod) = between.take() {
                self.update(&pod, true, None).await?;
            }
            let Some(next) = list.next else { break };
            if !selected {
                let left = self.history.state_at(revision).len() - found.len();
                must!(list.remaining == Some(left), "{:?} remain, not {left}", list.remaining);
            }
            read = ListAt::Continue(next);
        }
        let visible = visible(selected);
        let state: BTreeMap<_, _> = self.history.state_at(revision);
        let expected: Vec<_> = state
            .into_iter()
            .filter(|(key, (_, content))| visible(key, content))
            .map(|(key, (revision, content))| (key.to_owned(), revision, content.to_vec()))
            .collect();
        must!(found == expected, "listed {found:?}, stored was {expected:?}");
        Ok(())
    }

    async fn watch(&mut self, back: Option<u8>, selected: bool) -> Result<(), String> {
        if self.watches.len() == WATCHES_MAX {
            let oldest = self.watches.remove(0);
            self.close(oldest).await?;
        }
        let from = back.map(|back| self.back(back));
        let start = match from {
            Some(revision) => WatchStart::after(version(revision)),
            None => WatchStart::InitialEvents { position: Position::MostRecent, end_bookmark: true },
        };
        let request = WatchRequest { predicate: predicate(selected), ..WatchRequest::from(start) };
        let watch = self.fixture.watch_with("/pods", request).await;
        let start = from.map_or(Start::State, Start::After);
        self.watches.push(Open { start, selected, watch });
        Ok(())
    }

    async fn close_watches(&mut self) -> Result<(), String> {
        for open in std::mem::take(&mut self.watches) {
            self.close(open).await?;
        }
        Ok(())
    }

    /// Reads a watch up to a fence and compares what it delivered with the history.
    async fn close(&mut self, open: Open) -> Result<(), String> {
        let fence = pod("fence").label("app", "web").data(self.now() as i64);
        self.update(&fence, true, None).await?;
        let Open { start, selected, mut watch } = open;
        let (mut events, mut expired) = (Vec::new(), false);
        let mut is_state_delivered = start != Start::State;
        loop {
            match watch.item().await {
                Some(Ok(event)) => {
                    is_state_delivered |= matches!(event, WatchEvent::Bookmark { .. });
                    let done = is_state_delivered && event.revision().get() >= self.now();
                    events.push(RecordedEvent::from(&event));
                    if done {
                        break;
                    }
                }
                Some(Err(error)) if error.is_expired() => {
                    must!(watch.item().await.is_none(), "something followed {error}");
                    expired = true;
                    break;
                }
                other => return Err(format!("the watch from {start:?} delivered {other:?}")),
            }
        }
        let recorded = Recorded { start, events };
        let visible = visible(selected);
        let found = [
            guarantees::ordered(&recorded),
            guarantees::unique(&recorded),
            guarantees::reliable(&recorded, &self.history, &visible),
        ];
        for found in found {
            found.map_err(|violation| format!("the watch from {start:?} is {violation}: {recorded:?}"))?;
        }
        if expired && !self.fixture.capabilities.cached {
            let reached = recorded.reached().unwrap_or(self.start);
            must!(reached < self.compacted, "expired at {reached}, but only {} is compacted", self.compacted);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), String> {
        self.close_watches().await?;
        self.list(None, None, false, None).await?;
        // All that is kept can still be followed from the oldest revision there is.
        let oldest = self.compacted.max(self.start);
        let watch = self.fixture.watch(WatchStart::after(version(oldest))).await;
        self.close(Open { start: Start::After(oldest), selected: false, watch }).await
    }
}
