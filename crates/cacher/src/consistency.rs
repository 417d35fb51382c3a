//! Compares the cache with storage from time to time, because a bug could make the two differ.

use crate::shared::Shared;
use keepwatch_apimachinery::list_options::ListAt;
use keepwatch_storage::{ListRequest, Object, StorageError};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;

/// The shortest time between two checks. The longest is half as long again.
const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(5 * 60);

/// The number of objects that are read from storage at a time.
const PAGE_OBJECTS: usize = 5000;

/// Checks until the task is dropped.
pub(crate) async fn check_periodically(shared: Arc<Shared>) {
    loop {
        sleep(shared.jittered(CHECK_INTERVAL_MIN)).await;
        if shared.state.read().ready.is_ready() {
            check_once(&shared).await;
        }
    }
}

/// Checks once. After a difference, earlier states are read from storage until a later check finds no difference.
pub(crate) async fn check_once(shared: &Shared) {
    let (revision, cached) = {
        let state = shared.state.read();
        (state.revision, state.store.clone())
    };
    let status = match storage_digest(shared, ListAt::Exact(revision)).await {
        Ok(stored) => {
            let same = extend_digest(EMPTY_DIGEST, cached.iter()) == stored;
            shared.snapshots_trusted.store(same, Ordering::Release);
            if same { "success" } else { "failure" }
        }
        Err(_) => "error",
    };
    if status == "failure" {
        tracing::error!(resource = %shared.name, %revision, "the watch cache differs from storage");
    }
    shared.metrics.count_consistency_check(status);
}

async fn storage_digest(shared: &Shared, mut at: ListAt) -> Result<u64, StorageError> {
    let mut digest = EMPTY_DIGEST;
    loop {
        let request = ListRequest { at, limit: Some(PAGE_OBJECTS), ..ListRequest::all() };
        let page = shared.storage.get_list(&shared.prefix, request).await?;
        digest = extend_digest(digest, page.items.iter());
        match page.next {
            Some(next) => at = ListAt::Continue(next),
            None => return Ok(digest),
        }
    }
}

const EMPTY_DIGEST: u64 = 0xcbf2_9ce4_8422_2325;

/// Extends a 64-bit FNV-1a digest by each object's key and revision, in order.
fn extend_digest<'a>(digest: u64, objects: impl Iterator<Item = &'a Object>) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    objects.fold(digest, |digest, object| {
        let revision = object.revision.get().to_be_bytes();
        let bytes = object.key.bytes().chain([b'/']).chain(revision);
        bytes.fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(PRIME))
    })
}
