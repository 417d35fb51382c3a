//! The torn end that a crash or a power cut may leave in fjall's journal.
//!
//! A crash leaves a journal that ends early. A power cut may do worse: of a batch that was being synced, later
//! pages may have reached the disk and earlier ones not. fjall copes with the first but refuses (or in debug builds
//! panics on) some forms of the second. Such a batch was never acknowledged, so if it is the last one it is cut
//! before fjall sees it. A wrong checksum anywhere else is damage, and stays an error.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// A batch in fjall's journal: start (tag, count of items, sequence number), items, end (tag, checksum of the
/// items, magic).
const START_BYTES: usize = 1 + 4 + 8;
const START_TAG: u8 = 1;
const END_BYTES: usize = 1 + 8 + MAGIC.len();
const END_TAG: u8 = 3;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// Cuts the last batch of the newest journal if it is not whole.
pub(crate) fn cut_torn_batch(log: &Path) -> io::Result<()> {
    let Some(journal) = newest_journal(log)? else { return Ok(()) };
    let file = File::options().read(true).write(true).open(&journal)?;
    // A journal's length is set in advance. Beyond the blocks it really has there is nothing to read.
    let in_use = file.metadata()?.blocks() * 512;
    let mut bytes = Vec::new();
    (&file).take(in_use).read_to_end(&mut bytes)?;
    if let Some(begin) = torn_batch(&bytes) {
        tracing::warn!(journal = %journal.display(), "the last batch was not written whole: cut");
        file.set_len(begin as u64)?;
        file.sync_all()?;
    }
    Ok(())
}

fn newest_journal(log: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    if !log.exists() {
        return Ok(None);
    }
    for file in fs::read_dir(log)? {
        let path = file?.path();
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(number) = number.filter(|_| is_journal)
            && newest.as_ref().is_none_or(|(other, _)| number > *other)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Where the last batch begins, if it has no end or one that does not fit it.
fn torn_batch(journal: &[u8]) -> Option<usize> {
    let written = journal.iter().rposition(|byte| *byte != 0)? + 1;
    let batch_end = end_marker_before(journal, written).unwrap_or(0);
    if batch_end < written {
        return Some(batch_end);
    }
    let begin = end_marker_before(journal, batch_end - END_BYTES).unwrap_or(0);
    let batch = &journal[begin..batch_end];
    let items = batch.get(START_BYTES..batch.len() - END_BYTES).unwrap_or_default();
    let checksum = batch[batch.len() - END_BYTES + 1..].first_chunk()?;
    let whole = batch[0] == START_TAG && xxh3_64(items) == u64::from_le_bytes(*checksum);
    (!whole).then_some(begin)
}

/// The end of the last end marker in what comes before `limit`.
fn end_marker_before(journal: &[u8], limit: usize) -> Option<usize> {
    let ends_marker = |end: &usize| {
        let marker = &journal[end - END_BYTES..*end];
        marker[0] == END_TAG && marker.ends_with(&MAGIC)
    };
    (END_BYTES..=limit).rev().find(ends_marker)
}
