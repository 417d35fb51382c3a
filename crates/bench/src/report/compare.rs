//! Several runs side by side: the values of the others, divided by those of the first.
//!
//! Kept true: a value is compared only with one of the same scenario, row, metric and unit. What a run lacks is absent,
//! not zero.

use super::{
    describe,
    grid::Grid,
    matching::{MatchedRow, by_name, matched},
    number::{NOTHING, ratio, with_unit},
    table::WIDTH_MIN,
    text::{plain, wrapped},
    verdict::Verdict,
};
use crate::results::{Latency, Results, Row};

/// Values that differ by less than this share are called the same: two runs of one server differ by as much.
pub const SAME_WITHIN: f64 = 0.05;
const NAME_MIN: usize = 10;
const INDENT: usize = 2;

/// Several runs, compared with the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The names of the runs, in their order.
    pub titles: Vec<String>,
    /// The load of each, in words; empty if it was the same for all.
    pub loads: Vec<String>,
    /// The machine of each, likewise.
    pub machines: Vec<String>,
    /// The results of the checks of each.
    pub verdicts: Vec<Verdict>,
    /// The scenarios of all runs.
    pub scenarios: Vec<ComparedScenario>,
}

/// One scenario of several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedScenario {
    /// Its name.
    pub name: String,
    /// A sentence about it.
    pub about: String,
    /// The rows of all runs.
    pub rows: Vec<ComparedRow>,
}

/// One row of several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRow {
    /// Its name.
    pub name: String,
    /// The unit of the counts.
    pub unit: String,
    /// The metrics that at least one run has.
    pub metrics: Vec<ComparedMetric>,
}

/// One kind of number in several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedMetric {
    /// Its name, such as `CPU each`.
    pub name: String,
    /// The unit, as in [`Figure`](crate::results::Figure).
    pub unit: String,
    /// Whether less is better; nothing if it is neither good nor bad.
    pub less_is_better: Option<bool>,
    /// One for each run, absent if that did not measure it.
    pub values: Vec<Option<Compared>>,
}

/// A number, and what it is compared with that of the first run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The number.
    pub value: f64,
    /// The value divided by that of the first run; absent if that has none, or zero.
    pub ratio: Option<f64>,
    /// Whether that is good; absent if it is neither good nor bad.
    pub judgement: Option<Judgement>,
}

/// The judgement of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Better than the first run.
    Better,
    /// Within [`SAME_WITHIN`] of the first run.
    Same,
    /// Worse than the first run.
    Worse,
}

impl Judgement {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Better => "better",
            Judgement::Same => "same",
            Judgement::Worse => "worse",
        }
    }
}

/// A metric of every row, besides its figures.
struct Metric {
    name: &'static str,
    unit: &'static str,
    less_is_better: bool,
    value: fn(&Row) -> Option<f64>,
}

const METRICS: [Metric; 7] = [
    Metric { name: "CPU each", unit: "µs", less_is_better: true, value: |row| row.cpu_micros_each },
    Metric {
        name: "per second",
        unit: "",
        less_is_better: false,
        value: |row| (row.seconds > 0.0).then(|| row.per_second()),
    },
    Metric {
        name: "p50",
        unit: "µs",
        less_is_better: true,
        value: |row| latency(row, |latency| latency.p50),
    },
    Metric {
        name: "p99",
        unit: "µs",
        less_is_better: true,
        value: |row| latency(row, |latency| latency.p99),
    },
    Metric {
        name: "memory after",
        unit: "bytes",
        less_is_better: true,
        value: |row| row.memory.map(|memory| memory.after_bytes as f64),
    },
    Metric {
        name: "memory, at most",
        unit: "bytes",
        less_is_better: true,
        value: |row| row.memory.map(|memory| memory.peak_bytes as f64),
    },
    Metric { name: "failed", unit: "", less_is_better: true, value: |row| Some(row.failed as f64) },
];

fn latency(row: &Row, value: fn(&Latency) -> f64) -> Option<f64> {
    row.latency.as_ref().map(value)
}

/// Compares runs with the first of them, row by row.
pub fn compare(all: &[Results]) -> Comparison {
    let scenarios = matched(all).into_iter().map(|scenario| ComparedScenario {
        name: scenario.name.to_owned(),
        about: scenario.about.to_owned(),
        rows: scenario.rows.iter().map(compared_row).collect(),
    });
    Comparison {
        titles: all.iter().map(|results| results.title.clone()).collect(),
        loads: if_different(all, |results| &results.load, describe::load),
        machines: if_different(all, |results| &results.machine, describe::machine),
        verdicts: all.iter().map(Verdict::of).collect(),
        scenarios: scenarios.collect(),
    }
}

