//! The log on a real disk: crashes, damage, and room that is given back.

use super::*;
use crate::{
    entry::EntryKind,
    mvcc::{Found, Mvcc},
    record::{FRAME_BYTES, HEADER_BYTES},
    segment::tests::CRASH,
};
use keepwatch_storage::{Key, Scope, Value};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    rc::Rc,
};

fn revision(n: u64) -> ResourceVersion {
    ResourceVersion::new(n).unwrap()
}

/// Collects the contents of a log that is opened.
#[derive(Default, PartialEq, Debug)]
struct Recovered {
    compacted: Option<u64>,
    revisions: Vec<u64>,
}

impl Recover for Recovered {
    fn compacted(&mut self, revision: ResourceVersion) -> Vec<Unneeded> {
        self.compacted = Some(revision.get());
        Vec::new()
    }

    fn entry(&mut self, entry: Entry) -> Option<Vec<Unneeded>> {
        self.revisions.push(entry.revision.get());
        Some(Vec::new())
    }
}

fn try_open(path: &Path) -> Result<(Log, Recovered), OpenError> {
    let mut recovered = Recovered::default();
    let log = Log::open(Directory::take(path).unwrap(), &mut recovered)?;
    Ok((log, recovered))
}

fn open(path: &Path) -> (Log, Recovered) {
    try_open(path).unwrap()
}

fn put(n: u64, key: &str, value: impl Into<Value>) -> Entry {
    let what = EntryKind::Put { value: value.into(), created: revision(n), expires_ms: None };
    Entry { revision: revision(n), key: Key::from_backend(key), what }
}

fn entries(revisions: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
    revisions.map(|n| put(n, &format!("/k/{n}"), vec![7; 40])).collect()
}

fn segment(path: &Path, number: u64) -> PathBuf {
    path.join(format!("log/{number:016}.segment"))
}

/// The length of a segment without the zeros that were written ahead.
fn written(segment: &Path) -> usize {
    fs::read(segment).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Copies a store without its reserves.
fn copy(from: &Path, to: &Path) {
    copy_if(from, to, &|name| !name.starts_with("reserve"));
}

fn copy_if(from: &Path, to: &Path, is_copied: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy_if(&file.path(), &target, is_copied),
            false if !is_copied(&file.file_name().to_string_lossy()) => {}
            false => drop(fs::copy(file.path(), target).unwrap()),
        }
    }
}

/// The files in a folder, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort_unstable();
    files
}

/// A log of revisions 2 to 14 in three segments, its last batch 12 to 14.
struct Damageable {
    root: tempfile::TempDir,
    last_batch: std::ops::Range<usize>,
}

impl Damageable {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = root.path().join("store");
        let (mut log, _) = open(&store);
        log.append(&entries(2..=4)).unwrap();
        log.append(&entries(5..=5)).unwrap();
        log.begin_next().unwrap();
        log.append(&entries(6..=8)).unwrap();
        log.append(&entries(9..=9)).unwrap();
        log.begin_next().unwrap();
        log.append(&entries(10..=11)).unwrap();
        let begin = log.head.end() as usize;
        log.append(&entries(12..=14)).unwrap();
        let end = log.head.end() as usize;
        copy(&store, &root.path().join("killed"));
        drop(log);
        copy(&store, &root.path().join("closed"));
        Self { root, last_batch: begin..end }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn bytes(&self, name: &str, number: u64) -> Vec<u8> {
        let path = segment(&self.path(name), number);
        let end = written(&path);
        let mut bytes = fs::read(path).unwrap();
        bytes.truncate(end);
        bytes
    }

    /// A copy that may be changed.
    fn copied(&self, name: &str) -> PathBuf {
        let copied = self.path("copy");
        let _ = fs::remove_dir_all(&copied);
        copy(&self.path(name), &copied);
        copied
    }

    /// A copy in which a segment has other bytes.
    fn copied_with(&self, name: &str, number: u64, bytes: &[u8]) -> PathBuf {
        let copied = self.copied(name);
        fs::write(segment(&copied, number), bytes).unwrap();
        copied
    }
}

/// Opens a log whose last revision is returned; it must also take writes and keep them. If it is refused,
/// nothing must have changed.
fn check(path: &Path) -> Result<u64, OpenError> {
    let before = files(&path.join("log"));
    let opened = try_open(path);
    let (mut log, recovered) = match opened {
        Ok(opened) => opened,
        Err(refused) => {
            assert!(files(&path.join("log")) == before, "{refused} and something was changed");
            return Err(refused);
        }
    };
    let last = recovered.revisions.last().copied().unwrap_or(1);
    assert_eq!(recovered.revisions, (2..=last).collect::<Vec<_>>());
    log.append(&entries(last + 1..=last + 2)).unwrap();
    drop(log);
    assert_eq!(open(path).1.revisions, (2..=last + 2).collect::<Vec<_>>(), "written on");
    Ok(last)
}

