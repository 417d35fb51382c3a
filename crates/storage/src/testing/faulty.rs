//! A backend that fails by a plan, so that what stands on it can be shown to bear that.
//!
//! Kept true: with one plan and one order of calls the same faults happen; nothing is made up (what is delivered is
//! what the inner backend delivered) and nothing is torn (a write happens or does not, whatever its caller hears).

use crate::{
    Backend, BackendEvent, BackendWatch, ExpiredRead, Frontier, HistoryExtent, HistoryReader, Key, KeyValue,
    Range, RangeRequest, Scope, StorageError, Swap, Unchanged, Value,
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call does not reach the backend. Reads and writes.
    Unreachable,
    /// The write is made, but its caller hears that the backend is unreachable. For reads as the one above.
    UnreachableAfter,
    /// The call does not reach the backend, and its caller hears of a timeout.
    Timeout,
    /// The write is made, but its caller hears of a timeout. For reads as the one above.
    TimeoutAfter,
    /// The call takes this long before it is made.
    Delay(Duration),
}

/// The way in which a watch ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// After how many events.
    pub after_events: usize,
    /// With an error as its last item, or just so.
    pub with_error: bool,
    /// That error says that the place of the watch is gone.
    pub expired: bool,
}

/// The frequency of each fault, in calls of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// [`Fault::Unreachable`].
    pub unreachable: u32,
    /// [`Fault::UnreachableAfter`].
    pub unreachable_after: u32,
    /// [`Fault::Timeout`].
    pub timeout: u32,
    /// [`Fault::TimeoutAfter`].
    pub timeout_after: u32,
    /// [`Fault::Delay`], each up to `delay_max`.
    pub delay: u32,
    /// The longest delay of a call, and of an event of a watch.
    pub delay_max: Duration,
    /// Watches that are cut without an error.
    pub cut: u32,
    /// Watches that are cut with one.
    pub cut_with_error: u32,
    /// Watches that are cut with the error that their place is gone.
    pub cut_expired: u32,
    /// After how many events a watch is cut at the latest.
    pub cut_after_events_max: usize,
}

/// The faults that happen. The scripted ones come first, then those of the seed.
#[derive(Debug)]
pub struct Plan {
    calls: VecDeque<Option<Fault>>,
    cuts: VecDeque<Option<Cut>>,
    rates: Rates,
    random: Random,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::seeded(0, Rates::default())
    }

    /// The faults follow from the seed and the order of calls.
    pub fn seeded(seed: u64, rates: Rates) -> Self {
        Self { calls: VecDeque::new(), cuts: VecDeque::new(), rates, random: Random(seed) }
    }

    /// The next calls fail like this, one each; `None` lets one pass.
    pub fn calls(mut self, faults: impl IntoIterator<Item = Option<Fault>>) -> Self {
        self.calls.extend(faults);
        self
    }

    /// The next watches are cut like this, one each; `None` leaves one whole.
    pub fn cuts(mut self, cuts: impl IntoIterator<Item = Option<Cut>>) -> Self {
        self.cuts.extend(cuts);
        self
    }

    fn next_call(&mut self) -> Option<Fault> {
        if let Some(scripted) = self.calls.pop_front() {
            return scripted;
        }
        let rates = self.rates;
        let delay = self.random.up_to(rates.delay_max);
        self.random.pick(&[
            (rates.unreachable, Fault::Unreachable),
            (rates.unreachable_after, Fault::UnreachableAfter),
            (rates.timeout, Fault::Timeout),
            (rates.timeout_after, Fault::TimeoutAfter),
            (rates.delay, Fault::Delay(delay)),
        ])
    }

    fn next_cut(&mut self) -> Option<Cut> {
        if let Some(scripted) = self.cuts.pop_front() {
            return scripted;
        }
        let rates = self.rates;
        let after_events = self.random.below(rates.cut_after_events_max as u64 + 1) as usize;
        let cut = |with_error, expired| Cut { after_events, with_error, expired };
        self.random.pick(&[
            (rates.cut, cut(false, false)),
            (rates.cut_with_error, cut(true, false)),
            (rates.cut_expired, cut(true, true)),
        ])
    }

    fn next_event_delay(&mut self) -> Option<Duration> {
        let delay = self.random.up_to(self.rates.delay_max);
        self.random.pick(&[(self.rates.delay, delay)])
    }
}

/// SplitMix64: small, and the same everywhere for ever.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }

    /// One of several, each so often in a thousand; or none.
    fn pick<T: Copy>(&mut self, choices: &[(u32, T)]) -> Option<T> {
        let mut point = self.below(1000);
        for (rate, choice) in choices {
            if point < u64::from(*rate) {
                return Some(*choice);
            }
            point -= u64::from(*rate);
        }
        None
    }
}

/// A fault that happened, and its call.
pub type Injected = (&'static str, String);

/// A backend whose calls fail by a [`Plan`]. Cloning shares it.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Backend>,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    plan: Plan,
    injected: Vec<Injected>,
}

