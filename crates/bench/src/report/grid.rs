//! Cells in aligned columns on a terminal.
//!
//! Kept true: no line is wider than it may be; the first column is cut if there is no other way.

use super::text::{columns, padded};

const GAP: usize = 2;

/// A table of texts. The first column is aligned to the left, the others to the right.
pub(super) struct Grid {
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    /// The width that each column needs so that nothing is cut.
    pub(super) fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.heads.iter().map(|head| columns(head)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        widths
    }

    /// The widths at which all fit into `room`, if that is possible with `first_min` columns for the first.
    pub(super) fn fitted(&self, room: usize, first_min: usize) -> Option<Vec<usize>> {
        let mut widths = self.widths();
        let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
        let first = widths.first_mut()?;
        let left = room.checked_sub(others)?;
        if left < first_min.min(*first) {
            return None;
        }
        *first = left.min(*first);
        Some(widths)
    }

    /// The line above the columns.
    pub(super) fn head(&self, widths: &[usize]) -> String {
        line(&self.heads, widths)
    }

    /// The lines below it.
    pub(super) fn lines(&self, widths: &[usize]) -> Vec<String> {
        self.rows.iter().map(|row| line(row, widths)).collect()
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded =
        cells.iter().zip(widths).enumerate().map(|(place, (cell, width))| padded(cell, *width, place > 0));
    padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let texts = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        Grid {
            heads: texts(&["", "p50"]), rows: vec![texts(&["大 things", "1.23 ms"]), texts(&["a", "–"])]
        }
    }

    #[test]
    fn numbers_stand_at_the_right_and_the_first_column_is_cut() {
        let grid = grid();
        let widths = grid.fitted(80, 4).unwrap();
        assert_eq!(grid.head(&widths), "               p50");
        assert_eq!(grid.lines(&widths), ["大 things  1.23 ms", "a                –"]);
        let narrow = grid.fitted(14, 4).unwrap();
        assert_eq!(grid.lines(&narrow), ["大 t…  1.23 ms", "a            –"]);
        assert!(grid.fitted(12, 4).is_none());
    }
}