/// Which of many places are tried: some by default, all with `KEEPWATCH_LONG=1`.
fn places(all: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
    let step = if is_long() { 1 } else { 7 };
    all.step_by(step)
}

fn is_long() -> bool {
    std::env::var_os("KEEPWATCH_LONG").is_some()
}

fn is_damage(outcome: &Result<u64, OpenError>) -> bool {
    matches!(outcome, Err(OpenError::Damaged { .. } | OpenError::UnknownFile { .. }))
}

#[test]
fn fault_a_log_cut_anywhere_in_its_last_batch_loses_that_batch_and_nothing_else() {
    let log = Damageable::new();
    let whole = log.bytes("killed", 3);
    for end in places(log.last_batch.clone()).chain([log.last_batch.end - 1, log.last_batch.end]) {
        let expected = if end < log.last_batch.end { 11 } else { 14 };
        let last = check(&log.copied_with("killed", 3, &whole[..end])).unwrap();
        assert_eq!(last, expected, "cut at {end} of {:?}", log.last_batch);
    }
}

#[test]
fn fault_a_last_batch_with_a_hole_that_a_power_cut_left_is_lost_and_nothing_else() {
    let log = Damageable::new();
    let whole = log.bytes("killed", 3);
    for hole_bytes in [16, 60, 120] {
        for begin in log.last_batch.clone().step_by(7) {
            let hole = begin..(begin + hole_bytes).min(log.last_batch.end);
            let mut bytes = whole.clone();
            bytes[hole.clone()].fill(0);
            if bytes == whole {
                continue;
            }
            let last = check(&log.copied_with("killed", 3, &bytes));
            assert_eq!(last.unwrap(), 11, "hole at {hole:?} of {:?}", log.last_batch);
        }
    }
}

#[test]
fn fault_a_flipped_bit_anywhere_is_an_error_not_a_loss() {
    let log = Damageable::new();
    for name in ["killed", "closed"] {
        for number in 1..=3 {
            let whole = log.bytes(name, number);
            for at in places(0..whole.len()) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                let outcome = check(&log.copied_with(name, number, &bytes));
                let is_last = number == 3 && at >= log.last_batch.start;
                match name {
                    // As if it had been torn.
                    "killed" if is_last => assert_eq!(outcome.unwrap(), 11, "{at}"),
                    // The note at the end is all that is lost.
                    "closed" if number == 3 && at >= log.last_batch.end => {
                        assert_eq!(outcome.unwrap(), 14, "{at}")
                    }
                    // So is the note that a segment is complete, if its header says so too.
                    _ => assert!(
                        is_damage(&outcome) || outcome.as_ref().is_ok_and(|last| *last == 14),
                        "{name} {number}: {at}: {outcome:?}"
                    ),
                }
            }
        }
    }
}

#[test]
fn fault_damage_says_where_it_is() {
    let log = Damageable::new();
    let mut bytes = log.bytes("closed", 2);
    bytes[HEADER_BYTES + 50] ^= 1;
    let copied = log.copied_with("closed", 2, &bytes);
    let refused = check(&copied).unwrap_err();
    let text = format!("{refused}: {}", std::error::Error::source(&refused).unwrap());
    assert!(text.contains(&format!("data directory {} is damaged", copied.display())), "{text}");
    assert!(
        text.contains(&format!(
            "{} cannot be read from byte {HEADER_BYTES} on",
            segment(&copied, 2).display()
        )),
        "{text}"
    );
}

#[test]
fn fault_a_truncated_segment_is_an_error_unless_its_last_batch_may_have_been_torn() {
    let log = Damageable::new();
    for number in 1..=2 {
        let whole = log.bytes("closed", number);
        // The last batch notes that the segment is complete, which follows from the next segment as well.
        let note = BATCH_AND_NOTE;
        for end in places(0..whole.len() - note) {
            let outcome = check(&log.copied_with("closed", number, &whole[..end]));
            assert!(is_damage(&outcome), "segment {number} cut at {end}: {outcome:?}");
        }
    }
}

/// How long a batch is that holds only a note.
const BATCH_AND_NOTE: usize = crate::record::BATCH_BYTES + FRAME_BYTES + 1;

#[test]
fn fault_a_missing_segment_is_an_error_that_names_it() {
    let log = Damageable::new();
    for (number, name) in [(1, "killed"), (2, "killed"), (3, "killed"), (3, "closed")] {
        let copied = log.copied(name);
        fs::remove_file(segment(&copied, number)).unwrap();
        let refused = check(&copied).unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains(&format!("segment {number} is missing")), "{cause}");
    }
    let copied = log.copied("closed");
    fs::remove_dir_all(copied.join("log")).unwrap();
    assert!(
        matches!(try_open(&copied), Err(OpenError::Io { .. } | OpenError::Damaged { .. })),
        "no log at all"
    );
    assert!(!copied.join("log").exists(), "no new one is made in its place");
}

