//! The costs of expressions: before they run (`estimate`) and while they run (`track`).

mod estimate;
pub(crate) mod rule;
pub(crate) mod track;

pub(crate) use estimate::estimate;

use std::fmt;

/// The least and the most that something costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// The least.
    pub min: u64,
    /// The most; `u64::MAX` is unbounded.
    pub max: u64,
}

impl fmt::Display for CostEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.min, self.max)
    }
}

impl CostEstimate {
    /// Of which nothing is known.
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Times a factor, rounded up.
    fn by(self, factor: f64) -> Self {
        Self { min: times_factor(self.min, factor), max: times_factor(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// A number times a factor, rounded up.
fn times_factor(number: u64, factor: f64) -> u64 {
    // Casts of doubles saturate.
    (number as f64 * factor).ceil() as u64
}
