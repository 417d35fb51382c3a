//! Splits the chunks of a watch into lines.
//!
//! Invariants: lines are complete and in order, however they were cut into chunks; a line has at most
//! [`LINE_MAX_BYTES`]; an idle watch keeps at most [`IDLE_MAX_BYTES`] of its buffer.

use crate::error::{ApiError, Class};
use serde::de::IgnoredAny;

/// The longest line of a watch. Servers refuse objects of more than a few MiB; a longer line fails the watch.
const LINE_MAX_BYTES: usize = 64 << 20;

/// The maximum size of the line buffer that is kept while it is empty.
const IDLE_MAX_BYTES: usize = 1 << 20;

/// Splits the received chunks into lines.
///
/// No byte is searched twice, even if a line arrives in small chunks. Empty lines are skipped.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were already returned.
    taken: usize,
    /// The position up to which the buffer contains no end of a line.
    searched: usize,
}

impl Lines {
    /// Adds a chunk. Fails if a line is longer than [`LINE_MAX_BYTES`].
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), ApiError> {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_MAX_BYTES {
            self.buffer = Vec::new();
        }
        if self.buffer.len() + chunk.len() > LINE_MAX_BYTES && self.is_too_long(chunk) {
            return Err(ApiError::new(
                Class::Unreadable,
                format!("a line is longer than {LINE_MAX_BYTES} bytes"),
            ));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    fn is_too_long(&self, chunk: &[u8]) -> bool {
        memchr::memchr(b'\n', chunk).is_none_or(|end| self.buffer.len() + end > LINE_MAX_BYTES)
    }

    /// The next complete line, without its end.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return None;
            };
            let (start, end) = (self.taken, self.searched + found);
            self.taken = end + 1;
            self.searched = self.taken;
            if !self.buffer[start..end].trim_ascii().is_empty() {
                return Some(self.buffer[start..end].trim_ascii());
            }
        }
    }

    /// The last line, if it has content but no end.
    pub(crate) fn rest(&mut self) -> Option<&[u8]> {
        let start = std::mem::replace(&mut self.taken, self.buffer.len());
        self.searched = self.taken;
        let rest = self.buffer[start..].trim_ascii();
        serde_json::from_slice::<IgnoredAny>(rest).is_ok().then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of these chunks, joined by `|`.
    fn lines(pieces: &[&str]) -> String {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece.as_bytes()).unwrap();
            while let Some(line) = lines.next() {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        seen.extend(lines.rest().map(|line| String::from_utf8(line.to_vec()).unwrap()));
        assert!(lines.next().is_none());
        seen.join("|")
    }

    #[test]
    fn lines_are_complete_for_any_chunks() {
        for (pieces, expected) in [
            (&["1\n2\n"][..], "1|2"),
            (&["1", "2", "\n3", "4\n5\n"], "12|34|5"),
            (&["\n\r\n1\r\n\n \n", "\n2\n"], "1|2"),
            (&["1\n{\"a\":", "2}"], "1|{\"a\":2}"),
            (&["1\n{\"a\":"], "1"),
            (&[], ""),
        ] {
            assert_eq!(lines(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_long_line_in_small_chunks_is_searched_once() {
        let mut lines = Lines::default();
        for _ in 0..200_000 {
            lines.push(&[b'1'; 16]).unwrap();
            assert!(lines.next().is_none());
            assert_eq!(lines.searched, lines.buffer.len());
        }
        lines.push(b"\n").unwrap();
        assert_eq!(lines.next().map(<[u8]>::len), Some(3_200_000));
        lines.push(b"1").unwrap();
        assert!(lines.buffer.capacity() <= IDLE_MAX_BYTES, "the memory of a long line is freed");
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error() {
        let chunk = vec![b'1'; LINE_MAX_BYTES / 2];
        let mut lines = Lines::default();
        lines.push(&chunk).unwrap();
        lines.push(&chunk).unwrap();
        assert_eq!(lines.push(b"1").unwrap_err().class, Class::Unreadable);
        lines.push(b"\n1").unwrap();
        assert_eq!(lines.next().map(<[u8]>::len), Some(LINE_MAX_BYTES));
    }
}
