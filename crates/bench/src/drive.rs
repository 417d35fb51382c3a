//! Requests, many at a time: as fast as they are answered, or at a pace.
//!
//! Kept true: at a pace, the latency of a request counts from the time at which it was due, so a server that stalls
//! cannot hide that. The run does not wait much longer than planned for a server that cannot keep up with the pace; the
//! requests that were not sent are counted.

use crate::{
    Failure,
    cluster::{Connection, RequestError},
    custom,
    delivery::Writes,
    events::version_in,
    latency::Latencies,
    run::Run,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use http::{Method, StatusCode};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A request that is repeated.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Creates objects from this number on.
    Create(usize),
    /// Replaces objects.
    Update,
    /// Changes an annotation of the first so many objects.
    Patch(usize),
    /// Deletes objects from this number on.
    Delete(usize),
    /// Creates the leases of so many nodes.
    Join(usize),
    /// Renews the leases of so many nodes.
    Renew(usize),
    /// Creates definitions of custom kinds from this number on.
    Define(usize),
    /// Deletes them.
    Undefine,
    /// Gets one object over a connection that is made for it.
    Connect,
    /// Reads a whole list, which must have this many objects.
    List { path: String, expected: usize },
    /// Reads a whole list in pages of this size.
    Pages { size: usize, expected: usize },
}

/// The duration of a load, and its rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The load ends when this is over, or so many requests were sent.
    pub(crate) duration: Duration,
    pub(crate) count: Option<u64>,
    /// The number of requests per second; as many as possible if absent.
    pub(crate) rate: Option<f64>,
}

impl Pace {
    /// As fast as they are answered.
    pub(crate) fn unlimited(duration: Duration) -> Self {
        Pace { duration, count: None, rate: None }
    }

    /// So many, as fast as they are answered.
    pub(crate) fn exactly(count: u64) -> Self {
        Pace { duration: Duration::MAX, count: Some(count), rate: None }
    }

    pub(crate) fn at_rate(duration: Duration, rate: f64) -> Self {
        Pace { duration, count: None, rate: Some(rate) }
    }

    /// Whether no more requests are sent, whatever their numbers.
    fn is_over(&self, began: Instant) -> bool {
        let overtime = if self.rate.is_some() { OVERTIME } else { Duration::ZERO };
        began.elapsed() >= self.duration.saturating_add(overtime)
    }

    /// The time at which the request of this number is due; absent if there is no such request.
    fn due(&self, began: Instant, number: u64) -> Option<Instant> {
        if number >= self.planned().unwrap_or(u64::MAX) {
            return None;
        }
        Some(match self.rate {
            Some(rate) => began + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        })
    }

    /// The number of requests, if it is known beforehand.
    fn planned(&self) -> Option<u64> {
        let by_rate = self.rate.map(|rate| (rate * self.duration.as_secs_f64()).ceil() as u64);
        self.count.into_iter().chain(by_rate).min()
    }
}

/// The time beyond the duration in which a server that is behind still gets requests.
const OVERTIME: Duration = Duration::from_secs(1);

/// The results of requests.
#[derive(Debug, Default)]
pub(crate) struct DriveResult {
    pub(crate) count: u64,
    pub(crate) failed: u64,
    /// The number of requests that there was no time for.
    pub(crate) unsent: u64,
    /// The first error.
    pub(crate) first_failure: Option<String>,
}

struct Drive {
    run: Arc<Run>,
    request: Request,
    pace: Pace,
    began: Instant,
    next: AtomicU64,
    failed: AtomicU64,
    done: AtomicU64,
    written: Arc<Writes>,
    latencies: Arc<Latencies>,
}

/// The number of connections that are opened at a time.
const CONNECTING_MAX: usize = 32;

/// Connected clients: the time of connecting is not measured with that of their requests.
pub(crate) async fn clients(run: &Run, count: usize) -> Result<Vec<Connection>, Failure> {
    let connecting = (0..count.max(1)).map(|_| run.cluster.connect());
    stream::iter(connecting).buffer_unordered(CONNECTING_MAX).try_collect().await
}

