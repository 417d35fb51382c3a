//! The plots of a page: bars, latency by percentile, and timelines.
//!
//! All are drawn for the width of a phone, and are placed side by side where there is more room, so that their letters
//! have the same size everywhere. Colours are classes, `s0` and so on, which the style sheet of the page defines.

use super::{
    number::{bytes, micros, number, short},
    svg::{Anchor, Area, Drawing, Scale},
    text::clipped,
};
use crate::results::Latency;

/// The width of most plots.
const WIDTH: f64 = 380.0;
/// The approximate width of a letter, in the size that plots use.
const LETTER: f64 = 6.4;
/// The number of colours; after that, they begin again.
pub(super) const COLOURS: usize = 6;
/// The maximum number of points of a line: more cannot be distinguished.
const POINTS_MAX: usize = 500;
/// The number of places of a timeline that can be pointed at.
const HINTS: usize = 60;

/// The unit of values, which determines their format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Micros,
    Bytes,
}

impl Kind {
    pub(super) fn written(self, value: f64) -> String {
        match self {
            Kind::Number => number(value),
            Kind::Micros => micros(value),
            Kind::Bytes => bytes(value),
        }
    }

    /// A scale from zero on, in steps that are round in the unit in which values are written.
    pub(super) fn linear(self, values: impl Iterator<Item = f64>) -> Scale {
        let most = values.fold(0.0, f64::max);
        let base: f64 = if self == Kind::Bytes { 1024.0 } else { 1000.0 };
        let power = if self == Kind::Number || most < 1.0 {
            0.0
        } else {
            (most.log2() / base.log2()).floor().min(6.0)
        };
        Scale::linear([most].into_iter(), base.powf(power))
    }
}

/// The bars of one row: for each run its value, if it has one.
pub(super) struct Bars<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<Option<f64>>,
}

/// A name and a colour.
#[derive(Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: usize,
}

/// Horizontal bars, in a group for each row.
pub(super) fn bars(groups: &[Bars<'_>], runs: &[Series], kind: Kind, label: &str) -> String {
    const NAME: f64 = 18.0;
    const BAR: f64 = 17.0;
    const AFTER: f64 = 8.0;
    let group_height = |group: &Bars<'_>| NAME + BAR * group.values.len() as f64 + AFTER;
    let height: f64 = groups.iter().map(group_height).sum();
    let area = Area { x: 2.0, y: 0.0, width: WIDTH - 86.0, height };
    let scale = kind.linear(groups.iter().flat_map(|group| group.values.iter().copied().flatten()));
    let mut drawing = Drawing::new(WIDTH, height + 24.0);
    // Zero needs no unit, with which it would exceed the edge.
    let written = |tick: f64| if tick == 0.0 { "0".to_owned() } else { short(&kind.written(tick)) };
    let labels: Vec<_> = scale.ticks().iter().map(|tick| (scale.place(*tick), written(*tick))).collect();
    for (share, _) in &labels {
        drawing.line("grid", (area.across(*share), 0.0), (area.across(*share), height));
    }
    drawing.horizontal_labels(area, &thinned(labels, area.width));
    let mut y = 0.0;
    for group in groups {
        drawing.text("name", area.x, y + 13.0, Anchor::Start, &clipped(group.name, 56));
        y += NAME;
        for (value, run) in group.values.iter().zip(runs) {
            let text = value.map_or_else(|| "not measured".to_owned(), |value| kind.written(value));
            let width = value.map_or(0.0, |value| (scale.place(value) * area.width).max(1.0));
            let hint = format!("{}, {}: {text}", run.name, group.name);
            let bar = Area { x: area.x, y: y + 1.0, width, height: BAR - 3.0 };
            drawing.rect(&format!("bar s{}", run.colour), bar, &hint);
            let class = if value.is_some() { "value" } else { "tick" };
            drawing.text(class, area.x + width + 5.0, y + 12.0, Anchor::Start, &text);
            y += BAR;
        }
        y += AFTER;
    }
    drawing.finished("plot", label)
}

/// The ends of an axis for latencies of several plots.
pub(super) fn latency_scale<'a>(latencies: impl Iterator<Item = &'a Latency>) -> Scale {
    let values = latencies.flat_map(|latency| {
        let points = percentiles(latency);
        points.into_iter().map(|(_, micros)| micros)
    });
    Scale::log(values.collect::<Vec<_>>().into_iter())
}

