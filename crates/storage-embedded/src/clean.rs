//! Gives back the room of versions that are not needed any more: some segments that follow one another are read, and what is
//! still needed of them is written to one that takes their place.
//!
//! Kept true: the log can be opened at any moment of that, and then holds all that is needed; the new segment gets the
//! name of the first of those that it replaces in one step, and covers the numbers of all, so that those that a crash
//! leaves are recognised. A deletion stays for as long as an older segment may hold what it deleted.
//!
//! The work is done in steps, between which writes have their turn.

use crate::{
    entry::EntryHeader,
    record::{Batch, Header},
    segment::{SEGMENT_BYTES, Segment, checked_frames, crash_point, salt, sync_folder},
};
use keepwatch_apimachinery::ResourceVersion;
use std::{
    fs, io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The number of unneeded bytes that the log may have, beside a part of the needed ones.
pub(crate) const DEAD_BYTES_MAX: u64 = 8 << 20;
const DEAD_PART: u64 = 4;
/// The same while room is short.
pub(crate) const DEAD_BYTES_SHORT: u64 = 256 << 10;
/// The size of the segments that are replaced at a time.
const RUN_BYTES_MAX: u64 = 4 * SEGMENT_BYTES;
/// The room that a segment takes at the most beside the needed entries: its header, its batches and the last block.
const OVERHEAD_BYTES: u64 = 64 << 10;
/// The number of bytes that one step reads.
const STEP_BYTES: u64 = 1 << 20;

/// Decides which versions are needed.
pub(crate) trait Needs {
    /// Whether this version of this key is needed.
    fn needs(&self, key: &str, revision: ResourceVersion) -> bool;
    /// The revision up to which the history is compacted.
    fn compacted(&self) -> Option<ResourceVersion>;
}

/// The needed and unneeded bytes of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    bytes: u64,
    dead: u64,
}

impl Fill {
    pub(crate) fn of(segment: &Segment) -> Self {
        Self { bytes: segment.bytes(), dead: segment.dead() }
    }

    fn live(self) -> u64 {
        self.bytes - self.dead
    }

    /// Whether it is worth being read and written to give back its room, or would leave a small file.
    fn may_be_merged(self) -> bool {
        self.dead * 2 >= self.bytes || self.bytes < SEGMENT_BYTES / 4
    }
}

/// Chooses segments to replace by one, if that gives back enough room. While room is short, the new one may take `room`
/// bytes.
pub(crate) fn choose(fills: &[Fill], room: Option<u64>) -> Option<Range<usize>> {
    let (live, dead) = fills.iter().fold((0, 0), |(live, dead), fill| (live + fill.live(), dead + fill.dead));
    let max = if room.is_some() { DEAD_BYTES_SHORT } else { DEAD_BYTES_MAX + live / DEAD_PART };
    if dead <= max {
        return None;
    }
    let live_max = room.map_or(SEGMENT_BYTES, |room| room.saturating_sub(OVERHEAD_BYTES).min(SEGMENT_BYTES));
    let segments = fills.iter().enumerate();
    let (seed, _) = match room {
        // The one with the greatest dead part, and of equals the oldest.
        None => {
            segments.rev().max_by(|(_, a), (_, b)| (a.dead * b.bytes.max(1)).cmp(&(b.dead * a.bytes.max(1))))
        }
        // The one that takes the least room, of those that give back as much as others do.
        Some(_) => segments
            .filter(|(_, fill)| {
                fill.dead > 0 && fill.dead * fills.len() as u64 >= dead && fill.live() <= live_max
            })
            .min_by_key(|(_, fill)| fill.live()),
    }?;
    let mut run = seed..seed + 1;
    let fits = |run: &Range<usize>| {
        let (live, bytes) = fills[run.clone()]
            .iter()
            .fold((0, 0), |(live, bytes), fill| (live + fill.live(), bytes + fill.bytes));
        live <= live_max && bytes <= RUN_BYTES_MAX
    };
    // First towards the older ones: what earlier runs left is small, and would become many files.
    while let Some(before) = run.start.checked_sub(1)
        && fills[before].may_be_merged()
        && fits(&(before..run.end))
    {
        run.start = before;
    }
    while let Some(next) = fills.get(run.end)
        && next.may_be_merged()
        && fits(&(run.start..run.end + 1))
    {
        run.end += 1;
    }
    Some(run)
}

