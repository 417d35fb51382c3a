//! Drawings: scales, ticks, and the shapes that plots are made of.
//!
//! Kept true: for any numbers, a position on a scale is between 0 and 1, there are a few ticks, and every coordinate is
//! a finite number.

use super::text::escaped;

/// A larger value is drawn as if it were this: beyond it, sums of a few values overflow.
const DRAWN_MAX: f64 = 1e300;
/// A smaller value is drawn as zero.
const DRAWN_MIN: f64 = 1e-300;
/// The approximate number of steps of an axis.
const STEPS: f64 = 5.0;
/// The maximum number of ticks.
const TICKS_MAX: usize = 9;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero on, in steps of the same size.
    Linear {
        /// Between ticks.
        step: f64,
        /// Its end, a tick.
        high: f64,
    },
    /// By powers of ten.
    Log {
        /// Its beginning, more than zero.
        low: f64,
        /// Its end.
        high: f64,
    },
}

impl Scale {
    /// A scale from zero to a round number that no value exceeds. Steps are round multiples of `unit`.
    pub(super) fn linear(values: impl Iterator<Item = f64>, unit: f64) -> Scale {
        let most = values.fold(0.0, f64::max).min(DRAWN_MAX);
        if most < DRAWN_MIN {
            return Scale::Linear { step: unit / 2.0, high: unit };
        }
        let step = round_step(most / unit / STEPS) * unit;
        Scale::Linear { step, high: step * (most / step - 1e-9).ceil().max(1.0) }
    }

    /// A scale from a round number below all values above zero to one above all values.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Scale {
        let drawn = values.filter(|value| *value > 0.0).map(|value| value.clamp(1e-9, DRAWN_MAX));
        let (least, most) = drawn
            .fold((f64::MAX, 0.0), |(least, most): (f64, f64), value| (least.min(value), most.max(value)));
        if most == 0.0 {
            return Scale::Log { low: 1.0, high: 10.0 };
        }
        let (low, high) = (round_below(least), round_step(most));
        Scale::Log { low, high: if high > low * 1.5 { high } else { low * 10.0 } }
    }

    /// The position of a value, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { high, .. } => value.min(DRAWN_MAX) / high,
            Scale::Log { low, .. } if value <= *low => 0.0,
            Scale::Log { low, high } => {
                (value.min(DRAWN_MAX).log10() - low.log10()) / (high.log10() - low.log10())
            }
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Round numbers along it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match *self {
            Scale::Linear { step, high } => {
                let steps = (high / step).round() as usize;
                (0..=steps.min(TICKS_MAX)).map(|number| step * number as f64).collect()
            }
            Scale::Log { low, high } => log_ticks(low, high),
        }
    }
}

/// The next of 1, 2, 5, 10 and so on that is not smaller.
fn round_step(least: f64) -> f64 {
    let power = power_of_ten(least);
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// The next of 1, 2, 5, 10 and so on that is not larger.
fn round_below(most: f64) -> f64 {
    let power = power_of_ten(most);
    let fits = |factor: &f64| factor * power <= most * (1.0 + 1e-9);
    [5.0, 2.0].into_iter().find(fits).unwrap_or(1.0) * power
}

/// The largest power of ten that is not larger than this, which is more than zero.
fn power_of_ten(value: f64) -> f64 {
    10f64.powi((value.max(f64::MIN_POSITIVE).log10() + 1e-9).floor() as i32)
}

/// Powers of ten, and 2 and 5 times them where there is room.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = ((low.log10() - 1e-9).floor() as i32, (high.log10() + 1e-9).floor() as i32);
    let powers = high.log10() - low.log10();
    let factors: &[f64] = if powers <= 2.1 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let apart = ((powers / 6.0).ceil() as usize).max(1);
    let ticks = (first..=last)
        .step_by(apart)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
    ticks.filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9)).take(TICKS_MAX).collect()
}

/// The position of a text relative to its coordinates.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

impl Anchor {
    fn class(self) -> &'static str {
        match self {
            Anchor::Start => "",
            Anchor::Middle => " mid",
            Anchor::End => " end",
        }
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    /// The coordinate of a share of its width, from the left.
    pub(super) fn across(&self, share: f64) -> f64 {
        self.x + share * self.width
    }

    /// The coordinate of a share of its height, from below.
    pub(super) fn up(&self, share: f64) -> f64 {
        self.y + (1.0 - share) * self.height
    }

    fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// A drawing that grows by one shape after the other.
pub(super) struct Drawing {
    width: f64,
    height: f64,
    shapes: String,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Drawing {
        Drawing { width, height, shapes: String::new() }
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.class(), escaped(text));
        self.shapes
            .push_str(&format!("<text class=\"{class}{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.shapes.push_str(&format!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A rectangle with a tooltip.
    pub(super) fn rect(&mut self, class: &str, area: Area, hint: &str) {
        let Area { x, y, width, height } = area;
        self.shapes.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\""
        ));
        self.closed("rect", hint);
    }

    /// A point with a tooltip.
    pub(super) fn point(&mut self, class: &str, (x, y): (f64, f64), hint: &str) {
        self.shapes.push_str(&format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\""));
        self.closed("circle", hint);
    }

