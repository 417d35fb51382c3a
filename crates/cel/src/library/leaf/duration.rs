//! Spans of time as Go reads and writes them, in nanoseconds.

/// The number of nanoseconds in a unit.
fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The most negative span has one nanosecond more than the longest.
const NANOS_MAX: u64 = 1 << 63;

/// Reads `1h2m3.5s`, as Go's `time.ParseDuration` does. `None` when it is not a span or does not fit.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let mut rest = unsigned;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let nanos;
        (nanos, rest) = parse_term(rest)?;
        total = total.checked_add(nanos).filter(|total| *total <= NANOS_MAX)?;
    }
    if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// The nanoseconds of the number and unit that the text begins with, and the text behind them.
fn parse_term(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest, point) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = split_digits(rest);
            (fraction, rest, true)
        }
        None => ("", rest, false),
    };
    if whole.is_empty() && (!point || fraction.is_empty()) {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = unit_nanos(unit)?;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok().filter(|n| *n <= NANOS_MAX)? };
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= NANOS_MAX)?;
    let nanos = nanos.checked_add(fraction_nanos(fraction, unit)).filter(|nanos| *nanos <= NANOS_MAX)?;
    Some((nanos, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Calculated with doubles, as in Go; digits that do not fit are left out.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut number, mut scale) = (0u64, 1.0f64);
    for digit in digits.bytes() {
        let Some(next) = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(digit - b'0')))
            .filter(|next| number <= (NANOS_MAX - 1) / 10 && *next <= NANOS_MAX)
        else {
            break;
        };
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Whole and fractional parts of `nanos` in a unit, added as doubles, as Go does.
fn in_unit(nanos: i64, unit: u64) -> f64 {
    let unit_signed = unit as i64;
    (nanos / unit_signed) as f64 + (nanos % unit_signed) as f64 / unit as f64
}

/// `string(duration)`: seconds and the letter s.
pub fn text(nanos: i64) -> String {
    format!("{}s", in_unit(nanos, NANOS_PER_SECOND))
}

/// A span as Go prints it: `1h30m0s`, `1.5ms`.
pub fn go_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let in_unit = |unit: u64, name: &str| {
        let digits = unit.ilog10() as usize;
        let fraction = format!(".{:0digits$}", nanos % unit);
        format!("{sign}{}{}{name}", nanos / unit, fraction.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => in_unit(1_000, "µs"),
        1_000_000..NANOS_PER_SECOND => in_unit(1_000_000, "ms"),
        _ => {
            let minutes = nanos / NANOS_PER_SECOND / 60;
            let seconds = nanos / NANOS_PER_SECOND % 60;
            let fraction = format!(".{:09}", nanos % NANOS_PER_SECOND);
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}{fraction}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}{fraction}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
            }
        }
    }
}

/// All of the span in hours, cut toward zero.
pub fn hours(nanos: i64) -> i64 {
    in_unit(nanos, 3_600 * NANOS_PER_SECOND) as i64
}

/// All of the span in minutes, cut toward zero.
pub fn minutes(nanos: i64) -> i64 {
    in_unit(nanos, 60 * NANOS_PER_SECOND) as i64
}

/// All of the span in seconds, cut toward zero.
pub fn seconds(nanos: i64) -> i64 {
    in_unit(nanos, NANOS_PER_SECOND) as i64
}

/// All of the span in milliseconds, cut toward zero.
pub fn milliseconds(nanos: i64) -> i64 {
    nanos / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5ms", Some(-1_500_000)),
            ("+.5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("1µs", Some(1_000)),
            ("1μs1ns", Some(1_001)),
            ("0.3333333333333333333h", Some(1_200_000_000_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("9223372036.999999999s", None),
            ("99999999999999999999s", None),
            ("", None),
            ("-", None),
            ("1", None),
            ("1d", None),
            (".s", None),
            ("1h1", None),
            ("1 s", None),
            ("s", None),
        ] {
            assert_eq!(parse(text), nanos, "{text:?}");
        }
    }

    #[test]
    fn spans_are_written_in_seconds() {
        for (nanos, written) in [
            (0, "0s"),
            (3_600_001_000_000, "3600.001s"),
            (-1_500_000, "-0.0015s"),
            (1_000, "0.000001s"),
            (i64::MAX, "9223372036.854776s"),
        ] {
            assert_eq!(text(nanos), written);
        }
    }

    #[test]
    fn go_prints_spans_with_units() {
        for (nanos, written) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (-1_000_000, "-1ms"),
            (1_100_000_000, "1.1s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (9_223_372_036_000_000_000, "2562047h47m16s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(go_text(nanos), written);
        }
    }

    #[test]
    fn accessors_give_the_whole_span_in_their_unit() {
        let span = parse("1h1m1.5s").unwrap();
        assert_eq!((hours(span), minutes(span), seconds(span), milliseconds(span)), (1, 61, 3661, 3_661_500));
        assert_eq!((hours(-span), seconds(-span), milliseconds(-span)), (-1, -3661, -3_661_500));
    }
}