/// Curves of latency or lateness by share; `axis` is the title of their axis. Each nine of the share takes as much room
/// as the one before.
pub(super) fn latencies(lines: &[(Series, &Latency)], scale: &Scale, axis: &str, label: &str) -> String {
    let area = Area { x: 58.0, y: 12.0, width: WIDTH - 58.0 - 22.0, height: 190.0 };
    let nines = lines.iter().map(|(_, latency)| nines_of(latency)).fold(3.5, f64::max);
    // From the median on: the faster half is of little interest.
    let least = nines_at(0.5);
    let place = |share: f64| ((nines_at(share) - least) / (nines - least)).clamp(0.0, 1.0);
    let across = |share: f64| area.across(if share >= 1.0 { 1.0 } else { place(share) });
    let mut drawing = Drawing::new(WIDTH, area.y + area.height + 40.0);
    drawing.vertical_axis(area, scale, |tick| short(&micros(tick)));
    let named = [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
    let shown = named.iter().filter(|(share, _)| nines_at(*share) <= nines - 0.4);
    let mut labels: Vec<_> = shown.map(|(share, name)| (place(*share), (*name).to_owned())).collect();
    labels.push((1.0, "max".to_owned()));
    drawing.horizontal_labels(area, &labels);
    drawing.text("tick", area.across(0.5), area.y + area.height + 33.0, Anchor::Middle, axis);
    for (series, latency) in lines {
        let curve: Vec<_> = curve(latency)
            .iter()
            .map(|(share, micros)| Some((across(*share), area.up(scale.place(*micros)))))
            .collect();
        drawing.path(&format!("line s{} d{}", series.colour, series.colour), &curve);
        for (share, value) in percentiles(latency) {
            let name = if share >= 1.0 {
                "max".to_owned()
            } else {
                format!("p{}", short(&format!("{:.1}", share * 100.0)))
            };
            let hint = format!("{}, {name}: {}", series.name, micros(value));
            drawing.point(
                &format!("dot s{}", series.colour),
                (across(share), area.up(scale.place(value))),
                &hint,
            );
        }
    }
    drawing.finished("plot", label)
}

/// The valid part of a file's curve: rising shares from the median on; if there is none, a curve of the percentiles.
fn curve(latency: &Latency) -> Vec<(f64, f64)> {
    let mut curve: Vec<_> =
        latency.curve.iter().copied().filter(|(share, _)| (0.5..=1.0).contains(share)).collect();
    curve.sort_by(|one, other| one.0.total_cmp(&other.0));
    if curve.len() < 2 { percentiles(latency).to_vec() } else { curve }
}

fn percentiles(latency: &Latency) -> [(f64, f64); 5] {
    let Latency { p50, p90, p99, p999, max, .. } = latency;
    [(0.5, *p50), (0.9, *p90), (0.99, *p99), (0.999, *p999), (1.0, *max)]
}

/// The number of nines in a share: 1 for 0.9, 2 for 0.99.
fn nines_at(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0)).max(1e-9).log10()
}

/// The number of nines that a percentile of so many values can have.
fn nines_of(latency: &Latency) -> f64 {
    (latency.count.max(1) as f64).log10().clamp(3.5, 5.0)
}

/// One line over time: milliseconds and values, rising in time; absent where it was not measured.
pub(super) struct Line {
    pub(super) series: Series,
    pub(super) points: Vec<(u64, Option<f64>)>,
}

/// A scenario on a timeline.
pub(super) struct Band<'a> {
    pub(super) name: &'a str,
    pub(super) began_ms: u64,
    pub(super) ended_ms: u64,
}

/// The form of a timeline.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    /// For whole runs on wide screens.
    pub(super) is_wide: bool,
    pub(super) kind: Kind,
    pub(super) scale: Scale,
    /// The end of the time axis.
    pub(super) end_ms: u64,
    /// A description for screen readers.
    pub(super) label: &'a str,
    /// Whether bands are named.
    pub(super) has_names: bool,
}