#[test]
fn fault_segments_of_two_logs_are_not_taken_for_one() {
    let (log, other) = (Damageable::new(), Damageable::new());
    for number in 1..=3 {
        let outcome = check(&log.copied_with("closed", number, &other.bytes("closed", number)));
        assert!(is_damage(&outcome), "{number}: {outcome:?}");
    }
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let log = Damageable::new();
    let mut other_version = log.bytes("closed", 2);
    other_version[8] += 1;
    for number in 1..=3 {
        for bytes in [b"SQLite format 3\0".repeat(40), vec![b'x'; 5], Vec::new(), other_version.clone()] {
            let refused = check(&log.copied_with("closed", number, &bytes)).unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, OpenError::UnknownFile { .. }), "{text}");
            assert!(text.contains("use the version of this program that wrote it"), "{text}");
        }
    }
    let copied = log.copied("closed");
    for name in ["lost+found", "notes.txt", "1.jnl", "x.segment"] {
        fs::write(copied.join("log").join(name), "theirs").unwrap();
    }
    assert_eq!(check(&copied).unwrap(), 14);
    assert_eq!(fs::read(copied.join("log/notes.txt")).unwrap(), b"theirs");
}

/// Blocks that a file had before, in another log or another segment, or elsewhere in this one.
#[test]
fn fault_stale_blocks_are_never_taken_for_batches() {
    let log = Damageable::new();
    let whole = log.bytes("killed", 3);
    let same_place = |bytes: &[u8]| [&whole[..], &bytes[whole.len().min(bytes.len())..]].concat();
    let long = {
        let other = log.path("other");
        let (mut log, _) = open(&other);
        (2..40).for_each(|n| log.append(&entries(n..=n)).unwrap());
        fs::read(segment(&other, 1)).unwrap()
    };
    let batches = &whole[HEADER_BYTES..];
    for stale in [
        [&whole[..], batches].concat(),
        [&whole[..], &log.bytes("killed", 2)[HEADER_BYTES..]].concat(),
        [&whole[..], &vec![0; 512], &whole[log.last_batch.clone()]].concat(),
        same_place(&long),
    ] {
        assert!(stale.len() > whole.len());
        assert_eq!(check(&log.copied_with("killed", 3, &stale)).unwrap(), 14);
    }
}

/// A first batch that was never acknowledged leaves its beginning, in whatever state.
#[test]
fn fault_a_torn_first_batch_leaves_an_empty_log() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&root.path().join("store"));
    log.append(&entries(2..=4)).unwrap();
    let file = segment(&root.path().join("store"), 1);
    let whole = fs::read(&file).unwrap()[..written(&file)].to_vec();
    for end in places(HEADER_BYTES..whole.len()) {
        let mut hole = whole.clone();
        hole[end.saturating_sub(30).max(HEADER_BYTES)..end].fill(0);
        for bytes in [&whole[..end], &hole] {
            if *bytes == whole {
                continue;
            }
            let copied = root.path().join("copy");
            let _ = fs::remove_dir_all(&copied);
            copy(&root.path().join("store"), &copied);
            fs::write(segment(&copied, 1), bytes).unwrap();
            assert_eq!(check(&copied).unwrap(), 1, "{end} of {}", whole.len());
        }
    }
}

/// Values are any bytes.
#[test]
fn values_that_look_like_a_log_are_values() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    log.append(&entries(2..=2)).unwrap();
    let file = segment(root.path(), 1);
    let looks_like_a_log = fs::read(&file).unwrap()[..written(&file)].to_vec();
    for (n, value) in (3..).zip([looks_like_a_log, vec![0; 100_000], vec![1; 50]]) {
        log.append(&[put(n, "/k", value.clone())]).unwrap();
        assert_eq!(log.reader().read(revision(n)).unwrap(), Some(put(n, "/k", value)));
    }
    drop(log);
    // As a backup that knows about holes would restore it.
    let dug = std::process::Command::new("fallocate").arg("--dig-holes").arg(file).status();
    assert!(dug.is_ok_and(|status| status.success()), "fallocate of util-linux is needed");
    assert_eq!(check(root.path()).unwrap(), 5);
}

#[test]
fn fault_a_first_start_that_was_interrupted_anywhere_is_begun_anew() {
    let root = tempfile::tempdir().unwrap();
    let (snapshots, store) = (root.path().join("snapshots"), root.path().join("store"));
    let taken = snapshots_of(&store, &snapshots, || drop(open(&store)));
    assert!(taken >= 2);
    for n in 0..taken {
        assert_eq!(check_new(&snapshots.join(n.to_string())), 1);
    }
    // With the log complete, but not yet in its place.
    let moved = root.path().join("moved");
    drop(open(&moved));
    fs::rename(moved.join("log"), moved.join("log.unfinished")).unwrap();
    assert_eq!(check_new(&moved), 1);
}