/// Sends requests, one at a time by each client, and counts what was written.
pub(crate) async fn drive(
    run: &Arc<Run>,
    clients: Vec<Connection>,
    request: Request,
    pace: Pace,
    written: &Arc<Writes>,
    latencies: &Arc<Latencies>,
) -> Result<DriveResult, Failure> {
    let drive = Arc::new(Drive {
        run: Arc::clone(run),
        request,
        pace,
        began: Instant::now(),
        next: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        done: AtomicU64::new(0),
        written: Arc::clone(written),
        latencies: Arc::clone(latencies),
    });
    // All workers end if this is dropped.
    let working = |(worker, client)| tokio::spawn(Arc::clone(&drive).work(worker, client));
    let workers: Vec<_> = clients.into_iter().enumerate().map(working).map(AbortOnDropHandle::new).collect();
    let faults = try_join_all(workers).await.map_err(Failure::at("a client failed"))?;
    let faults: Result<Vec<_>, Failure> = faults.into_iter().collect();
    let (count, failed) = (drive.done.load(Relaxed), drive.failed.load(Relaxed));
    let planned = drive.pace.planned().filter(|_| !run.stop.is_cancelled());
    let unsent = planned.map_or(0, |planned| planned.saturating_sub(count + failed));
    Ok(DriveResult { count, failed, unsent, first_failure: faults?.into_iter().flatten().next() })
}

impl Drive {
    /// Returns the first error, if there was one.
    async fn work(self: Arc<Self>, worker: usize, connection: Connection) -> Result<Option<String>, Failure> {
        let (mut connected, mut first) = (Some(connection), None);
        // The time first: every number that is taken is sent, so that the numbers of sent requests have no gaps.
        while !self.run.stop.is_cancelled() && !self.pace.is_over(self.began) {
            let number = self.next.fetch_add(1, Relaxed);
            let Some(due) = self.pace.due(self.began, number) else { break };
            let since = wait(due).await;
            let mut connection = match connected.take() {
                Some(connection) => connection,
                None => self.run.cluster.connect().await?,
            };
            let sent = self.send(&mut connection, number as usize, since).await;
            // A broken connection is of no further use.
            if !matches!(sent, Err(RequestError::Broken(_))) {
                connected = Some(connection);
            }
            match sent {
                Ok(()) => {
                    self.latencies.record(worker, since.elapsed().as_micros() as u64);
                    self.done.fetch_add(1, Relaxed);
                    self.run.sampler.done(1);
                }
                Err(refused) => {
                    self.failed.fetch_add(1, Relaxed);
                    first.get_or_insert(refused.to_string());
                }
            }
        }
        Ok(first)
    }

    /// The object contains the time from which the write counts, from which watchers compute the lateness of its event.
    async fn send(
        &self,
        connection: &mut Connection,
        number: usize,
        since: Instant,
    ) -> Result<(), RequestError> {
        let objects = &self.run.objects;
        let sent = objects.at(since.into_std());
        let some = any(number, self.run.options.objects);
        match &self.request {
            Request::Create(first) => {
                let number = first + number;
                let (path, json) = (objects.collection(number), objects.json(number, sent));
                self.write(connection, Method::POST, number, &path, json).await
            }
            Request::Update => {
                self.write(connection, Method::PUT, some, &objects.path(some), objects.json(some, sent)).await
            }
            Request::Patch(count) => {
                let some = any(number, *count);
                self.write(connection, Method::PATCH, some, &objects.path(some), objects.touch(sent)).await
            }
            Request::Delete(first) => self.delete(connection, first + number).await,
            Request::Join(nodes) => {
                let node = number % nodes;
                match connection.ask(Method::POST, &objects.leases(), objects.lease(node)).await {
                    // The node joined in an earlier load.
                    Err(RequestError::Answer(StatusCode::CONFLICT, _)) => Ok(()),
                    answer => answer.map(drop),
                }
            }
            Request::Renew(nodes) => {
                let path = format!("{}/{}", objects.leases(), objects.name(number % nodes));
                connection.ask(Method::PATCH, &path, objects.renewal()).await.map(drop)
            }
            Request::Define(first) => {
                let json = custom::small_definition(objects.run(), first + number, &objects.labels());
                connection.ask(Method::POST, custom::DEFINITIONS, json).await.map(drop)
            }
            Request::Undefine => {
                let path = format!("{}/{}.{}", custom::DEFINITIONS, custom::small(number), objects.group());
                connection.ask(Method::DELETE, &path, Bytes::new()).await.map(drop)
            }
            Request::Connect => {
                let mut own = self.run.cluster.connect().await?;
                own.get(&objects.path(some)).await?;
                Ok(())
            }
            Request::List { path, expected } => {
                let read = connection.read_through(path, &objects.needle()).await?;
                whole(read.found, *expected)
            }
            Request::Pages { size, expected } => self.pages(connection, *size, *expected).await,
        }
    }

