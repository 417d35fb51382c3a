//! Reading a watch in a test: always with an end to the patience.

use crate::{StorageError, Watch, WatchEvent};
use futures::StreamExt;
use std::{future::Future, time::Duration};

/// The time that a case waits for an event that must come. Only a failing test ever waits this long.
pub const LONG_ENOUGH: Duration = Duration::from_secs(30);

/// The time without an event after which a case assumes that none will come.
pub const QUIET: Duration = Duration::from_millis(150);

/// A watch that a test reads.
pub struct Watching(Watch);

impl Watching {
    /// Reads this watch.
    pub fn new(watch: Watch) -> Self {
        Self(watch)
    }

    /// The next item, or `None` at the watch's end.
    pub async fn item(&mut self) -> Option<Result<WatchEvent, StorageError>> {
        tokio::time::timeout(LONG_ENOUGH, self.0.next()).await.expect("the watch delivers an event")
    }

    /// The next event.
    pub async fn event(&mut self) -> WatchEvent {
        match self.item().await {
            Some(Ok(event)) => event,
            other => panic!("an event was due, not {other:?}"),
        }
    }

    /// The next `count` events.
    pub async fn events(&mut self, count: usize) -> Vec<WatchEvent> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.push(self.event().await);
        }
        events
    }

    /// Every event up to and with the first for which `last` holds.
    pub async fn events_until(&mut self, last: impl Fn(&WatchEvent) -> bool) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        loop {
            events.push(self.event().await);
            if events.last().is_some_and(&last) {
                return events;
            }
        }
    }

    /// The next item, which is an error and the watch's last.
    pub async fn last_error(&mut self) -> StorageError {
        let error = match self.item().await {
            Some(Err(error)) => error,
            other => panic!("an error was due, not {other:?}"),
        };
        if let Some(item) = self.item().await {
            panic!("nothing may follow an error, but {item:?} did");
        }
        error
    }

    /// Shows that nothing comes for a while.
    pub async fn is_quiet(&mut self) {
        if let Ok(item) = tokio::time::timeout(QUIET, self.0.next()).await {
            panic!("nothing was due, not {item:?}");
        }
    }
}

/// Does something asynchronous inside a callback that is not, such as that of an update: what happens
/// between its read and its write.
pub fn meanwhile<T>(what: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(what))
}