/// The same as [`check`], of a directory that may have no log yet.
fn check_new(path: &Path) -> u64 {
    drop(open(path));
    check(path).unwrap()
}

#[test]
fn files_are_readable_by_their_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let made = root.path().join("made");
    for (directory, log) in [(made.as_path(), made.join("log")), (root.path(), root.path().join("log"))] {
        drop(open(directory));
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o700, "{}", log.display());
    }
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_empty_log_is_small_and_one_that_is_closed_gives_back_nothing_that_it_needs() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    assert!(fs::metadata(segment(root.path(), 1)).unwrap().len() < 1 << 10);
    log.append(&entries(2..=2)).unwrap();
    assert!(fs::metadata(segment(root.path(), 1)).unwrap().len() < 1 << 20);
    assert!(log.is_quick() || log.last_write_took >= Some(QUICK_WRITE), "the next write finds blocks");
    drop(log);
    let (mut log, _) = open(root.path());
    log.append(&entries(3..=3)).unwrap();
    assert!(log.filled > log.head.end() + QUICK_BYTES, "one that is opened again finds them too");
}

#[test]
fn a_compaction_is_remembered() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    log.append(&entries(2..=6)).unwrap();
    log.compact(revision(5), &[]).unwrap();
    drop(log);
    assert_eq!(open(root.path()).1, Recovered { compacted: Some(5), revisions: (2..=6).collect() });
}

#[test]
fn fault_the_rest_of_a_failed_append_is_gone_before_the_next() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    log.append(&entries(2..=3)).unwrap();
    for left in [4..=6, 4..=4] {
        // As if the disk had taken these but said that it did not.
        let mut batch = Batch::default();
        batch.clear();
        entries(left).iter().for_each(|entry| batch.entry(entry));
        let end = log.head.end();
        let (bytes, _) = batch.finish(log.head.header.salt, end, log.chain);
        log.head.file.write_all_at(bytes, end).unwrap();
        log.broken = true;
    }
    log.append(&entries(4..=4)).unwrap();
    assert!(!log.broken);
    drop(log);
    assert_eq!(open(root.path()).1.revisions, [2, 3, 4]);
}

#[test]
fn a_full_segment_is_followed_by_another_and_old_versions_are_found_in_all() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    let value = |n: u64| vec![n as u8; 100 + (n as usize * 7919) % 300_000];
    let mut last = 1;
    while log.reader.segments.read().0.len() < 4 {
        let batch: Vec<_> = (last + 1..last + 20).map(|n| put(n, "/k", value(n))).collect();
        log.append(&batch).unwrap();
        last += 19;
    }
    let reader = log.reader();
    let all_are_found = |reader: &LogReader| {
        for n in (2..=last).step_by(5) {
            assert_eq!(reader.read(revision(n)).unwrap(), Some(put(n, "/k", value(n))), "{n}");
        }
        assert_eq!(reader.read(revision(last + 1)).unwrap(), None);
        let mut read = Vec::new();
        reader
            .read_all(revision(5), revision(last - 5), |entry| {
                read.push(entry.revision.get());
                true
            })
            .unwrap();
        assert_eq!(read, (5..=last - 5).collect::<Vec<_>>());
    };
    all_are_found(&reader);
    let head = log.head.path.clone();
    drop(log);
    assert!(reader.read(revision(2)).is_err(), "it is closed");
    for number in 1..4 {
        let file = segment(root.path(), number);
        assert!(file == head || fs::metadata(&file).unwrap().len() as usize == written(&file), "{number}");
    }
    all_are_found(&open(root.path()).0.reader());
}

#[test]
fn a_batch_that_is_larger_than_a_segment_is_taken() {
    let root = tempfile::tempdir().unwrap();
    let (mut log, _) = open(root.path());
    log.append(&entries(2..=2)).unwrap();
    let large = put(3, "/k", vec![3; SEGMENT_BYTES as usize + 1000]);
    log.append(std::slice::from_ref(&large)).unwrap();
    log.append(&entries(4..=4)).unwrap();
    drop(log);
    let (log, recovered) = open(root.path());
    assert_eq!(recovered.revisions, [2, 3, 4]);
    assert_eq!(log.reader().read(revision(3)).unwrap(), Some(large));
}

#[test]
fn lack_of_room_is_distinguished_from_other_failures() {
    let room = io::Error::from(io::ErrorKind::StorageFull);
    assert!(matches!(storage_error("x", room), StorageError::Full { .. }));
    let other = fs::File::open("/nowhere").unwrap_err();
    assert!(matches!(storage_error("x", other), StorageError::Backend { doing: "x", .. }));
}

