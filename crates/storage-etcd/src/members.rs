//! The choice of the member of the cluster that is asked, and of the next one if it does not answer.
//!
//! One client for each member, and all requests go to the preferred one; it stays preferred until it fails or
//! is slow. Any member will do: each answers reads and passes writes on to the leader.
//!
//! Kept true: a read that one member cannot answer, or not soon, is put to the next; a write is sent again only
//! if it was certainly not done; nothing takes longer than the request timeout. A member that is overtaken by
//! one that was asked a whole patience later is suspected to hang, and its watches move.

use crate::{
    api::{Call, Client, RangeRequest, StatusRequest, StatusResponse},
    compact::COMPACT_REV_KEY,
    error::{ConnectError, Fault},
    options::{EtcdOptions, EtcdUser},
};
use futures::{StreamExt, stream::FuturesUnordered};
use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OnceCell, watch},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tonic::{Status, transport::Endpoint};

/// The time in which one member alone is waited for. Then a read is put to the next one as well, and new requests go there;
/// the first answer counts. Giving the slow member up instead would make a long list fail everywhere.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same for a member that is asked only to see whether it answers.
const PROBE_PATIENCE: Duration = Duration::from_millis(500);

/// The time after which the members are asked again, when none of them could do a request.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// etcd's way to say that rights were changed since we logged in.
const LOGIN_OUTDATED: &str = "etcdserver: revision of auth store is old";

/// The members of the cluster.
pub(crate) struct Members {
    members: Vec<Member>,
    preferred: AtomicUsize,
    request_timeout: Duration,
}

struct Member {
    number: usize,
    endpoint: Endpoint,
    user: Option<EtcdUser>,
    dial_timeout: Duration,
    /// Made when first needed: with a user it takes a conversation, and the member may be down.
    connection: OnceCell<Arc<Connection>>,
    /// Counts how often the member was suspected to hang.
    suspicions: watch::Sender<u64>,
}

/// Asks for the current revision. Reads no value, and no key but one that the user must have rights to anyway.
pub(crate) async fn current_revision(member: Arc<Connection>) -> Result<i64, Status> {
    let response =
        member.client.call(&RangeRequest { keys_only: true, ..RangeRequest::key(COMPACT_REV_KEY) }).await?;
    Ok(response.header.map_or(0, |header| header.revision))
}

/// The client of one member. Its channel connects, and connects again, by itself.
pub(crate) struct Connection {
    /// The number of this member.
    pub(crate) number: usize,
    pub(crate) client: Client,
    suspicions: watch::Receiver<u64>,
}

impl Connection {
    /// Changes when the member is suspected to hang, from now on.
    pub(crate) fn suspicions(&self) -> watch::Receiver<u64> {
        let mut suspicions = self.suspicions.clone();
        suspicions.mark_unchanged();
        suspicions
    }

    /// Logs in again.
    pub(crate) async fn log_in(&self) -> Result<(), Fault> {
        self.client.log_in().await.map_err(Fault::from)
    }
}

impl Member {
    async fn connection(&self) -> Result<Arc<Connection>, Fault> {
        let connect = async {
            let client = Client::connect(self.endpoint.connect_lazy(), self.user.clone()).await?;
            let suspicions = self.suspicions.subscribe();
            Ok::<_, Fault>(Arc::new(Connection { number: self.number, client, suspicions }))
        };
        let connection = self
            .connection
            .get_or_try_init(|| async {
                timeout(self.dial_timeout, connect).await.unwrap_or(Err(Fault::Timeout))
            })
            .await;
        match connection {
            Ok(connection) => Ok(connection.clone()),
            // The request itself was not sent yet.
            Err(Fault::Unknown(status)) => Err(Fault::NotDone(status)),
            Err(Fault::Timeout) => Err(Fault::NotDone(Status::deadline_exceeded("logging in timed out"))),
            Err(fault) => Err(fault),
        }
    }
}

impl Members {
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, ConnectError> {
        let member = |(number, endpoint)| Member {
            number,
            endpoint,
            user: options.user.clone(),
            dial_timeout: options.dial_timeout,
            connection: OnceCell::new(),
            suspicions: watch::Sender::new(0),
        };
        Ok(Self {
            members: options.build_endpoints()?.into_iter().enumerate().map(member).collect(),
            preferred: AtomicUsize::new(0),
            request_timeout: options.request_timeout,
        })
    }

    /// Sends a request that may be done twice, and returns the response of the member that answers first.
    pub(crate) async fn call<R: Call>(&self, request: &R) -> Result<R::Response, Fault> {
        self.read(|member| async move { member.client.call(request).await }).await
    }

    /// Asks for the state of the member that answers first.
    pub(crate) async fn status(&self) -> Result<StatusResponse, Fault> {
        self.call(&StatusRequest {}).await
    }

