//! Runs as one self-contained HTML page: without network requests or scripts.
//!
//! Kept true: all texts of the files are escaped where they are put into the page; colours always belong to runs, or, if
//! there is only one run, to its rows; every number in a plot is also written in it or in a table.

mod plots;

use self::plots::{bar_plots, latency_plots, scenario_timelines, whole_runs};
use super::{
    compare::{Compared, ComparedMetric, Comparison, Judgement, compare},
    describe,
    matching::{MatchedScenario, matched},
    number::{NOTHING, ratio, with_unit},
    plot::{COLOURS, Series},
    table::{COLUMNS, cell, figure_value, meanings, present},
    text::escaped,
    verdict::{Verdict, finding, is_empty},
};
use crate::results::{Results, Scenario};

const STYLE: &str = include_str!("style.css");

/// A page about one run, or about several, which are compared with the first.
pub fn page(all: &[Results]) -> String {
    let scenarios = matched(all);
    let comparison = compare(all);
    let title = title(all);
    let parts = [
        header(all, &title),
        runs(all),
        contents(&scenarios),
        if all.len() == 1 { overview(&all[0]) } else { ratios(&comparison) },
        verified(all, &scenarios),
        scenarios.iter().enumerate().map(|(number, each)| scenario(number, each, all, &comparison)).collect(),
        whole_runs(all),
        footer(all),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{}</main>\n</body>\n</html>\n",
        escaped(&title),
        parts.concat()
    )
}

fn title(all: &[Results]) -> String {
    let titles: Vec<_> = all.iter().map(|results| &*results.title).collect();
    match &*titles {
        [] => "Nothing was measured".to_owned(),
        [one] => (*one).to_owned(),
        several => several.join(" · "),
    }
}

/// Each run with a colour.
fn series(all: &[Results]) -> Vec<Series> {
    let coloured = all.iter().enumerate();
    coloured.map(|(number, run)| Series { name: run.title.clone(), colour: number % COLOURS }).collect()
}

fn header(all: &[Results], title: &str) -> String {
    let verdicts: String = all.iter().map(|results| verdict(results, all.len() > 1)).collect();
    format!(
        "<header><p class=\"eyebrow\">keepwatch bench</p><h1>{}</h1><div class=\"verdicts\">{verdicts}</div></header>\n",
        escaped(title)
    )
}

fn verdict(results: &Results, has_title: bool) -> String {
    let verdict = Verdict::of(results);
    let (class, sign) = match verdict {
        Verdict { failed: 1.., .. } => ("bad", "✗"),
        verdict if verdict.is_good() && verdict.failed_operations == 0 => ("good", "✓"),
        _ => ("unsure", "!"),
    };
    let title = if has_title { format!("{}: ", escaped(&results.title)) } else { String::new() };
    format!("<p class=\"verdict {class}\"><b aria-hidden=\"true\">{sign}</b> {title}{verdict}</p>")
}

fn runs(all: &[Results]) -> String {
    let cards: String =
        all.iter().zip(series(all)).map(|(results, series)| run(results, &series, all.len() > 1)).collect();
    format!("<section class=\"runs\">{cards}</section>\n")
}

fn run(results: &Results, series: &Series, has_title: bool) -> String {
    let title = if has_title {
        format!("<h2>{}{}</h2>", swatch(series), escaped(&results.title))
    } else {
        String::new()
    };
    let facts = [
        ("Server", describe::server(&results.server)),
        ("Processes", results.server.processes.join(", ")),
        ("Machine", describe::machine(&results.machine)),
        ("Load", describe::load(&results.load)),
        ("Began", results.began.clone()),
        ("Measured by", format!("keepwatch {}", results.measured_by)),
    ];
    let known = facts.iter().filter(|(_, text)| !text.is_empty());
    let facts: String =
        known.map(|(name, text)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(text))).collect();
    let command = escaped(&results.command);
    format!("<article class=\"card\">{title}<dl>{facts}</dl><pre><code>{command}</code></pre></article>")
}