/// Copies a store wherever a crash could leave it while something is done. Returns how often that was.
fn snapshots_of(store: &Path, snapshots: &Path, work: impl FnOnce()) -> usize {
    snapshots_of_with(store, snapshots, copy, work)
}

fn snapshots_of_with(store: &Path, snapshots: &Path, copy: fn(&Path, &Path), work: impl FnOnce()) -> usize {
    let taken = Rc::new(RefCell::new(0));
    let (count, from, to) = (taken.clone(), store.to_owned(), snapshots.to_owned());
    CRASH.set(Some(Box::new(move || {
        copy(&from, &to.join(count.borrow().to_string()));
        *count.borrow_mut() += 1;
    })));
    work();
    CRASH.set(None);
    taken.take()
}

/// A state, and the log that it can be made from again.
struct Kept {
    path: PathBuf,
    log: Log,
    mvcc: Mvcc,
    compacted: Option<ResourceVersion>,
}

impl Needs for Mvcc {
    fn needs(&self, key: &str, revision: ResourceVersion) -> bool {
        Mvcc::needs(self, key, revision)
    }

    fn compacted(&self) -> Option<ResourceVersion> {
        Mvcc::compacted(self)
    }
}

impl Kept {
    fn open(path: &Path) -> Self {
        let mut mvcc = Mvcc::new(None);
        let log = Log::open(Directory::take(path).unwrap(), &mut mvcc).unwrap();
        let compacted = mvcc.compacted();
        Self { path: path.to_owned(), log, mvcc, compacted }
    }

    fn write(&mut self, key: &str, value: Option<Vec<u8>>) {
        self.try_write(key, value).unwrap();
    }

    fn try_write(&mut self, key: &str, value: Option<Vec<u8>>) -> Result<(), StorageError> {
        let now = self.mvcc.current().next();
        let created = self.mvcc.stamp(key).map(|(created, _)| created);
        let what = match (value, created) {
            (Some(value), _) => {
                EntryKind::Put { value: value.into(), created: created.unwrap_or(now), expires_ms: None }
            }
            (None, Some(created)) => EntryKind::Delete { created },
            (None, None) => return Ok(()),
        };
        let entry = Entry { revision: now, key: Key::from_backend(key), what };
        self.log.append(std::slice::from_ref(&entry))?;
        self.mvcc.apply(entry);
        Ok(())
    }

    fn compact(&mut self, to: ResourceVersion) {
        let unneeded = self.mvcc.compact(to);
        self.log.compact(to, &unneeded).unwrap();
        self.compacted = Some(to);
    }

    /// Replaces these segments by one.
    fn clean(&mut self, run: std::ops::Range<usize>) {
        let segments = self.log.reader.segments.read();
        let mut cleaning =
            Cleaning::begin(&self.log.directory.log_path(), &segments.0, run, &self.mvcc, None).unwrap();
        drop(segments);
        while !cleaning.step(&self.mvcc).unwrap() {}
        let segments = &self.log.reader.segments;
        cleaning.finish(&self.mvcc, |sources, output| segments.write().replace(sources, output)).unwrap();
    }

    fn sealed(&self) -> usize {
        self.log.reader.segments.read().0.len() - 1
    }

    fn bytes(&self) -> u64 {
        self.log.reader.segments.read().0.iter().map(|segment| segment.bytes()).sum()
    }
}

/// The revision and the objects of a state.
type Contents = (ResourceVersion, Vec<Found>);

fn contents(mvcc: &Mvcc) -> Contents {
    let (everything, current) = (Scope::Children(Key::from_backend("/")), mvcc.current());
    (current, mvcc.range(&everything, None, None, current, false).items)
}

/// Everything that can be read of a state.
fn all_of(mvcc: &Mvcc) -> String {
    let everything = Scope::Children(Key::from_backend("/"));
    let (base, current) = (mvcc.base(), mvcc.current());
    let states: Vec<_> = (base.get()..=current.get())
        .map(|at| mvcc.range(&everything, None, None, revision(at), false).items)
        .collect();
    let changes = mvcc.changes_after(base, &everything, usize::MAX, usize::MAX).0;
    format!("{:?} {current:?} {states:?} {changes:?}", mvcc.compacted())
}

