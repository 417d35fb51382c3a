//! Kubernetes quantities: amounts with a suffix, such as `1.5Gi` and `100m`.
//!
//! Kept true: an amount is exact, but has no more than nine places behind the point where it is read; finer amounts are
//! rounded up, away from zero. As in Kubernetes, how an amount was written decides whether it is an integer: a
//! [`Quantity`] keeps 64 bits and a power of ten for as long as it can, and only a nonnegative power makes an integer.

use std::{cmp::Ordering, sync::Arc};

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
    Small {
        number: i64,
        power: i32,
    },
    Large {
        number: BigInt,
        power: i32,
    },
    /// A sum of amounts whose digits are far apart, the lowest first: each is less than one unit of the next. Kubernetes
    /// writes out all zeros between them, until it runs out of memory.
    Apart(Arc<[Term]>),
}

/// A number, and the power of ten that it is multiplied with.
type Term = (BigInt, i32);

const BAD_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BAD_SUFFIX: &str = "unable to parse quantity's suffix";
const BAD_NUMBER: &str = "unable to parse numeric part of quantity";
const NOT_AN_INTEGER: &str = "cannot convert value to integer";

/// The finest unit, as a power of ten.
const NANO: i32 = -9;
/// Decimal digits that always fit in 64 bits.
const SMALL_DIGITS_MAX: i64 = 18;
/// The largest amount with a binary suffix.
const BINARY_MAX: i64 = i64::MAX;
/// The largest distance, in powers of ten, between two amounts that become one number when they are added.
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
            Amount::Large { .. } | Amount::Apart(_) => None,
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
            // It has more digits than any double.
            Amount::Apart(_) => (f64::INFINITY * self.sign() as f64, 0),
        };
        if power == 0 { number } else { number * ten_to(power) }
    }

    /// `sign(q)`: -1, 0 or 1.
    pub fn sign(&self) -> i64 {
        match &self.amount {
            Amount::Small { number, .. } => number.signum(),
            Amount::Large { number, .. } => sign_of(number),
            Amount::Apart(terms) => terms.last().map_or(0, |(number, _)| sign_of(number)),
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
        Ok(self.add_terms(other.terms()))
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
        Ok(self.add_terms(negated(other.terms())))
    }

    fn add_terms(&self, more: Vec<Term>) -> Quantity {
        let mut terms = self.terms();
        terms.extend(more);
        let mut terms = sum(terms, POWERS_APART_MAX);
        Quantity::computed(match terms.len() {
            0 => Amount::Large { number: BigInt::ZERO, power: 0 },
            1 => {
                let (number, power) = terms.remove(0);
                Amount::Large { number, power }
            }
            _ => Amount::Apart(terms.into()),
        })
    }

    fn computed(amount: Amount) -> Quantity {
        Quantity { amount, is_computed: true }
    }

    fn terms(&self) -> Vec<Term> {
        match &self.amount {
            Amount::Small { number, power } => vec![(BigInt::from(*number), *power)],
            Amount::Large { number, power } => vec![(number.clone(), *power)],
            Amount::Apart(terms) => terms.to_vec(),
        }
    }

    /// `q.compareTo(other)`, by amount.
    pub fn compare(&self, other: &Quantity) -> Ordering {
        let sign = self.sign();
        if sign != other.sign() || sign == 0 {
            return sign.cmp(&other.sign());
        }
        let mut difference = self.terms();
        difference.extend(negated(other.terms()));
        // Terms that cannot change the sign need not be added.
        match sum(difference, 0).last() {
            Some((number, _)) => sign_of(number).cmp(&0),
            None => Ordering::Equal,
        }
    }
}

fn sign_of(number: &BigInt) -> i64 {
    match number.sign() {
        Sign::Minus => -1,
        Sign::NoSign => 0,
        Sign::Plus => 1,
    }
}

fn negated(mut terms: Vec<Term>) -> Vec<Term> {
    terms.iter_mut().for_each(|(number, _)| *number = -std::mem::take(number));
    terms
}

/// Adds terms that are no more than so many powers of ten apart, or overlap, and leaves the rest apart. The highest
/// term has the sign of the sum.
fn sum(mut terms: Vec<Term>, powers_apart_max: u32) -> Vec<Term> {
    terms.sort_by_key(|(_, power)| *power);
    let mut sums: Vec<Term> = Vec::with_capacity(terms.len());
    for (number, power) in terms {
        if number.sign() == Sign::NoSign {
            continue;
        }
        match sums.last_mut() {
            Some((lower, lower_power))
                if power.abs_diff(*lower_power) <= powers_apart_max
                    || may_reach(lower, power.abs_diff(*lower_power)) =>
            {
                *lower += number * BigInt::from(10).pow(power.abs_diff(*lower_power));
                if lower.sign() == Sign::NoSign {
                    sums.pop();
                }
            }
            _ => sums.push((number, power)),
        }
    }
    sums
}

/// Whether a number may have more than so many digits.
fn may_reach(number: &BigInt, places: u32) -> bool {
    // A digit has more than three bits.
    number.bits() / 3 >= u64::from(places)
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

/// The parts of the text of a quantity.
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

/// The factor of a suffix, as a power of ten or of two.
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
    Ok(match amount.amount {
        Amount::Large { number, power } => sign_large(number, power, parts.negative),
        other => other,
    })
}

fn sign_large(number: BigInt, power: i32, negative: bool) -> Amount {
    Amount::Large { number: if negative { -number } else { number }, power }
}

/// Kubernetes writes every large amount in nanos, or finer ones rounded up.
fn round_to_nano(number: BigInt, power: i32) -> (BigInt, i32) {
    if power >= NANO {
        let places = power.abs_diff(NANO);
        if places > POWERS_APART_MAX {
            return (number, power);
        }
        return (number * BigInt::from(10).pow(places), NANO);
    }
    let places = power.abs_diff(NANO);
    if places as usize > number.magnitude().to_string().len() {
        return (BigInt::from(1), NANO);
    }
    let unit = BigInt::from(10).pow(places);
    let (whole, rest) = (&number / &unit, &number % &unit);
    (if rest.sign() == Sign::NoSign { whole } else { whole + 1 }, NANO)
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
        for (amount, less) in [("1e2000000", "1"), ("1e2147483647", "1n"), ("1e20000", "1e9999")] {
            let (amount, less) = (quantity(amount), quantity(less));
            let more = amount.add(&less).unwrap();
            assert_eq!((more.compare(&amount), more.sign()), (Ordering::Greater, 1));
            assert_eq!((more.is_integer(), more.as_approximate_float()), (false, f64::INFINITY));
            assert_eq!(more.sub(&less), Ok(amount.clone()));
            assert_eq!(more.sub(&amount), Ok(less.clone()));
            assert_eq!(less.sub(&more).unwrap().sign(), -1);
        }
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