fn swatch(series: &Series) -> String {
    format!("<i class=\"swatch s{}\" aria-hidden=\"true\"></i>", series.colour)
}

fn legend(series: &[Series]) -> String {
    let names: String =
        series.iter().map(|series| format!("<li>{}{}</li>", swatch(series), escaped(&series.name))).collect();
    format!("<ul class=\"legend\">{names}</ul>")
}

fn contents(scenarios: &[MatchedScenario<'_>]) -> String {
    if scenarios.len() < 2 {
        return String::new();
    }
    let links: String = scenarios
        .iter()
        .enumerate()
        .map(|(number, scenario)| format!("<a href=\"#scenario-{number}\">{}</a>", escaped(scenario.name)))
        .collect();
    format!("<nav aria-label=\"Scenarios\">{links}<a href=\"#run\">the whole run</a></nav>\n")
}

/// All rows of a single run.
fn overview(results: &Results) -> String {
    let rows = || results.scenarios.iter().flat_map(|scenario| &scenario.rows);
    let columns: Vec<_> =
        COLUMNS.iter().filter(|column| rows().any(|row| (column.cell)(row).is_some())).collect();
    let heads: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.head)).collect();
    let mut body = String::new();
    for scenario in &results.scenarios {
        body.push_str("<tbody>");
        body.push_str(&group(&scenario.name, columns.len() + 1));
        for row in &scenario.rows {
            let cells: String =
                columns.iter().map(|column| format!("<td>{}</td>", escaped(&cell(column, row)))).collect();
            body.push_str(&format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(&row.name)));
        }
        body.push_str("</tbody>");
    }
    section("At a glance", "", &scrolled(&format!("<thead><tr><td></td>{heads}</tr></thead>{body}")))
}

/// The metrics in the table of ratios; the rest is with each scenario.
const HEADLINES: [&str; 5] = ["CPU each", "per second", "p50", "p99", "memory after"];

/// The table of ratios: the values of the other runs divided by those of the first.
fn ratios(comparison: &Comparison) -> String {
    let Some((first, others)) = comparison.titles.split_first() else { return String::new() };
    let rows = || comparison.scenarios.iter().flat_map(|scenario| &scenario.rows);
    let has = |name: &&&str| rows().any(|row| row.metrics.iter().any(|metric| metric.name == **name));
    let metrics: Vec<_> = HEADLINES.iter().filter(has).collect();
    let groups: String = others
        .iter()
        .enumerate()
        .map(|(number, title)| {
            let series = Series { name: String::new(), colour: (number + 1) % COLOURS };
            let (span, title) = (metrics.len().max(1), escaped(title));
            format!("<th scope=\"colgroup\" colspan=\"{span}\">{}{title}</th>", swatch(&series))
        })
        .collect();
    let heads: String = metrics.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let heads = heads.repeat(others.len());
    let mut body = String::new();
    for scenario in &comparison.scenarios {
        body.push_str("<tbody>");
        body.push_str(&group(&scenario.name, metrics.len() * others.len() + 1));
        for row in &scenario.rows {
            let of_run = |run: usize| {
                let value = |name: &str| {
                    row.metrics.iter().find(|metric| metric.name == name)?.values.get(run).copied()?
                };
                metrics.iter().map(|name| ratio_cell(value(name).as_ref())).collect::<String>()
            };
            let cells: String = (1..=others.len()).map(of_run).collect();
            body.push_str(&format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(&row.name)));
        }
        body.push_str("</tbody>");
    }
    let about = format!("How many times that of {}: ▲ is better, ▼ is worse.", escaped(first));
    let table = format!("<thead><tr><td></td>{groups}</tr><tr><td></td>{heads}</tr></thead>{body}");
    section("At a glance", &about, &scrolled(&table))
}

