//! For users of kube-runtime: the events of an informer in the form of its `watcher`.
//!
//! Invariant: the initial objects come between `Init` and `InitDone`, all other events after that.

use crate::{
    informer::{Event, Events, Stopped},
    object::{Object, ObjectKey},
};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use kube_runtime::watcher;
use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    task::{Context, Poll, ready},
};

impl<O: Object + Clone> Events<O> {
    /// The same events in the form of kube-runtime's `watcher`, for its `reflector` and `Controller::for_stream`.
    /// Objects are cloned. The stream has no errors.
    ///
    /// ```no_run
    /// # use futures::StreamExt;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use keepwatch_informer::Informer;
    /// # use kube_runtime::{Controller, WatchStreamExt, reflector};
    /// # fn example(pods: Informer<Pod>) {
    /// let (reader, writer) = reflector::store();
    /// let touched = reflector(writer, pods.subscribe().into_watcher()).touched_objects();
    /// let controller = Controller::for_stream(touched, reader);
    /// # }
    /// ```
    pub fn into_watcher(self) -> impl Stream<Item = watcher::Result<watcher::Event<O>>> + Send {
        let synced = self.synced().boxed();
        AsWatcher {
            events: self,
            synced: Some(synced),
            ready: VecDeque::from([watcher::Event::Init]),
            later: HashMap::new(),
        }
        .map(Ok)
    }
}

struct AsWatcher<O: Object> {
    events: Events<O>,
    /// Present until all initial events were taken.
    synced: Option<BoxFuture<'static, Result<(), Stopped>>>,
    /// Events to deliver next.
    ready: VecDeque<watcher::Event<O>>,
    /// Objects that were deleted before `InitDone` and not created again: `watcher` has no deletions before
    /// `InitDone`.
    later: HashMap<ObjectKey, O>,
}

impl<O: Object> Unpin for AsWatcher<O> {}

impl<O: Object + Clone> Stream for AsWatcher<O> {
    type Item = watcher::Event<O>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<watcher::Event<O>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if let Some(Poll::Ready(synced)) = self.synced.as_mut().map(|synced| synced.poll_unpin(cx)) {
                if synced.is_err() {
                    // The informer stopped before it was synced, so there must be no `InitDone`.
                    return Poll::Ready(None);
                }
                self.synced = None;
                self.ready.push_back(watcher::Event::InitDone);
                let later = std::mem::take(&mut self.later);
                self.ready.extend(later.into_values().map(watcher::Event::Delete));
                continue;
            }
            let Some(event) = ready!(self.events.poll_next_unpin(cx)) else { return Poll::Ready(None) };
            let object = O::clone(event.object());
            match (event, self.synced.is_some()) {
                (Event::Deleted { .. }, true) => drop(self.later.insert(object.key(), object)),
                (Event::Deleted { .. }, false) => self.ready.push_back(watcher::Event::Delete(object)),
                (_, true) => {
                    self.later.remove(&object.key());
                    self.ready.push_back(watcher::Event::InitApply(object));
                }
                (_, false) => self.ready.push_back(watcher::Event::Apply(object)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        informer::script::scripted,
        testing::{Thing, name},
    };

    fn word(event: watcher::Result<watcher::Event<Thing>>) -> String {
        match event.unwrap() {
            watcher::Event::Init => "init".to_owned(),
            watcher::Event::InitApply(object) => format!("listed {}", name(&object)),
            watcher::Event::InitDone => "done".to_owned(),
            watcher::Event::Apply(object) => format!("applied {}", name(&object)),
            watcher::Event::Delete(object) => format!("deleted {}", name(&object)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_have_the_form_of_a_watcher() {
        let scripted = scripted(&["10 a@1 b@2", "watch: 5s; ~a@11; +c@12; -b@13"]);
        let watcher = scripted.informer.subscribe().into_watcher().map(word);
        let _scripted = scripted.run_for(1).await;
        let late = _scripted.informer.subscribe().into_watcher().map(word);
        let events: Vec<_> = watcher.take(7).collect().await;
        assert_eq!(
            events.join(", "),
            "init, listed a@1, listed b@2, done, applied a@11, applied c@12, deleted b@13"
        );
        let late: Vec<_> = late.take(7).collect().await;
        assert_eq!((late[0].as_str(), late[3].as_str(), late[6].as_str()), ("init", "done", "deleted b@13"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_list_is_reported_as_complete() {
        let scripted = scripted(&["10", "watch:"]);
        let watcher = scripted.informer.subscribe().into_watcher().map(word);
        let _scripted = scripted.run_for(1).await;
        assert_eq!(watcher.take(2).collect::<Vec<_>>().await.join(", "), "init, done");
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_that_stops_before_it_is_synced_never_reports_init_done() {
        let scripted = scripted(&[]);
        let watcher = scripted.informer.subscribe().into_watcher().map(word);
        let scripted = scripted.run_for(1).await;
        scripted.stop.cancel();
        assert_eq!(watcher.collect::<Vec<_>>().await.join(", "), "init");
    }

    /// The store of kube-runtime, filled from an informer.
    #[tokio::test(start_paused = true)]
    async fn a_kube_runtime_reflector_can_be_filled_from_an_informer() {
        use kube_runtime::{WatchStreamExt, reflector};
        let scripted = scripted(&["10 a@1 b@2", "watch: 5s; ~a@11; -b@13"]);
        let (reader, writer) = reflector::store::<Thing>();
        let touched = reflector(writer, scripted.informer.subscribe().into_watcher()).touched_objects();
        let _scripted = scripted.run_for(1).await;
        let touched: Vec<_> = touched.take(4).map(|object| name(&object.unwrap())).collect().await;
        assert_eq!(touched.join(" "), "a@1 b@2 a@11 b@13");
        let names: Vec<_> = reader.state().iter().map(|object| name(object)).collect();
        assert_eq!(names, ["a@11"]);
    }
}
