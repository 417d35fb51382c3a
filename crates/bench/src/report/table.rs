//! The report of one run as text, for a terminal.
//!
//! Kept true: no line is wider than the terminal if that has at least [`WIDTH_MIN`] columns, and texts of the file
//! contain no control characters. Numbers are never cut: where columns do not fit, they go below the name, then into
//! prose.

use super::{
    describe,
    grid::Grid,
    number::{NOTHING, bytes, count, count_of, micros, number, with_unit},
    text::{columns, plain, wrapped},
    verdict::{Verdict, finding, is_empty},
};
use crate::results::{Check, Figure, Memory, Results, Row, Scenario};

/// On narrower terminals, lines are as wide as on this one.
pub const WIDTH_MIN: usize = 60;
/// Names are cut to this only where that spares a second line.
const NAME_MIN: usize = 24;
const INDENT: usize = 2;

/// One measurement of a row.
pub(super) struct Column {
    pub(super) head: &'static str,
    /// An explanation below the table.
    meaning: &'static str,
    /// The same where [latencies are lateness](Row::is_lateness), if that is something else.
    of_events: &'static str,
    pub(super) cell: fn(&Row) -> Option<String>,
}

/// All columns that a row may have, in their order.
pub(super) const COLUMNS: [Column; 8] = [
    Column {
        head: "count",
        meaning: "",
        of_events: "",
        cell: |row| Some(count_of(row.count, &plain(&row.unit))),
    },
    Column {
        head: "failed",
        meaning: "",
        of_events: "",
        cell: |row| (row.failed > 0).then(|| count(row.failed)),
    },
    Column {
        head: "per s",
        meaning: "",
        of_events: "",
        cell: |row| (row.seconds > 0.0).then(|| number(row.per_second())),
    },
    Column {
        head: "p50",
        meaning: "half took no longer",
        of_events: "half came no later",
        cell: |row| row.latency.as_ref().map(|latency| micros(latency.p50)),
    },
    Column {
        head: "p99",
        meaning: "99 of 100 took no longer",
        of_events: "99 of 100 came no later",
        cell: |row| row.latency.as_ref().map(|latency| micros(latency.p99)),
    },
    Column {
        head: "max",
        meaning: "the longest",
        of_events: "the latest",
        cell: |row| row.latency.as_ref().map(|latency| micros(latency.max)),
    },
    Column {
        head: "CPU each",
        meaning: "processor time of the server for one",
        of_events: "",
        cell: |row| row.cpu_micros_each.map(micros),
    },
    Column {
        head: "memory",
        meaning: "of the server, before → after",
        of_events: "",
        cell: |row| row.memory.as_ref().map(before_and_after),
    },
];

/// A run as text, for a terminal of this width. Ends with a line with the result of its checks.
pub fn table(results: &Results, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut lines = head(results, width);
    for scenario in &results.scenarios {
        lines.push(String::new());
        lines.extend(scenario_lines(scenario, width));
    }
    let meanings = meanings(std::slice::from_ref(results));
    if !meanings.is_empty() {
        let texts: Vec<_> = meanings.iter().map(|(head, meaning)| format!("{head}: {meaning}")).collect();
        lines.push(String::new());
        lines.extend(wrapped(&texts.join("; "), width, 0));
    }
    lines.push(String::new());
    lines.extend(wrapped(&Verdict::of(results).to_string(), width, 0));
    lines.join("\n") + "\n"
}

fn head(results: &Results, width: usize) -> Vec<String> {
    let mut lines = wrapped(&plain(&results.title), width, 0);
    for (name, text) in [
        ("server ", describe::server(&results.server)),
        ("machine", describe::machine(&results.machine)),
        ("load   ", describe::load(&results.load)),
    ] {
        lines.extend(wrapped(&format!("  {name}  {text}"), width, 11));
    }
    lines
}

fn scenario_lines(scenario: &Scenario, width: usize) -> Vec<String> {
    let heading = format!("{}: {}", plain(&scenario.name), plain(&scenario.about));
    let mut lines = wrapped(&heading, width, INDENT);
    lines.extend(row_lines(&scenario.rows, width));
    for check in &scenario.checks {
        lines.extend(check_lines(check, width));
    }
    lines
}

/// The columns that at least one of the rows has.
pub(super) fn present(rows: &[Row]) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| rows.iter().any(|row| (column.cell)(row).is_some())).collect()
}