fn ratio_cell(value: Option<&Compared>) -> String {
    match value.and_then(|value| value.ratio.map(|times| (times, value.judgement))) {
        Some((times, judgement)) => format!("<td>{}</td>", judged(&ratio(times), judgement)),
        None => format!("<td>{NOTHING}</td>"),
    }
}

/// A ratio with a sign and a colour for its judgement.
fn judged(text: &str, judgement: Option<Judgement>) -> String {
    let text = escaped(text);
    match judgement {
        Some(judgement @ (Judgement::Better | Judgement::Worse)) => {
            let sign = if judgement == Judgement::Better { "▲" } else { "▼" };
            let word = judgement.word();
            format!(
                "<span class=\"{word}\" title=\"{word}\">{text} <small aria-label=\"{word}\">{sign}</small></span>"
            )
        }
        _ => format!("<span class=\"same\">{text}</span>"),
    }
}

fn verified(all: &[Results], scenarios: &[MatchedScenario<'_>]) -> String {
    let mut body = String::new();
    for scenario in scenarios {
        let mut claims: Vec<&str> = Vec::new();
        for check in scenario.runs.iter().flatten().flat_map(|run| &run.checks) {
            if !claims.contains(&&*check.claim) {
                claims.push(&check.claim);
            }
        }
        for claim in claims {
            let cells: String = scenario.runs.iter().map(|run| check_cell(*run, claim)).collect();
            let (name, claim) = (escaped(scenario.name), escaped(claim));
            body.push_str(&format!("<tr><th scope=\"row\"><small>{name}</small>{claim}</th>{cells}</tr>"));
        }
    }
    if body.is_empty() {
        return section(
            "What was verified",
            "Nothing: these numbers say how fast it was, not whether it was right.",
            "",
        );
    }
    let heads: String = match all {
        [_] => "<th scope=\"col\">found</th>".to_owned(),
        all => series(all)
            .iter()
            .map(|series| format!("<th scope=\"col\">{}{}</th>", swatch(series), escaped(&series.name)))
            .collect(),
    };
    let table = format!("<thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody>");
    section("What was verified", "", &scrolled(&table).replacen("<table>", "<table class=\"claims\">", 1))
}

/// All checks of one claim in one run.
fn check_cell(run: Option<&Scenario>, claim: &str) -> String {
    let checks = run.into_iter().flat_map(|run| &run.checks).filter(|check| check.claim == claim);
    let found: Vec<_> = checks
        .map(|check| {
            let (class, sign) = match check {
                check if check.faults > 0 => ("bad", "✗"),
                check if is_empty(check) => ("unsure", "!"),
                _ => ("good", "✓"),
            };
            let fault = check.first_fault.as_ref().filter(|_| check.faults > 0);
            let fault = fault
                .map(|fault| format!("<small>the first: {}</small>", escaped(fault)))
                .unwrap_or_default();
            format!(
                "<span class=\"found {class}\"><b aria-hidden=\"true\">{sign}</b> {}{fault}</span>",
                finding(check)
            )
        })
        .collect();
    if found.is_empty() { format!("<td>{NOTHING}</td>") } else { format!("<td>{}</td>", found.concat()) }
}

fn scenario(
    number: usize,
    scenario: &MatchedScenario<'_>,
    all: &[Results],
    comparison: &Comparison,
) -> String {
    let series = series(all);
    let mut plots = bar_plots(scenario, &series);
    plots.push_str(&latency_plots(scenario, &series));
    if all.len() > 1 {
        plots.push_str(&scenario_timelines(scenario, all, &series));
    }
    let table = match (all, comparison.scenarios.get(number)) {
        ([_], _) => scenario.runs.iter().flatten().map(|run| single_table(run)).collect(),
        (_, Some(compared)) => compared_table(&compared.rows, &series),
        _ => String::new(),
    };
    let legend = if all.len() > 1 { legend(&series) } else { String::new() };
    format!(
        "<section id=\"scenario-{number}\"><h2>{}</h2><p class=\"about\">{}</p>{legend}<div class=\"plots\">{plots}</div>{table}</section>\n",
        escaped(scenario.name),
        escaped(scenario.about)
    )
}

fn single_table(scenario: &Scenario) -> String {
    let columns = present(&scenario.rows);
    let heads: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.head)).collect();
    let mut body = String::new();
    for row in &scenario.rows {
        let cells: String =
            columns.iter().map(|column| format!("<td>{}</td>", escaped(&cell(column, row)))).collect();
        body.push_str(&format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(&row.name)));
        for figure in &row.figures {
            let (name, value) = (escaped(&figure.name), escaped(&figure_value(figure)));
            let rest = "<td></td>".repeat(columns.len().saturating_sub(1));
            body.push_str(&format!(
                "<tr class=\"figure\"><th scope=\"row\">{name}</th><td>{value}</td>{rest}</tr>"
            ));
        }
    }
    scrolled(&format!("<thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody>"))
}

