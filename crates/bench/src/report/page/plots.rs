//! The plots of a page: bars for each scenario, curves of latencies, and the server's processes over time.

use super::{legend, section, series, swatch};
use crate::{
    report::{
        matching::{MatchedRow, MatchedScenario},
        number::{micros, plural},
        plot::{self, Band, Bars, COLOURS, Form, Kind, Line, Series},
        text::escaped,
    },
    results::{Latency, Results, Row, Sample},
};

fn figure(caption: &str, content: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{content}</figure>", escaped(caption))
}

/// Bars for the rows that count the same.
pub(super) fn bar_plots(scenario: &MatchedScenario<'_>, series: &[Series]) -> String {
    let mut units: Vec<&str> = Vec::new();
    for row in &scenario.rows {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    }
    let per_second = |row: &Row| (row.seconds > 0.0).then(|| row.per_second());
    let mut plots = String::new();
    for unit in &units {
        let caption = match *unit {
            "" => "Per second".to_owned(),
            unit => format!("{} per second", capitalised(&plural(unit))),
        };
        plots.push_str(&bar_plot(scenario, series, unit, &caption, (Kind::Number, per_second)));
    }
    for unit in units {
        let unit_name = if unit.is_empty() { "each" } else { unit };
        let caption = match unit_name {
            "each" => "CPU time of the server for each".to_owned(),
            unit => format!("CPU time of the server per {unit}"),
        };
        plots.push_str(&bar_plot(
            scenario,
            series,
            unit,
            &caption,
            (Kind::Micros, |row: &Row| row.cpu_micros_each),
        ));
    }
    plots
}

fn bar_plot(
    scenario: &MatchedScenario<'_>,
    series: &[Series],
    unit: &str,
    caption: &str,
    (kind, value): (Kind, fn(&Row) -> Option<f64>),
) -> String {
    let rows = scenario.rows.iter().filter(|row| row.unit == unit);
    let bars = rows
        .map(|row| Bars { name: row.name, values: row.runs.iter().map(|run| run.and_then(value)).collect() });
    let bars: Vec<_> = bars.filter(|bars| bars.values.iter().any(Option::is_some)).collect();
    if bars.is_empty() { String::new() } else { figure(caption, &plot::bars(&bars, series, kind, caption)) }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The name of latencies, and the title of the axis of their shares.
struct Wording(&'static str, &'static str);

const LATENCY: Wording = Wording("Latency", "percent that took no longer");
const LATENESS: Wording = Wording("Lateness", "percent that came no later");

fn wording(row: &MatchedRow<'_>) -> &'static Wording {
    if row.is_lateness() { &LATENESS } else { &LATENCY }
}

/// Several runs: a plot for each row. One run: rows in one plot, but latency and lateness apart. All have one scale.
pub(super) fn latency_plots(scenario: &MatchedScenario<'_>, series: &[Series]) -> String {
    let measured = || scenario.rows.iter().filter(|row| !latencies(row).is_empty());
    let scale = plot::latency_scale(measured().flat_map(latencies));
    if series.len() > 1 {
        let plots = measured().map(|row| {
            let lines: Vec<_> = row
                .runs
                .iter()
                .zip(series)
                .filter_map(|(run, series)| Some((series.clone(), run.as_ref()?.latency.as_ref()?)))
                .collect();
            let Wording(name, axis) = wording(row);
            let caption = format!("{name}: {}", row.name);
            figure(&caption, &plot::latencies(&lines, &scale, axis, &caption))
        });
        return plots.collect();
    }
    let (late, took): (Vec<_>, Vec<_>) = measured().partition(|row| row.is_lateness());
    let plots = took.chunks(COLOURS).chain(late.chunks(COLOURS)).map(|rows| {
        let Wording(name, axis) = wording(rows[0]);
        let named = rows.iter().enumerate();
        let series: Vec<_> =
            named.map(|(colour, row)| Series { name: row.name.to_owned(), colour }).collect();
        let lines: Vec<_> = series.iter().cloned().zip(rows.iter().flat_map(|row| latencies(row))).collect();
        let content = plot::latencies(&lines, &scale, axis, &format!("{name} by percentile"));
        figure(name, &(content + &legend(&series)))
    });
    plots.collect()
}

fn latencies<'a>(row: &MatchedRow<'a>) -> Vec<&'a Latency> {
    row.runs.iter().flatten().filter_map(|row| row.latency.as_ref()).collect()
}

/// One measurement of a timeline.
struct Measurement {
    name: &'static str,
    kind: Kind,
    value: fn(&Sample) -> Option<f64>,
}

