//! Promises of the embedded store beyond the suite that all stores share.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use futures::{StreamExt, future};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendEvent, ExpiredRead, HistoryExtent, HistoryReader, Key, RangeRequest, Scope, StorageError,
    Swap, Value,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, OpenError, Retention};
use std::{path::Path, sync::Arc, time::Duration};

fn key(name: &str) -> Key {
    Key::from_backend(format!("/registry/pods/{name}"))
}

fn pods() -> Scope {
    Scope::Children(Key::from_backend("/registry/pods/"))
}

fn open(directory: &Path) -> Embedded {
    Embedded::open(directory, EmbeddedOptions::default()).expect("the store opens")
}

async fn put(
    store: &Embedded,
    name: &str,
    value: impl Into<Value>,
    ttl: Option<Duration>,
) -> ResourceVersion {
    let expected = store.get(&key(name)).await.unwrap().1.map(|item| item.modified);
    match store.put_if(&key(name), expected, value.into(), ttl).await.unwrap() {
        Swap::Done(revision) => revision,
        Swap::Conflict(_) => panic!("nobody else writes {name}"),
    }
}

fn keeping(events: usize) -> EmbeddedOptions {
    let retention =
        Retention { age_min: Duration::from_secs(60), events_min: events, bytes_max: Some(20_000) };
    EmbeddedOptions { retention, ..EmbeddedOptions::default() }
}

#[tokio::test]
async fn a_store_knows_how_much_room_it_takes_on_disk() {
    assert_eq!(Embedded::memory(keeping(5)).size_bytes().await.unwrap(), None);
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let before = store.size_bytes().await.unwrap().expect("it is on disk");
    for n in 0..40_u8 {
        // Values that repeat themselves would be compressed.
        let noise: Vec<u8> =
            (0..200_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n).collect();
        put(&store, &format!("{n}"), noise, None).await;
    }
    let after = store.size_bytes().await.unwrap().expect("it is on disk");
    assert!(after > before + 1_000_000, "{before} to {after}");
}

#[tokio::test(start_paused = true)]
async fn history_older_than_both_limits_is_compacted_by_itself() {
    let store = Embedded::memory(keeping(5));
    for n in 0..20 {
        put(&store, "a", format!("{n}"), None).await;
    }
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(store.compacted_revision(), None, "young history is kept however much there is");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        store.compacted_revision().map(ResourceVersion::get),
        Some(16),
        "the newest five are kept for ever"
    );
}

/// Waits until the store's history satisfies a condition.
async fn history_becomes(store: &Embedded, is_so: impl Fn(HistoryExtent) -> bool) {
    let looking = async {
        while !is_so(store.history()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), looking).await;
    waited.unwrap_or_else(|_| panic!("it stays {:?}", store.history()));
}