fn compared_table(rows: &[super::ComparedRow], series: &[Series]) -> String {
    let heads: String = series
        .iter()
        .map(|series| format!("<th scope=\"col\">{}{}</th>", swatch(series), escaped(&series.name)))
        .collect();
    let mut body = String::new();
    for row in rows {
        body.push_str("<tbody>");
        body.push_str(&group(&row.name, series.len() + 1));
        for metric in &row.metrics {
            let cells: String =
                metric.values.iter().map(|value| compared_cell(metric, value.as_ref())).collect();
            body.push_str(&format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(&metric.name)));
        }
        body.push_str("</tbody>");
    }
    scrolled(&format!("<thead><tr><td></td>{heads}</tr></thead>{body}"))
}

fn compared_cell(metric: &ComparedMetric, value: Option<&Compared>) -> String {
    let Some(compared) = value else { return format!("<td>{NOTHING}</td>") };
    let text = escaped(&with_unit(compared.value, &metric.unit));
    let times = compared.ratio.map(|times| judged(&ratio(times), compared.judgement)).unwrap_or_default();
    format!("<td>{text} {times}</td>")
}

fn footer(all: &[Results]) -> String {
    let meanings: String = meanings(all)
        .iter()
        .map(|(head, meaning)| format!("<div><dt>{head}</dt><dd>{meaning}</dd></div>"))
        .collect();
    format!("<footer><dl>{meanings}</dl></footer>\n")
}

fn section(title: &str, about: &str, content: &str) -> String {
    let about = if about.is_empty() { String::new() } else { format!("<p class=\"about\">{about}</p>") };
    format!("<section><h2>{title}</h2>{about}{content}</section>\n")
}

/// A heading within a table of so many columns, which stays in sight where the table is moved.
fn group(name: &str, columns: usize) -> String {
    format!(
        "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\"><span>{}</span></th></tr>",
        escaped(name)
    )
}