    /// Has something done that may be done twice, by whichever member answers.
    pub(crate) async fn read<T, F>(&self, call: impl Fn(Arc<Connection>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.ask_from(self.preferred(), PATIENCE, call).await
    }

    /// Asks `first`, and the others in turn as soon as one fails or is waited for longer than `patience`.
    async fn ask_from<T, F>(
        &self,
        first: usize,
        patience: Duration,
        call: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let deadline = self.deadline();
        let mut running = FuturesUnordered::new();
        // Who has not answered yet, and since when.
        let mut asked: Vec<(usize, Instant)> = Vec::new();
        let mut started = 0;
        let mut last = Fault::Timeout;
        let mut next = first;
        let mut next_start = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some((member, since, result)) = running.next() => {
                    asked.retain(|(other, _)| *other != member);
                    match result {
                        Ok(value) => {
                            self.prefer(member);
                            let overtaken = |(_, other): &&(usize, Instant)| *other + patience <= since;
                            asked.iter().filter(overtaken).for_each(|(slow, _)| self.suspect(*slow));
                            return Ok(value);
                        }
                        Err(fault @ Fault::Answer(_)) => return Err(fault),
                        Err(fault) => {
                            self.leave(member);
                            // An error of one member says more than that another cannot be reached.
                            if !last.is_no_leader() {
                                last = fault;
                            }
                            let all_were_asked = started >= self.members.len();
                            let pause = if all_were_asked { ROUND_PAUSE } else { Duration::ZERO };
                            next_start = Instant::now() + pause;
                        }
                    }
                }
                // The earlier failures of members say more than that the last attempt came too late.
                () = sleep_until(deadline) => return Err(last),
                () = sleep_until(next_start), if running.len() < self.members.len() => {
                    asked.iter().for_each(|(slow, _)| self.leave(*slow));
                    while asked.iter().any(|(other, _)| *other == next) {
                        next = self.after(next);
                    }
                    let (member, since, call) = (next, Instant::now(), &call);
                    running.push(async move { (member, since, self.attempt(member, call).await) });
                    asked.push((member, since));
                    started += 1;
                    next = self.after(member);
                    next_start = since + patience;
                }
            }
        }
    }

    /// Until when a request that begins now may take.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout
    }

    /// Has something done that must not be done twice.
    pub(crate) async fn write<T, F>(
        &self,
        deadline: Instant,
        call: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        for started in 1.. {
            let member = self.preferred();
            let mut attempt = pin!(self.attempt(member, &call));
            let result = match timeout_at(deadline.min(Instant::now() + PATIENCE), &mut attempt).await {
                Ok(result) => result,
                Err(_) => {
                    // This one is bound to the member it was sent to. Others need not be.
                    self.leave(member);
                    tokio::select! {
                        result = timeout_at(deadline, attempt) => result.unwrap_or(Err(Fault::Timeout)),
                        never = self.suspect_if_it_hangs(member) => match never {},
                    }
                }
            };
            let not_done = match result {
                Err(fault @ Fault::NotDone(_)) => fault,
                Err(fault @ (Fault::Unknown(_) | Fault::Timeout)) => {
                    self.leave(member);
                    return Err(fault);
                }
                decided => return decided,
            };
            self.leave(member);
            if started % self.members.len() == 0 {
                if Instant::now() + ROUND_PAUSE >= deadline {
                    return Err(not_done);
                }
                tokio::time::sleep(ROUND_PAUSE).await;
            }
        }
        Err(Fault::Timeout)
    }

    async fn attempt<T, F>(&self, member: usize, call: impl Fn(Arc<Connection>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let connection = self.members[member].connection().await?;
        let result = call(connection.clone()).await.map_err(Fault::from);
        if let Err(fault) = &result
            && fault.message() == LOGIN_OUTDATED
        {
            connection.log_in().await?;
        }
        result
    }

    fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    fn after(&self, member: usize) -> usize {
        (member + 1) % self.members.len()
    }

    fn prefer(&self, member: usize) {
        self.preferred.store(member, Ordering::Relaxed);
    }

    /// Suspects a member if another one answers sooner what costs next to nothing to answer.
    async fn suspect_if_it_hangs(&self, member: usize) -> Infallible {
        if self.members.len() > 1 {
            // Whatever comes of it: a suspicion is all that is wanted.
            let _answer = self.ask_from(member, PROBE_PATIENCE, current_revision).await;
        }
        std::future::pending().await
    }

    /// This one was asked well before another, which has answered.
    fn suspect(&self, member: usize) {
        let member = &self.members[member];
        tracing::info!(member = %member.endpoint.uri(), "an etcd member does not answer");
        member.suspicions.send_modify(|count| *count += 1);
    }

    /// Makes the next member the preferred one, unless another request has done so already.
    pub(crate) fn leave(&self, member: usize) {
        let next = self.after(member);
        if next != member
            && self.preferred.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let from = self.members[member].endpoint.uri();
            tracing::debug!(%from, to = %self.members[next].endpoint.uri(), "changing etcd member");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three members that take this long to answer. Nothing is sent to them.
    async fn suspected_members(answer_after_ms: [u64; 3]) -> [bool; 3] {
        let endpoints = [1, 2, 3].map(|port| format!("http://127.0.0.1:{port}"));
        let members = Members::new(&EtcdOptions::new(endpoints)).unwrap();
        let suspicions = [0, 1, 2].map(|member: usize| members.members[member].suspicions.subscribe());
        let answer = members.read(|member| async move {
            tokio::time::sleep(Duration::from_millis(answer_after_ms[member.number])).await;
            Ok(())
        });
        answer.await.unwrap();
        suspicions.map(|suspicions| suspicions.has_changed().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_member_that_was_overtaken_is_suspected() {
        assert_eq!(suspected_members([1_900, 10, 10]).await, [false, false, false]);
        assert_eq!(suspected_members([9_000, 10, 10]).await, [true, false, false]);
        assert_eq!(suspected_members([9_000, 9_000, 10]).await, [true, true, false]);
        // The first answers late, the second was asked only just now.
        assert_eq!(suspected_members([2_050, 9_000, 10]).await, [false, false, false]);
        assert_eq!(suspected_members([9_000, 2_050, 9_000]).await, [true, false, false]);
    }
}
