//! Connections on which no request has been authenticated yet. Anybody can open them, so the oldest ones are closed when
//! the process has almost as many files open as it may have.
//!
//! Kept true: a connection is in the list from when it is accepted until it ends or a request on it is authenticated; one
//! that is not in it is never closed for others.

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::task::AbortHandle;

/// Which part of the files that may be open is left for clients that are known, and for the store.
const FREE_FILES_PART: u64 = 8;
const FREE_FILES_MAX: u64 = 1024;

/// The connections without an authenticated request, in the order in which they came.
#[derive(Default)]
pub(crate) struct UnauthenticatedConnections(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    next: u64,
    /// The task that serves each, once that is known.
    tasks: BTreeMap<u64, Option<AbortHandle>>,
}

impl UnauthenticatedConnections {
    /// Adds a connection, which `serve` begins to serve in a task of its own.
    pub(crate) fn add(self: &Arc<Self>, serve: impl FnOnce(Unauthenticated) -> AbortHandle) {
        let number = {
            let connections = &mut *self.0.lock();
            connections.next += 1;
            connections.tasks.insert(connections.next, None);
            connections.next
        };
        // Without the lock: a task that ends at once removes the connection again.
        let task =
            serve(Unauthenticated { list: Arc::clone(self), number, is_removed: AtomicBool::new(false) });
        if let Some(entry) = self.0.lock().tasks.get_mut(&number) {
            *entry = Some(task);
        }
    }

    /// Closes the oldest one, if there is any.
    pub(crate) fn close_oldest(&self) {
        let connections = &mut *self.0.lock();
        let oldest = connections.tasks.iter().find(|(_, task)| task.is_some()).map(|(number, _)| *number);
        if let Some(Some(task)) = oldest.and_then(|number| connections.tasks.remove(&number)) {
            tracing::debug!(
                "a connection without an authenticated request is closed to make room for another"
            );
            task.abort();
        }
    }
}

/// Whether almost as many files are open as this process may open. A new file has the lowest number that is free, so all
/// numbers below its own are taken.
pub(crate) fn is_near_limit(newest: &impl AsRawFd) -> bool {
    getrlimit(Resource::Nofile).current.is_some_and(|limit| is_near(newest.as_raw_fd(), limit))
}

fn is_near(number: RawFd, limit: u64) -> bool {
    let free = (limit / FREE_FILES_PART).min(FREE_FILES_MAX);
    u64::try_from(number).is_ok_and(|number| number >= limit - free)
}

/// A connection in the list. It is removed when this is dropped, or before.
#[derive(Default)]
pub(crate) struct Unauthenticated {
    list: Arc<UnauthenticatedConnections>,
    number: u64,
    is_removed: AtomicBool,
}

impl Unauthenticated {
    /// Removes the connection, because a request on it was authenticated.
    pub(crate) fn remove(&self) {
        if !self.is_removed.load(Ordering::Relaxed) && !self.is_removed.swap(true, Ordering::Relaxed) {
            self.list.0.lock().tasks.remove(&self.number);
        }
    }
}

impl Drop for Unauthenticated {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{sync::mpsc, task::yield_now};

    /// Says its number when it ends.
    struct Ends(u64, mpsc::Sender<u64>);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.1.try_send(self.0).unwrap();
        }
    }

    #[tokio::test]
    async fn the_oldest_connection_that_was_not_authenticated_is_closed_first() {
        let list = Arc::new(UnauthenticatedConnections::default());
        let (ended, mut ends) = mpsc::channel(10);
        let (keep, mut kept) = mpsc::channel(10);
        for number in 0..5 {
            let (ended, keep) = (ended.clone(), keep.clone());
            list.add(|connection| {
                let connection = Arc::new(connection);
                keep.try_send(Arc::downgrade(&connection)).unwrap();
                let serving = async move {
                    let _held = (connection, Ends(number, ended));
                    // The second one ends by itself.
                    if number != 1 {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::spawn(serving).abort_handle()
            });
        }
        yield_now().await;
        assert_eq!(ends.try_recv(), Ok(1));
        // A request on the first one is authenticated.
        kept.try_recv().unwrap().upgrade().unwrap().remove();
        for _ in 0..10 {
            list.close_oldest();
            yield_now().await;
        }
        let order: Vec<u64> = std::iter::from_fn(|| ends.try_recv().ok()).collect();
        assert_eq!(order, [2, 3, 4]);
        assert!(list.0.lock().tasks.is_empty());
    }

    #[test]
    fn an_eighth_of_the_files_is_left_but_not_too_many() {
        for (number, limit, expected) in [
            (895, 1024, false),
            (896, 1024, true),
            (18_975, 20_000, false),
            (18_976, 20_000, true),
            (0, 0, true),
            (5, 6, false),
        ] {
            assert_eq!(is_near(number, limit), expected, "{number} of {limit}");
        }
    }
}
