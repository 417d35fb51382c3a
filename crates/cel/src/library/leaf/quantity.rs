//! Kubernetes quantities: amounts with a suffix, such as `1.5Gi` and `100m`.
//!
//! Kept true: an amount is exact, but has no more than nine places behind the point where it is read; what is finer is
//! rounded up, away from zero. As in Kubernetes, how an amount was written decides whether it is an integer: a
//! [`Quantity`] keeps 64 bits and a power of ten for as long as it can, and only a nonnegative power makes an integer.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// An amount.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    /// Whether it is a sum or a difference.
    is_computed: bool,
}

/// A number times ten to the power of `power`.
#[derive(Clone, Debug)]
enum Amount {
    Small { number: i64, power: i32 },
    Large { number: BigInt, power: i32 },
}

const BAD_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BAD_SUFFIX: &str = "unable to parse quantity's suffix";
const BAD_NUMBER: &str = "unable to parse numeric part of quantity";
const NOT_AN_INTEGER: &str = "cannot convert value to integer";
const TOO_FAR_APART: &str = "quantities are too far apart to be added";

/// The finest unit, as a power of ten.
const NANO: i32 = -9;
/// Decimal digits that always fit in 64 bits.
const SMALL_DIGITS_MAX: i64 = 18;
/// The largest amount with a binary suffix.
const BINARY_MAX: i64 = i64::MAX;
/// How many powers of ten two amounts may be apart to be added. Kubernetes has no limit and runs out of memory.
const POWERS_APART_MAX: u32 = 10_000;
/// Digits of a number. Kubernetes has no limit; the time to read a number grows with the square of its digits.
const DIGITS_MAX: usize = 10_000;

impl Quantity {
    /// Reads an amount.
    pub fn parse(text: &str) -> Result<Quantity, String> {
        if text.is_empty() {
            return Err(BAD_FORMAT.to_owned());
        }
        let parts = split(text)?;
        let scale = parse_suffix(parts.suffix).ok_or(BAD_SUFFIX)?;
        if let Some(amount) = parse_small(&parts, &scale)? {
            return Ok(amount.into());
        }
        parse_large(&parts, &scale).map(Quantity::from)
    }

    /// A whole number.
    pub fn from_int(number: i64) -> Quantity {
        Amount::Small { number, power: 0 }.into()
    }

    /// Whether it is a sum or a difference. In Kubernetes nothing is equal to such a quantity.
    pub fn is_computed(&self) -> bool {
        self.is_computed
    }

    /// `asInteger()`.
    pub fn as_integer(&self) -> Result<i64, String> {
        let integer = match &self.amount {
            Amount::Small { number, power } => {
                u32::try_from(*power).ok().and_then(|power| times_ten_to(*number, power))
            }
            Amount::Large { .. } => None,
        };
        integer.ok_or_else(|| NOT_AN_INTEGER.to_owned())
    }

    /// `isInteger()`.
    pub fn is_integer(&self) -> bool {
        self.as_integer().is_ok()
    }

    /// `asApproximateFloat()`: the number as a double, times a double for the power.
    pub fn as_approximate_float(&self) -> f64 {
        let (number, power) = match &self.amount {
            Amount::Small { number, power } => (*number as f64, *power),
            // Reading its digits rounds exactly once.
            Amount::Large { number, power } => (number.to_string().parse().unwrap_or(f64::NAN), *power),
        };
        if power == 0 { number } else { number * ten_to(power) }
    }

