//! The shutdown of a server.

use crate::shutdown_signal::ShutdownSignal;
use std::time::Duration;
use tokio::{
    runtime::Handle,
    task::{AbortHandle, JoinHandle},
};
use tokio_util::task::TaskTracker;

/// The time for which a server that stops waits for its clients, unless a write is in progress.
const LINGER_MAX: Duration = Duration::from_millis(750);
/// The time within which a connection that is abandoned has to be closed.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// The shutdown of a server: it takes no new requests, gives clients a moment to receive their answers, and finishes the
/// writes that were begun. Clients that do not read, or do not finish their requests, are abandoned. Clones share it.
#[derive(Clone, Default)]
pub struct Shutdown {
    /// Set when the server stops.
    pub signal: ShutdownSignal,
    abandoned: ShutdownSignal,
    connections: TaskTracker,
    writes: TaskTracker,
}

impl Shutdown {
    /// Serves a client. A server that stops waits for it, for a moment. Returns a handle with which it is closed at
    /// once.
    pub fn serve(&self, client: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let abandoned = self.abandoned.wait();
        let over = async move {
            abandoned.await;
            Box::pin(tokio::time::sleep(FAREWELL_MAX)).await;
        };
        let serving = self.connections.spawn(async {
            tokio::select! {
                () = client => {}
                () = over => tracing::debug!("a client is abandoned"),
            }
        });
        serving.abort_handle()
    }

    /// Does work that must be finished whether its client still listens or not.
    pub(crate) fn finish_on<F>(&self, work: F, threads: &Handle) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.writes.spawn_on(work, threads)
    }

    /// Waits a moment for all clients, and up to `patience` for all writes.
    pub async fn stop(&self, patience: Duration) {
        self.signal.set();
        self.connections.close();
        self.writes.close();
        let _ = tokio::time::timeout(LINGER_MAX, self.connections.wait()).await;
        // A write whose client is gone is finished too.
        if tokio::time::timeout(patience, self.writes.wait()).await.is_err() {
            tracing::warn!("some writes did not finish in time");
        }
        self.abandoned.set();
        self.connections.wait().await;
    }

    /// Stops without waiting. Clients that read still receive the end of their streams.
    pub fn abandon(&self) {
        self.signal.set();
        self.abandoned.set();
    }
}
