//! Numbers with a unit, such as `500m` and `1Gi`: their comparison and their text.
//!
//! Kept true: a quantity has at most nine decimal places and [`DIGITS_MAX`] significant digits; a finer one is rounded
//! up, away from zero, as in Kubernetes. One with a binary unit is at most `i64::MAX`.

use std::{cmp::Ordering, fmt, str::FromStr};

/// A quantity. Two are equal if they are the same amount, even if written differently.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The amount is this number times ten to the power of `power`. It does not end in a zero, unless it is zero.
    number: i128,
    power: i32,
    form: Form,
}

/// The form in which a quantity was written, and is written again.
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

/// The finest unit, as a power of ten.
const NANO: i32 = -9;
const MILLI: i32 = -3;
/// The largest decimal unit, as a power of ten.
const EXA: i32 = 18;
/// Significant digits: twice as many as an amount of 63 bits has, so that the sum of two still fits in 127 bits.
const DIGITS_MAX: usize = 37;
/// Significant digits beside a binary unit, so that their product fits.
const BINARY_DIGITS_MAX: usize = 20;
/// The greatest power of ten in a text, either way; one beyond it counts as this.
const POWER_MAX: i32 = 1000;

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity { number: 0, power: 0, form: Form::Decimal };

    /// A whole number.
    pub fn whole(number: i64) -> Quantity {
        Quantity::new(i128::from(number), 0, Form::Decimal)
    }

    /// Rounds to nanos and to the digits there are.
    fn new(number: i128, power: i32, form: Form) -> Quantity {
        let (mut number, mut power) = (number, power);
        if power < NANO {
            (number, power) = (round_up(number, NANO.abs_diff(power)), NANO);
        }
        while number.abs() >= ten_to(DIGITS_MAX as u32) {
            (number, power) = (round_up(number, 1), power + 1);
        }
        if number == 0 {
            return Quantity { number, power: 0, form };
        }
        while number % 10 == 0 {
            (number, power) = (number / 10, power + 1);
        }
        Quantity { number, power, form }
    }

    /// The amount in units of ten to the power of `power`, rounded up.
    fn in_units_of(self, power: i32) -> i128 {
        let digits = self.power.abs_diff(power);
        if self.power < power {
            return round_up(self.number, digits);
        }
        10_i128
            .checked_pow(digits)
            .map_or(i128::MAX * self.number.signum(), |times| self.number.saturating_mul(times))
    }

    /// The amount in whole units, rounded up; one that does not fit counts as the greatest that does.
    pub fn units(self) -> i64 {
        self.in_units_of(0).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The amount in thousandths, rounded up.
    pub fn millis(self) -> i128 {
        self.in_units_of(MILLI)
    }

    /// The same, rounded up to thousandths.
    pub fn rounded_to_milli(self) -> Quantity {
        if self.power >= MILLI { self } else { Quantity::new(self.in_units_of(MILLI), MILLI, self.form) }
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.number == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.number < 0
    }

    /// The power of ten of the first digit.
    fn magnitude(self) -> i32 {
        self.power + self.number.unsigned_abs().checked_ilog10().map_or(0, |digits| digits as i32)
    }
}

fn ten_to(power: u32) -> i128 {
    10_i128.saturating_pow(power)
}

/// Drops digits from the end; one that is not zero rounds up, away from zero.
fn round_up(number: i128, digits: u32) -> i128 {
    let unit = ten_to(digits);
    let whole = number / unit;
    if number % unit == 0 { whole } else { whole + number.signum() }
}

impl std::ops::Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        let form = if self.is_zero() { other.form } else { self.form };
        let (large, small) = if self.power >= other.power { (self, other) } else { (other, self) };
        if large.is_zero() || small.is_zero() {
            let amount = if large.is_zero() { small } else { large };
            return Quantity { form, ..amount };
        }
        // An amount that is too small to change a digit of the larger one is not added.
        match 10_i128
            .checked_pow(large.power.abs_diff(small.power))
            .and_then(|times| large.number.checked_mul(times))
        {
            Some(number) if number.abs() < ten_to(DIGITS_MAX as u32 + 1) => {
                Quantity::new(number + small.number, small.power, form)
            }
            _ => Quantity { form, ..large },
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        (self.number, self.power) == (other.number, other.power)
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
        let sign = self.number.signum();
        let larger = match self.magnitude().cmp(&other.magnitude()) {
            _ if sign != other.number.signum() || sign == 0 => return sign.cmp(&other.number.signum()),
            // With the same first place, both fit with the same last place.
            Ordering::Equal => {
                let last = self.power.min(other.power);
                return self.in_units_of(last).cmp(&other.in_units_of(last));
            }
            larger => larger,
        };
        if sign > 0 { larger } else { larger.reverse() }
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Quantity, InvalidQuantity> {
        let (sign, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (-1, &text[1..]),
            Some(b'+') => (1, &text[1..]),
            _ => (1, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(InvalidQuantity);
        }
        Ok(match scale(suffix)? {
            Scale::Ten(power, form) => {
                let (number, dropped) = number(whole, fraction, DIGITS_MAX);
                Quantity::new(sign * number, power + dropped, form)
            }
            Scale::Two(power) => {
                let (number, dropped) = number(whole, fraction, BINARY_DIGITS_MAX);
                let amount = Quantity::new(number << power, dropped, Form::Binary);
                let most = Quantity { form: Form::Binary, ..Quantity::whole(i64::MAX) };
                let amount = amount.min(most);
                Quantity { number: sign * amount.number, ..amount }
            }
        })
    }
}

/// The factor of a suffix.
enum Scale {
    Ten(i32, Form),
    Two(u32),
}

fn scale(suffix: &str) -> Result<Scale, InvalidQuantity> {
    let decimal = |power| Ok(Scale::Ten(power, Form::Decimal));
    let binary = |power| Ok(Scale::Two(power));
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
            Ok(Scale::Ten(power.clamp(-POWER_MAX, POWER_MAX), Form::Exponent))
        }
    }
}