    /// A line through points, interrupted where there is none.
    pub(super) fn path(&mut self, class: &str, points: &[Option<(f64, f64)>]) {
        let mut path = String::new();
        let mut command = 'M';
        for point in points {
            if let Some((x, y)) = point {
                path.push_str(&format!("{command}{x:.1} {y:.1}"));
            }
            command = if point.is_some() { 'L' } else { 'M' };
        }
        self.shapes.push_str(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// Lines across at the ticks of a scale from the bottom up, with labels at the left.
    pub(super) fn vertical_axis(&mut self, area: Area, scale: &Scale, label: impl Fn(f64) -> String) {
        for tick in scale.ticks() {
            let y = area.up(scale.place(tick));
            self.line("grid", (area.x, y), (area.across(1.0), y));
            self.text("tick", area.x - 6.0, y + 3.5, Anchor::End, &label(tick));
        }
    }

    /// Labels below, at these shares of the width.
    pub(super) fn horizontal_labels(&mut self, area: Area, labels: &[(f64, String)]) {
        self.line("axis", (area.x, area.bottom()), (area.across(1.0), area.bottom()));
        for (share, label) in labels {
            let x = area.across(*share);
            self.line("axis", (x, area.bottom()), (x, area.bottom() + 4.0));
            self.text("tick", x, area.bottom() + 16.0, Anchor::Middle, label);
        }
    }

    /// The drawing as an element of a page. `label` describes it for screen readers.
    pub(super) fn finished(self, class: &str, label: &str) -> String {
        let Drawing { width, height, shapes } = self;
        let label = escaped(label);
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">{shapes}</svg>"
        )
    }

    fn closed(&mut self, element: &str, hint: &str) {
        match hint {
            "" => self.shapes.push_str("/>"),
            hint => self.shapes.push_str(&format!("><title>{}</title></{element}>", escaped(hint))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(values: &[f64]) -> Vec<f64> {
        Scale::linear(values.iter().copied(), 1.0).ticks()
    }

    fn log(values: &[f64]) -> Vec<f64> {
        Scale::log(values.iter().copied()).ticks()
    }

    #[test]
    fn linear_ticks_are_round_and_reach_all_values() {
        assert_eq!(linear(&[1.0, 12_345.0]), [0.0, 5_000.0, 10_000.0, 15_000.0]);
        assert_eq!(linear(&[100.0]), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear(&[8.0]), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(linear(&[1.7]), [0.0, 0.5, 1.0, 1.5, 2.0]);
        let mebibyte = 1_048_576.0;
        let ticks = Scale::linear([90.0 * mebibyte].into_iter(), mebibyte).ticks();
        assert_eq!(ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0].map(|size| size * mebibyte));
    }

    #[test]
    fn an_axis_without_values_has_ticks_too() {
        for values in [&[][..], &[0.0], &[-5.0], &[f64::NAN], &[1e-310]] {
            assert_eq!(linear(values), [0.0, 0.5, 1.0], "{values:?}");
        }
        for values in [&[][..], &[0.0], &[-5.0], &[f64::NAN]] {
            assert_eq!(log(values), [1.0, 2.0, 5.0, 10.0], "{values:?}");
        }
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_or_finer_where_there_is_room() {
        assert_eq!(log(&[130.0, 900.0]), [100.0, 200.0, 500.0, 1_000.0]);
        assert_eq!(log(&[30.0, 4e5]), [100.0, 1e3, 1e4, 1e5]);
        assert_eq!(log(&[100.0]), [100.0, 200.0, 500.0, 1_000.0]);
        assert!((3..=TICKS_MAX).contains(&log(&[1.0, f64::MAX]).len()));
    }

    #[test]
    fn any_number_has_a_place_between_the_ends() {
        let unusual = [0.0, -1.0, 1e-320, 1e-300, 1.0, 3.0, 1e15, 1e300, f64::MAX, f64::INFINITY, f64::NAN];
        for one in unusual {
            for other in unusual {
                let values = || [one, other].into_iter();
                for scale in
                    [Scale::linear(values(), 1.0), Scale::linear(values(), 1024.0), Scale::log(values())]
                {
                    let ticks = scale.ticks();
                    assert!((2..=TICKS_MAX + 1).contains(&ticks.len()), "{scale:?} {ticks:?}");
                    assert!(ticks.iter().all(|tick| tick.is_finite()), "{scale:?} {ticks:?}");
                    assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?} {ticks:?}");
                    for value in unusual {
                        assert!((0.0..=1.0).contains(&scale.place(value)), "{value} on {scale:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn values_stand_in_proportion() {
        let scale = Scale::linear([10.0].into_iter(), 1.0);
        assert_eq!([0.0, 5.0, 10.0].map(|value| scale.place(value)), [0.0, 0.5, 1.0]);
        let scale = Scale::Log { low: 1.0, high: 100.0 };
        assert_eq!([0.5, 1.0, 10.0, 100.0, 1e9].map(|value| scale.place(value)), [0.0, 0.0, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn a_line_is_interrupted_where_there_is_no_point() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.path("l", &[Some((0.0, 1.0)), Some((1.0, 1.0)), None, Some((3.0, 1.0))]);
        assert!(drawing.finished("", "<a>").contains("d=\"M0.0 1.0L1.0 1.0M3.0 1.0\""));
    }
}
