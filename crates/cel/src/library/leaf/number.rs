//! Numbers and booleans as Go's `strconv` reads and writes them.

/// The powers of ten that are written without an exponent: from the first up to, but not including, the second.
const PLAIN_POWERS: std::ops::Range<i32> = -4..6;

/// A double as `string(1.5)` writes it: the fewest digits that read back as the same number.
pub fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if PLAIN_POWERS.contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// A double from text: decimal or hexadecimal, with underscores between digits, `inf`, `infinity` or `nan`.
/// `None` when it is none of these or does not fit.
pub fn parse_double(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        // Only without a sign.
        "nan" => return (unsigned.len() == text.len()).then_some(f64::NAN),
        _ => {}
    }
    let hexadecimal =
        unsigned.len() > 2 && unsigned.as_bytes()[0] == b'0' && unsigned.as_bytes()[1] | 32 == b'x';
    if !underscores_stand_between_digits(unsigned, hexadecimal) {
        return None;
    }
    let digits: String = unsigned.chars().filter(|c| *c != '_').collect();
    let number = if hexadecimal { parse_hexadecimal(&digits[2..])? } else { parse_decimal(&digits)? };
    number.is_finite().then_some(sign * number)
}

fn parse_decimal(text: &str) -> Option<f64> {
    // Rust reads a few words and signs as well.
    let plain = |b: u8| b.is_ascii_digit() || b".eE+-".contains(&b);
    if !text.bytes().all(plain) || text.starts_with(['+', '-']) {
        return None;
    }
    text.parse().ok()
}

/// `1.8p-3`: sixteenths, and a power of two that must be there.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let sign = if power.starts_with('-') { -1 } else { 1 };
    let mut power = sign * unsigned.parse::<i64>().unwrap_or(i64::from(i32::MAX)).min(i64::from(i32::MAX));
    let mut number: u64 = 0;
    for (digit, after_point) in
        whole.chars().map(|digit| (digit, false)).chain(fraction.chars().map(|digit| (digit, true)))
    {
        let digit = u64::from(digit.to_digit(16)?);
        if number >> 60 == 0 {
            number = number << 4 | digit;
            power -= if after_point { 4 } else { 0 };
        } else {
            // Digits that do not fit only matter for rounding.
            number |= u64::from(digit != 0);
            power += if after_point { 0 } else { 4 };
        }
    }
    Some(scale_by_two(number, power))
}

/// `number` times two to the power of `power`, rounded once, to even.
fn scale_by_two(number: u64, power: i64) -> f64 {
    const MANTISSA_BITS: i64 = 53;
    const LEAST_POWER: i64 = -1074;
    if number == 0 {
        return 0.0;
    }
    let bits = i64::from(64 - number.leading_zeros());
    let drop = (bits - MANTISSA_BITS).max(LEAST_POWER - power).max(0);
    if drop > 64 {
        return 0.0;
    }
    let kept = if drop == 64 { 0 } else { number >> drop };
    let rest = u128::from(number) & ((1u128 << drop) - 1);
    let half = if drop == 0 { u128::MAX } else { 1u128 << (drop - 1) };
    let up = rest > half || (rest == half && kept & 1 == 1);
    let mut result = (kept + u64::from(up)) as f64;
    let mut power = power + drop;
    while power > 0 && result.is_finite() {
        result *= 2.0;
        power -= 1;
    }
    while power < 0 && result != 0.0 {
        result /= 2.0;
        power += 1;
    }
    result
}

/// Go reads underscores between digits, and one behind the base.
fn underscores_stand_between_digits(text: &str, hexadecimal: bool) -> bool {
    let mut previous = b'^';
    for (index, byte) in text.bytes().enumerate() {
        let digit = byte.is_ascii_digit()
            || (hexadecimal && byte.is_ascii_hexdigit())
            || (index == 1 && text.starts_with('0') && b"bBoOxX".contains(&byte));
        let class = match byte {
            _ if digit => b'0',
            b'_' => b'_',
            _ => b'!',
        };
        if (class == b'_' && previous != b'0') || (class == b'!' && previous == b'_') {
            return false;
        }
        previous = class;
    }
    previous != b'_'
}

