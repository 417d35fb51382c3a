//! Threads for large documents, and for rules of custom resources that take long. Decoding, checking and encoding a large
//! document takes milliseconds, and must not block the threads that serve all other requests.
//!
//! Kept true: work that waits, as for storage, occupies no thread; a user has only a few large requests and answers in
//! work at a time, so that other users wait for few of them; the bodies in work are bounded for all users together, because
//! a document takes many times the memory of its text, and users take turns where that is exhausted; huge documents have
//! other threads and other turns than those that are merely large, and answers other threads than requests.

use crate::{
    auth::{SYSTEM_MASTERS, User},
    turns::{Turn, Turns},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// From how many bytes on a document is large: decoding, checking and encoding it can take milliseconds.
pub(crate) const LARGE_BYTES_MIN: usize = 8 << 10;
/// The same for Protobuf, in which two bytes can be an element that is defaulted and validated.
const LARGE_PROTOBUF_BYTES_MIN: usize = 2 << 10;
/// From how many elements on a text is large, whatever its size: each is defaulted and validated.
const LARGE_ELEMENTS_MIN: usize = 512;

/// Whether decoding and checking this body can take milliseconds.
pub(crate) fn is_large(body: &[u8], is_protobuf: bool) -> bool {
    if is_protobuf {
        return body.len() >= LARGE_PROTOBUF_BYTES_MIN;
    }
    let separators = || memchr::memchr2_iter(b',', b'\n', body).take(LARGE_ELEMENTS_MIN);
    body.len() >= LARGE_BYTES_MIN || separators().count() >= LARGE_ELEMENTS_MIN
}

/// From how many bytes on a document is huge: it can occupy a thread for a tenth of a second.
const HUGE_BYTES_MIN: usize = 256 << 10;

/// The number of large requests of a user, and of its large answers, that are in work at a time.
const OF_USER_MAX: usize = 4;

/// The size in KiB of the large bodies that are not huge and in work at a time.
const LARGE_KIB_MAX: usize = 2 << 10;
/// The size in KiB of the huge bodies that are in work at a time: three of the largest, or some smaller ones.
const HUGE_KIB_MAX: usize = 10 << 10;

/// Large documents of similar size, which wait for one another only.
struct Lane {
    threads: Runtime,
    kib_in_work: Arc<Turns>,
}

static LARGE: LazyLock<Lane> = LazyLock::new(|| Lane::new("large-requests", LARGE_KIB_MAX));
static HUGE: LazyLock<Lane> = LazyLock::new(|| Lane::new("huge-requests", HUGE_KIB_MAX));
static ANSWERS: LazyLock<Runtime> = LazyLock::new(|| threads("large-answers"));
static RULES: LazyLock<Runtime> = LazyLock::new(|| threads("long-rules"));

/// How long rules of custom resources are evaluated on a thread that has other work. Most take microseconds.
pub(crate) const RULES_ON_SHARED_THREAD_MAX: Duration = Duration::from_millis(5);

/// A runtime whose threads start when they are first needed.
fn threads(name: &str) -> Runtime {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = Builder::new_multi_thread().worker_threads(cores).thread_name(name).enable_all().build();
    threads.expect("a process that serves requests can start threads")
}

impl Lane {
    fn new(name: &str, kib_max: usize) -> Lane {
        Lane { threads: threads(name), kib_in_work: Turns::new(kib_max) }
    }

    fn of(body_bytes: usize) -> &'static Lane {
        if body_bytes < HUGE_BYTES_MIN { &LARGE } else { &HUGE }
    }
}

/// The threads that decode, check and encode large requests with bodies of so many bytes.
pub(crate) fn requests(body_bytes: usize) -> &'static Handle {
    Lane::of(body_bytes).threads.handle()
}

/// The threads that encode and compress large answers.
pub(crate) fn answers() -> &'static Handle {
    ANSWERS.handle()
}

/// The threads that evaluate rules which take long.
pub(crate) fn rules() -> &'static Handle {
    RULES.handle()
}