/// A table that is moved sideways where it is wider than the screen.
fn scrolled(table: &str) -> String {
    format!("<div class=\"scrolled\" tabindex=\"0\"><table>{table}</table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    /// Checks that elements are closed in order, as far as a page of ours can go wrong.
    fn assert_well_formed(page: &str) {
        let mut open = Vec::new();
        let body =
            page.split_once("</head>").expect("there is a head").1.trim_end().trim_end_matches("</html>");
        for tag in body.split('<').skip(1).map(|text| text.split_once('>').expect("tags are closed").0) {
            let name = tag.split([' ', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "in {tag}"),
                None if tag.ends_with('/') => (),
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?} are not closed");
        for none in ["NaN", "inf\"", "inf ", "http-equiv", "<script", "src="] {
            assert!(!page.contains(none), "there is {none}");
        }
    }

    #[test]
    fn one_run_and_several_make_a_page() {
        assert_well_formed(&page(&[testing::results("a")]));
        let three = page(&["a", "b", "c"].map(testing::results));
        assert_well_formed(&three);
        assert!(three.contains("<h1>a · b · c</h1>"));
        assert_well_formed(&page(&[]));
    }

    #[test]
    fn texts_of_the_file_are_no_markup() {
        let evil = "\"'><script>alert(1)</script>&";
        let mut results = testing::results(evil);
        results.command = evil.to_owned();
        results.began = evil.to_owned();
        results.measured_by = evil.to_owned();
        results.server.url = evil.to_owned();
        results.server.storage = Some(evil.to_owned());
        results.server.processes = vec![evil.to_owned()];
        results.machine.processor = evil.to_owned();
        results.load.protocol = evil.to_owned();
        for scenario in &mut results.scenarios {
            scenario.name = evil.to_owned();
            scenario.about = evil.to_owned();
            for row in &mut scenario.rows {
                row.name = evil.to_owned();
                row.unit = evil.to_owned();
                row.figures.iter_mut().for_each(|figure| {
                    figure.name = evil.to_owned();
                    figure.unit = evil.to_owned();
                });
            }
            for check in &mut scenario.checks {
                check.claim = evil.to_owned();
                check.faults = 1;
                check.first_fault = Some(evil.to_owned());
            }
        }
        for page in [page(&[results.clone()]), page(&[results.clone(), results])] {
            assert_well_formed(&page);
            assert!(page.contains("&lt;script&gt;") && !page.contains("'>&lt;"));
        }
    }

    #[test]
    fn missing_measurements_have_no_plot() {
        let mut results = testing::results("a");
        results.timeline.clear();
        for row in results.scenarios.iter_mut().flat_map(|scenario| &mut scenario.rows) {
            (row.latency, row.cpu_micros_each, row.memory) = (None, None, None);
        }
        let page = page(&[results]);
        assert_well_formed(&page);
        assert!(
            !page.contains("Latency")
                && !page.contains("CPU time of")
                && !page.contains("class=\"plot wide\"")
        );
        assert!(page.contains("What the server did over time was not measured."));
    }

    #[test]
    fn events_come_late_and_all_else_takes_long() {
        let mut results = testing::results("a");
        results.scenarios[0].rows[1].latency = Some(testing::latency());
        let has = |page: &str, text: &str| assert!(page.contains(text), "there is no {text}");
        let one = page(&[results.clone()]);
        has(&one, "<figcaption>Latency</figcaption>");
        has(&one, "<figcaption>Lateness</figcaption>");
        has(&one, "<dt>p50</dt><dd>half took no longer (events: half came no later)</dd>");
        let two = page(&[results.clone(), results]);
        for (caption, axis) in
            [("Lateness: events", "came no later"), ("Latency: lists, 大きい", "took no longer")]
        {
            let plot =
                two.split("<figure>").find(|figure| figure.contains(&format!("<figcaption>{caption}")));
            has(plot.unwrap(), &format!(">percent that {axis}</text>"));
        }
    }

    #[test]
    fn a_failed_check_comes_first() {
        let mut results = testing::results("a");
        results.scenarios[0].checks = vec![testing::check(9, 2)];
        let page = page(&[results]);
        assert!(page.contains("<p class=\"verdict bad\"><b aria-hidden=\"true\">✗</b> 1 check failed</p>"));
        assert!(page.contains("<small>the first: watcher 7 saw version 12 after 13</small>"));
    }

    #[test]
    fn ratios_have_signs_besides_colours() {
        let (first, mut second) = (testing::results("a"), testing::results("b"));
        second.scenarios[0].rows[0].cpu_micros_each = Some(3.9);
        let page = page(&[first, second]);
        assert!(page.contains("0.31 x <small aria-label=\"better\">▲</small>"));
        assert!(page.contains("<span class=\"same\">1.00 x</span>"));
    }
}