    async fn write(
        &self,
        connection: &mut Connection,
        method: Method,
        object: usize,
        path: &str,
        json: String,
    ) -> Result<(), RequestError> {
        let is_new = method == Method::POST;
        let answer = connection.ask(method, path, json).await.inspect_err(|refused| {
            if refused.is_uncertain() {
                self.written.unanswered(object);
            }
            if is_new {
                self.written.not_created(object);
            }
        })?;
        let version = version_in(&answer).ok_or_else(|| Failure::new(format!("{path} has no version")))?;
        self.written.changed(object, version);
        Ok(())
    }

    /// Whether an object may be missing, because its creation failed.
    async fn delete(&self, connection: &mut Connection, object: usize) -> Result<(), RequestError> {
        match connection.ask(Method::DELETE, &self.run.objects.path(object), Bytes::new()).await {
            Ok(_) => {
                self.written.deleted(object);
                Ok(())
            }
            Err(RequestError::Answer(StatusCode::NOT_FOUND, _)) if self.written.may_be_missing(object) => {
                Ok(())
            }
            Err(refused) => {
                if refused.is_uncertain() {
                    self.written.unanswered(object);
                }
                Err(refused)
            }
        }
    }

    async fn pages(
        &self,
        connection: &mut Connection,
        size: usize,
        expected: usize,
    ) -> Result<(), RequestError> {
        let base = format!("{}?limit={size}", self.run.objects.all());
        let (mut found, mut path) = (0, base.clone());
        loop {
            let read = connection.read_through(&path, &self.run.objects.needle()).await?;
            found += read.found;
            match crate::events::text_after(&read.start, br#""continue":""#) {
                Some(token) if !token.is_empty() => path = format!("{base}&continue={token}"),
                _ => return whole(found, expected),
            }
        }
    }
}

/// One of so many, in an order in which neighbours do not follow each other and each occurs once.
fn any(number: usize, count: usize) -> usize {
    let count = count.max(1);
    let stride = if count.is_multiple_of(7919) { 7907 } else { 7919 };
    number.wrapping_mul(stride) % count
}

/// Waits until a request is due, and returns the time from which it counts. A timer fires up to a millisecond late, which is
/// not the server's fault; but if the request is due already, the client waited for the response to an earlier one.
async fn wait(due: Instant) -> Instant {
    if due <= Instant::now() {
        return due;
    }
    tokio::time::sleep_until(due).await;
    Instant::now()
}

/// An incomplete list is an error.
fn whole(found: usize, expected: usize) -> Result<(), RequestError> {
    if found == expected {
        return Ok(());
    }
    let text = format!("a list has {found} objects where there are {expected}");
    Err(RequestError::Answer(StatusCode::OK, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_due_as_often_as_agreed_and_not_beyond_the_end() {
        let began = Instant::now();
        let pace = Pace::at_rate(Duration::from_secs(2), 10.0);
        let due = |number| pace.due(began, number).map(|due| due.duration_since(began).as_millis());
        assert_eq!((due(0), due(15), due(19), due(20)), (Some(0), Some(1500), Some(1900), None));
        tokio::time::advance(Duration::from_millis(2999)).await;
        assert!(!pace.is_over(began), "who is late is waited for");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(pace.is_over(began));
        let pace = Pace::exactly(3);
        assert_eq!((0..5).filter(|number| pace.due(began, *number).is_some()).count(), 3);
        let (pace, began) = (Pace::unlimited(Duration::from_secs(1)), Instant::now());
        assert!(pace.due(began, 1_000_000).is_some() && !pace.is_over(began));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(pace.is_over(began));
    }

    #[test]
    fn every_object_has_its_turn() {
        for count in [1, 2, 100, 7919, 15838] {
            let mut seen: Vec<_> = (0..count).map(|number| any(number, count)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_request_counts_from_when_it_was_due() {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(wait(began + Duration::from_secs(1)).await, began + Duration::from_secs(1));
        assert_eq!(wait(began + Duration::from_secs(5)).await, began + Duration::from_secs(5));
        assert_eq!(Instant::now(), began + Duration::from_secs(5));
    }

    #[test]
    fn an_incomplete_list_is_an_error() {
        assert!(whole(5, 5).is_ok());
        assert_eq!(whole(4, 5).unwrap_err().to_string(), "200 OK: a list has 4 objects where there are 5");
    }
}
