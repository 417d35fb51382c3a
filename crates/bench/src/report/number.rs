//! Numbers for people: three significant digits, and a unit that keeps them small.
//!
//! Kept true: every number has a text, even one that no measurement can give.

/// The text for an absent measurement.
pub(super) const NOTHING: &str = "–";

/// A unit: the first number that it is used for, its size, and its name.
struct Unit(f64, f64, &'static str);

const TIMES: [Unit; 7] = [
    Unit(0.0, 1e-3, "ns"),
    Unit(0.9995, 1.0, "µs"),
    Unit(999.5, 1e3, "ms"),
    Unit(999.5e3, 1e6, "s"),
    Unit(120e6, 60e6, "min"),
    Unit(7_200e6, 3_600e6, "h"),
    Unit(172_800e6, 86_400e6, "d"),
];

const SIZES: [Unit; 7] = [
    Unit(0.0, 1.0, "B"),
    Unit(999.5, 1024.0, "KiB"),
    Unit(999.5 * 1024.0, 1_048_576.0, "MiB"),
    Unit(999.5 * 1_048_576.0, 1_073_741_824.0, "GiB"),
    Unit(999.5 * 1_073_741_824.0, 1_099_511_627_776.0, "TiB"),
    Unit(999.5 * 1_099_511_627_776.0, 1_125_899_906_842_624.0, "PiB"),
    Unit(999.5 * 1_125_899_906_842_624.0, 1_152_921_504_606_846_976.0, "EiB"),
];

/// As `120,000`.
pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// As `0.31`, `12.3` or `12,345`; beyond ten million as `12.3 M`.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size < 9_999_500.0 => digits(value),
        size if size < 999.5e6 => format!("{} M", digits(value / 1e6)),
        size if size < 999.5e9 => format!("{} G", digits(value / 1e9)),
        _ => digits(value),
    }
}

/// A time in microseconds, as `850 µs`, `1.23 ms` or `12.3 s`.
pub(super) fn micros(value: f64) -> String {
    if value == 0.0 { "0 µs".to_owned() } else { scaled(value, &TIMES) }
}

/// A size, as `512 B` or `34.5 MiB`.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, &SIZES)
}

/// A ratio, as `0.31 x`.
pub(super) fn ratio(value: f64) -> String {
    match value.abs() {
        size if size > 0.0 && size < 0.001 => "< 0.001 x".to_owned(),
        size if size >= 9_999_500.0 => "> 9 M x".to_owned(),
        size if (0.0995..9.995).contains(&size) || size == 0.0 => format!("{value:.2} x"),
        _ => format!("{} x", digits(value)),
    }
}

/// A number of some unit: times and sizes are scaled, others keep their unit.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "ns" => micros(value / 1e3),
        "µs" | "us" => micros(value),
        "ms" => micros(value * 1e3),
        "s" | "seconds" => micros(value * 1e6),
        "bytes" | "byte" | "B" => bytes(value),
        "" => number(value),
        "%" => format!("{} %", digits(value)),
        other => format!("{} {other}", number(value)),
    }
}

/// A count with its unit, as `1 event` or `120,000 events`.
pub(super) fn count_of(number: u64, unit: &str) -> String {
    match (number, unit) {
        (_, "") => count(number),
        (1, unit) => format!("1 {unit}"),
        (_, unit) => format!("{} {}", count(number), plural(unit)),
    }
}

pub(super) fn plural(unit: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| unit.ends_with(ending));
    match unit.strip_suffix('y') {
        _ if unit.is_empty() || ends(&["s"]) => unit.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ends(&["ch", "sh", "x"]) => format!("{unit}es"),
        _ => format!("{unit}s"),
    }
}

/// Without trailing zeros, as on an axis: `0.5 s` for `0.50 s`.
pub(super) fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, None), |(number, unit)| (number, Some(unit)));
    let number = match number.contains('.') && !number.contains('e') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    unit.map_or_else(|| number.to_owned(), |unit| format!("{number} {unit}"))
}

fn scaled(value: f64, units: &[Unit]) -> String {
    let fits = |unit: &&Unit| value.is_finite() && value.abs() >= unit.0;
    match units.iter().rev().find(fits) {
        Some(Unit(_, size, name)) => format!("{} {name}", digits(value / size)),
        None => NOTHING.to_owned(),
    }
}