    /// `sign(q)`: -1, 0 or 1.
    pub fn sign(&self) -> i64 {
        match &self.amount {
            Amount::Small { number, .. } => number.signum(),
            Amount::Large { number, .. } => match number.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// `q.add(other)`.
    pub fn add(&self, other: &Quantity) -> Result<Quantity, String> {
        if let (Amount::Small { number, power }, Amount::Small { number: more, power: more_power }) =
            (&self.amount, &other.amount)
            && let Some(sum) = add_small((*number, *power), (*more, *more_power))
        {
            return Ok(Quantity::computed(sum));
        }
        self.add_large(other.large())
    }

    /// `q.sub(other)`.
    pub fn sub(&self, other: &Quantity) -> Result<Quantity, String> {
        if let (Amount::Small { number, power }, Amount::Small { number: less, power: less_power }) =
            (&self.amount, &other.amount)
            // As in Kubernetes, the least number has no opposite and is taken as it is.
            && let Some(difference) = add_small((*number, *power), (less.wrapping_neg(), *less_power))
        {
            return Ok(Quantity::computed(difference));
        }
        let (number, power) = other.large();
        self.add_large((-number, power))
    }

    fn add_large(&self, (more, more_power): (BigInt, i32)) -> Result<Quantity, String> {
        let (number, power) = self.large();
        let least = power.min(more_power);
        let number = raise(number, power, least)? + raise(more, more_power, least)?;
        Ok(Quantity::computed(Amount::Large { number, power: least }))
    }

    fn computed(amount: Amount) -> Quantity {
        Quantity { amount, is_computed: true }
    }

    fn large(&self) -> (BigInt, i32) {
        match &self.amount {
            Amount::Small { number, power } => (BigInt::from(*number), *power),
            Amount::Large { number, power } => (number.clone(), *power),
        }
    }

    /// `q.compareTo(other)`, by amount.
    pub fn compare(&self, other: &Quantity) -> Ordering {
        let sign = self.sign();
        if sign != other.sign() || sign == 0 {
            return sign.cmp(&other.sign());
        }
        let ((number, power), (more, more_power)) = (self.large(), other.large());
        let digits = |number: &BigInt| number.magnitude().to_string().len() as i64;
        let first_place = |number: &BigInt, power: i32| digits(number) + i64::from(power);
        let places = first_place(&number, power).cmp(&first_place(&more, more_power));
        let larger = places.then_with(|| {
            // With the first digit in the same place, the powers are no further apart than there are digits.
            let least = power.min(more_power);
            let scaled = |number: BigInt, power: i32| number * BigInt::from(10).pow(power.abs_diff(least));
            let ordering = scaled(number, power).cmp(&scaled(more, more_power));
            if sign > 0 { ordering } else { ordering.reverse() }
        });
        if sign > 0 { larger } else { larger.reverse() }
    }
}

impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Quantity {
        Quantity { amount, is_computed: false }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

/// What a quantity is written with.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if there are none.
    whole: &'a str,
    fraction: &'a str,
    /// Sign, digits and point as they were written.
    value: &'a str,
    suffix: &'a str,
}

impl Parts<'_> {
    fn has_digits(&self) -> bool {
        self.value.bytes().any(|byte| byte.is_ascii_digit())
    }
}

fn split(text: &str) -> Result<Parts<'_>, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = unsigned.trim_start_matches('0');
    let (whole, rest) = split_digits(rest);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    let value = &text[..text.len() - rest.len()];
    let letters = rest.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BAD_FORMAT.to_owned());
    }
    // Zeros and nothing else are a zero without more.
    let value = if rest.is_empty() && whole.is_empty() && fraction.is_empty() && !value.contains('.') {
        "0"
    } else {
        value
    };
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { negative: text.starts_with('-'), whole, fraction, value, suffix: rest })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// What a suffix multiplies with.
enum Scale {
    Ten(i32),
    Two(u32),
}

fn parse_suffix(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "n" => Scale::Ten(-9),
        "u" => Scale::Ten(-6),
        "m" => Scale::Ten(-3),
        "" => Scale::Ten(0),
        "k" => Scale::Ten(3),
        "M" => Scale::Ten(6),
        "G" => Scale::Ten(9),
        "T" => Scale::Ten(12),
        "P" => Scale::Ten(15),
        "E" => Scale::Ten(18),
        "Ki" => Scale::Two(10),
        "Mi" => Scale::Two(20),
        "Gi" => Scale::Two(30),
        "Ti" => Scale::Two(40),
        "Pi" => Scale::Two(50),
        "Ei" => Scale::Two(60),
        // As in Kubernetes, a power keeps its last 32 bits.
        _ => Scale::Ten(super::number::parse_int(suffix.strip_prefix(['e', 'E'])?)? as i32),
    })
}