fn row_lines(rows: &[Row], width: usize) -> Vec<String> {
    let present = present(rows);
    let cells = |row: &Row| present.iter().map(|column| cell(column, row)).collect::<Vec<_>>();
    let heads = || present.iter().map(|column| column.head.to_owned());
    let named = Grid {
        heads: std::iter::once(String::new()).chain(heads()).collect(),
        rows: rows
            .iter()
            .map(|row| std::iter::once(plain(&row.name).into_owned()).chain(cells(row)).collect())
            .collect(),
    };
    if let Some(widths) = named.fitted(width - INDENT, NAME_MIN) {
        return beside_names(rows, &named, &widths, width);
    }
    let unnamed = Grid { heads: heads().collect(), rows: rows.iter().map(cells).collect() };
    // Nothing is cut here: the first column is a number too.
    match unnamed.fitted(width - 2 * INDENT, usize::MAX) {
        Some(widths) => below_names(rows, &unnamed, &widths, width),
        None => rows.iter().flat_map(|row| in_words(row, &present, width)).collect(),
    }
}

fn beside_names(rows: &[Row], grid: &Grid, widths: &[usize], width: usize) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![indented(&grid.head(widths), INDENT)];
    for (row, line) in rows.iter().zip(grid.lines(widths)) {
        lines.push(indented(&line, INDENT));
        lines.extend(figure_lines(row, width));
    }
    lines
}

fn below_names(rows: &[Row], grid: &Grid, widths: &[usize], width: usize) -> Vec<String> {
    let mut lines = vec![indented(&grid.head(widths), 2 * INDENT)];
    for (row, line) in rows.iter().zip(grid.lines(widths)) {
        lines.extend(name_lines(row, width));
        lines.push(indented(&line, 2 * INDENT));
        lines.extend(figure_lines(row, width));
    }
    lines
}

fn in_words(row: &Row, present: &[&Column], width: usize) -> Vec<String> {
    let said = present.iter().filter_map(|column| {
        let cell = (column.cell)(row)?;
        // Measurements stay on one line each: they are broken between, not within.
        let text = match column.head {
            "count" => cell,
            "per s" => format!("{cell} per s"),
            head => format!("{head} {cell}"),
        };
        Some(text.replace(' ', "\u{a0}"))
    });
    let text = format!("    {}", said.collect::<Vec<_>>().join(", "));
    let mut lines = name_lines(row, width);
    lines.extend(wrapped(&text, width, 2 * INDENT).into_iter().map(|line| line.replace('\u{a0}', " ")));
    lines.extend(figure_lines(row, width));
    lines
}

fn name_lines(row: &Row, width: usize) -> Vec<String> {
    wrapped(&indented(&plain(&row.name), INDENT), width, 2 * INDENT)
}

fn figure_lines(row: &Row, width: usize) -> Vec<String> {
    let lines = row.figures.iter().map(|figure| {
        let text = format!("{}: {}", plain(&figure.name), figure_value(figure));
        wrapped(&indented(&text, 2 * INDENT), width, 3 * INDENT)
    });
    lines.flatten().collect()
}

fn check_lines(check: &Check, width: usize) -> Vec<String> {
    let word = match check {
        check if check.faults > 0 => "!!! FAILED",
        check if is_empty(check) => "not verified",
        _ => "verified",
    };
    let text = format!("  {word}: {}: {}", plain(&check.claim), finding(check));
    let mut lines = wrapped(&text, width, 2 * INDENT);
    if let Some(fault) = check.first_fault.as_ref().filter(|_| check.faults > 0) {
        lines.extend(wrapped(&format!("  !!! the first: {}", plain(fault)), width, 2 * INDENT));
    }
    lines
}

/// The headings that occur and need an explanation, and their meaning for these rows.
pub(super) fn meanings(all: &[Results]) -> Vec<(&'static str, String)> {
    let rows = || all.iter().flat_map(|results| &results.scenarios).flat_map(|scenario| &scenario.rows);
    let meaning = |column: &Column| {
        let occurs = |is_lateness: bool| {
            rows().any(|row| row.is_lateness() == is_lateness && (column.cell)(row).is_some())
        };
        match (occurs(false), occurs(true)) {
            (false, false) => String::new(),
            (_, false) => column.meaning.to_owned(),
            (_, true) if column.of_events.is_empty() => column.meaning.to_owned(),
            (false, true) => column.of_events.to_owned(),
            (true, true) => format!("{} (events: {})", column.meaning, column.of_events),
        }
    };
    let all = COLUMNS.iter().map(|column| (column.head, meaning(column)));
    all.filter(|(_, meaning)| !meaning.is_empty()).collect()
}

pub(super) fn cell(column: &Column, row: &Row) -> String {
    (column.cell)(row).unwrap_or_else(|| NOTHING.to_owned())
}

pub(super) fn figure_value(figure: &Figure) -> String {
    with_unit(figure.value, &plain(&figure.unit))
}

fn before_and_after(memory: &Memory) -> String {
    let (before, after) = (bytes(memory.before_bytes as f64), bytes(memory.after_bytes as f64));
    match (before.split_once(' '), after.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} → {after}"),
        _ => format!("{before} → {after}"),
    }
}

