//! Faults of the disk and the operating system, and the data that must survive them.
//!
//! Rounds: few by default, many with `KEEPWATCH_LONG=1`.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use bytes::Bytes;
use futures::{StreamExt, future};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Backend, BackendEvent, Key, RangeRequest, Scope, StorageError, Swap};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, Retention};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

fn rounds(normally: u64, in_the_long_run: u64) -> u64 {
    if env::var_os("KEEPWATCH_LONG").is_some() { in_the_long_run } else { normally }
}

fn everything() -> Scope {
    Scope::Children(Key::from_backend("/"))
}

fn revision(n: u64) -> ResourceVersion {
    ResourceVersion::new(n).expect("not zero")
}

/// Every change after `after`, in the order in which a watch delivers them.
async fn history(store: &dyn Backend, after: ResourceVersion) -> Vec<Change> {
    try_history(store, after).await.expect("history is kept")
}

async fn try_history(store: &dyn Backend, after: ResourceVersion) -> Result<Vec<Change>, StorageError> {
    let current = store.current_revision().await.unwrap();
    let mut watch = store.watch(everything(), after, true).await.unwrap();
    store.request_progress().await.unwrap();
    let mut changes = Vec::new();
    while let Some(event) = watch.next().await {
        match event? {
            BackendEvent::Put { item, .. } => {
                changes.push(Change {
                    revision: item.modified,
                    key: item.key,
                    value: Some(item.value.bytes),
                });
            }
            BackendEvent::Delete { key, revision, .. } => changes.push(Change { revision, key, value: None }),
            BackendEvent::Progress(reached) if reached >= current => break,
            BackendEvent::Progress(_) => {}
        }
    }
    Ok(changes)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    revision: ResourceVersion,
    key: Key,
    value: Option<Bytes>,
}

mod killed {
    //! A process that writes as fast as it can is killed at a random moment, again and again.
    use super::*;

    const DIRECTORY: &str = "KEEPWATCH_TEST_KILLED_DIRECTORY";
    const WRITERS: u64 = 8;
    const KEYS_PER_WRITER: u64 = 20;
    /// The child compacts so many revisions behind the newest write: all writes before that were reported.
    const COMPACTION_LAG: u64 = 1000;

