//! JSON that Go's parser accepts and the one here rejects.
//!
//! Go replaces invalid UTF-8 and unpaired surrogates in strings by U+FFFD, and reads `-0` as an integer. [`rewritten`]
//! returns a text that the parser here reads as Go reads the given one. Errors outside of strings remain.

use std::{borrow::Cow, str};

const REPLACEMENT: &str = "\u{fffd}";

/// The text in a form that the parser here can read; none if there is nothing to replace.
pub(super) fn rewritten(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
    let mut in_string = false;
    while let Some(&byte) = text.get(at) {
        // The length of what is here, and its replacement if there is one.
        let (length, replacement) = match byte {
            b'"' => {
                in_string = !in_string;
                (1, None)
            }
            b'\\' if in_string => escape(&text[at..]),
            b'-' if !in_string && is_negative_zero(text, at) => (2, Some("0")),
            0x80.. if in_string => match char_length(&text[at..]) {
                Some(length) => (length, None),
                None => (1, Some(REPLACEMENT)),
            },
            _ => (1, None),
        };
        if let Some(replacement) = replacement {
            out.extend_from_slice(&text[copied..at]);
            out.extend_from_slice(replacement.as_bytes());
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}

/// The text with U+FFFD for every byte that is no UTF-8, as Go writes it.
pub(crate) fn lossy(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let replaced =
        |chunk: str::Utf8Chunk<'_>| chunk.valid().to_owned() + &REPLACEMENT.repeat(chunk.invalid().len());
    Cow::Owned(text.utf8_chunks().map(replaced).collect())
}

/// The length of the character at the beginning of the text; none if it is not UTF-8.
fn char_length(text: &[u8]) -> Option<usize> {
    let valid = text[..text.len().min(4)].utf8_chunks().next()?.valid();
    valid.chars().next().map(char::len_utf8)
}

/// The length of the escape at the beginning of the text, and its replacement if there is one.
fn escape(text: &[u8]) -> (usize, Option<&'static str>) {
    match code_unit(text) {
        Some(0xd800..=0xdbff) => match code_unit(&text[6..]) {
            Some(0xdc00..=0xdfff) => (12, None),
            _ => (6, Some(REPLACEMENT)),
        },
        Some(0xdc00..=0xdfff) => (6, Some(REPLACEMENT)),
        Some(_) => (6, None),
        None => (text.len().min(2), None),
    }
}

/// The number in `\u0000`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + value(digit)?))
}

/// Whether `-0` is here, and neither in an exponent nor at the beginning of a longer number.
fn is_negative_zero(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| text[before]);
    text.get(at + 1) == Some(&b'0')
        && !matches!(before, Some(b'e' | b'E'))
        && !matches!(text.get(at + 2), Some(b'.' | b'e' | b'E' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[u8], expected: Option<&str>) {
        let rewritten = rewritten(given).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(rewritten.as_deref(), expected, "{}", lossy(given));
    }

    #[test]
    fn bytes_that_are_no_utf8_are_replaced_one_by_one_in_strings() {
        check(b"{\"a\": \"b\"}", None);
        check("{\"ä\": \"😀\"}".as_bytes(), None);
        check(b"\"x\xffy\xc3|\xe2\x82|\xed\xa0\x80\"", Some("\"x�y�|��|���\""));
        check(b"\"\\\"\xff\"", Some("\"\\\"�\""));
        check(b"{\xff}", None);
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced() {
        check(br#""\ud83d\ude00 \u0041 \\ud800""#, None);
        check(br#""\ud800""#, Some("\"�\""));
        check(br#""\udc00\ud800|""#, Some("\"��|\""));
        check(br#""\ud800\u0041""#, Some(r#""�\u0041""#));
        check(br#""\ud8"#, None);
        check(br#""\"#, None);
    }

    #[test]
    fn negative_zero_is_zero_unless_it_has_a_fraction() {
        check(b"[-0, -0.0, -0e1, 1e-0, -1, \"-0\"]", Some("[0, -0.0, -0e1, 1e-0, -1, \"-0\"]"));
        check(b"-0", Some("0"));
        check(b"[-00]", None);
    }
}