/// The number that the digits of `whole.fraction` are, and the power of ten it is to be multiplied with. Of more than
/// `most` significant digits the rest rounds up.
fn number(whole: &str, fraction: &str, most: usize) -> (i128, i32) {
    let digits = || {
        whole
            .bytes()
            .chain(fraction.bytes())
            .map(|digit| i128::from(digit - b'0'))
            .skip_while(|digit| *digit == 0)
    };
    let number = digits().take(most).fold(0, |number, digit| number * 10 + digit);
    let dropped = digits().count().saturating_sub(most);
    let rounds_up = digits().skip(most).any(|digit| digit != 0);
    let power = i32::try_from(dropped as i64 - fraction.len() as i64).unwrap_or(-POWER_MAX);
    (number + i128::from(rounds_up), power)
}

impl fmt::Display for Quantity {
    /// In Kubernetes' form: a whole number with the largest unit that allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.number == 0 {
            return f.write_str("0");
        }
        let small = *self > Quantity::whole(-1024) && *self < Quantity::whole(1024);
        if self.form == Form::Binary && !small {
            return write_binary(f, self.in_units_of(0));
        }
        let largest = if self.form == Form::Exponent { i32::MAX } else { EXA };
        let power = (self.power.div_euclid(3) * 3).min(largest);
        write!(f, "{}", self.number)?;
        // A width of `format!` has 16 bits, and a text can have more zeros.
        for _ in 0..self.power.abs_diff(power) {
            f.write_str("0")?;
        }
        match (self.form, power) {
            (_, 0) => Ok(()),
            (Form::Exponent, power) => write!(f, "e{power}"),
            (_, power) => f.write_str(match power {
                -9 => "n",
                -6 => "u",
                -3 => "m",
                3 => "k",
                6 => "M",
                9 => "G",
                12 => "T",
                15 => "P",
                _ => "E",
            }),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, units: i128) -> fmt::Result {
    let mut number = units;
    let mut names = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut unit = "";
    while number % 1024 == 0
        && let Some(next) = names.next()
    {
        number /= 1024;
        unit = next;
    }
    write!(f, "{number}{unit}")
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
            ("9999999999999999999", "9999999999999999999"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("12345678901234567890E", "12345678901234567890E"),
            ("9223372036854775808m", "9223372036854775808m"),
            ("100E", "100E"),
            ("9e30", "9e30"),
            ("1e40", "10e39"),
            ("1e1000", "10e999"),
            ("1e-30", "1e-9"),
            ("8Ei", "9223372036854775807"),
            ("-100Ei", "-9223372036854775807"),
            ("9223372036854775807Ki", "9223372036854775807"),
            ("1.5Ei", "1536Pi"),
            ("0.0000000000000000000000000000000000000000000001", "1n"),
            ("007", "7"),
            ("0Gi", "0"),
        ] {
            assert_eq!(text.parse::<Quantity>().map(|q| q.to_string()), Ok(spelled.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_number_of_any_length_is_spelled() {
        for digits in [65_536, 65_600, 200_000] {
            let quantity: Quantity = "9".repeat(digits).parse().unwrap();
            assert_eq!(quantity.to_string(), format!("1{}E", "0".repeat(digits - 18)));
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in ["", "a", "1x", "1 ", " 1", "1.2.3", ".", "-", "1ki", "1kk", "e3", "1e", "1e1.5", "١"] {
            assert_eq!(text.parse::<Quantity>(), Err(InvalidQuantity), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_amount() {
        let q = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(q("1Gi"), q("1024Mi"));
        assert!(q("1G") < q("1Gi") && q("100m") < q("0.2") && q("-1") < q("0"));
        assert!(q("1e100") > q("9e99") && q("-1e100") < q("-9e99") && q("8Ei") < q("9223372036854775808"));
        assert_eq!(q("1e100").units(), i64::MAX);
        assert_eq!((q("1500m").units(), q("1u").millis()), (2, 1));
        assert_eq!(q("0.1m").rounded_to_milli().to_string(), "1m");
        assert_eq!((q("1Gi") + q("1m")).to_string(), "1073741825");
        assert_eq!((q("8Ei") + q("8Ei")).to_string(), "18446744073709551614");
        assert_eq!((q("1e100") + q("1")).to_string(), "10e99");
    }
}