    #[test]
    fn fault_killed_writers_lose_nothing_that_was_acknowledged() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        if let Some(directory) = env::var_os(DIRECTORY) {
            runtime.block_on(write_until_killed(Path::new(&directory)));
            return;
        }
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let root = tempfile::tempdir().unwrap();
        let mut checker = Checker::new();
        for round in 0..rounds(15, 200) {
            let mut child = spawn(root.path());
            let acknowledged = BufReader::new(child.stdout.take().expect("a pipe"));
            let lines =
                std::thread::spawn(move || acknowledged.lines().map_while(Result::ok).collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(random.random_range(30..400)));
            child.kill().unwrap();
            child.wait().unwrap();
            checker.take(&lines.join().unwrap());
            runtime.block_on(async {
                let store = Embedded::open(root.path(), options()).unwrap();
                checker.check(&store, &mut random).await;
                if round % 5 == 4 {
                    let goal = random.random_range(checker.compacted.get()..=checker.reached.get());
                    checker.compacted = revision(goal);
                    store.compact(checker.compacted).await.unwrap();
                }
            });
        }
        println!(
            "{} writes acknowledged, {} in doubt at the kill and found",
            checker.acknowledged, checker.in_doubt
        );
        assert!(checker.acknowledged > 100, "too few writes to mean anything: {}", checker.acknowledged);
    }

    #[test]
    fn fault_a_first_start_killed_at_any_moment_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        for round in 0..rounds(20, 200) {
            let directory = root.path().join(round.to_string());
            let mut child = spawn(&directory);
            while !directory.join("lock").exists() {
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..12_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { Embedded::open(&directory, options()).map(drop) }).unwrap();
            fs::remove_dir_all(&directory).unwrap();
        }
    }

    fn options() -> EmbeddedOptions {
        let retention =
            Retention { events_min: usize::MAX / 2, bytes_max: Some(usize::MAX / 2), ..Retention::default() };
        EmbeddedOptions { retention, ..EmbeddedOptions::default() }
    }

    fn spawn(directory: &Path) -> Child {
        Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::fault_killed_writers_lose_nothing_that_was_acknowledged",
                "--nocapture",
            ])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    }

    /// Each writer has keys of its own and reports each write that was acknowledged. Meanwhile the store is
    /// compacted again and again.
    async fn write_until_killed(directory: &Path) {
        let store = Arc::new(Embedded::open(directory, options()).unwrap());
        let compacted = store.clone();
        tokio::spawn(async move {
            loop {
                let current = compacted.current_revision().await.unwrap().get();
                if let Some(goal) = ResourceVersion::new(current.saturating_sub(COMPACTION_LAG)) {
                    compacted.compact(goal).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut random = StdRng::from_os_rng();
                loop {
                    write_one(&store, writer, &mut random).await;
                }
            })
        });
        future::join_all(writers).await;
    }

    async fn write_one(store: &Embedded, writer: u64, random: &mut StdRng) {
        let key = Key::from_backend(format!("/w{writer}/k{}", random.random_range(0..KEYS_PER_WRITER)));
        let expected = store.get(&key).await.unwrap().1.map(|item| item.modified);
        let (number, bytes) = (random.random(), random.random_range(0..3000));
        let (swap, written) = match expected.filter(|_| random.random_bool(0.2)) {
            Some(expected) => (store.delete_if(&key, expected).await, String::new()),
            None => {
                let swap = store.put_if(&key, expected, value(number, bytes).into(), None).await;
                (swap, format!(" {number} {bytes}"))
            }
        };
        let Swap::Done(at) = swap.unwrap() else { unreachable!("nobody else writes {key}") };
        std::io::stdout().lock().write_all(format!("ack {at} {key}{written}\n").as_bytes()).unwrap();
    }

    fn value(number: u32, bytes: usize) -> Bytes {
        format!("{number} {}", "x".repeat(bytes)).into()
    }

    /// The acknowledged writes, with which every reopened store is compared.
    struct Checker {
        /// Every write that must be there.
        writes: BTreeMap<ResourceVersion, Change>,
        reached: ResourceVersion,
        compacted: ResourceVersion,
        acknowledged: usize,
        in_doubt: usize,
    }

    impl Checker {
        fn new() -> Self {
            let start = revision(1);
            Self { writes: BTreeMap::new(), reached: start, compacted: start, acknowledged: 0, in_doubt: 0 }
        }

        fn take(&mut self, lines: &[String]) {
            for line in lines {
                let words: Vec<&str> = line.split(' ').collect();
                let Some((&"ack", [at, key, written @ ..])) = words.split_first() else { continue };
                let value = match written {
                    [number, bytes] => Some(value(number.parse().unwrap(), bytes.parse().unwrap())),
                    _ => None,
                };
                let at = revision(at.parse().unwrap());
                let change = Change { revision: at, key: Key::from_backend(*key), value };
                self.acknowledged += 1;
                assert_eq!(self.writes.insert(at, change), None, "two writes were acknowledged at {at}");
            }
        }

        async fn check(&mut self, store: &Embedded, random: &mut StdRng) {
            let current = store.current_revision().await.unwrap();
            assert!(current >= self.reached, "revisions went back from {} to {current}", self.reached);
            self.compacted = self.compacted.max(store.compacted_revision().unwrap_or(self.compacted));
            let changes = history(store, self.compacted).await;
            self.every_acknowledged_write_is_delivered_once(&changes);
            resuming_anywhere_delivers_the_rest(store, &changes, self.compacted, random).await;
            self.the_state_is_what_was_written(store).await;
            self.reached = current;
        }

        /// Writes that were under way at the kill may have happened: they are adopted, so that they stay.
        fn every_acknowledged_write_is_delivered_once(&mut self, changes: &[Change]) {
            let by_revision: BTreeMap<_, _> =
                changes.iter().map(|change| (change.revision, change)).collect();
            assert_eq!(by_revision.len(), changes.len(), "a revision was delivered twice");
            assert!(changes.is_sorted_by_key(|change| change.revision), "out of order");
            for (at, acknowledged) in self.writes.range(self.compacted.next()..) {
                assert_eq!(by_revision.get(at), Some(&acknowledged), "an acknowledged write is lost");
            }
            for (at, change) in by_revision {
                if !self.writes.contains_key(&at) {
                    assert!(at > self.reached, "{change:?} was not there before");
                    self.in_doubt += 1;
                    self.writes.insert(at, change.clone());
                }
            }
        }

        async fn the_state_is_what_was_written(&self, store: &Embedded) {
            let mut state = BTreeMap::new();
            for change in self.writes.values() {
                match &change.value {
                    Some(value) => state.insert(change.key.clone(), (change.revision, value.clone())),
                    None => state.remove(&change.key),
                };
            }
            let range = store.range(RangeRequest::all(everything())).await.unwrap();
            let found: BTreeMap<_, _> =
                range.items.into_iter().map(|item| (item.key, (item.modified, item.value.bytes))).collect();
            assert!(found == state, "the state differs from what was written");
        }
    }

    async fn resuming_anywhere_delivers_the_rest(
        store: &Embedded,
        changes: &[Change],
        compacted: ResourceVersion,
        random: &mut StdRng,
    ) {
        for _ in 0..5 {
            let skip = random.random_range(0..=changes.len());
            let after = if skip == 0 { compacted } else { changes[skip - 1].revision };
            assert!(history(store, after).await == changes[skip..], "resumed after {after}");
        }
    }
}