/// An amount of few enough digits, which stays in 64 bits.
fn parse_small(parts: &Parts<'_>, scale: &Scale) -> Result<Option<Amount>, String> {
    let (whole, fraction) = (parts.whole.len() as i64, parts.fraction.len() as i64);
    let (factor, power, room) = match *scale {
        Scale::Ten(power) => (1i64, power, SMALL_DIGITS_MAX - whole - fraction),
        // About three digits for ten powers of two.
        Scale::Two(power) if fraction == 0 => (1 << power, 0, 14 - whole - i64::from(power * 3 / 10)),
        Scale::Two(_) => return Ok(None),
    };
    let Some(power) = i32::try_from(i64::from(power) - fraction).ok().filter(|power| *power >= NANO) else {
        return Ok(None);
    };
    if room < 0 {
        return Ok(None);
    }
    let number: i64 = format!("{}{}", parts.whole, parts.fraction).parse().map_err(|_| BAD_NUMBER)?;
    let number = number.checked_mul(factor).map(|number| if parts.negative { -number } else { number });
    Ok(number.map(|number| Amount::Small { number, power }))
}

fn parse_large(parts: &Parts<'_>, scale: &Scale) -> Result<Amount, String> {
    // A point needs a digit beside it, a sign a number behind it.
    let digits = parts.value.strip_prefix(['+', '-']).unwrap_or(parts.value).replacen('.', "", 1);
    let digits = digits.trim_start_matches('0');
    if digits.len() > DIGITS_MAX || parts.fraction.len() > DIGITS_MAX {
        return Err(BAD_NUMBER.to_owned());
    }
    let mut number: BigInt = if parts.has_digits() && digits.is_empty() {
        BigInt::ZERO
    } else {
        digits.parse().map_err(|_| BAD_NUMBER)?
    };
    let mut power = -i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    match *scale {
        Scale::Ten(more) => power = power.wrapping_add(more),
        Scale::Two(more) => number <<= more,
    }
    if number.sign() != Sign::NoSign {
        (number, power) = round_to_nano(number, power);
    }
    let most = Quantity::from_int(BINARY_MAX);
    let amount = Quantity::from(Amount::Large { number, power });
    if matches!(scale, Scale::Two(_)) && amount.compare(&most) == Ordering::Greater {
        return Ok(sign_large(BigInt::from(BINARY_MAX), 0, parts.negative));
    }
    let (number, power) = amount.large();
    Ok(sign_large(number, power, parts.negative))
}

fn sign_large(number: BigInt, power: i32, negative: bool) -> Amount {
    Amount::Large { number: if negative { -number } else { number }, power }
}

/// Kubernetes writes every large amount in nanos, or finer ones rounded up.
fn round_to_nano(number: BigInt, power: i32) -> (BigInt, i32) {
    if power >= NANO {
        let Ok(scaled) = raise(number.clone(), power, NANO) else { return (number, power) };
        return (scaled, NANO);
    }
    let places = power.abs_diff(NANO);
    if places as usize > number.magnitude().to_string().len() {
        return (BigInt::from(1), NANO);
    }
    let unit = BigInt::from(10).pow(places);
    let (whole, rest) = (&number / &unit, &number % &unit);
    (if rest.sign() == Sign::NoSign { whole } else { whole + 1 }, NANO)
}

/// The number for a lower power.
fn raise(number: BigInt, power: i32, to: i32) -> Result<BigInt, String> {
    let places = power.abs_diff(to);
    if places > POWERS_APART_MAX {
        return Err(TOO_FAR_APART.to_owned());
    }
    Ok(number * BigInt::from(10).pow(places))
}

fn times_ten_to(number: i64, power: u32) -> Option<i64> {
    if number == 0 {
        return Some(0);
    }
    number.checked_mul(10i64.checked_pow(power)?)
}

/// The sum where it fits: the one with the higher power gets the lower one.
fn add_small((number, power): (i64, i32), (more, more_power): (i64, i32)) -> Option<Amount> {
    if more == 0 {
        return Some(Amount::Small { number, power });
    }
    if number == 0 {
        return Some(Amount::Small { number: more, power: more_power });
    }
    let least = power.min(more_power);
    let number = times_ten_to(number, power.abs_diff(least))?
        .checked_add(times_ten_to(more, more_power.abs_diff(least))?)?;
    Some(Amount::Small { number, power: least })
}

