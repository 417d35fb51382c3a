//! An informer at work, and what there is to tell of it, one thing after another.
//!
//! Kept true by [`Session::next`]: that a watch has broken is told after everything that was heard before; that it goes
//! on, before everything that is heard after. What there was at the start is told first, and then that it was all.

use super::{
    Subject,
    news::{self, News},
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

/// An object as it is kept.
pub(super) type Kept = Lean<DynamicObject>;

/// How long a server may say nothing; it should say something about once a minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// How many objects that cannot be read may wait to be told of; of more of them nothing is said.
const UNREADABLE_MAX: usize = 64;

/// Something that happened.
pub(super) enum Happening {
    Event(Event<Kept>),
    News(News),
}

pub(super) struct Session {
    informer: Informer<Kept>,
    events: Events<Kept>,
    status: watch::Receiver<Status>,
    unreadable: mpsc::Receiver<InformerError>,
    synced: BoxFuture<'static, Result<(), Stopped>>,
    is_synced: bool,
    /// How many objects there were at the start, as far as they were told.
    initial: usize,
    seen: Vec<WatchStatus>,
    /// What is told once there is no event left.
    held: VecDeque<News>,
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
            .transform(|object: &mut Kept| {
                object.remove(&["metadata", "managedFields"]);
            })
            .build();
        let (events, status, seen) = (informer.subscribe(), informer.status(), informer.watch_statuses());
        let synced = Box::pin(events.synced());
        informer.start(CancellationToken::new());
        let title = subject.title();
        let (initial, held) = (0, VecDeque::new());
        Session { informer, events, status, unreadable, synced, is_synced: false, initial, seen, held, title }
    }

    /// What happens next. If this is dropped before it is done, nothing is lost. Fails if there is nothing to wait for.
    pub(super) async fn next(&mut self) -> Result<Happening, Failure> {
        loop {
            if self.events.pending() == 0
                && let Some(news) = self.held.pop_front()
            {
                return self.tell(news);
            }
            tokio::select! {
                biased;
                _ = &mut self.synced, if !self.is_synced => {
                    self.is_synced = true;
                    return self.tell(self.first_state());
                }
                _ = self.status.changed() => self.look(),
                Some(error) = self.unreadable.recv() => self.held.push_back(News::Unreadable { error }),
                Some(event) = self.events.next() => {
                    self.initial += usize::from(matches!(event, Event::Added { initial: true, .. }));
                    return Ok(Happening::Event(event));
                }
            }
            if self.held.iter().any(News::comes_first)
                && let Some(news) = self.held.pop_front()
            {
                return self.tell(news);
            }
        }
    }

    fn look(&mut self) {
        self.status.mark_unchanged();
        let now = self.informer.watch_statuses();
        self.held.extend(news::between(&self.seen, &now));
        self.seen = now;
    }

    fn tell(&self, news: News) -> Result<Happening, Failure> {
        match &news {
            News::Retrying { error, .. } if news.is_hopeless() => Err(refused(&self.title, error)),
            _ => Ok(Happening::News(news)),
        }
    }

    fn first_state(&self) -> News {
        let watched = self.informer.watch_statuses();
        let version = oldest_version(watched.iter().map(|own| own.state_version.as_str()));
        News::Synced { count: self.initial, version: version.to_owned() }
    }

    /// Up to which version everything is known.
    pub(super) fn version(&self) -> String {
        self.informer.store().resource_version()
    }

    /// How each of the watches fares.
    pub(super) fn watched(&self) -> &[WatchStatus] {
        &self.seen
    }
}

/// What is said if the server does not want to.
fn refused(title: &str, error: &InformerError) -> Failure {
    let todo = match error.error.class {
        Class::Forbidden => "it takes the right to list and to watch them",
        Class::Unauthorized => "check the user in the kubeconfig",
        Class::Rejected => "check the selectors",
        _ => "check the names",
    };
    Failure::in_vain(format!("{title} cannot be watched: {}; {todo}", super::text::one_line(&error.error)))
}