fn if_different<T: PartialEq>(
    all: &[Results],
    what: impl Fn(&Results) -> &T,
    said: impl Fn(&T) -> String,
) -> Vec<String> {
    let is_same = all.windows(2).all(|two| what(&two[0]) == what(&two[1]));
    if is_same { Vec::new() } else { all.iter().map(what).map(said).collect() }
}

fn compared_row(row: &MatchedRow<'_>) -> ComparedRow {
    let mut metrics: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let values = row.runs.iter().map(|run| run.and_then(metric.value)).collect();
            compared(metric.name, metric.unit, Some(metric.less_is_better), values)
        })
        .filter(is_worth_showing)
        .collect();
    metrics.extend(figures(row));
    ComparedRow { name: row.name.to_owned(), unit: row.unit.to_owned(), metrics }
}

fn figures(row: &MatchedRow<'_>) -> Vec<ComparedMetric> {
    let lists: Vec<_> = row.runs.iter().map(|run| run.map(|row| &*row.figures)).collect();
    let found = by_name(&lists, |figure| (&figure.name, &figure.unit));
    let compared = found.into_iter().map(|((name, unit), figures)| {
        let less_is_better = figures.iter().flatten().find_map(|figure| figure.less_is_better);
        let values = figures.into_iter().map(|figure| figure.map(|figure| figure.value)).collect();
        compared(name, unit, less_is_better, values)
    });
    compared.collect()
}

/// Whether some run measured it. A row without failures has no line for them.
fn is_worth_showing(metric: &ComparedMetric) -> bool {
    let mut values = metric.values.iter().flatten();
    if metric.name == "failed" {
        values.any(|compared| compared.value > 0.0)
    } else {
        values.next().is_some()
    }
}

fn compared(
    name: &str,
    unit: &str,
    less_is_better: Option<bool>,
    values: Vec<Option<f64>>,
) -> ComparedMetric {
    let first = values.first().copied().flatten();
    let compared = values.into_iter().enumerate().map(|(run, value)| {
        let value = value?;
        let first = first.filter(|_| run > 0);
        let judgement = first.zip(less_is_better).map(|(first, less)| judged(value, first, less));
        Some(Compared { value, ratio: first.and_then(|first| ratio_to(value, first)), judgement })
    });
    ComparedMetric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        less_is_better,
        values: compared.collect(),
    }
}

fn ratio_to(value: f64, first: f64) -> Option<f64> {
    if value == first {
        return Some(1.0);
    }
    Some(value / first).filter(|ratio| first != 0.0 && ratio.is_finite())
}

fn judged(value: f64, first: f64, less_is_better: bool) -> Judgement {
    if (value - first).abs() <= first.abs() * SAME_WITHIN {
        Judgement::Same
    } else if (value < first) == less_is_better {
        Judgement::Better
    } else {
        Judgement::Worse
    }
}

/// A comparison as text, for a terminal of this width. Ends with a line for each run with the result of its checks.
pub fn comparison_table(comparison: &Comparison, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut lines = Vec::new();
    match &*comparison.titles {
        [] => lines.push("nothing to compare".to_owned()),
        [first, ..] => lines.extend(wrapped(&format!("compared with {}", plain(first)), width, INDENT)),
    }
    for (claim, each) in [
        ("The loads differ, so the figures say little:", &comparison.loads),
        ("The machines differ:", &comparison.machines),
    ] {
        if !each.is_empty() {
            lines.extend([String::new(), claim.to_owned()]);
        }
        for (title, said) in comparison.titles.iter().zip(each) {
            lines.extend(wrapped(&format!("{}: {said}", plain(title)), width, INDENT));
        }
    }
    for scenario in &comparison.scenarios {
        lines.push(String::new());
        lines.extend(wrapped(
            &format!("{}: {}", plain(&scenario.name), plain(&scenario.about)),
            width,
            INDENT,
        ));
        lines.extend(scenario_lines(scenario, &comparison.titles, width));
    }
    lines.push(String::new());
    for (title, verdict) in comparison.titles.iter().zip(&comparison.verdicts) {
        lines.extend(wrapped(&format!("{}: {verdict}", plain(title)), width, INDENT));
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Runs are placed side by side if they fit, else below each other.
fn scenario_lines(scenario: &ComparedScenario, titles: &[String], width: usize) -> Vec<String> {
    let grids: Vec<_> = scenario.rows.iter().map(|row| side_by_side(row, titles)).collect();
    let fits = |grid: &Grid| grid.fitted(width - 2 * INDENT, NAME_MIN);
    let fitted: Option<Vec<_>> = grids.iter().map(fits).collect();
    let widths = fitted.and_then(|all| all.into_iter().reduce(widest));
    match widths.filter(|widths| line_width(widths) <= width - 2 * INDENT) {
        Some(widths) => merged_grids(scenario, &grids, &widths, width),
        None => scenario.rows.iter().flat_map(|row| below_each_other(row, titles, width)).collect(),
    }
}

fn widest(one: Vec<usize>, other: Vec<usize>) -> Vec<usize> {
    one.into_iter().zip(other).map(|(one, other)| one.max(other)).collect()
}

fn line_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2)
}

