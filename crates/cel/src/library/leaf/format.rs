//! The clauses of `'…'.format([…])`, and how numbers look in them.
//!
//! Numbers look as the locale en_US has them: thousands in groups for `%f`, powers of ten in superscript for `%e`.

/// The conversion of an argument that a clause demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `%s`
    String,
    /// `%d`
    Decimal,
    /// `%f`, `%.2f`
    Fixed(Option<i64>),
    /// `%e`, `%.2e`
    Scientific(Option<i64>),
    /// `%b`
    Binary,
    /// `%x`
    HexLower,
    /// `%X`
    HexUpper,
    /// `%o`
    Octal,
}

impl Clause {
    /// The error for an argument of a type that the clause is not for.
    pub fn type_error(self, found: &str) -> String {
        let rule = match self {
            Clause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::HexLower | Clause::HexUpper => {
                "only integers, byte buffers, and strings can be formatted as hex"
            }
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("{rule}, was given {found}")
    }
}

/// Replaces every clause with the text that `write` returns for the argument at its index.
///
/// A missing argument is reported before an incomplete clause.
pub fn format(
    text: &str,
    arguments: usize,
    write: impl FnMut(usize, Clause) -> Result<String, String>,
) -> Result<String, String> {
    replace_clauses(text, arguments, true, write)
}

/// Checks a format that is written down: as [`format()`], but its end is looked at before the number of arguments.
pub fn check(
    text: &str,
    arguments: usize,
    mut takes: impl FnMut(usize, Clause) -> Result<(), String>,
) -> Result<(), String> {
    replace_clauses(text, arguments, false, |index, clause| takes(index, clause).map(|()| String::new()))
        .map(|_| ())
}

fn replace_clauses(
    text: &str,
    arguments: usize,
    arguments_first: bool,
    mut write: impl FnMut(usize, Clause) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut index = 0;
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        if index >= arguments && (arguments_first || !rest.is_empty()) {
            return Err(format!("index {index} out of range"));
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, behind) =
            parse_clause(rest).map_err(|error| format!("could not parse formatting clause: {error}"))?;
        out.push_str(&write(index, clause).map_err(|error| format!("error during formatting: {error}"))?);
        rest = behind;
        index += 1;
    }
    out.push_str(rest);
    Ok(out)
}

/// The clause behind a percent sign, and the text behind it.
fn parse_clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let (precision, rest) =
                parse_precision(rest).map_err(|error| format!("error while parsing precision: {error}"))?;
            (Some(precision), rest)
        }
    };
    let letter = rest.bytes().next().unwrap_or_default();
    let clause = match letter {
        b's' => Clause::String,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(precision),
        b'e' => Clause::Scientific(precision),
        b'b' => Clause::Binary,
        b'x' => Clause::HexLower,
        b'X' => Clause::HexUpper,
        b'o' => Clause::Octal,
        // One byte, shown as the character of that number.
        other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
    };
    Ok((clause, &rest[1..]))
}

fn parse_precision(text: &str) -> Result<(i64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or("could not find end of precision specifier")?;
    let precision = super::number::atoi(&text[..end])
        .map_err(|error| format!("error while converting precision to integer: {error}"))?;
    Ok((precision, &text[end..]))
}

/// Digits behind the point if a clause has no precision.
const DEFAULT_PRECISION: i64 = 6;
/// A precision that is more than ten times as large is not understood.
const PRECISION_MAX: i64 = 1_000_000;
const NOT_UNDERSTOOD: &str = "%!(NOVERB)";

/// `%f`: digits in groups of three, half to even.
///
/// Kubernetes keeps 16 bits of the precision as the most digits behind the point and 8 bits as the fewest.
pub fn fixed(number: f64, precision: Option<i64>) -> String {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    if precision / 10 > PRECISION_MAX {
        return NOT_UNDERSTOOD.to_owned();
    }
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    // Zero has no sign.
    let number = if number == 0.0 { 0.0 } else { number };
    let digits = match usize::try_from(precision as i16) {
        Ok(most) => format!("{number:.most$}"),
        Err(_) => format!("{number}"),
    };
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fewest = usize::from(precision as u8);
    let significant = fraction.trim_end_matches('0').len();
    let fraction = &fraction[..fraction.len().min(fewest.max(significant))];
    let mut text = String::from(sign);
    for (index, digit) in whole.bytes().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(char::from(digit));
    }
    if !fraction.is_empty() || fewest > 0 {
        text.push('.');
        text.push_str(&format!("{fraction:0<fewest$}"));
    }
    text
}

/// `%e`: one digit, the point, six digits, and the power of ten. What is called the precision is the fewest characters,
/// of which Kubernetes keeps 16 bits.
pub fn scientific(number: f64, precision: Option<i64>) -> String {
    let width = precision.unwrap_or(DEFAULT_PRECISION);
    if width / 10 > PRECISION_MAX {
        return NOT_UNDERSTOOD.to_owned();
    }
    let text = match not_finite(number) {
        Some(text) => text.to_owned(),
        None => scientific_digits(if number == 0.0 { 0.0 } else { number }),
    };
    format!("{text:>width$}", width = usize::from(width as u16))
}

fn scientific_digits(number: f64) -> String {
    let text = format!("{number:.6e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(("", power), |power| ("⁻", power));
    let raised: String =
        format!("{power:0>2}").bytes().map(|digit| SUPERSCRIPTS[usize::from(digit - b'0')]).collect();
    format!("{digits}×10{sign}{raised}")
}

const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

fn not_finite(number: f64) -> Option<&'static str> {
    Some(match number {
        number if number.is_nan() => "NaN",
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "-∞",
        _ => return None,
    })
}

/// `%x` of text or bytes.
pub fn hex_of_bytes(bytes: &[u8], upper: bool) -> String {
    bytes.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
}