mod full {
    //! A disk without room refuses writes and nothing else.
    use super::*;

    const DIRECTORY: &str = "KEEPWATCH_TEST_FULL_DIRECTORY";

    #[test]
    fn fault_a_full_disk_refuses_writes_until_there_is_room() {
        on_a_small_disk("fault_a_full_disk_refuses_writes_until_there_is_room", |disk| async move {
            for round in 0..rounds(4, 20) {
                fill_and_make_room(&disk, round).await;
            }
            delete_to_make_room(&disk).await;
        });
    }

    #[test]
    fn fault_a_store_opens_on_a_disk_without_a_free_byte() {
        on_a_small_disk("fault_a_store_opens_on_a_disk_without_a_free_byte", open_without_room);
    }

    #[test]
    fn fault_a_new_store_on_a_full_disk_says_what_to_do_and_opens_once_there_is_room() {
        on_a_small_disk(
            "fault_a_new_store_on_a_full_disk_says_what_to_do_and_opens_once_there_is_room",
            open_a_new_one_without_room,
        );
    }

    /// Renewals used up the reserve, which is for deletions.
    #[test]
    fn fault_leases_that_are_renewed_on_a_full_disk_leave_room_for_deletions() {
        on_a_small_disk(
            "fault_leases_that_are_renewed_on_a_full_disk_leave_room_for_deletions",
            renew_leases,
        );
    }

    /// So did the deletions of many events whose time was up.
    #[test]
    fn fault_keys_that_expire_on_a_full_disk_leave_room_for_deletions() {
        on_a_small_disk("fault_keys_that_expire_on_a_full_disk_leave_room_for_deletions", expire_many);
    }

    /// Does something with a directory on a disk of 200 MB. `name` is that of the test, which is started once more.
    fn on_a_small_disk<F: Future<Output = ()>>(name: &str, work: impl FnOnce(PathBuf) -> F) {
        if let Some(directory) = env::var_os(DIRECTORY) {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            return runtime.block_on(work(directory.into()));
        }
        // A mount of our own, in a name space of our own, gone with the process: no traces, no root needed
        // where user name spaces are allowed.
        let root = tempfile::tempdir().unwrap();
        let mounted = r#"mount -t tmpfs -o size=200m none "$0" && exec "$@""#;
        let status = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", mounted])
            .arg(root.path())
            .arg(env::current_exe().unwrap())
            .args(["--exact", &format!("full::{name}"), "--nocapture"])
            .env(DIRECTORY, root.path())
            .status()
            .expect("unshare and mount of util-linux are needed for a small disk");
        assert!(
            status.success(),
            "the test inside the small disk failed, or no small disk could be mounted: {status}"
        );
    }