/// Every needed version is found wherever a crash interrupts the log, whichever segments are replaced, and in whatever
/// order.
#[test]
fn fault_a_power_cut_at_any_moment_of_a_compaction_loses_nothing_and_brings_nothing_back() {
    let rounds = if is_long() { 60 } else { 8 };
    for round in 0..rounds {
        let seed = if rounds > 8 { rand::random() } else { round };
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let root = tempfile::tempdir().unwrap();
        let (store, snapshots) = (root.path().join("store"), root.path().join("snapshots"));
        let mut kept = Kept::open(&store);
        for _ in 0..12 {
            for _ in 0..random.random_range(1..30) {
                let key = format!("/k/{}", random.random_range(0..8));
                let bytes = random.random_range(0..200);
                let value = random.random_bool(0.6).then(|| vec![random.random::<u8>(); bytes]);
                kept.write(&key, value);
            }
            if random.random_bool(0.5) {
                let to = random.random_range(kept.mvcc.base().get()..=kept.mvcc.current().get());
                kept.compact(revision(to));
            }
            let expected = all_of(&kept.mvcc);
            let before = files(&store.join("log"));
            let taken = snapshots_of(&store, &snapshots, || {
                if random.random_bool(0.6) {
                    kept.log.begin_next().unwrap();
                }
                if random.random_bool(0.7) && kept.sealed() > 0 {
                    let begin = random.random_range(0..kept.sealed());
                    let end = random.random_range(begin + 1..=kept.sealed());
                    kept.clean(begin..end);
                }
            });
            for n in 0..taken {
                let snapshot = snapshots.join(n.to_string());
                assert_eq!(all_of(&Kept::open(&snapshot).mvcc), expected, "crashed at {n}");
            }
            // Names that were removed may come back, as long as the folder is not synced.
            for n in 0..taken.saturating_sub(1) {
                let snapshot = snapshots.join(n.to_string());
                let has_replaced = files(&snapshot.join("log")).len() < before.len();
                for (path, bytes) in before.iter().filter(|_| has_replaced) {
                    let back = snapshot.join("log").join(path.file_name().unwrap());
                    if !back.exists() {
                        fs::write(back, bytes).unwrap();
                    }
                }
                assert_eq!(all_of(&Kept::open(&snapshot).mvcc), expected, "names came back at {n}");
            }
            let _ = fs::remove_dir_all(&snapshots);
            if random.random_bool(0.3) {
                drop(kept);
                kept = Kept::open(&store);
                assert_eq!(all_of(&kept.mvcc), expected, "opened again");
            }
        }
    }
}

/// A segment that was partly zeroed to become a reserve was taken for a damaged one.
#[test]
fn fault_a_power_cut_while_an_unneeded_segment_becomes_a_reserve_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (store, snapshots) = (root.path().join("store"), root.path().join("snapshots"));
    let mut kept = Kept::open(&store);
    for _ in 0..2 {
        for n in 0..5 {
            kept.write(&format!("/k/{n}"), Some(vec![n; 1 << 20]));
        }
        kept.log.begin_next().unwrap();
    }
    let replaced = fs::read(segment(&store, 2)).unwrap();
    kept.clean(0..2);
    let expected = contents(&kept.mvcc);
    drop(kept);
    // Its name came back, and the reserve was in use.
    fs::write(segment(&store, 2), replaced).unwrap();
    fs::remove_file(store.join("reserve-log")).unwrap();
    let whole = |from: &Path, to: &Path| copy_if(from, to, &|_| true);
    let taken = snapshots_of_with(&store, &snapshots, whole, || drop(Kept::open(&store)));
    assert!(taken > 3, "{taken}");
    for n in 0..taken {
        let snapshot = snapshots.join(n.to_string());
        assert!(contents(&Kept::open(&snapshot).mvcc) == expected, "cut at {n}");
        assert_eq!(fs::metadata(snapshot.join("reserve-log")).unwrap().len(), 4 << 20);
        assert!(!snapshot.join("reserve-log.unfinished").exists());
        assert!(!segment(&snapshot, 2).exists());
    }
}

#[test]
fn a_deletion_stays_as_long_as_an_older_segment_may_hold_what_it_deleted() {
    let root = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(root.path());
    kept.write("/stays", Some(vec![1; 10]));
    kept.write("/goes", Some(vec![2; 10]));
    kept.log.begin_next().unwrap();
    kept.write("/goes", None);
    kept.write("/short", Some(vec![3; 10]));
    kept.write("/short", None);
    kept.log.begin_next().unwrap();
    kept.compact(kept.mvcc.current());
    let size = |kept: &Kept, n: usize| kept.log.reader.segments.read().0[n].bytes();
    let empty = BATCH_AND_NOTE as u64;
    kept.clean(1..2);
    assert!(size(&kept, 1) > empty, "/goes is in the first");
    let with_one = size(&kept, 1);
    assert!(with_one < 3 * empty, "/short is not");
    drop(kept);
    let mut kept = Kept::open(root.path());
    assert_eq!(kept.mvcc.len(), 1);
    kept.clean(0..1);
    kept.clean(1..2);
    assert_eq!(size(&kept, 1), empty);
    drop(kept);
    assert_eq!(Kept::open(root.path()).mvcc.len(), 1);
}

