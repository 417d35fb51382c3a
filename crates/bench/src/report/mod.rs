//! Reports of results: as text on a terminal, as a comparison of several runs, and as a page for a browser.
//!
//! Nothing here measures. Kept true: any results that can be read can be reported, with any numbers and texts in them.

mod number;
pub mod text;
mod read;
mod verdict;
mod describe;
mod grid;
mod table;
mod matching;
mod compare;
mod svg;
mod plot;
mod page;

pub use compare::{
    Compared, ComparedMetric, ComparedRow, ComparedScenario, Comparison, Judgement, SAME_WITHIN, compare,
    comparison_table,
};
pub use page::page;
pub use read::{ReadError, read, read_all};
pub use table::{WIDTH_MIN, table};
pub use verdict::Verdict;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod robustness_tests;