impl Faulty {
    /// Makes `inner` fail by `plan`.
    pub fn new(inner: Arc<dyn Backend>, plan: Plan) -> Self {
        Self { inner, shared: Arc::new(Mutex::new(Shared { plan, injected: Vec::new() })) }
    }

    /// From now on follows this plan. [`Plan::none`] heals what is not cut yet.
    pub fn follow(&self, plan: Plan) {
        self.lock().plan = plan;
    }

    /// The faults so far, in order.
    pub fn injected(&self) -> Vec<Injected> {
        self.lock().injected.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("nothing panics while it holds this")
    }

    /// Draws the fault of a call.
    fn draw(&self, doing: &'static str) -> Option<Fault> {
        let mut shared = self.lock();
        let fault = shared.plan.next_call();
        if let Some(fault) = fault {
            shared.injected.push((doing, format!("{fault:?}")));
        }
        fault
    }

    async fn read<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        match self.draw(doing) {
            None => call.await,
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Some(Fault::Unreachable | Fault::UnreachableAfter) => Err(unreachable(doing)),
            Some(Fault::Timeout | Fault::TimeoutAfter) => Err(StorageError::Timeout { doing }),
        }
    }

    async fn write<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        match self.draw(doing) {
            None => call.await,
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Some(Fault::Unreachable) => Err(unreachable(doing)),
            Some(Fault::Timeout) => Err(StorageError::Timeout { doing }),
            Some(Fault::UnreachableAfter) => call.await.and(Err(unreachable(doing))),
            Some(Fault::TimeoutAfter) => call.await.and(Err(StorageError::Timeout { doing })),
        }
    }

    /// The rest of a watch: its events, each perhaps late, up to where it is cut.
    fn cut(self, watch: BackendWatch, cut: Option<Cut>) -> BackendWatch {
        let whole = (watch, cut, self);
        stream::unfold(Some(whole), |rest| async move {
            let (mut watch, cut, faulty) = rest?;
            if let Some(Cut { after_events: 0, with_error, expired }) = cut {
                faulty.lock().injected.push(("watching", format!("{cut:?}")));
                let error = match expired {
                    true => StorageError::Expired(ExpiredRead::Watch),
                    false => unreachable("watching"),
                };
                return with_error.then(|| (Err(error), None));
            }
            let event: Result<BackendEvent, StorageError> = watch.next().await?;
            let delay = faulty.lock().plan.next_event_delay();
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            let cut = cut.map(|cut| Cut { after_events: cut.after_events - 1, ..cut });
            Some((event, Some((watch, cut, faulty))))
        })
        .boxed()
    }
}

fn unreachable(doing: &'static str) -> StorageError {
    StorageError::Unreachable { doing, source: "an injected fault".into() }
}