/// `%b`, `%o`, `%x` or `%X` of an integer; negative ones have a sign.
pub fn integer(number: i128, clause: Clause) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let amount = number.unsigned_abs();
    match clause {
        Clause::Binary => format!("{sign}{amount:b}"),
        Clause::Octal => format!("{sign}{amount:o}"),
        Clause::HexLower => format!("{sign}{amount:x}"),
        Clause::HexUpper => format!("{sign}{amount:X}"),
        _ => format!("{sign}{amount}"),
    }
}

/// A double inside a list or map of `%s`: six digits behind the point, and quotes around numbers that are not finite.
pub fn nested_double(number: f64) -> String {
    if number.is_finite() {
        return format!("{number:.6}");
    }
    format!("\"{}\"", super::number::double_text(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, arguments: usize) -> Result<String, String> {
        format(text, arguments, |index, clause| Ok(format!("<{index} {clause:?}>")))
    }

    #[test]
    fn clauses_are_replaced_in_order() {
        assert_eq!(parse("é%s%%%.2f€", 2).unwrap(), "é<0 String>%<1 Fixed(Some(2))>€");
        assert_eq!(
            parse("%d%e%b%x%X%o%.1s", 7).unwrap(),
            "<0 Decimal><1 Scientific(None)><2 Binary><3 HexLower><4 HexUpper><5 Octal><6 String>"
        );
    }

    #[test]
    fn what_is_no_clause_is_an_error() {
        let clause = "could not parse formatting clause: ";
        let precision = "could not parse formatting clause: error while parsing precision: ";
        let convert = "error while converting precision to integer: strconv.Atoi: parsing";
        for (text, arguments, error) in [
            ("%s", 0, "index 0 out of range".to_owned()),
            ("%s %s", 1, "index 1 out of range".to_owned()),
            ("%", 0, "index 0 out of range".to_owned()),
            ("%", 1, "unexpected end of string".to_owned()),
            ("%q", 1, format!("{clause}unrecognized formatting clause \"q\"")),
            ("%é", 1, format!("{clause}unrecognized formatting clause \"Ã\"")),
            ("%.2", 1, format!("{precision}could not find end of precision specifier")),
            ("%.f", 1, format!("{precision}{convert} \"\": invalid syntax")),
            (
                "%.99999999999999999999f",
                1,
                format!("{precision}{convert} \"99999999999999999999\": value out of range"),
            ),
        ] {
            assert_eq!(parse(text, arguments).unwrap_err(), error, "{text}");
        }
        assert_eq!(check("%", 0, |_, _| Ok(())).unwrap_err(), "unexpected end of string");
        assert_eq!(check("%s", 0, |_, _| Ok(())).unwrap_err(), "index 0 out of range");
        let error = format("%d", 1, |_, clause| Err(clause.type_error("string"))).unwrap_err();
        assert_eq!(
            error,
            "error during formatting: decimal clause can only be used on integers, was given string"
        );
    }

    #[test]
    fn fixed_numbers_have_groups_and_round_half_to_even() {
        for (number, precision, text) in [
            (1234.5, None, "1,234.500000"),
            (-1_234_567.891_5, Some(3), "-1,234,567.891"),
            (2.675, Some(2), "2.67"),
            (0.25, Some(1), "0.2"),
            (0.5, Some(0), "0"),
            (2.5, Some(0), "2"),
            (999.5, Some(0), "1,000"),
            (-0.4, Some(0), "-0"),
            (-0.0, None, "0.000000"),
            (-0.000_000_1, None, "-0.000000"),
            (0.1, Some(20), "0.10000000000000000555"),
            (1.5, Some(256), "1.5"),
            (0.1, Some(257), "0.1000000000000000055511151231257827021181583404541015625"),
            (1.55, Some(32_768), "1.55"),
            (1.55, Some(65_537), "1.6"),
            (1.5, Some(10_000_010), "%!(NOVERB)"),
            (f64::NAN, None, "NaN"),
            (f64::NEG_INFINITY, None, "-∞"),
        ] {
            assert_eq!(fixed(number, precision), text);
        }
        assert_eq!((fixed(1.5, Some(300)).len(), fixed(5e-324, Some(1075)).len()), (46, 1076));
    }

    #[test]
    fn scientific_numbers_are_as_wide_as_the_precision() {
        for (number, precision, text) in [
            (1.5, None, "1.500000×10⁰⁰"),
            (123_456.789, Some(2), "1.234568×10⁰⁵"),
            (1.55, Some(20), "       1.550000×10⁰⁰"),
            (-1.5e-300, None, "-1.500000×10⁻³⁰⁰"),
            (9.999_999_9e100, None, "1.000000×10¹⁰¹"),
            (-0.0, None, "0.000000×10⁰⁰"),
            (f64::NAN, None, "   NaN"),
            (f64::NEG_INFINITY, None, "    -∞"),
            (1.5, Some(65_536), "1.500000×10⁰⁰"),
        ] {
            assert_eq!(scientific(number, precision), text);
        }
    }

    #[test]
    fn integers_have_a_sign_in_every_base() {
        assert_eq!(integer(-255, Clause::HexLower), "-ff");
        assert_eq!(integer(-8, Clause::Octal), "-10");
        assert_eq!(integer(i128::from(u64::MAX), Clause::HexUpper), "FFFFFFFFFFFFFFFF");
        assert_eq!(
            (hex_of_bytes(b"\xff\0a", false), hex_of_bytes("é".as_bytes(), true)),
            ("ff0061".into(), "C3A9".into())
        );
        assert_eq!(
            (nested_double(-0.0), nested_double(f64::INFINITY)),
            ("-0.000000".into(), "\"+Inf\"".into())
        );
    }
}
