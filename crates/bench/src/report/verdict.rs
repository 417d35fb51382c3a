//! The verdict on all checks of a run, in a line.

use super::number::count;
use crate::results::{Check, Results};
use std::fmt;

/// The results of all checks of a run. Formatted, it is the line that a report ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of claims that were checked.
    pub checks: u64,
    /// The number of them that did not hold.
    pub failed: u64,
    /// The number of them that had nothing to check, which proves nothing.
    pub empty: u64,
    /// The number of requests that failed, checked or not.
    pub failed_operations: u64,
}

impl Verdict {
    /// The results of the checks of this run.
    pub fn of(results: &Results) -> Verdict {
        let mut verdict = Verdict::default();
        for scenario in &results.scenarios {
            verdict.checks += scenario.checks.len() as u64;
            verdict.failed += scenario.checks.iter().filter(|check| check.faults > 0).count() as u64;
            verdict.empty += scenario.checks.iter().filter(|check| is_empty(check)).count() as u64;
            let failed = scenario.rows.iter().map(|row| row.failed);
            verdict.failed_operations = failed.fold(verdict.failed_operations, u64::saturating_add);
        }
        verdict
    }

    /// Whether something was checked, and all of it held.
    pub fn is_good(&self) -> bool {
        self.checks > 0 && self.failed == 0 && self.empty == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict { failed: 1, .. } => f.write_str("1 check failed")?,
            Verdict { failed: 2.., .. } => write!(f, "{} checks failed", count(self.failed))?,
            Verdict { checks: 0, .. } => f.write_str("nothing was verified")?,
            Verdict { empty: 0, .. } => f.write_str("all checks held")?,
            Verdict { checks, empty, .. } => {
                write!(f, "{} of {} checks had nothing to look at", count(*empty), count(*checks))?;
            }
        }
        match self.failed_operations {
            0 => Ok(()),
            1 => f.write_str("; 1 operation failed"),
            failed => write!(f, "; {} operations failed", count(failed)),
        }
    }
}

/// Whether a check had no occasion to fail.
pub(super) fn is_empty(check: &Check) -> bool {
    check.checked == 0 && check.faults == 0
}

/// As `120,000 checked, 0 faults`.
pub(super) fn finding(check: &Check) -> String {
    match check {
        check if is_empty(check) => "nothing was there to check".to_owned(),
        Check { faults: 1, .. } => format!("{} checked, 1 FAULT", count(check.checked)),
        Check { faults: 0, .. } => format!("{} checked, 0 faults", count(check.checked)),
        Check { .. } => format!("{} checked, {} FAULTS", count(check.checked), count(check.faults)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn verdict(checked_and_faults: &[(u64, u64)], failed_operations: u64) -> String {
        let mut results = testing::results("a");
        results.scenarios[0].rows[0].failed = failed_operations;
        results.scenarios[0].checks =
            checked_and_faults.iter().map(|(checked, faults)| testing::check(*checked, *faults)).collect();
        Verdict::of(&results).to_string()
    }

    #[test]
    fn the_verdict_is_only_good_if_every_check_held_and_none_was_empty() {
        assert_eq!(verdict(&[(5, 0), (7, 0)], 0), "all checks held");
        assert_eq!(verdict(&[(5, 1), (7, 0)], 0), "1 check failed");
        assert_eq!(verdict(&[(5, 1), (7, 3), (0, 0)], 0), "2 checks failed");
        assert_eq!(verdict(&[(5, 0), (0, 0)], 0), "1 of 2 checks had nothing to look at");
        assert_eq!(verdict(&[], 0), "nothing was verified");
        assert_eq!(verdict(&[(5, 0)], 12), "all checks held; 12 operations failed");
    }
}