const MEASUREMENTS: [Measurement; 3] = [
    Measurement { name: "CPU cores in use", kind: Kind::Number, value: |sample| sample.cores },
    Measurement {
        name: "Resident memory",
        kind: Kind::Bytes,
        value: |sample| sample.resident_bytes.map(|bytes| bytes as f64),
    },
    Measurement {
        name: "Operations per second",
        kind: Kind::Number,
        value: |sample| Some(sample.per_second),
    },
];

/// The part of a measurement between two times, with the time from the first of them.
fn line(
    results: &Results,
    series: &Series,
    (from, to): (u64, u64),
    value: fn(&Sample) -> Option<f64>,
) -> Line {
    let within = results.timeline.iter().filter(|sample| (from..=to).contains(&sample.at_ms));
    let mut points: Vec<_> = within.map(|sample| (sample.at_ms - from, value(sample))).collect();
    points.sort_by_key(|(at, _)| *at);
    Line { series: series.clone(), points }
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, value)| *value))
}

/// The timelines of one scenario, all runs in the same plot.
pub(super) fn scenario_timelines(
    scenario: &MatchedScenario<'_>,
    all: &[Results],
    series: &[Series],
) -> String {
    let spans = scenario.runs.iter().flatten().map(|run| run.ended_ms.saturating_sub(run.began_ms));
    let end_ms = spans.max().unwrap_or_default();
    let plots = MEASUREMENTS.iter().map(|measurement| {
        let runs = scenario.runs.iter().zip(all).zip(series);
        let lines: Vec<_> = runs
            .filter_map(|((run, results), series)| {
                let window = (run.as_ref()?.began_ms, run.as_ref()?.ended_ms);
                Some(line(results, series, window, measurement.value))
            })
            .collect();
        if values(&lines).next().is_none() {
            return String::new();
        }
        let (kind, scale) = (measurement.kind, measurement.kind.linear(values(&lines)));
        let form = Form { is_wide: false, kind, scale, end_ms, label: measurement.name, has_names: false };
        figure(measurement.name, &plot::timeline(&lines, &[], form))
    });
    plots.collect()
}

/// Each run from its beginning to its end.
pub(super) fn whole_runs(all: &[Results]) -> String {
    let end = |results: &Results| {
        let samples = results.timeline.iter().map(|sample| sample.at_ms);
        samples.chain(results.scenarios.iter().map(|scenario| scenario.ended_ms)).max().unwrap_or_default()
    };
    let end_ms = all.iter().map(end).max().unwrap_or_default();
    let runs: String = all
        .iter()
        .zip(series(all))
        .map(|(results, series)| {
            let title = match all {
                [_] => String::new(),
                _ => format!("<h3>{}{}</h3>", swatch(&series), escaped(&series.name)),
            };
            format!("{title}{}", whole_run(results, &series, all, end_ms))
        })
        .collect();
    section("The whole run", "", &runs).replacen("<section>", "<section id=\"run\">", 1)
}

fn whole_run(results: &Results, series: &Series, all: &[Results], end_ms: u64) -> String {
    let whole = (0, u64::MAX);
    let bands: Vec<_> = results
        .scenarios
        .iter()
        .map(|scenario| Band {
            name: &scenario.name,
            began_ms: scenario.began_ms,
            ended_ms: scenario.ended_ms,
        })
        .collect();
    let mut plots = String::new();
    for measurement in &MEASUREMENTS {
        let lines = [line(results, series, whole, measurement.value)];
        if values(&lines).next().is_none() {
            continue;
        }
        let of_all: Vec<_> =
            all.iter().map(|results| line(results, series, whole, measurement.value)).collect();
        let (kind, scale) = (measurement.kind, measurement.kind.linear(values(&of_all)));
        let form = Form {
            is_wide: false,
            kind,
            scale,
            end_ms,
            label: measurement.name,
            has_names: plots.is_empty(),
        };
        let both = [false, true].map(|is_wide| plot::timeline(&lines, &bands, Form { is_wide, ..form }));
        plots.push_str(&figure(measurement.name, &both.concat()));
    }
    if plots.is_empty() {
        return "<p class=\"about\">What the server did over time was not measured.</p>".to_owned();
    }
    let names =
        results.scenarios.iter().enumerate().map(|(number, scenario)| {
            let span = scenario.ended_ms.saturating_sub(scenario.began_ms);
            format!("<li>{} <small>{}</small></li>", escaped(&scenario.name), micros(span as f64 * 1e3))
                .replacen("<li>", &format!("<li value=\"{}\">", number + 1), 1)
        });
    format!("<div class=\"timelines\">{plots}</div><ol class=\"bands\">{}</ol>", names.collect::<String>())
}
