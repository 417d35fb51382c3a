//! The matching of scenarios and rows of several runs.
//!
//! Kept true: everything that any run has occurs once, in the order of the first run that has it. Two items of one name
//! in one run are matched with two of that name in others: the first with the first, the second with the second.

use crate::results::{Results, Row, Scenario};
use std::collections::HashMap;

/// One scenario, in each run that has it.
pub(super) struct MatchedScenario<'a> {
    pub(super) name: &'a str,
    pub(super) about: &'a str,
    pub(super) runs: Vec<Option<&'a Scenario>>,
    pub(super) rows: Vec<MatchedRow<'a>>,
}

/// One row, in each run that has it.
pub(super) struct MatchedRow<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) runs: Vec<Option<&'a Row>>,
}

impl MatchedRow<'_> {
    /// As [`Row::is_lateness`].
    pub(super) fn is_lateness(&self) -> bool {
        self.runs.iter().flatten().any(|row| row.is_lateness())
    }
}

/// The scenarios of all of them, and the rows of each.
pub(super) fn matched(all: &[Results]) -> Vec<MatchedScenario<'_>> {
    let lists: Vec<_> = all.iter().map(|results| Some(&*results.scenarios)).collect();
    let scenarios = by_name(&lists, |scenario| (&scenario.name, ""));
    scenarios.into_iter().map(|(name, runs)| scenario(name.0, runs)).collect()
}

fn scenario<'a>(name: &'a str, runs: Vec<Option<&'a Scenario>>) -> MatchedScenario<'a> {
    let about = runs.iter().flatten().map(|scenario| &*scenario.about).next().unwrap_or_default();
    let lists: Vec<_> = runs.iter().map(|run| run.map(|scenario| &*scenario.rows)).collect();
    let rows = by_name(&lists, |row| (&row.name, ""));
    let rows = rows.into_iter().map(|((name, _), runs)| {
        let unit = runs.iter().flatten().map(|row| &*row.unit).next().unwrap_or_default();
        MatchedRow { name, unit, runs }
    });
    MatchedScenario { name, about, rows: rows.collect(), runs }
}

/// A name of two parts, and the item with it in each of several lists.
type InEach<'a, T> = ((&'a str, &'a str), Vec<Option<&'a T>>);

/// The items that have the same name in several lists and are the n-th of that name in their list.
pub(super) fn by_name<'a, T>(
    lists: &[Option<&'a [T]>],
    name: impl Fn(&'a T) -> (&'a str, &'a str),
) -> Vec<InEach<'a, T>> {
    let mut places = HashMap::new();
    let mut found: Vec<InEach<'a, T>> = Vec::new();
    for (list, items) in lists.iter().enumerate() {
        let mut occurrences: HashMap<(&str, &str), usize> = HashMap::new();
        for item in items.iter().copied().flatten() {
            let occurrence = occurrences.entry(name(item)).or_default();
            let place = *places.entry((name(item), *occurrence)).or_insert(found.len());
            *occurrence += 1;
            if place == found.len() {
                found.push((name(item), vec![None; lists.len()]));
            }
            found[place].1[list] = Some(item);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    #[test]
    fn names_that_occur_twice_are_matched_in_order() {
        let (one, other) = (["a", "b", "a"], ["c", "a"]);
        let lists = [Some(&one[..]), None, Some(&other[..])];
        let found = by_name(&lists, |name| (name, ""));
        let shown: Vec<_> = found
            .iter()
            .map(|((name, _), items)| (*name, items.iter().map(Option::is_some).collect::<Vec<_>>()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", vec![true, false, true]),
                ("b", vec![true, false, false]),
                ("a", vec![true, false, false]),
                ("c", vec![false, false, true]),
            ]
        );
    }

    #[test]
    fn scenarios_and_rows_are_matched_by_name() {
        let (one, mut other) = (testing::results("a"), testing::results("b"));
        other.scenarios[0].rows.remove(0);
        other.scenarios.reverse();
        let all = [one, other];
        let found = matched(&all);
        assert_eq!(found.iter().map(|scenario| scenario.name).collect::<Vec<_>>(), ["fanout", "create"]);
        assert!(found[0].runs.iter().all(Option::is_some));
        assert_eq!(found[0].rows[0].runs.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[0].rows[0].unit, "event");
    }
}
