//! A running informer, as a sequence of events and status changes.
//!
//! Kept true by [`Session::next`]: a broken watch is reported after all events that were received before; a resumed watch, before
//! all events that are received after. The initial state comes first, and then the report that it is complete.

use super::{
    Subject,
    status_change::{self, StatusChange},
};
use crate::flags::Failure;
use futures::{StreamExt, future::BoxFuture};
use keepwatch_informer::{
    Event, Events, Informer, InformerError, Lean, Status, Stopped,
    error::{Class, Phase},
    informer::WatchStatus,
    object::oldest_version,
};
use kube_client::{Client, core::DynamicObject};
use std::{collections::VecDeque, time::Duration};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// An object in the store.
pub(super) type StoredObject = Lean<DynamicObject>;

/// The time in which a server may send nothing; it should send a bookmark about once a minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// The maximum number of undecodable objects that wait to be reported; more are not reported.
const UNREADABLE_MAX: usize = 64;

/// An event, or a change of the informer's status.
pub(super) enum Update {
    Event(Event<StoredObject>),
    StatusChange(StatusChange),
}

pub(super) struct Session {
    informer: Informer<StoredObject>,
    events: Events<StoredObject>,
    status: watch::Receiver<Status>,
    unreadable: mpsc::Receiver<InformerError>,
    synced: BoxFuture<'static, Result<(), Stopped>>,
    is_synced: bool,
    /// The number of objects of the initial state that were delivered so far.
    initial: usize,
    seen: Vec<WatchStatus>,
    /// Status changes that are reported once no event is left.
    pending: VecDeque<StatusChange>,
    title: String,
}

impl Session {
    pub(super) fn start(client: Client, subject: &Subject, labels: &str, fields: &str) -> Session {
        let (complain, unreadable) = mpsc::channel(UNREADABLE_MAX);
        let informer = Informer::dynamic(client, &subject.resource.api)
            .namespaces(subject.namespaces.clone())
            .labels(labels)
            .fields(fields)
            .idle_timeout(SILENCE_MAX)
            .on_error(move |error| {
                if error.phase == Phase::Decode {
                    let _ = complain.try_send(error.clone());
                }
            })
            .lean()
            .transform(|object: &mut StoredObject| {
                object.remove(&["metadata", "managedFields"]);
            })
            .build();
        let (events, status, seen) = (informer.subscribe(), informer.status(), informer.watch_statuses());
        let synced = Box::pin(events.synced());
        informer.start(CancellationToken::new());
        let title = subject.title();
        let (initial, pending) = (0, VecDeque::new());
        Session {
            informer,
            events,
            status,
            unreadable,
            synced,
            is_synced: false,
            initial,
            seen,
            pending,
            title,
        }
    }

    /// The next event or status change. Dropping the future loses nothing. Fails if no update can follow.
    pub(super) async fn next(&mut self) -> Result<Update, Failure> {
        loop {
            if self.events.pending() == 0
                && let Some(change) = self.pending.pop_front()
            {
                return self.report(change);
            }
            tokio::select! {
                biased;
                _ = &mut self.synced, if !self.is_synced => {
                    self.is_synced = true;
                    return self.report(self.first_state());
                }
                _ = self.status.changed() => self.look(),
                Some(error) = self.unreadable.recv() => self.pending.push_back(StatusChange::Unreadable { error }),
                Some(event) = self.events.next() => {
                    self.initial += usize::from(matches!(event, Event::Added { initial: true, .. }));
                    return Ok(Update::Event(event));
                }
            }
            if self.pending.iter().any(StatusChange::precedes_events)
                && let Some(change) = self.pending.pop_front()
            {
                return self.report(change);
            }
        }
    }

    fn look(&mut self) {
        self.status.mark_unchanged();
        let now = self.informer.watch_statuses();
        self.pending.extend(status_change::between(&self.seen, &now));
        self.seen = now;
    }

    fn report(&self, change: StatusChange) -> Result<Update, Failure> {
        match &change {
            StatusChange::Retrying { error, .. } if change.is_hopeless() => Err(refused(&self.title, error)),
            _ => Ok(Update::StatusChange(change)),
        }
    }

    fn first_state(&self) -> StatusChange {
        let watched = self.informer.watch_statuses();
        let version = oldest_version(watched.iter().map(|own| own.state_version.as_str()));
        StatusChange::Synced { count: self.initial, version: version.to_owned() }
    }

    /// The version that the informer has reached.
    pub(super) fn version(&self) -> String {
        self.informer.store().resource_version()
    }

    /// The status of each watch.
    pub(super) fn watched(&self) -> &[WatchStatus] {
        &self.seen
    }
}

/// The failure if the server rejects the watch.
fn refused(title: &str, error: &InformerError) -> Failure {
    let todo = match error.error.class {
        Class::Forbidden => "it takes the right to list and to watch them",
        Class::Unauthorized => "check the user in the kubeconfig",
        Class::Rejected => "check the selectors",
        _ => "check the names",
    };
    Failure::runtime_error(format!(
        "{title} cannot be watched: {}; {todo}",
        super::text::one_line(&error.error)
    ))
}
