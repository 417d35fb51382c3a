//! Numbers with a unit, such as `500m` and `1Gi`: how they compare and how they are spelled.
//!
//! Kept true: a quantity is a whole number of nanos that fits in 63 bits before the point; what is finer is rounded up,
//! away from zero, as Kubernetes does.

use std::{cmp::Ordering, fmt, str::FromStr};

/// A quantity. Two are equal if they are the same amount, however they are spelled.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// How a quantity was spelled, and is spelled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Powers of a thousand: `k`, `M`, `m`.
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// The text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidQuantity;

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    }
}

impl std::error::Error for InvalidQuantity {}

const NANOS: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// The greatest amount; what is larger counts as this.
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS;
/// Digits beyond these change nothing: the amount is at its limit, or the rest is rounded.
const DIGITS_MAX: usize = 40;

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity { nanos: 0, form: Form::Decimal };

    /// A whole number.
    pub fn whole(number: i64) -> Quantity {
        Quantity { nanos: i128::from(number) * NANOS, form: Form::Decimal }
    }

    /// The amount in whole units, rounded up.
    pub fn units(self) -> i64 {
        round_up(self.nanos, NANOS) as i64
    }

    /// The amount in thousandths, rounded up.
    pub fn millis(self) -> i128 {
        round_up(self.nanos, MILLI)
    }

    /// The same, rounded up to thousandths.
    pub fn rounded_to_milli(self) -> Quantity {
        Quantity { nanos: round_up(self.nanos, MILLI) * MILLI, form: self.form }
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

impl std::ops::Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        let form = if self.is_zero() { other.form } else { self.form };
        Quantity { nanos: (self.nanos + other.nanos).clamp(-NANOS_MAX, NANOS_MAX), form }
    }
}

fn round_up(nanos: i128, unit: i128) -> i128 {
    let whole = nanos / unit;
    if nanos % unit == 0 { whole } else { whole + nanos.signum() }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Quantity, InvalidQuantity> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(InvalidQuantity);
        }
        let (form, scale) = scale(suffix)?;
        let nanos = amount(whole.trim_start_matches('0'), fraction, scale);
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, form })
    }
}

/// What a suffix multiplies with.
enum Scale {
    Ten(i32),
    Two(u32),
}

fn scale(suffix: &str) -> Result<(Form, Scale), InvalidQuantity> {
    let decimal = |power| Ok((Form::Decimal, Scale::Ten(power)));
    let binary = |power| Ok((Form::Binary, Scale::Two(power)));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E']).ok_or(InvalidQuantity)?;
            let power: i32 = power.parse().map_err(|_| InvalidQuantity)?;
            Ok((Form::Exponent, Scale::Ten(power.clamp(-100, 100))))
        }
    }
}

/// The nanos of `whole.fraction` times a scale, at most [`NANOS_MAX`].
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    if whole.len() > DIGITS_MAX {
        return NANOS_MAX;
    }
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    let mut point = whole.len() as i32 + 9;
    let mut factor = 1_i128;
    match scale {
        Scale::Ten(power) => point += power,
        Scale::Two(power) => factor = 1 << power,
    }
    // Multiplied digit by digit from the left; what lies behind the point is kept apart, for the rounding.
    let mut nanos = 0_i128;
    let mut rest = false;
    let times = |nanos: i128, digit: u8| nanos.saturating_mul(10).saturating_add(i128::from(digit) * factor);
    for (at, digit) in (0_i32..).zip(digits.iter()) {
        if at < point {
            nanos = times(nanos, *digit);
        } else {
            rest |= *digit != 0;
        }
        if nanos > NANOS_MAX {
            return NANOS_MAX;
        }
    }
    for _ in (digits.len() as i32)..point {
        if nanos > NANOS_MAX {
            return NANOS_MAX;
        }
        nanos = times(nanos, 0);
    }
    (nanos + i128::from(rest)).min(NANOS_MAX)
}

impl fmt::Display for Quantity {
    /// As Kubernetes spells it: a whole number with the largest unit that allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * NANOS {
            let mut number = round_up(self.nanos, NANOS);
            let mut units = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
            let mut unit = "";
            while number % 1024 == 0
                && let Some(next) = units.next()
            {
                number /= 1024;
                unit = next;
            }
            return write!(f, "{number}{unit}");
        }
        let mut number = self.nanos;
        let mut power = -9;
        while number % 1000 == 0 && power < 18 {
            number /= 1000;
            power += 3;
        }
        if self.form == Form::Exponent {
            return if power == 0 { write!(f, "{number}") } else { write!(f, "{number}e{power}") };
        }
        let unit = match power {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        write!(f, "{number}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_spelled_with_the_largest_unit_that_leaves_a_whole_number() {
        for (text, spelled) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("0.1Ki", "102400m"),
            ("512Mi", "512Mi"),
            ("1e3", "1e3"),
            ("1E", "1E"),
            ("100", "100"),
            ("-1", "-1"),
            ("+5", "5"),
            (".5", "500m"),
            ("5.", "5"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("2000m", "2"),
            ("1Ki", "1Ki"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("129M", "129M"),
            ("12e-1", "1200e-3"),
            ("1000Ki", "1000Ki"),
            ("9999999999999999999", "9223372036854775807"),
            ("007", "7"),
            ("0Gi", "0"),
        ] {
            assert_eq!(text.parse::<Quantity>().map(|q| q.to_string()), Ok(spelled.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "a", "1x", "1 ", " 1", "1.2.3", ".", "-", "1ki", "1kk", "e3", "1e", "1e1.5", "١"] {
            assert_eq!(text.parse::<Quantity>(), Err(InvalidQuantity), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_amount() {
        let q = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(q("1Gi"), q("1024Mi"));
        assert!(q("1G") < q("1Gi") && q("100m") < q("0.2") && q("-1") < q("0"));
        assert_eq!((q("1500m").units(), q("1u").millis()), (2, 1));
        assert_eq!(q("0.1m").rounded_to_milli().to_string(), "1m");
    }
}
