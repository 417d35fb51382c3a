//! Texts that clients know from Go's standard library: quoted strings and number parsing errors.

use std::fmt;

/// Shows a string as Go's `strconv.Quote` does: double quotes, and escapes for what is not printable.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                c if is_printable(c) => fmt::Write::write_char(f, c)?,
                c if c < ' ' || c == '\x7f' => write!(f, "\\x{:02x}", u32::from(c))?,
                c if c <= '\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_str("\"")
    }
}

/// Rust escapes what is not printable when it shows a string for debugging, as Go does when it quotes one.
/// A combining mark is printable behind another character, hence the letter before it.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'x'; 5];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..length]).expect("a letter and an encoded character");
    c == '\'' || text.escape_debug().count() == 2
}

/// The reason why Go's `strconv` could not read an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberFault {
    Syntax,
    Range,
}

impl fmt::Display for NumberFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumberFault::Syntax => "invalid syntax",
            NumberFault::Range => "value out of range",
        })
    }
}

/// `strconv.ParseUint(text, 10, 64)`: digits only, so no sign; leading zeros are read.
pub(crate) fn parse_u64(text: &str) -> Result<u64, NumberFault> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::Syntax);
    }
    text.parse().map_err(|_| NumberFault::Range)
}

/// `strconv.ParseInt(text, 10, 64)`: an optional sign, then digits.
pub(crate) fn parse_i64(text: &str) -> Result<i64, NumberFault> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::Syntax);
    }
    text.parse().map_err(|_| NumberFault::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("", r#""""#),
            ("abc", r#""abc""#),
            (r#"say "a\b" 'c'"#, r#""say \"a\\b\" 'c'""#),
            ("\n\t\r\x07\x08\x0c\x0b", r#""\n\t\r\a\b\f\v""#),
            ("\0\x1f\x7f", r#""\x00\x1f\x7f""#),
            ("é 語 e\u{301} 🦀", "\"é 語 e\u{301} 🦀\""),
            ("\u{80}\u{a0}\u{200b}\u{e000}\u{e0001}", r#""\u0080\u00a0\u200b\ue000\U000e0001""#),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }

    #[test]
    fn integers_are_read_as_go_reads_them() {
        use NumberFault::{Range, Syntax};
        for (text, unsigned, signed) in [
            ("0", Ok(0), Ok(0)),
            ("007", Ok(7), Ok(7)),
            ("-1", Err(Syntax), Ok(-1)),
            ("+1", Err(Syntax), Ok(1)),
            ("", Err(Syntax), Err(Syntax)),
            ("-", Err(Syntax), Err(Syntax)),
            ("+-1", Err(Syntax), Err(Syntax)),
            ("1_0", Err(Syntax), Err(Syntax)),
            (" 1", Err(Syntax), Err(Syntax)),
            ("1.5", Err(Syntax), Err(Syntax)),
            ("9223372036854775808", Ok(1 << 63), Err(Range)),
            ("18446744073709551616", Err(Range), Err(Range)),
            ("-9223372036854775808", Err(Syntax), Ok(i64::MIN)),
        ] {
            assert_eq!(parse_u64(text), unsigned, "{text:?} unsigned");
            assert_eq!(parse_i64(text), signed, "{text:?} signed");
        }
    }
}