#[test]
fn room_of_unneeded_versions_is_given_back_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(root.path());
    // Something that stays in each segment, and much that goes.
    for n in 0..800 {
        kept.write(&format!("/stays/{n}"), Some(vec![1; 100]));
        kept.write("/changes", Some(vec![n as u8; 100_000]));
        if n % 50 == 0 {
            kept.compact(kept.mvcc.current());
            while kept.log.clean(&kept.mvcc).unwrap() {}
        }
    }
    kept.compact(kept.mvcc.current());
    while kept.log.clean(&kept.mvcc).unwrap() {}
    let bytes = kept.bytes();
    assert!(
        bytes < SEGMENT_BYTES + clean::DEAD_BYTES_MAX + (2 << 20),
        "{bytes} bytes in {} files",
        kept.sealed() + 1
    );
    let on_disk = files(&root.path().join("log"));
    assert_eq!(on_disk.len(), kept.sealed() + 1, "no other files");
    let expected = all_of(&kept.mvcc);
    drop(kept);
    let kept = Kept::open(root.path());
    assert_eq!(all_of(&kept.mvcc), expected);
    assert_eq!(kept.mvcc.len(), 801);
}

#[test]
fn old_versions_are_read_while_their_segment_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(root.path());
    for n in 0..50 {
        kept.write(&format!("/k/{n}"), Some(vec![n; 10_000]));
    }
    kept.log.begin_next().unwrap();
    let reader = kept.log.reader();
    let mut read = BTreeSet::new();
    reader
        .read_all(revision(2), revision(51), |entry| {
            if read.is_empty() {
                kept.clean(0..1);
            }
            read.insert(entry.revision.get())
        })
        .unwrap();
    assert_eq!(read, (2..=51).collect());
    assert_eq!(reader.read(revision(30)).unwrap().map(|entry| entry.revision), Some(revision(30)));
    assert_eq!(kept.path, root.path());
}

#[test]
fn a_segment_with_a_damaged_entry_is_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(root.path());
    kept.write("/k", Some(vec![7; 100]));
    kept.log.begin_next().unwrap();
    let file = kept.log.reader.segments.read().0[0].clone();
    let at = HEADER_BYTES as u64 + 120;
    file.file.write_all_at(&[1], at).unwrap();
    let reader = kept.log.reader();
    assert!(reader.read(revision(2)).is_err());
    let segments = kept.log.reader.segments.read();
    let mut cleaning =
        Cleaning::begin(&kept.log.directory.log_path(), &segments.0, 0..1, &kept.mvcc, None).unwrap();
    assert!(cleaning.step(&kept.mvcc).is_err());
    let unfinished = cleaning.unfinished();
    kept.log.room.recycle(&unfinished).unwrap();
    assert_eq!(files(&root.path().join("log")).len(), 2);
    assert_eq!(kept.compacted, None);
}

mod full_disk {
    //! Power cuts while the disk becomes full, while the reserves are used, and while there is room again.
    use super::*;
    use crate::room::RESERVE_BYTES;
    use std::{io::Read, process::Command};

    const ROOT: &str = "KEEPWATCH_TEST_POWER_CUT_ROOT";
    const NAME: &str =
        "log::tests::full_disk::fault_a_power_cut_at_any_moment_of_a_full_disk_loses_nothing_and_no_reserve";

    #[test]
    fn fault_a_power_cut_at_any_moment_of_a_full_disk_loses_nothing_and_no_reserve() {
        if let Some(root) = std::env::var_os(ROOT) {
            return fill_and_make_room(Path::new(&root));
        }
        let root = tempfile::tempdir().unwrap();
        let mounted = r#"cd "$0" && mkdir store snapshots full && mount -t tmpfs -o size=40m none store &&
            mount -t tmpfs none snapshots && mount -t tmpfs -o size=64m none full && exec "$@""#;
        let status = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", mounted])
            .arg(root.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ROOT, root.path())
            .status()
            .expect("unshare and mount of util-linux are needed for a small disk");
        assert!(status.success(), "the test failed, or no small disk could be mounted: {status}");
    }