fn indented(text: &str, indent: usize) -> String {
    if columns(text) == 0 { String::new() } else { format!("{}{text}", " ".repeat(indent)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn shown(results: &Results, width: usize) -> Vec<String> {
        let text = table(results, width);
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        for line in &lines {
            assert!(columns(line) <= width.max(WIDTH_MIN), "{line:?} is wider than {width}");
            assert_eq!(line.trim_end(), line);
        }
        lines
    }

    /// The lines of the first scenario.
    fn first(results: &Results, width: usize) -> Vec<String> {
        let lines = shown(results, width);
        let begin = lines.iter().position(|line| line.starts_with("fanout")).unwrap();
        let end = lines[begin..].iter().position(String::is_empty).unwrap();
        lines[begin..begin + end].to_vec()
    }

    #[test]
    fn a_wide_terminal_shows_a_row_in_a_line() {
        assert_eq!(
            first(&testing::results("a"), 140),
            [
                "fanout: Writes while many watch.",
                "                          count   per s      p50      p99     max  CPU each         memory",
                "  events         120,000 events  12,000  1.20 ms  8.50 ms  250 ms   12.5 µs  38 → 61.5 MiB",
                "    memory for a watcher: 12.3 KiB",
                "  lists, 大きい        10 lists    1.00        –        –       –         –              –",
                "  verified: every watcher saw every event once, in order: 120,000 checked, 0 faults",
            ]
        );
    }

    #[test]
    fn a_common_terminal_shows_numbers_below_names() {
        let mut results = testing::results("a");
        results.scenarios[0].rows[0].name = "events to all of a thousand watchers".to_owned();
        assert_eq!(
            first(&results, 80)[1..4],
            [
                "    count            per s      p50      p99     max  CPU each         memory",
                "  events to all of a thousand watchers",
                "    120,000 events  12,000  1.20 ms  8.50 ms  250 ms   12.5 µs  38 → 61.5 MiB",
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_shows_numbers_in_words() {
        assert_eq!(
            first(&testing::results("a"), 60),
            [
                "fanout: Writes while many watch.",
                "  events",
                "    120,000 events, 12,000 per s, p50 1.20 ms, p99 8.50 ms,",
                "    max 250 ms, CPU each 12.5 µs, memory 38 → 61.5 MiB",
                "    memory for a watcher: 12.3 KiB",
                "  lists, 大きい",
                "    10 lists, 1.00 per s",
                "  verified: every watcher saw every event once, in order:",
                "    120,000 checked, 0 faults",
            ]
        );
    }

    #[test]
    fn columns_that_no_row_has_are_left_out() {
        let mut results = testing::results("a");
        results.scenarios[0].rows.remove(0);
        assert_eq!(first(&results, 80)[1], "                    count  per s");
        let text = table(&results, 80);
        assert!(!text.contains("p50") && !text.contains("CPU each"));
    }

    #[test]
    fn events_come_late_and_all_else_takes_long() {
        let mut results = testing::results("a");
        let meaning = |results: &Results| meanings(std::slice::from_ref(results))[0].1.clone();
        assert_eq!(meaning(&results), "half came no later");
        results.scenarios[1].rows[0].latency = Some(testing::latency());
        assert_eq!(meaning(&results), "half took no longer (events: half came no later)");
        assert!(
            table(&results, 400).contains("; max: the longest (events: the latest); CPU each: processor")
        );
        results.scenarios[0].rows.remove(0);
        assert_eq!(meaning(&results), "half took no longer");
    }

    #[test]
    fn a_failed_check_is_loud_and_shows_the_first_fault() {
        let mut results = testing::results("a");
        results.scenarios[0].checks = vec![testing::check(120_000, 3), testing::check(0, 0)];
        let lines = shown(&results, 100);
        let at = lines.iter().position(|line| line.contains("!!! FAILED")).unwrap();
        assert_eq!(
            lines[at..at + 3],
            [
                "  !!! FAILED: every watcher saw every event once, in order: 120,000 checked, 3 FAULTS",
                "  !!! the first: watcher 7 saw version 12 after 13",
                "  not verified: every watcher saw every event once, in order: nothing was there to check",
            ]
        );
        assert_eq!(lines.last().unwrap(), "1 check failed");
    }

    #[test]
    fn the_report_of_an_empty_run_states_that_nothing_was_verified() {
        let mut results = testing::results("a");
        results.scenarios.clear();
        assert_eq!(shown(&results, 60).last().unwrap(), "nothing was verified");
        results.scenarios = testing::results("b").scenarios;
        results.scenarios[0].rows.clear();
        results.scenarios[0].checks.clear();
        assert_eq!(first(&results, 60), ["fanout: Writes while many watch."]);
    }

    #[test]
    fn texts_of_the_file_cannot_move_the_cursor() {
        let mut results = testing::results("a\x1b[2J\nb");
        results.scenarios[0].rows[0].unit = "event\r".to_owned();
        results.scenarios[0].checks[0].claim = "\x1b]0;x\x07".to_owned();
        assert!(!table(&results, 80).contains(['\x1b', '\r', '\x07']));
    }
}