#[async_trait]
impl Backend for Faulty {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.read("reading a key", self.inner.get(key)).await
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        self.write("writing a key", self.inner.put_while(key, expected, value, ttl, unchanged)).await
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        self.write("deleting a key", self.inner.delete_if(key, expected)).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        self.read("reading a range", self.inner.range(request)).await
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        let watch = self.read("opening a watch", self.inner.watch(scope, after, progress)).await?;
        let cut = self.lock().plan.next_cut();
        Ok(self.clone().cut(watch, cut))
    }

    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        let watch = self.read("opening a watch", self.inner.watch_past(scope, after, with_previous)).await?;
        let cut = self.lock().plan.next_cut();
        Ok(self.clone().cut(watch, cut))
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.read("requesting progress", self.inner.request_progress()).await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.read("reading the revision", self.inner.current_revision()).await
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.write("compacting", self.inner.compact(revision)).await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.inner.keep_history_for(reader);
    }

    fn history(&self) -> HistoryExtent {
        self.inner.history()
    }

    fn reports_progress(&self) -> bool {
        self.inner.reports_progress()
    }

    fn frontier(&self, scope: &Scope) -> Option<Frontier> {
        self.inner.frontier(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::reference::Reference, *};

    fn key() -> Key {
        Key::from_backend("/registry/pods/ns/a")
    }

    async fn put(backend: &Faulty, expected: Option<ResourceVersion>) -> Result<Swap, StorageError> {
        backend.put_if(&key(), expected, "x".into(), None).await
    }

    #[tokio::test]
    async fn a_write_fails_before_or_after_it_is_made() {
        use Fault::*;
        for (fault, is_made) in
            [(Unreachable, false), (UnreachableAfter, true), (Timeout, false), (TimeoutAfter, true)]
        {
            let backend = Faulty::new(Arc::new(Reference::default()), Plan::none().calls([Some(fault)]));
            let error = put(&backend, None).await.unwrap_err();
            assert_eq!(
                matches!(error, StorageError::Timeout { .. }),
                matches!(fault, Timeout | TimeoutAfter)
            );
            let (_, item) = backend.get(&key()).await.unwrap();
            assert_eq!(item.is_some(), is_made, "{fault:?}");
            assert_eq!(backend.injected(), [("writing a key", format!("{fault:?}"))]);
        }
    }

    #[tokio::test]
    async fn a_watch_is_cut_after_its_events_with_an_error_or_without() {
        for with_error in [false, true] {
            let plan = Plan::none().cuts([Some(Cut { after_events: 2, with_error, expired: false }), None]);
            let backend = Faulty::new(Arc::new(Reference::default()), plan);
            let start = backend.current_revision().await.unwrap();
            let scope = Scope::Object(key());
            let cut = backend.watch(scope.clone(), start, false).await.unwrap();
            let whole = backend.watch(scope, start, false).await.unwrap();
            let mut last = None;
            for _ in 0..3 {
                let Swap::Done(revision) = put(&backend, last).await.unwrap() else { panic!("no conflict") };
                last = Some(revision);
            }
            let events: Vec<_> = cut.collect().await;
            assert_eq!(events.iter().filter(|event| event.is_ok()).count(), 2);
            assert_eq!(events.len(), if with_error { 3 } else { 2 });
            assert_eq!(whole.take(3).filter(|event| std::future::ready(event.is_ok())).count().await, 3);
        }
    }

    #[tokio::test]
    async fn the_same_seed_makes_the_same_faults_and_another_makes_others() {
        let rates = Rates { unreachable: 100, timeout_after: 100, delay: 100, ..Rates::default() };
        let mut runs = Vec::new();
        for seed in [1, 1, 2] {
            let backend = Faulty::new(Arc::new(Reference::default()), Plan::seeded(seed, rates));
            let mut last = None;
            for _ in 0..100 {
                match put(&backend, last).await {
                    Ok(Swap::Done(revision)) => last = Some(revision),
                    Ok(Swap::Conflict(found)) => last = found.map(|item| item.modified),
                    Err(_) => {}
                }
            }
            assert!((10..60).contains(&backend.injected().len()), "{}", backend.injected().len());
            backend.follow(Plan::none());
            put(&backend, None).await.expect("healed");
            runs.push(backend.injected());
        }
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }

    /// The rules that hold with a faulty backend: acknowledged writes are there, and a watch that is taken
    /// up again after each cut has delivered everything.
    #[tokio::test]
    async fn through_faults_nothing_acknowledged_is_lost_and_a_watch_can_be_resumed() {
        use crate::{
            Object, Storage, Store, StoreOptions, Update, UpdateOptions, Version, WatchRequest,
            testing::{
                Pod, PodInspector,
                guarantees::{Change, History, Recorded, Start, everything, resumable},
                pod, pods_prefix,
            },
        };
        use keepwatch_apimachinery::list_options::{Position, WatchStart};
        let rates = Rates {
            unreachable: 50,
            unreachable_after: 50,
            timeout: 50,
            timeout_after: 50,
            cut: 500,
            cut_with_error: 500,
            cut_after_events_max: 20,
            ..Rates::default()
        };
        let healthy = Arc::new(Reference::default());
        let faulty = Arc::new(Faulty::new(healthy.clone(), Plan::seeded(3, rates)));
        let store = |backend| Store::new(backend, StoreOptions::new(pods_prefix(), Arc::new(PodInspector)));
        let (storage, check) = (store(faulty.clone()), store(healthy));
        let created = check.create("/pods/ns/a", pod("a").value(), None).await.unwrap();

        let mut acknowledged = 0;
        for _ in 0..200 {
            let mut increment = |object: Option<&Object>| {
                let data = Pod::data_of(&object.expect("it exists").value);
                Ok(Update::new(pod("a").data(data + 1).value()))
            };
            let updated = storage.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut increment);
            acknowledged += i64::from(updated.await.is_ok());
        }
        let last = check.get("/pods/ns/a", Position::MostRecent).await.unwrap().unwrap();
        let written = Pod::data_of(&last.value);
        assert!(acknowledged < written && written < 200, "{acknowledged} acknowledged, {written} written");

        let (mut parts, mut reached) = (Vec::new(), created.revision);
        while reached < last.revision {
            let request = WatchRequest::from(WatchStart::after(reached));
            let Ok(mut watch) = storage.watch("/pods", request).await else { continue };
            let (start, mut events) = (Start::After(reached.get()), Vec::new());
            while reached < last.revision
                && let Some(Ok(event)) = watch.next().await
            {
                reached = event.revision();
                events.push(event);
            }
            parts.push(Recorded::of(start, &events));
        }
        assert!(parts.len() > 5, "it was cut often");
        let writes = (1..=written).map(|data| Change {
            revision: created.revision.get() + data as u64,
            ..Change::write(
                &Version { value: pod("a").data(data).value(), ..Version::clone(&created) }.into(),
            )
        });
        let history = History::new([Change::write(&created)].into_iter().chain(writes));
        resumable(&parts, &history, &everything).unwrap();
    }
}
