//! Work on large documents, which takes long: it is done by threads of its own, as many as there are cores, so that it
//! never keeps those from their work that answer everybody else.

use std::{
    future::Future,
    sync::{Arc, LazyLock},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinError,
};

/// From how many bytes on a document is large: reading, checking and writing such a one takes milliseconds.
pub(crate) const LARGE_BYTES_MIN: usize = 64 << 10;

/// One for each core, whatever number of servers a process has.
static THREADS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(cores))
});

/// Waits until a thread is free for large work. Who is dropped meanwhile does not wait any longer.
pub(crate) async fn thread() -> Thread {
    // It is never closed.
    Thread { _permit: Arc::clone(&THREADS).acquire_owned().await.ok() }
}

/// The right to a thread for large work.
pub(crate) struct Thread {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Thread {
    /// Does something there, which is finished in any case.
    pub(crate) async fn run<F>(self, work: F) -> Result<F::Output, JoinError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || {
            let done = handle.block_on(work);
            drop(self);
            done
        })
        .await
    }
}