/// The right to work on a large request.
pub(crate) struct LargeRequestPermit {
    _of_user: OwnedSemaphorePermit,
    _in_work: Option<Turn>,
}

/// Waits until the user may have one more large request in work, with a body of so many bytes. Members of the group
/// `system:masters` do not wait.
pub(crate) async fn request_permit(user: &User, body_bytes: usize) -> Option<LargeRequestPermit> {
    let of_user = REQUESTS_OF_USER.acquire(user).await?;
    let in_work = Lane::of(body_bytes).kib_in_work.wait(&user.name, body_bytes.div_ceil(1 << 10)).await;
    Some(LargeRequestPermit { _of_user: of_user, _in_work: in_work })
}

/// Limits the large requests of each user. All servers of a process share it.
static REQUESTS_OF_USER: PerUserLimit = PerUserLimit(LazyLock::new(Mutex::default));
/// Limits the requests of each user whose rules take long.
pub(crate) static LONG_RULES_OF_USER: PerUserLimit = PerUserLimit(LazyLock::new(Mutex::default));
/// Limits the large answers of each user.
pub(crate) static ANSWERS_OF_USER: PerUserLimit = PerUserLimit(LazyLock::new(Mutex::default));

/// A limit for each user, by name.
pub(crate) struct PerUserLimit(LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>>);

impl PerUserLimit {
    /// Waits until the user may have one more in work, which it has until the permit is dropped. Members of the group
    /// `system:masters` do not wait.
    pub(crate) async fn acquire(&self, user: &User) -> Option<OwnedSemaphorePermit> {
        if user.is_in(SYSTEM_MASTERS) {
            return None;
        }
        let own = {
            let mut turns = self.0.lock();
            turns.retain(|_, own| Arc::strong_count(own) > 1);
            let own = turns.entry(user.name.clone());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(OF_USER_MAX))))
        };
        // The semaphore is never closed.
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

    #[test]
    fn small_bodies_with_many_elements_are_large() {
        let many = format!("[{}]", vec!["{}"; LARGE_ELEMENTS_MIN + 1].join(","));
        assert!(many.len() < LARGE_BYTES_MIN && is_large(many.as_bytes(), false));
        assert!(is_large("- {}\n".repeat(LARGE_ELEMENTS_MIN).as_bytes(), false));
        assert!(!is_large(br#"{"metadata":{"name":"small"}}"#, false));
        assert!(is_large(&[b'x'; LARGE_BYTES_MIN], false));
        assert!(is_large(&[0x12, 0].repeat(LARGE_PROTOBUF_BYTES_MIN / 2), true));
        assert!(!is_large(&[0x12, 0].repeat(10), true));
    }

    #[tokio::test]
    async fn a_large_document_does_not_wait_for_huge_ones() {
        let mallorys: Vec<_> = (0..5).map(|number| user(&format!("mallory-{number}"), "a")).collect();
        let permits: Vec<_> =
            mallorys.iter().filter_map(|user| request_permit(user, 3 << 20).now_or_never()).collect();
        assert!(permits.len() < mallorys.len(), "some wait");
        let alices = request_permit(&user("alice", "a"), 20_000).now_or_never();
        assert!(alices.flatten().is_some());
    }

    #[tokio::test]
    async fn a_user_waits_for_its_own_large_requests_only() {
        let (ann, bob, root) = (user("ann", "a"), user("bob", "a"), user("root", SYSTEM_MASTERS));
        let limit = PerUserLimit(LazyLock::new(Mutex::default));
        let mut anns = Vec::new();
        for _ in 0..OF_USER_MAX {
            anns.push(limit.acquire(&ann).await);
        }
        assert!(limit.acquire(&ann).now_or_never().is_none());
        assert!(
            limit.acquire(&bob).now_or_never().is_some() && limit.acquire(&root).now_or_never().is_some()
        );
        anns.pop();
        assert!(limit.acquire(&ann).now_or_never().is_some());
        drop(anns);
        let _bobs = limit.acquire(&bob).await;
        assert!(!limit.0.lock().contains_key("ann"), "a user without permits is forgotten");
    }
}