fn digits(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => NOTHING.to_owned(),
        0.0 => "0".to_owned(),
        size if !(0.001..1e15).contains(&size) => format!("{value:.1e}"),
        size if size.fract() == 0.0 || size >= 99.95 => grouped(&format!("{value:.0}")),
        size if size < 0.00995 => format!("{value:.4}"),
        size if size < 0.0995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// Adds a comma before every three digits of a whole number.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(write: fn(f64) -> String, expected: &[(f64, &str)]) {
        for (value, expected) in expected {
            assert_eq!(write(*value), *expected, "{value}");
        }
    }

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        let expected = [
            (0.0, "0 µs"),
            (0.25, "250 ns"),
            (1.0, "1 µs"),
            (12.34, "12.3 µs"),
            (999.4, "999 µs"),
            (999.9, "1.00 ms"),
            (1_234.0, "1.23 ms"),
            (999_499.0, "999 ms"),
            (1e6, "1 s"),
            (75.25e6, "75.2 s"),
            (600e6, "10 min"),
            (3.6e9 * 5.0, "5 h"),
            (8.64e10 * 1000.0, "1,000 d"),
            (-1_500.0, "-1.50 ms"),
            (1e-9, "1.0e-6 ns"),
        ];
        all(micros, &expected);
    }

    #[test]
    fn sizes_are_in_powers_of_two() {
        let expected = [
            (0.0, "0 B"),
            (512.0, "512 B"),
            (1000.0, "0.98 KiB"),
            (1536.0, "1.50 KiB"),
            (36.2 * 1_048_576.0, "36.2 MiB"),
            (u64::MAX as f64, "16 EiB"),
        ];
        all(bytes, &expected);
    }

    #[test]
    fn plain_numbers_are_grouped_until_they_are_too_long() {
        let expected = [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.00123, "0.0012"),
            (0.5, "0.50"),
            (9.996, "10.0"),
            (99.96, "100"),
            (12_345.6, "12,346"),
            (-12_345.6, "-12,346"),
            (9_999_499.0, "9,999,499"),
            (12_345_678.0, "12.3 M"),
            (5e9, "5 G"),
            (1e13, "10,000,000,000,000"),
            (1e300, "1.0e300"),
        ];
        all(number, &expected);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn ratios_are_relative_to_the_first_run() {
        let expected = [
            (0.3123, "0.31 x"),
            (1.0, "1.00 x"),
            (0.0, "0.00 x"),
            (12.34, "12.3 x"),
            (0.0123, "0.012 x"),
            (0.000_01, "< 0.001 x"),
            (1_234.0, "1,234 x"),
            (1e12, "> 9 M x"),
        ];
        all(ratio, &expected);
    }

    #[test]
    fn infinite_and_undefined_numbers_are_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for write in [number, micros, bytes] {
                assert_eq!(write(value), NOTHING);
            }
        }
    }

    #[test]
    fn units_of_figures_are_scaled_or_kept() {
        assert_eq!(with_unit(12_595.0, "bytes"), "12.3 KiB");
        assert_eq!(with_unit(1.5, "s"), "1.50 s");
        assert_eq!(with_unit(2.0, "ms"), "2 ms");
        assert_eq!(with_unit(3.0, "events"), "3 events");
        assert_eq!(with_unit(99.5, "%"), "99.5 %");
        assert_eq!(with_unit(3.25, ""), "3.25");
    }

    #[test]
    fn units_are_plural_unless_there_is_one() {
        assert_eq!(count_of(1, "event"), "1 event");
        assert_eq!(count_of(0, "event"), "0 events");
        assert_eq!(count_of(2000, "watch"), "2,000 watches");
        assert_eq!(count_of(2, "query"), "2 queries");
        assert_eq!(count_of(2, "delay"), "2 delays");
        assert_eq!(count_of(2, "bytes"), "2 bytes");
        assert_eq!(count_of(2, ""), "2");
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        for (text, expected) in [
            ("0.50 s", "0.5 s"),
            ("1.00 ms", "1 ms"),
            ("100", "100"),
            ("0.20", "0.2"),
            ("1.0e300", "1.0e300"),
        ] {
            assert_eq!(short(text), expected);
        }
    }
}