/// Lines over time, above bands for the scenarios.
pub(super) fn timeline(lines: &[Line], bands: &[Band<'_>], form: Form<'_>) -> String {
    let (width, height) = if form.is_wide { (1160.0, 130.0) } else { (WIDTH, 130.0) };
    let top = if form.has_names { 22.0 } else { 10.0 };
    let area = Area { x: 62.0, y: top, width: width - 62.0 - 22.0, height };
    let end = form.end_ms.max(1) as f64;
    let across = |ms: u64| area.across((ms as f64 / end).clamp(0.0, 1.0));
    let mut drawing = Drawing::new(width, top + height + 24.0);
    for (number, band) in bands.iter().enumerate() {
        draw_band(
            &mut drawing,
            area,
            (across(band.began_ms), across(band.ended_ms)),
            number,
            band.name,
            form.has_names,
        );
    }
    drawing.vertical_axis(area, &form.scale, |tick| short(&form.kind.written(tick)));
    drawing.horizontal_labels(area, &time_labels(end, area.width));
    for line in lines {
        let points = enveloped(&line.points);
        let place = |(ms, value): &(u64, Option<f64>)| {
            value.map(|value| (across(*ms), area.up(form.scale.place(value))))
        };
        drawing.path(&format!("line s{}", line.series.colour), &points.iter().map(place).collect::<Vec<_>>());
    }
    draw_hints(&mut drawing, area, lines, form, end);
    drawing.finished(if form.is_wide { "plot wide" } else { "plot" }, form.label)
}

fn draw_band(
    drawing: &mut Drawing,
    area: Area,
    (from, to): (f64, f64),
    number: usize,
    name: &str,
    is_named: bool,
) {
    let band = Area { x: from, width: (to - from).max(0.0), ..area };
    drawing.rect(if number.is_multiple_of(2) { "band" } else { "band odd" }, band, name);
    if !is_named {
        return;
    }
    let fits = |text: &str| text.chars().count() as f64 * LETTER + 6.0 <= band.width;
    let short = format!("{}", number + 1);
    let text = [name, &short].into_iter().find(|text| fits(text));
    if let Some(text) = text {
        drawing.text("bandname", band.x + band.width / 2.0, area.y - 6.0, Anchor::Middle, text);
    }
}

/// Strips that show the values at their time when the pointer is over them.
fn draw_hints(drawing: &mut Drawing, area: Area, lines: &[Line], form: Form<'_>, end: f64) {
    if lines.iter().all(|line| line.points.is_empty()) {
        return;
    }
    let width = area.width / HINTS as f64;
    for number in 0..HINTS {
        let at = ((number as f64 + 0.5) / HINTS as f64 * end) as u64;
        let values = lines.iter().filter_map(|line| {
            let value = nearest(&line.points, at)?;
            Some(format!("{}: {}", line.series.name, form.kind.written(value)))
        });
        let hint = std::iter::once(micros(at as f64 * 1e3)).chain(values).collect::<Vec<_>>().join(" · ");
        drawing.rect("hint", Area { x: area.x + width * number as f64, width, ..area }, &hint);
    }
}

fn nearest(points: &[(u64, Option<f64>)], at: u64) -> Option<f64> {
    let after = points.partition_point(|(ms, _)| *ms < at);
    let around = points.get(after.saturating_sub(1)..(after + 1).min(points.len()))?;
    around.iter().min_by_key(|(ms, _)| ms.abs_diff(at)).and_then(|(_, value)| *value)
}

/// Few points with the outline of many: of each stretch, the least and the most.
fn enveloped(points: &[(u64, Option<f64>)]) -> Vec<(u64, Option<f64>)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let ends = points.chunks(stretch).flat_map(|stretch| {
        let value = |place: &usize| stretch[*place].1.unwrap_or(f64::NAN);
        let by_value = |one: &usize, other: &usize| value(one).total_cmp(&value(other));
        let measured = || (0..stretch.len()).filter(|place| stretch[*place].1.is_some());
        match (measured().min_by(by_value), measured().max_by(by_value)) {
            (Some(least), Some(most)) => vec![stretch[least.min(most)], stretch[least.max(most)]],
            _ => vec![stretch[0]],
        }
    });
    ends.collect()
}

fn time_labels(end_ms: f64, room: f64) -> Vec<(f64, String)> {
    let (unit, name) = match end_ms {
        short if short < 120e3 => (1e3, "s"),
        long if long < 7_200e3 => (60e3, "min"),
        _ => (3_600e3, "h"),
    };
    let ticks = Scale::linear([end_ms].into_iter(), unit).ticks();
    let labels = ticks.into_iter().filter(|tick| *tick <= end_ms * 1.001);
    let labels = labels.map(|tick| (tick / end_ms, format!("{} {name}", short(&number(tick / unit)))));
    thinned(labels.collect(), room)
}

