//! The text of an expression, positions in it, and the text of errors that point into it.

use std::fmt;

/// Errors after so many are counted and not listed.
const ERRORS_LISTED_MAX: usize = 100;
/// A line longer than this many bytes is not shown below an error.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// A place in the text: line from 1, column in code points from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    line: i64,
    column: i64,
}

impl Location {
    /// Of errors that belong to no place.
    pub(crate) const NONE: Self = Self { line: -1, column: -1 };
}

/// The text of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    text: String,
    /// The beginning of each line but the first, in code points.
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let line_starts =
            text.chars().enumerate().filter(|(_, char)| *char == '\n').map(|(at, _)| at + 1).collect();
        Self { text: text.to_owned(), line_starts }
    }

    /// The place of a code point.
    pub(crate) fn location(&self, offset: usize) -> Location {
        let lines_before = self.line_starts.partition_point(|start| *start <= offset);
        let start = if lines_before == 0 { 0 } else { self.line_starts[lines_before - 1] };
        let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        Location { line: signed(lines_before + 1), column: signed(offset - start) }
    }

    fn line(&self, number: i64) -> Option<&str> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.text.split('\n').nth(index)
    }
}

/// The errors of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Errors {
    source: Source,
    errors: Vec<(Location, String)>,
    count: usize,
}

impl Errors {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, errors: Vec::new(), count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there are more errors than are listed.
    pub(crate) fn is_full(&self) -> bool {
        self.count > ERRORS_LISTED_MAX
    }

    pub(crate) fn report(&mut self, location: Location, message: String) {
        self.count += 1;
        if self.count <= ERRORS_LISTED_MAX {
            self.errors.push((location, message));
        }
    }

    pub(crate) fn report_at(&mut self, offset: usize, message: String) {
        let location = self.source.location(offset);
        self.report(location, message);
    }

    /// Puts the errors in the order in which they are printed.
    pub(crate) fn sort(&mut self) {
        self.errors.sort_by_key(|(location, _)| *location);
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, location: Location, message: &str) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {message}", location.line, location.column + 1)?;
        let Some(line) = self.source.line(location.line).filter(|line| line.len() <= SNIPPET_BYTES_MAX)
        else {
            return Ok(());
        };
        write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
        let mut chars = line.chars();
        let column = usize::try_from(location.column).unwrap_or(0);
        for char in chars.by_ref().take(column) {
            f.write_str(if char.is_ascii() { "." } else { "\u{ff0e}" })?;
        }
        f.write_str(if chars.next().is_none_or(|char| char.is_ascii()) { "^" } else { "\u{ff3e}" })
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (location, message)) in self.errors.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            self.write(f, *location, message)?;
        }
        if self.count > self.errors.len() {
            write!(f, "\n{} more errors were truncated", self.count - self.errors.len())?;
        }
        Ok(())
    }
}