    fn fill_and_make_room(root: &Path) {
        let mut cuts = Cuts { root: root.to_owned(), store: root.join("store/data"), taken: 0 };
        let mut kept = Kept::open(&cuts.store);
        for n in 0..40 {
            kept.write(&stays(n), Some(vec![n; 20_000]));
        }
        for n in 0..60 {
            kept.write("/changes", Some(vec![n; 30_000]));
        }
        kept.log.begin_next().unwrap();
        let mut ballast = Ballast::on(&root.join("store"));
        ballast.take_all();

        cuts.during(&mut kept, |kept| kept.refused("/large", 300_000));
        ballast.take_all();
        cuts.during(&mut kept, |kept| kept.write("/changes", Some(vec![1; 5000])));
        for n in 0..2 {
            ballast.take_all();
            cuts.during(&mut kept, |kept| kept.write(&stays(n), None));
        }
        assert_eq!(reserved(&cuts.store), RESERVE_BYTES - LOG_RESERVE_BYTES, "the log is in its reserve");
        cuts.during(&mut kept, |kept| kept.refused("/huge", 5 << 20));
        ballast.take_all();
        for n in 2..4 {
            cuts.during(&mut kept, |kept| kept.write(&stays(n), None));
        }
        let current = kept.mvcc.current();
        cuts.during(&mut kept, |kept| kept.compact(current));
        let mut is_more = true;
        while is_more {
            cuts.during(&mut kept, |kept| is_more = kept.log.clean(&kept.mvcc).unwrap());
        }
        ballast.take_all();
        for n in 4..6 {
            cuts.during(&mut kept, |kept| kept.write(&stays(n), None));
        }

        drop(ballast);
        cuts.during(&mut kept, |kept| kept.log.look_for_room());
        assert_eq!((reserved(&cuts.store), kept.log.reader.is_short_of_room()), (RESERVE_BYTES, false));
        cuts.during(&mut kept, |kept| kept.write("/large", Some(vec![2; 300_000])));
        let expected = contents(&kept.mvcc);
        drop(kept);
        assert!(contents(&Kept::open(&cuts.store).mvcc) == expected);
        println!("{} power cuts", cuts.taken);
        assert!(cuts.taken > 30, "too few to mean anything: {}", cuts.taken);
    }

    const LOG_RESERVE_BYTES: u64 = 4 << 20;

    fn stays(n: u8) -> String {
        format!("/stays/{n}")
    }

    fn reserved(store: &Path) -> u64 {
        let bytes = |name: &str| fs::metadata(store.join(name)).map_or(0, |file| file.len());
        bytes("reserve") + bytes("reserve-log")
    }

    /// Another program that takes all the room there is.
    struct Ballast {
        file: fs::File,
        path: PathBuf,
    }

    impl Ballast {
        fn on(disk: &Path) -> Self {
            let path = disk.join("ballast");
            Self { file: fs::File::create(&path).unwrap(), path }
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

    impl Kept {
        fn refused(&mut self, key: &str, bytes: usize) {
            let outcome = self.try_write(key, Some(vec![1; bytes]));
            assert!(matches!(outcome, Err(StorageError::Full { .. })), "{outcome:?}");
        }
    }

    /// Takes the states that power cuts would leave, and opens them.
    struct Cuts {
        root: PathBuf,
        store: PathBuf,
        taken: usize,
    }

    impl Cuts {
        /// Does something, and opens the store as it would be after a power cut at any moment of that.
        fn during(&mut self, kept: &mut Kept, work: impl FnOnce(&mut Kept)) {
            let (before, snapshots) = (contents(&kept.mvcc), self.root.join("snapshots"));
            let whole = |from: &Path, to: &Path| copy_if(from, to, &|_| true);
            let taken = snapshots_of_with(&self.store, &snapshots, whole, || work(kept));
            let after = contents(&kept.mvcc);
            for n in 0..taken {
                let snapshot = snapshots.join(n.to_string());
                self.open_on_a_full_disk(&snapshot, [&before, &after]);
                self.open_where_there_is_room(&snapshot, [&before, &after]);
                fs::remove_dir_all(snapshot).unwrap();
            }
            self.taken += taken;
        }

        /// The acknowledged writes are there, the refused ones are not, and an object can be deleted.
        fn open_on_a_full_disk(&self, snapshot: &Path, expected: [&Contents; 2]) {
            let disk = self.root.join("full");
            let store = disk.join("data");
            copy_if(snapshot, &store, &|_| true);
            let mut ballast = Ballast::on(&disk);
            ballast.take_all();
            let mut kept = Kept::open(&store);
            assert!(expected.contains(&&contents(&kept.mvcc)));
            assert!(kept.log.reader.is_short_of_room());
            ballast.take_all();
            // More than fits into the last block of the log.
            kept.write("/changes", Some(vec![2; 5000]));
            kept.write(&stays(39), None);
            let expected = contents(&kept.mvcc);
            drop(kept);
            ballast.take_all();
            assert!(contents(&Kept::open(&store).mvcc) == expected, "the deletion is there");
            fs::remove_dir_all(store).unwrap();
        }

        /// The same, and the reserves are complete.
        fn open_where_there_is_room(&self, store: &Path, expected: [&Contents; 2]) {
            let mut kept = Kept::open(store);
            assert!(expected.contains(&&contents(&kept.mvcc)));
            assert_eq!((reserved(store), kept.log.reader.is_short_of_room()), (RESERVE_BYTES, false));
            kept.write("/new", Some(vec![3; 10_000]));
            let expected = contents(&kept.mvcc);
            drop(kept);
            assert!(contents(&Kept::open(store).mvcc) == expected, "the new object is there");
        }
    }
}