/// As Go calculates it: the product of two entries of a table, or their quotient.
fn ten_to(power: i32) -> f64 {
    const STEP: i32 = 32;
    let exact = |power: i32| format!("1e{power}").parse::<f64>().unwrap_or(f64::INFINITY);
    match power {
        0..=308 => exact(power / STEP * STEP) * exact(power % STEP),
        -323..=-1 => exact(-(-power / STEP * STEP)) / exact(-power % STEP),
        power if power > 0 => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn amounts_are_compared_however_they_are_written() {
        for (text, ordering, other) in [
            ("200M", Ordering::Equal, "0.2G"),
            ("1", Ordering::Equal, "1000m"),
            ("1Gi", Ordering::Equal, "1024Mi"),
            ("1e40", Ordering::Greater, "9e39"),
            ("-1e40", Ordering::Less, "-9e39"),
            ("0.1n", Ordering::Equal, "1n"),
            ("-0.1n", Ordering::Equal, "-1n"),
            ("0", Ordering::Equal, "0e1000"),
            ("-1", Ordering::Less, "1"),
            ("9223372036854775808", Ordering::Greater, "9223372036854775807"),
            ("100Ei", Ordering::Equal, "9223372036854775807"),
            ("1e1000000000", Ordering::Greater, "1e999999999"),
            ("-12", Ordering::Less, "-11"),
            ("-99999999999999999999", Ordering::Greater, "-99999999999999999999.1"),
        ] {
            assert_eq!(quantity(text).compare(&quantity(other)), ordering, "{text} {other}");
            assert_eq!(quantity(other).compare(&quantity(text)), ordering.reverse(), "{other} {text}");
        }
    }

    #[test]
    fn integers_are_written_without_a_fraction() {
        for (text, integer) in [
            ("50k", Some(50_000)),
            ("-5", Some(-5)),
            (".", Some(0)),
            ("e3", Some(0)),
            ("1Ki", Some(1024)),
            ("5E", Some(5_000_000_000_000_000_000)),
            ("10E", None),
            ("1000m", None),
            ("0.5", None),
            ("1.0", None),
            ("9223372036854775807", None),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("1.5Gi", None),
        ] {
            assert_eq!(quantity(text).as_integer().ok(), integer, "{text}");
            assert_eq!(quantity(text).is_integer(), integer.is_some(), "{text}");
        }
        assert_eq!(quantity("0.5").as_integer().unwrap_err(), "cannot convert value to integer");
        assert_eq!(quantity("1.5Gi").as_approximate_float(), 1_610_612_736.0);
        assert_eq!(quantity("1m").as_approximate_float(), 0.001);
        assert_eq!(quantity("1e400").as_approximate_float(), f64::INFINITY);
    }

    #[test]
    fn amounts_are_added_and_subtracted() {
        assert_eq!(quantity("50k").add(&Quantity::from_int(20)).unwrap().as_integer(), Ok(50_020));
        assert_eq!(quantity("1").sub(&quantity("1m")), Ok(quantity("999m")));
        assert_eq!(quantity("9E").add(&quantity("9E")), Ok(quantity("18E")));
        assert_eq!(quantity("1e40").add(&quantity("1")).unwrap().sub(&quantity("1e40")), Ok(quantity("1")));
        assert_eq!(quantity("0").sub(&Quantity::from_int(i64::MIN)).unwrap().as_integer(), Ok(i64::MIN));
        let least = Quantity::from_int(i64::MIN);
        assert_eq!(quantity("9223372036854775807").sub(&least), Ok(quantity("18446744073709551615")));
        assert_eq!(quantity("1e2000000").add(&quantity("1")).unwrap_err(), TOO_FAR_APART);
        assert_eq!((quantity("-1").sign(), quantity("0").sign(), quantity("1e40").sign()), (-1, 0, 1));
    }

    #[test]
    fn what_is_no_quantity_is_an_error() {
        for (text, error) in [
            ("", BAD_FORMAT),
            ("1x", BAD_FORMAT),
            ("1.2.3", BAD_FORMAT),
            ("1 ", BAD_FORMAT),
            ("200K", BAD_SUFFIX),
            ("1kk", BAD_SUFFIX),
            ("1e", BAD_SUFFIX),
            ("1m3", BAD_SUFFIX),
            (".e-20", BAD_NUMBER),
            (&"9".repeat(DIGITS_MAX + 1), BAD_NUMBER),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