fn side_by_side(row: &ComparedRow, titles: &[String]) -> Grid {
    let cells = |metric: &ComparedMetric| {
        let name = std::iter::once(plain(&metric.name).into_owned());
        name.chain(metric.values.iter().map(|value| cell(metric, value.as_ref()))).collect()
    };
    let heads = std::iter::once(String::new()).chain(titles.iter().map(|title| plain(title).into_owned()));
    Grid { heads: heads.collect(), rows: row.metrics.iter().map(cells).collect() }
}

fn merged_grids(scenario: &ComparedScenario, grids: &[Grid], widths: &[usize], width: usize) -> Vec<String> {
    let indented = |line: String| format!("{}{line}", " ".repeat(2 * INDENT));
    let mut lines: Vec<_> = grids.first().map(|grid| indented(grid.head(widths))).into_iter().collect();
    for (row, grid) in scenario.rows.iter().zip(grids) {
        lines.extend(wrapped(&format!("  {}", plain(&row.name)), width, 2 * INDENT));
        lines.extend(grid.lines(widths).into_iter().map(indented));
    }
    lines
}

fn below_each_other(row: &ComparedRow, titles: &[String], width: usize) -> Vec<String> {
    let mut lines = wrapped(&format!("  {}", plain(&row.name)), width, 2 * INDENT);
    for metric in &row.metrics {
        lines.extend(wrapped(&format!("    {}", plain(&metric.name)), width, 3 * INDENT));
        for (title, value) in titles.iter().zip(&metric.values) {
            let text = format!("      {}: {}", plain(title), cell(metric, value.as_ref()));
            lines.extend(wrapped(&text, width, 4 * INDENT));
        }
    }
    lines
}