/// A decimal integer with an optional sign.
pub fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A decimal integer without a sign.
pub fn parse_uint(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A boolean: `1`, `t`, `true`, `0`, `f`, `false`, in small letters, in capitals, or with a capital first.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Go's `strconv.Atoi`, with its error text.
pub fn atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fault = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(number) => return Ok(number),
            Err(_) => "value out of range",
        }
    };
    Err(format!("strconv.Atoi: parsing {}: {fault}", keepwatch_apimachinery::Quoted(text)))
}

/// A double as an integer, cut toward zero.
pub fn double_to_int(number: f64) -> Result<i64, String> {
    // Both ends of the range are refused.
    if number.is_nan() || number <= i64::MIN as f64 || number >= i64::MAX as f64 {
        return Err("integer overflow".to_owned());
    }
    Ok(number as i64)
}

/// A double as an unsigned integer, cut toward zero.
pub fn double_to_uint(number: f64) -> Result<u64, String> {
    if number.is_nan() || number < 0.0 || number >= u64::MAX as f64 {
        return Err("unsigned integer overflow".to_owned());
    }
    Ok(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        for (number, text) in [
            (1.0, "1"),
            (2.5, "2.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0, "-0"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn doubles_are_read_as_go_reads_them() {
        for (text, number) in [
            ("1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1e3", Some(-1000.0)),
            ("1_000.5", Some(1000.5)),
            ("0x1p-2", Some(0.25)),
            ("0x_1.8p1", Some(3.0)),
            ("0X1P+1074", None),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", Some(0.0)),
            ("0x1.8p-1075", Some(5e-324)),
            ("Infinity", Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("1e-400", Some(0.0)),
            ("1e400", None),
            ("0x1", None),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1_e5", None),
            ("+nan", None),
            ("", None),
            ("+", None),
            (" 1", None),
            (".", None),
            ("1e", None),
            ("--1", None),
            ("0b1", None),
        ] {
            assert_eq!(parse_double(text), number, "{text:?}");
        }
        assert!(parse_double("nAn").is_some_and(f64::is_nan));
    }

    #[test]
    fn integers_and_booleans_are_read_as_go_reads_them() {
        assert_eq!((parse_int("-0"), parse_int("+5"), parse_int("1_0")), (Some(0), Some(5), None));
        assert_eq!((parse_int(""), parse_int("-"), parse_int("+-1")), (None, None, None));
        assert_eq!(parse_int("9223372036854775808"), None);
        assert_eq!((parse_uint("+5"), parse_uint("18446744073709551615")), (None, Some(u64::MAX)));
        assert_eq!(
            (parse_bool("t"), parse_bool("False"), parse_bool("tRue")),
            (Some(true), Some(false), None)
        );
        assert_eq!(atoi("x").unwrap_err(), "strconv.Atoi: parsing \"x\": invalid syntax");
        assert_eq!(atoi("99999999999999999999").unwrap_err().split(": ").last(), Some("value out of range"));
    }

    #[test]
    fn doubles_become_integers_only_within_their_range() {
        assert_eq!((double_to_int(1.9), double_to_int(-1.9)), (Ok(1), Ok(-1)));
        for number in [f64::NAN, f64::INFINITY, i64::MIN as f64, i64::MAX as f64] {
            assert_eq!(double_to_int(number).unwrap_err(), "integer overflow");
        }
        assert_eq!(double_to_uint(1e19), Ok(10_000_000_000_000_000_000));
        for number in [f64::NAN, -0.5, u64::MAX as f64] {
            assert_eq!(double_to_uint(number).unwrap_err(), "unsigned integer overflow");
        }
    }
}