/// Every n-th label, so that they do not touch.
fn thinned(labels: Vec<(f64, String)>, room: f64) -> Vec<(f64, String)> {
    let widest = labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or_default();
    let fit = (room / ((widest as f64 + 2.0) * LETTER)).floor().max(1.0) as usize;
    let every = labels.len().div_ceil(fit).max(1);
    labels.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn series(name: &str) -> Series {
        Series { name: name.to_owned(), colour: 0 }
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_labelled_with_them() {
        let groups = [Bars { name: "list <all>", values: vec![Some(100.0), Some(50.0), None] }];
        let svg = bars(&groups, &[series("a"), series("b"), series("c")], Kind::Number, "lists per second");
        assert!(svg.contains("width=\"294.0\"") && svg.contains("width=\"147.0\""), "{svg}");
        assert!(svg.contains("<title>b, list &lt;all&gt;: 50</title>"));
        assert!(svg.contains(">not measured</text>"));
    }

    #[test]
    fn each_nine_takes_as_much_room_as_the_one_before() {
        let places = [0.0, 0.9, 0.99, 0.999].map(nines_at);
        for (place, expected) in places.iter().zip([0.0, 1.0, 2.0, 3.0]) {
            assert!((place - expected).abs() < 1e-9);
        }
        assert!(nines_at(1.0).is_finite() && nines_at(-3.0) == 0.0 && nines_at(7.0).is_finite());
    }

    #[test]
    fn an_invalid_curve_is_drawn_from_the_percentiles() {
        let mut latency = testing::latency();
        assert_eq!(curve(&latency).len(), 4);
        latency.curve = vec![(0.9, 2.0), (0.6, 1.0), (0.1, 1.0), (3.0, 9.0)];
        assert_eq!(curve(&latency), [(0.6, 1.0), (0.9, 2.0)]);
        latency.curve = vec![(7.0, 1.0)];
        assert_eq!(curve(&latency), percentiles(&latency));
    }

    #[test]
    fn many_points_become_few_that_keep_the_peaks() {
        let value = |at: u64| Some(if at == 7_777 { 1e6 } else { (at % 10) as f64 });
        let points: Vec<_> = (0..10_000).map(|at| (at, value(at))).collect();
        let few = enveloped(&points);
        assert!(few.len() <= POINTS_MAX);
        assert!(few.contains(&(7_777, Some(1e6))));
        assert!(few.is_sorted_by_key(|(at, _)| *at));
        assert_eq!(enveloped(&vec![(1, None); 10_000]).len(), POINTS_MAX / 2);
    }

    #[test]
    fn the_nearest_value_is_shown() {
        let points = [(0, Some(1.0)), (10, None), (20, Some(3.0))];
        assert_eq!(
            [0, 4, 9, 16, 99].map(|at| nearest(&points, at)),
            [Some(1.0), Some(1.0), None, Some(3.0), Some(3.0)]
        );
        assert_eq!(nearest(&[], 5), None);
    }

    #[test]
    fn times_are_labelled_in_the_unit_that_fits() {
        let labels =
            |end: f64| time_labels(end, 1000.0).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(45e3), ["0 s", "10 s", "20 s", "30 s", "40 s"]);
        assert_eq!(labels(600e3), ["0 min", "2 min", "4 min", "6 min", "8 min", "10 min"]);
        assert_eq!(labels(36_000e3), ["0 h", "2 h", "4 h", "6 h", "8 h", "10 h"]);
        assert_eq!(time_labels(45e3, 30.0).len(), 1);
    }

    #[test]
    fn sizes_have_steps_that_are_round_in_their_unit() {
        let mebibyte = 1_048_576.0;
        assert_eq!(Kind::Bytes.linear([90.0 * mebibyte].into_iter()).ticks()[1], 20.0 * mebibyte);
        assert_eq!(Kind::Micros.linear([9e3].into_iter()).ticks()[1], 2e3);
        assert_eq!(Kind::Bytes.linear([0.0].into_iter()).ticks(), [0.0, 0.5, 1.0]);
    }
}