    /// Another program that takes all the room there is.
    struct Ballast {
        file: File,
        path: PathBuf,
    }

    impl Ballast {
        fn on(disk: &Path) -> Self {
            let path = disk.join("ballast");
            let mut ballast = Self { file: File::create(&path).unwrap(), path };
            ballast.take_all();
            ballast
        }

        fn take_all(&mut self) {
            let taken = io::copy(&mut io::repeat(1).take(1 << 30), &mut self.file);
            assert!(taken.is_err(), "the disk is full");
        }
    }

    impl Drop for Ballast {
        fn drop(&mut self) {
            fs::remove_file(&self.path).unwrap();
        }
    }

    fn open(directory: &Path) -> Embedded {
        Embedded::open(directory, EmbeddedOptions::default()).unwrap()
    }

    async fn put(store: &Embedded, key: &str, bytes: usize) -> Result<ResourceVersion, StorageError> {
        put_for(store, key, bytes, None).await
    }

    async fn put_for(
        store: &Embedded,
        key: &str,
        bytes: usize,
        ttl: Option<Duration>,
    ) -> Result<ResourceVersion, StorageError> {
        let key = Key::from_backend(key);
        let expected = store.get(&key).await?.1.map(|item| item.modified);
        match store.put_if(&key, expected, vec![b'x'; bytes].into(), ttl).await? {
            Swap::Done(at) => Ok(at),
            Swap::Conflict(_) => unreachable!("nobody else writes {key}"),
        }
    }

    async fn delete(store: &Embedded, key: &str) -> Result<(), StorageError> {
        let key = Key::from_backend(key);
        let found = store.get(&key).await?.1.expect("it is there");
        let deleted = store.delete_if(&key, found.modified).await?;
        assert!(matches!(deleted, Swap::Done(_)), "nobody else writes {key}");
        Ok(())
    }