#[tokio::test]
async fn history_does_not_take_more_than_its_limit_in_bytes_in_memory_or_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let on_disk = Embedded::open(directory.path(), keeping(1000)).unwrap();
    for store in [Embedded::memory(keeping(1000)), on_disk] {
        for n in 0..100 {
            put(&store, &format!("{}", n % 7), vec![0; 1000], None).await;
        }
        history_becomes(&store, |history| history.bytes.is_some_and(|bytes| bytes <= 20_000)).await;
        let kept = store.history();
        assert!(kept.bytes > Some(10_000), "no more goes than has to: {kept:?}");
        assert_eq!(kept.oldest, store.compacted_revision());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_looks_after_its_limit_in_bytes_at_once() {
    let store = Embedded::memory(keeping(1000));
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..30 {
        put(&store, "a", vec![0; 1000], None).await;
    }
    // Less than the time to the next look.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(store.compacted_revision().is_some());
}

#[tokio::test(start_paused = true)]
async fn events_that_a_watch_has_yet_to_read_are_kept_for_twice_as_long_and_no_longer() {
    let store = Embedded::memory(keeping(0));
    let start = put(&store, "a", "0", None).await;
    let mut behind = store.watch(pods(), start, false).await.unwrap();
    let written = put(&store, "a", "1", None).await;
    let last = put(&store, "a", "2", None).await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!(store.compacted_revision(), Some(start), "the watch holds what comes after its start");
    let mut read = async || behind.next().await.unwrap();
    assert!(matches!(read().await.unwrap(), BackendEvent::Put { item, .. } if item.modified == written));
    assert!(matches!(read().await.unwrap(), BackendEvent::Put { item, .. } if item.modified == last));

    let late = store.watch(pods(), start, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(store.compacted_revision(), Some(last), "twice as old as is kept for everybody");
    let error = late.collect::<Vec<_>>().await.pop().unwrap().unwrap_err();
    assert!(error.is_expired());
}

#[tokio::test(start_paused = true)]
async fn events_that_a_history_reader_needs_are_kept_like_those_of_a_watch() {
    struct Needs(ResourceVersion);
    impl HistoryReader for Needs {
        fn oldest_needed(&self) -> Option<ResourceVersion> {
            Some(self.0)
        }
    }
    let store = Embedded::memory(keeping(0));
    let needed = put(&store, "a", "0", None).await;
    let reader: Arc<dyn HistoryReader> = Arc::new(Needs(needed));
    store.keep_history_for(Arc::downgrade(&reader));
    let last = put(&store, "a", "1", None).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(store.compacted_revision(), Some(needed));
    drop(reader);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(store.compacted_revision(), Some(last));
}

#[tokio::test(start_paused = true)]
async fn a_store_knows_how_far_back_its_history_reaches() {
    let store = Embedded::memory(keeping(3));
    let revisions: Vec<_> = [put(&store, "a", "12", None).await, put(&store, "a", "1", None).await].into();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let history = store.history();
    assert_eq!((history.oldest.map(ResourceVersion::get), history.events), (Some(1), Some(2)));
    assert_eq!(history.bytes, Some(2 + 2 * 512));
    assert!(history.age >= Some(Duration::from_secs(50)), "{history:?}");
    for n in 0..3 {
        put(&store, "a", format!("{n}"), None).await;
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    let history = store.history();
    assert_eq!((history.oldest, history.events), (Some(revisions[1]), Some(3)));
    assert!(history.age >= Some(Duration::from_secs(68)), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_wants_progress_receives_it_after_each_interval() {
    let store = Embedded::memory(EmbeddedOptions::default());
    let start = put(&store, "a", "1", None).await;
    let mut watch = store.watch(pods(), start, true).await.unwrap();
    let begun = tokio::time::Instant::now();
    for minutes in [10, 20] {
        assert_eq!(watch.next().await.unwrap().unwrap(), BackendEvent::Progress(start));
        assert_eq!(begun.elapsed().as_secs() / 60, minutes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_goes_on_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, "short", "s", Some(Duration::from_millis(200))).await;
    let last = put(&store, "long", "l", Some(Duration::from_secs(3600))).await;
    drop(store);

    let store = open(directory.path());
    let mut watch = store.watch(pods(), last, false).await.unwrap();
    match watch.next().await.unwrap().unwrap() {
        BackendEvent::Delete { key: deleted, revision, previous } => {
            assert_eq!((deleted, previous.unwrap().value), (key("short"), Value::from("s")));
            assert!(revision > last);
        }
        other => panic!("{other:?}"),
    }
    assert!(store.get(&key("long")).await.unwrap().1.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn old_versions_that_left_memory_are_read_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    // Twice as much as stays in memory.
    let value = |n: usize| Value::from(vec![n as u8; 1 << 20]);
    let mut revisions = Vec::new();
    for n in 0..32 {
        revisions.push(put(&store, "a", value(n), None).await);
    }
    let events: Vec<_> = store
        .watch(pods(), revisions[0], false)
        .await
        .unwrap()
        .take(31)
        .map(|event| match event.unwrap() {
            BackendEvent::Put { item, previous } => (item.modified, item.value, previous.unwrap().value),
            other => panic!("{other:?}"),
        })
        .collect()
        .await;
    for (n, event) in (1..).zip(&events) {
        assert!(*event == (revisions[n], value(n), value(n - 1)), "event {n}");
    }
    for (n, at) in revisions.iter().enumerate() {
        let range = store.range(RangeRequest { at: Some(*at), ..RangeRequest::all(pods()) }).await.unwrap();
        assert!(range.items[0].value == value(n), "state {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_loses_nothing_and_costs_nobody() {
    let store = Embedded::memory(EmbeddedOptions::default());
    let start = store.current_revision().await.unwrap();
    let slow = store.watch(pods(), start, false).await.unwrap();
    let mut quick = store.watch(pods(), start, false).await.unwrap();
    for n in 0..5000 {
        put(&store, "a", format!("{n}"), None).await;
        quick.next().await.unwrap().unwrap();
    }
    assert_eq!(slow.take(5000).filter(|event| future::ready(event.is_ok())).count().await, 5000);
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_lag_behind_hold_little() {
    const VALUE_BYTES: usize = 300_000;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let start = put(&store, "a", vec![0; VALUE_BYTES], None).await;
    // Far more than stays in memory, so that the oldest are read from the log.
    for n in 0..200u8 {
        put(&store, "a", vec![n; VALUE_BYTES], None).await;
    }
    let mut watches = Vec::new();
    let before = resident_bytes();
    for _ in 0..20 {
        let mut watch = store.watch(pods(), start, false).await.unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    let each = resident_bytes().saturating_sub(before) / watches.len();
    assert!(each < 4 << 20, "{each} bytes for a watcher that read one event");
    for watch in watches {
        assert_eq!(watch.take(199).filter(|event| future::ready(event.is_ok())).count().await, 199);
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_watcher_survives_compactions_of_changes_outside_its_scope() {
    let store = Embedded::memory(EmbeddedOptions::default());
    let start = store.current_revision().await.unwrap();
    let mut watch = store.watch(Scope::Object(key("mine")), start, false).await.unwrap();
    assert!(futures::poll!(watch.next()).is_pending());
    for n in 0..10 {
        put(&store, "other", format!("{n}"), None).await;
    }
    store.compact(store.current_revision().await.unwrap()).await.unwrap();
    let revision = put(&store, "mine", "1", None).await;
    match watch.next().await.unwrap().unwrap() {
        BackendEvent::Put { item, .. } => assert_eq!(item.modified, revision),
        other => panic!("{other:?}"),
    }
    let mut late = store.watch(Scope::Object(key("mine")), start, false).await.unwrap();
    assert!(matches!(late.next().await, Some(Err(StorageError::Expired(ExpiredRead::Watch)))));
    assert!(late.next().await.is_none(), "an error is the last item");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_store_ends_its_watches_and_lets_go_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut watch = store.watch(pods(), store.current_revision().await.unwrap(), true).await.unwrap();
    assert!(futures::poll!(watch.next()).is_pending());
    let second = Embedded::open(directory.path(), EmbeddedOptions::default());
    match second.err().expect("it is in use") {
        OpenError::InUse { pid, .. } => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other}"),
    }
    drop(store);
    assert!(watch.next().await.is_none());
    open(directory.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_cannot_reach_into_the_future() {
    let store = Embedded::memory(EmbeddedOptions::default());
    let current = put(&store, "a", "1", None).await;
    let refused = store.compact(current.next()).await;
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_together_are_made_durable_together() {
    const WRITES: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let names: Vec<String> = (0..WRITES).map(|n| format!("k{n}")).collect();
    future::join_all(names.iter().map(|name| put(&store, name, "1", None))).await;
    drop(store);
    // Each batch, and so each sync, begins with these bytes.
    let log = std::fs::read(directory.path().join("log/0000000000000001.segment")).unwrap();
    let batches = log.windows(4).filter(|bytes| bytes == b"\x57\x9e\x7c\xb4").count();
    assert!((1..WRITES / 10).contains(&batches), "{batches} syncs for {WRITES} writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_gives_disk_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), looking_often()).unwrap();
    for round in 0..40u8 {
        // 4 MiB a round: without compaction 160 MiB in the end.
        future::join_all((0..64).map(|n| {
            let store = &store;
            async move { put(store, &format!("k{n}"), vec![round; 64 << 10], None).await }
        }))
        .await;
        store.compact(store.current_revision().await.unwrap()).await.unwrap();
    }
    disk_usage_becomes(directory.path(), 64 << 20).await;
}

/// Retention with a very short interval.
fn looking_often() -> EmbeddedOptions {
    let retention = Retention { age_min: Duration::from_millis(300), events_min: 1000, bytes_max: None };
    EmbeddedOptions { retention, ..EmbeddedOptions::default() }
}

async fn disk_usage_becomes(directory: &Path, bytes_max: u64) {
    let looking = async {
        while disk_usage(directory) > bytes_max {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), looking).await;
    waited.unwrap_or_else(|_| panic!("it stays {} MiB", disk_usage(directory) >> 20));
}

/// The log kept 1 GB of disk for ever after 1.44 million writes of 1 KB.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_objects_were_deleted_is_small_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(directory.path(), looking_often()).unwrap());
    for n in 0..10 {
        put(&store, &format!("stays-{n}"), vec![1; 1000], None).await;
    }
    let writers = (0..64).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..1000 {
                let name = format!("goes-{writer}-{n}");
                let written = put(&store, &name, vec![2; 1000], None).await;
                store.delete_if(&key(&name), written).await.unwrap();
            }
        })
    });
    future::join_all(writers).await.into_iter().for_each(|writer| writer.unwrap());
    history_becomes(&store, |history| history.events <= Some(1000)).await;
    disk_usage_becomes(directory.path(), 64 << 20).await;
    drop(store);
    assert!(disk_usage(directory.path()) <= 64 << 20);
    let store = Embedded::open(directory.path(), looking_often()).unwrap();
    assert_eq!(store.object_count(), 10);
    assert!(store.history().events <= Some(1000), "{:?}", store.history());
}

fn disk_usage(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => disk_usage(&entry.path()),
            false => entry.metadata().unwrap().blocks() * 512,
        })
        .sum()
}