/// A segment older than those that are replaced.
struct Older {
    /// Its revisions are less than this.
    until: u64,
    /// It holds nothing that was superfluous after a compaction up to here.
    cleaned: u64,
}

/// Segments being replaced.
pub(crate) struct Cleaning {
    sources: Vec<Arc<Segment>>,
    older: Vec<Older>,
    /// The source and the block that are read next.
    next: (usize, usize),
    output: Segment,
    chain: u64,
    batch: Batch,
    /// The number of bytes of deletions that were kept because of older segments.
    held: u64,
    dead_at_begin: u64,
}

impl Cleaning {
    /// Begins to replace some of the segments, which one follows that stays. If room is short, in the blocks of a reserve.
    pub(crate) fn begin(
        folder: &Path,
        segments: &[Arc<Segment>],
        run: Range<usize>,
        needs: &impl Needs,
        reserve: Option<&Path>,
    ) -> io::Result<Self> {
        let (sources, after) = (segments[run.clone()].to_vec(), &segments[run.end]);
        let until = |older: usize| segments[older + 1].header.first;
        let older =
            (0..run.start).map(|n| Older { until: until(n), cleaned: segments[n].header.cleaned }).collect();
        let first = &sources[0].header;
        let header = Header {
            number: first.number,
            next: after.header.number,
            first: first.first,
            compacted: 0,
            cleaned: needs.compacted().map_or(0, ResourceVersion::get),
            previous: first.previous,
            replaced: after.header.previous,
            salt: salt(),
        };
        let chain = header.salt;
        let output = match reserve {
            Some(reserve) => Segment::begin_on(reserve, folder, header)?,
            None => Segment::begin(folder, header)?,
        };
        crash_point();
        let dead_at_begin = sources.iter().map(|source| source.dead()).sum();
        let batch = Batch::default();
        Ok(Self { sources, older, next: (0, 0), output, chain, batch, held: 0, dead_at_begin })
    }

    /// Copies some of the needed entries. Returns whether all are copied.
    pub(crate) fn step(&mut self, needs: &impl Needs) -> io::Result<bool> {
        self.batch.clear();
        let mut read = 0;
        while read < STEP_BYTES {
            let (source, block) = self.next;
            let Some(segment) = self.sources.get(source) else { break };
            let Some(block) = segment.read_block(block)? else {
                self.next = (source + 1, 0);
                continue;
            };
            self.next.1 += 1;
            read += block.len() as u64;
            for frame in checked_frames(&block) {
                let frame = frame?;
                let damaged = || io::Error::new(io::ErrorKind::InvalidData, "an entry of the log is damaged");
                let header = EntryHeader::read(frame.payload()).ok_or_else(damaged)?;
                let revision = ResourceVersion::new(frame.number).ok_or_else(damaged)?;
                if needs.needs(header.key, revision) {
                    self.batch.copy(&frame);
                } else if header.deleted.is_some_and(|created| self.is_held(created, frame.number)) {
                    self.held += frame.len() as u64;
                    self.batch.copy(&frame);
                }
            }
        }
        if !self.batch.is_empty() {
            self.chain = self.output.append(&mut self.batch, self.chain)?;
            crash_point();
        }
        Ok(self.next.0 == self.sources.len())
    }

    /// Whether an older segment may have a version of an object that was created and deleted at these revisions.
    fn is_held(&self, created: u64, deleted: u64) -> bool {
        let may_have = self.older.iter().rev().take_while(|older| older.until > created);
        may_have.into_iter().any(|older| older.cleaned < deleted)
    }

