//! Work on large documents, which takes long: threads of its own do it, as many as there are cores, so that it never keeps
//! those from their work that answer everybody else.
//!
//! Kept true: what waits, as for storage, keeps no thread; a user has only so many large requests and answers there at a
//! time, so that others wait for a few of them at most, and never for all; answers have other threads than requests.

use crate::auth::{SYSTEM_MASTERS, User};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// From how many bytes on a document is large: reading, checking and writing such a one can take milliseconds.
pub(crate) const LARGE_BYTES_MIN: usize = 8 << 10;

/// How many large requests of a user, and how many large answers, are worked on at a time.
const OF_USER_MAX: usize = 4;

static REQUESTS: LazyLock<Runtime> = LazyLock::new(|| threads("large-requests"));
static ANSWERS: LazyLock<Runtime> = LazyLock::new(|| threads("large-answers"));

/// Threads that are started when they are first needed.
fn threads(name: &str) -> Runtime {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = Builder::new_multi_thread().worker_threads(cores).thread_name(name).enable_all().build();
    threads.expect("a process that serves requests can start threads")
}

/// Where large requests are decoded, checked, and encoded to be stored.
pub(crate) fn requests() -> &'static Handle {
    REQUESTS.handle()
}

/// Where large answers are encoded and compressed.
pub(crate) fn answers() -> &'static Handle {
    ANSWERS.handle()
}

/// Whose large requests are worked on, whatever number of servers a process has.
pub(crate) static REQUEST_TURNS: Turns = Turns(LazyLock::new(Mutex::default));
/// Whose large answers are.
pub(crate) static ANSWER_TURNS: Turns = Turns(LazyLock::new(Mutex::default));

/// Who has something large worked on.
pub(crate) struct Turns(LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>>);

impl Turns {
    /// Waits until one more of a user's may be worked on, for as long as what is returned lives. Members of the group
    /// `system:masters` do not wait.
    pub(crate) async fn turn(&self, user: &User) -> Option<OwnedSemaphorePermit> {
        if user.is_in(SYSTEM_MASTERS) {
            return None;
        }
        let own = {
            let mut turns = self.0.lock();
            turns.retain(|_, own| Arc::strong_count(own) > 1);
            let own = turns.entry(user.name.clone());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(OF_USER_MAX))))
        };
        // It is never closed.
        own.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn user(name: &str, group: &str) -> User {
        User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() }
    }

    #[tokio::test]
    async fn a_user_waits_for_its_own_large_requests_and_nobody_elses() {
        let (ann, bob, root) = (user("ann", "a"), user("bob", "a"), user("root", SYSTEM_MASTERS));
        let turns = Turns(LazyLock::new(Mutex::default));
        let mut anns = Vec::new();
        for _ in 0..OF_USER_MAX {
            anns.push(turns.turn(&ann).await);
        }
        assert!(turns.turn(&ann).now_or_never().is_none());
        assert!(turns.turn(&bob).now_or_never().is_some() && turns.turn(&root).now_or_never().is_some());
        anns.pop();
        assert!(turns.turn(&ann).now_or_never().is_some());
        drop(anns);
        let _bobs = turns.turn(&bob).await;
        assert!(!turns.0.lock().contains_key("ann"), "nothing is kept of who has none");
    }
}