    async fn open_without_room(disk: PathBuf) {
        let directory = disk.join("data");
        let store = open(&directory);
        for n in 0..40 {
            put(&store, &format!("/k/{n}"), 10_000).await.unwrap();
        }
        drop(store);
        // A process that was killed before it wrote its number leaves the file like this.
        fs::write(directory.join("lock"), "").unwrap();
        let mut ballast = Ballast::on(&disk);
        for round in 0..4 {
            let store = open(&directory);
            ballast.take_all();
            assert!(store.trouble().is_some_and(|what| what.contains("delete objects, or free 24 MiB")));
            let before = contents(&store).await;
            let oldest = store.compacted_revision().unwrap_or(revision(1));
            assert!(try_history(&store, oldest).await.is_ok(), "a watch is served");
            for n in round * 8..round * 8 + 8 {
                ballast.take_all();
                delete(&store, &format!("/k/{n}")).await.expect("deletions are taken");
            }
            assert_eq!(contents(&store).await.len() + 8, before.len());
        }
        // Nothing at all is left to write to, and the store serves reads all the same.
        for name in ["reserve", "reserve-log"] {
            let _ = fs::remove_file(directory.join(name));
        }
        ballast.take_all();
        let store = open(&directory);
        assert_eq!(contents(&store).await.len(), 8);
        assert!(matches!(put(&store, "/new", 10).await, Err(StorageError::Full { .. })));
        drop(ballast);
        let is_reserved = async {
            while store.trouble().is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), is_reserved).await.expect("there is room again");
        assert_eq!(fs::metadata(directory.join("reserve")).unwrap().len(), 12 << 20);
        assert_eq!(fs::metadata(directory.join("reserve-log")).unwrap().len(), 4 << 20);
        put(&store, "/new", 10).await.unwrap();
    }

    async fn open_a_new_one_without_room(disk: PathBuf) {
        let directory = disk.join("data");
        let ballast = Ballast::on(&disk);
        for _ in 0..2 {
            let refused = Embedded::open(&directory, EmbeddedOptions::default()).err().expect("no room");
            let text = refused.to_string();
            assert!(text.contains(&format!("data directory {}", directory.display())), "{text}");
            assert!(text.contains("its disk is full: free 24 MiB, or choose another directory"), "{text}");
        }
        drop(ballast);
        put(&open(&directory), "/k", 10).await.unwrap();
    }

    async fn renew_leases(disk: PathBuf) {
        const LEASES: usize = 50;
        let store = open(&disk.join("data"));
        for n in 0..100 {
            put(&store, &format!("/k/{n}"), 10_000).await.unwrap();
        }
        for n in 0..LEASES {
            put(&store, &format!("/leases/{n}"), 500).await.unwrap();
        }
        let mut ballast = Ballast::on(&disk);
        let mut renewed = 0;
        while put(&store, &format!("/leases/{}", renewed % LEASES), 500).await.is_ok() {
            renewed += 1;
            if renewed % 1000 == 0 {
                ballast.take_all();
            }
            assert!(renewed < 100_000, "they are refused before the reserve is used up");
        }
        for n in 0..100 {
            ballast.take_all();
            let key = format!("/k/{n}");
            // Marked for deletion, then without one of two finalizers, then gone.
            put(&store, &key, 10_050).await.expect("it is marked");
            put(&store, &key, 10_000).await.expect("it loses a finalizer");
            delete(&store, &key).await.expect("it is deleted");
        }
        drop(ballast);
    }

    async fn expire_many(disk: PathBuf) {
        const GROUPS: usize = 50;
        const KEYS_PER_GROUP: usize = 300;
        let store = Arc::new(open(&disk.join("data")));
        // Large objects between them, so that the room of the expired ones cannot be given back.
        for group in 0..GROUPS {
            put(&store, &format!("/k/{group}"), 1 << 20).await.unwrap();
            let events = (0..KEYS_PER_GROUP).map(|n| {
                let (store, key) = (store.clone(), format!("/events/{group}/{n}/{}", "x".repeat(1000)));
                async move { put_for(&store, &key, 1, Some(Duration::from_secs(12))).await.unwrap() }
            });
            future::join_all(events).await;
        }
        let mut ballast = Ballast::on(&disk);
        let (mut count, mut unchanged) = (store.object_count(), 0);
        assert_eq!(count, GROUPS * (KEYS_PER_GROUP + 1), "none expired yet");
        // They are tried again every second.
        while count == GROUPS * (KEYS_PER_GROUP + 1) || unchanged < 5 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            ballast.take_all();
            unchanged = if store.object_count() == count { unchanged + 1 } else { 0 };
            count = store.object_count();
        }
        for group in 0..GROUPS {
            ballast.take_all();
            delete(&store, &format!("/k/{group}")).await.expect("it is deleted");
        }
        drop(ballast);
        let all_expired = async {
            while store.object_count() > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all_expired).await.expect("the rest expires");
    }

    async fn fill_and_make_room(disk: &Path, round: u64) {
        let directory = disk.join(format!("data-{round}"));
        let ballast = disk.join("ballast");
        // Every other time there is room for more than one segment of the log.
        let ballast_bytes = if round.is_multiple_of(2) { 168 << 20 } else { 64 << 20 };
        fs::write(&ballast, vec![1; ballast_bytes]).unwrap();
        let store = Embedded::open(&directory, EmbeddedOptions::default()).unwrap();
        let mut state = BTreeMap::new();

        let mut random = StdRng::seed_from_u64(round);
        let refusal = loop {
            let writes = (0..random.random_range(1..20))
                .map(|_| write(&store, random.random_range(0..500), &mut random));
            let mut refused = None;
            for (key, outcome) in future::join_all(writes.collect::<Vec<_>>()).await {
                match outcome {
                    Ok((at, value)) => drop(state.insert(key, (at, value))),
                    Err(error) => refused = Some(error),
                }
            }
            if let Some(refusal) = refused {
                break refusal;
            }
        };
        assert!(matches!(refusal, StorageError::Full { .. }), "{refusal:?}");
        assert_eq!(refusal.to_string(), "storage is full: free some disk space, then retry");

        let (_, again) = write(&store, 1000, &mut random).await;
        assert!(matches!(again, Err(StorageError::Full { .. })), "still full: {again:?}");
        let trouble = store.trouble().expect("it says what is wrong");
        assert!(trouble.contains("delete objects, or free 24 MiB"), "{trouble}");
        assert!(contents(&store).await == state, "reads go on, and refused writes left nothing");
        let history_is_read = async {
            // It is compacted to make room, perhaps just now.
            while try_history(&store, store.compacted_revision().unwrap_or(revision(1))).await.is_err() {}
        };
        tokio::time::timeout(Duration::from_secs(10), history_is_read)
            .await
            .expect("history can be read too");

        // The writes that delete an object are taken all the same: the mark for deletion, and the deletion.
        for key in state.keys().take(20).cloned().collect::<Vec<_>>() {
            let (at, value) = state.remove(&key).unwrap();
            let marked = Bytes::from([&value[..], &[1; 100]].concat());
            let Swap::Done(at) =
                store.put_if(&key, Some(at), marked.into(), None).await.expect("it is marked")
            else {
                unreachable!("nobody else writes");
            };
            let deleted = store.delete_if(&key, at).await.expect("it is deleted");
            assert!(matches!(deleted, Swap::Done(_)), "{deleted:?}");
        }
        assert!(contents(&store).await == state);

        fs::remove_file(&ballast).unwrap();
        for n in 500..520 {
            let (key, written) = write(&store, n, &mut random).await;
            state.insert(key, written.expect("there is room again"));
        }
        assert_eq!(store.trouble(), None);
        // Some of it was compacted to make room.
        let oldest = store.compacted_revision().unwrap_or(revision(1));
        let changes = history(&store, oldest).await;
        drop(store);
        let store = Embedded::open(&directory, EmbeddedOptions::default()).unwrap();
        assert!(contents(&store).await == state, "what was acknowledged is there after a restart");
        assert!(history(&store, oldest.max(store.compacted_revision().unwrap_or(oldest))).await == changes);
        drop(store);
        fs::remove_dir_all(&directory).unwrap();
    }

    /// A disk that the store itself has filled.
    async fn delete_to_make_room(disk: &Path) {
        let directory = disk.join("own");
        let store = Embedded::open(&directory, EmbeddedOptions::default()).unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let mut keys = BTreeMap::new();
        for number in 0.. {
            match write(&store, number, &mut random).await {
                (key, Ok((at, _))) => drop(keys.insert(key, at)),
                (_, Err(StorageError::Full { .. })) => break,
                (_, Err(error)) => panic!("{error:?}"),
            }
        }
        // It is full when it is opened, too.
        drop(store);
        let store = Embedded::open(&directory, EmbeddedOptions::default()).unwrap();
        assert!(store.trouble().is_some());
        for (key, at) in &keys {
            let deleted = store.delete_if(key, *at).await.expect("deletions are taken");
            assert!(matches!(deleted, Swap::Done(_)));
        }
        let room_again = async {
            while store.trouble().is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), room_again).await.expect("what was deleted makes room");
        for number in 0..100 {
            write(&store, number, &mut random).await.1.expect("there is room again");
        }
        drop(store);
        fs::remove_dir_all(&directory).unwrap();
    }

    type Written = (ResourceVersion, Bytes);

    fn write<'a>(
        store: &'a Embedded,
        key: u32,
        random: &mut StdRng,
    ) -> impl Future<Output = (Key, Result<Written, StorageError>)> + use<'a> {
        let key = Key::from_backend(format!("/k/{key}"));
        let mut value = vec![0; random.random_range(100..60_000)];
        random.fill(&mut value[..]);
        let value = Bytes::from(value);
        async move {
            loop {
                let (_, found) = store.get(&key).await.unwrap();
                let written =
                    store.put_if(&key, found.map(|item| item.modified), value.clone().into(), None).await;
                match written {
                    Ok(Swap::Done(at)) => return (key, Ok((at, value))),
                    Ok(Swap::Conflict(_)) => {}
                    Err(error) => return (key, Err(error)),
                }
            }
        }
    }

    async fn contents(store: &Embedded) -> BTreeMap<Key, Written> {
        let range = store.range(RangeRequest::all(everything())).await.unwrap();
        range.items.into_iter().map(|item| (item.key, (item.modified, item.value.bytes))).collect()
    }
}