    /// Puts the new segment in the place of those that it replaces. If that fails, its file is left.
    pub(crate) fn finish(
        mut self,
        needs: &impl Needs,
        swap: impl FnOnce(&[Arc<Segment>], Segment),
    ) -> io::Result<()> {
        self.batch.clear();
        self.batch.sealed(self.output.header.next);
        self.output.append(&mut self.batch, self.chain)?;
        self.output.file.set_len(self.output.end())?;
        self.output.header.compacted = needs.compacted().map_or(0, ResourceVersion::get);
        self.output.file.write_all_at(&self.output.header.encode(), 0)?;
        crash_point();
        self.output.hold(self.held);
        let dead_now: u64 = self.sources.iter().map(|source| source.dead()).sum();
        self.output.add_dead(dead_now - self.dead_at_begin.min(dead_now));
        let output = self.output.publish()?;
        let folder = output.path.parent().map(Path::to_owned).unwrap_or_default();
        // From here on the new segment is part of the log, even if the folder cannot be synced. Then the others stay
        // where they are, and are removed at the next opening.
        swap(&self.sources, output);
        sync_folder(&folder)?;
        crash_point();
        for source in &self.sources[1..] {
            fs::remove_file(&source.path)?;
            crash_point();
        }
        Ok(())
    }

    /// The file that is written. It is not needed if the work is given up.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.output.path.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segments that are replaced, if so many of their MiB are needed and so many are not.
    fn chosen(fills: &[(u64, u64)], is_short: bool) -> Option<Range<usize>> {
        chosen_with(fills, is_short.then_some(SEGMENT_BYTES))
    }

    /// The same, with so much room.
    fn chosen_with(fills: &[(u64, u64)], room: Option<u64>) -> Option<Range<usize>> {
        let fill = |(live, dead): &(u64, u64)| Fill { bytes: (live + dead) << 20, dead: dead << 20 };
        choose(&fills.iter().map(fill).collect::<Vec<_>>(), room)
    }

    #[test]
    fn the_segments_that_need_least_room_are_replaced_first_while_room_is_short() {
        let fills = [(14, 2), (1, 1), (3, 5), (16, 0), (10, 6)];
        assert_eq!(chosen_with(&fills, Some(16 << 20)), Some(1..3), "and gives back enough");
        assert_eq!(chosen_with(&fills, Some(3 << 20)), None, "nothing fits");
        assert_eq!(chosen_with(&[(10, 6), (0, 16), (10, 6)], Some(1 << 20)), Some(1..2));
        assert_eq!(chosen_with(&[(0, 16), (0, 16), (0, 16)], Some(1 << 20)), Some(0..3));
        assert_eq!(
            chosen_with(&[(0, 16)], Some(0)),
            Some(0..1),
            "what is not needed at all goes in any case"
        );
    }

    #[test]
    fn room_is_given_back_where_there_is_most_to_gain() {
        assert_eq!(chosen(&[], false), None);
        assert_eq!(chosen(&[(8, 8)], false), None, "not enough");
        assert_eq!(chosen(&[(8, 8)], true), Some(0..1), "unless room is short");
        assert_eq!(chosen(&[(16, 0), (4, 12), (16, 0)], false), None, "little of all that there is");
        assert_eq!(chosen(&[(16, 0), (1, 15), (10, 6)], false), Some(1..2));
        assert_eq!(chosen(&[(10, 6), (16, 0), (0, 16)], false), Some(2..3));
    }

    #[test]
    fn segments_that_leave_little_are_replaced_together_but_not_too_many() {
        assert_eq!(chosen(&[(16, 0), (1, 15), (0, 16), (2, 0), (16, 0)], false), Some(1..4));
        assert_eq!(chosen(&[(0, 16); 10], false), Some(0..4));
        assert_eq!(
            chosen(&[(1, 0), (0, 16), (0, 16), (0, 16), (0, 16)], false),
            Some(0..4),
            "and what is left of others"
        );
        assert_eq!(chosen(&[(8, 8); 10], false), Some(0..2), "what is left fits into one");
        assert_eq!(chosen(&[(1, 0), (0, 0), (1, 15), (15, 1)], false), Some(0..3));
    }
}