/// As `1.23 ms (0.31 x, better)`.
fn cell(metric: &ComparedMetric, value: Option<&Compared>) -> String {
    let Some(compared) = value else { return NOTHING.to_owned() };
    let text = with_unit(compared.value, &plain(&metric.unit));
    match (compared.ratio, compared.judgement) {
        (Some(times), Some(judgement)) => format!("{text} ({}, {})", ratio(times), judgement.word()),
        (Some(times), None) => format!("{text} ({})", ratio(times)),
        (None, Some(judgement)) => format!("{text} ({})", judgement.word()),
        (None, None) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{testing, text::columns};

    fn two() -> [Results; 2] {
        let (first, mut second) = (testing::results("etcd"), testing::results("embedded"));
        let row = &mut second.scenarios[0].rows[0];
        row.cpu_micros_each = Some(3.9);
        row.seconds = 20.0;
        let latency = row.latency.as_mut().unwrap();
        (latency.p50, latency.p99) = (1_210.0, 0.0);
        second.scenarios[0].rows.remove(1);
        [first, second]
    }

    fn shown(comparison: &Comparison, width: usize) -> Vec<String> {
        let text = comparison_table(comparison, width);
        for line in text.lines() {
            assert!(columns(line) <= width.max(WIDTH_MIN), "{line:?} is wider than {width}");
        }
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn loads_that_differ_are_reported() {
        assert!(compare(&two()).loads.is_empty());
        let mut runs = two();
        runs[1].load.objects += 1;
        runs[1].machine.cores += 1;
        let lines = shown(&compare(&runs), 400);
        let after = |claim: &str| {
            let at = lines.iter().position(|line| line == claim).expect(claim);
            lines[at + 1..at + 3].to_vec()
        };
        let loads = after("The loads differ, so the figures say little:");
        assert!(loads[0].starts_with("etcd: 10,000 objects") && loads[1].starts_with("embedded: 10,001"));
        assert!(after("The machines differ:")[1].starts_with("embedded: "));
    }

    #[test]
    fn numbers_are_compared_with_those_of_the_first_run() {
        let comparison = compare(&two());
        let metrics: Vec<_> = comparison.scenarios[0].rows[0]
            .metrics
            .iter()
            .map(|metric| {
                let second = metric.values[1].unwrap();
                (&*metric.name, second.ratio.map(ratio).unwrap_or_default(), second.judgement)
            })
            .collect();
        let expected = [
            ("CPU each", "0.31 x", Some(Judgement::Better)),
            ("per second", "0.50 x", Some(Judgement::Worse)),
            ("p50", "1.01 x", Some(Judgement::Same)),
            ("p99", "0.00 x", Some(Judgement::Better)),
            ("memory after", "1.00 x", Some(Judgement::Same)),
            ("memory, at most", "1.00 x", Some(Judgement::Same)),
            ("memory for a watcher", "1.00 x", Some(Judgement::Same)),
        ];
        assert_eq!(metrics, expected.map(|(name, times, judgement)| (name, times.to_owned(), judgement)));
        let first = comparison.scenarios[0].rows[0].metrics[0].values[0].unwrap();
        assert_eq!((first.ratio, first.judgement), (None, None));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(ratio_to(1.0, 0.0), None);
        assert_eq!(ratio_to(0.0, 0.0), Some(1.0));
        assert_eq!(ratio_to(f64::MAX, f64::MIN_POSITIVE), None);
        assert_eq!(judged(1.0, 0.0, true), Judgement::Worse);
        assert_eq!(judged(0.0, 0.0, true), Judgement::Same);
    }

    #[test]
    fn failures_are_compared_only_if_there_are_some() {
        let mut all = two();
        all[1].scenarios[0].rows[0].failed = 5;
        let comparison = compare(&all);
        let failed = comparison.scenarios[0].rows[0].metrics.iter().find(|metric| metric.name == "failed");
        assert_eq!(failed.unwrap().values[1].unwrap().judgement, Some(Judgement::Worse));
    }

    #[test]
    fn runs_stand_side_by_side_and_what_one_lacks_is_a_dash() {
        assert_eq!(
            shown(&compare(&two()), 80)[..15],
            [
                "compared with etcd",
                "",
                "fanout: Writes while many watch.",
                "                              etcd                  embedded",
                "  events",
                "    CPU each               12.5 µs  3.90 µs (0.31 x, better)",
                "    per second              12,000     6,000 (0.50 x, worse)",
                "    p50                    1.20 ms    1.21 ms (1.01 x, same)",
                "    p99                    8.50 ms     0 µs (0.00 x, better)",
                "    memory after          61.5 MiB   61.5 MiB (1.00 x, same)",
                "    memory, at most         64 MiB     64 MiB (1.00 x, same)",
                "    memory for a watcher  12.3 KiB   12.3 KiB (1.00 x, same)",
                "  lists, 大きい",
                "    per second                1.00                         –",
                "",
            ]
        );
    }

    #[test]
    fn where_there_is_no_room_runs_stand_below_each_other() {
        let all: Vec<_> = (0..5).map(|run| testing::results(&format!("run {run}"))).collect();
        let lines = shown(&compare(&all), 60);
        let at = lines.iter().position(|line| line == "    CPU each").unwrap();
        assert_eq!(lines[at + 1..at + 3], ["      run 0: 12.5 µs", "      run 1: 12.5 µs (1.00 x, same)"]);
    }

    #[test]
    fn it_ends_with_the_verdict_of_each_run() {
        let mut all = two();
        all[1].scenarios[0].checks[0].faults = 1;
        let lines = shown(&compare(&all), 60);
        assert_eq!(lines[lines.len() - 2..], ["etcd: all checks held", "embedded: 1 check failed"]);
    }

    #[test]
    fn no_runs_and_one_run_are_compared_too() {
        assert_eq!(comparison_table(&compare(&[]), 80), "nothing to compare\n");
        let [first, _] = two();
        assert!(comparison_table(&compare(&[first]), 80).contains("12.5 µs"));
    }
}
