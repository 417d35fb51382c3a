//! Text of a document that a schema's format makes a time, a span of time or bytes.

use super::{duration, timestamp};
use crate::value::Timestamp;

/// Format `duration`: as Go reads a span, or whole numbers with units such as `2 days`.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    if let Some(nanos) = duration::parse(text) {
        return Ok(nanos);
    }
    let mut total: i64 = 0;
    let mut found = false;
    let mut rest = text;
    while let Some((digits, unit, behind)) = next_amount(rest) {
        let factor = super::number::atoi(digits)?;
        for nanos in UNITS.iter().filter(|(names, _)| names.matches(unit)).map(|(_, nanos)| nanos) {
            found = true;
            // As in Go, an overflow wraps around.
            total = total.wrapping_add(factor.wrapping_mul(*nanos));
        }
        rest = behind;
    }
    if found { Ok(total) } else { Err(format!("unable to parse {text} as duration")) }
}

/// The names of a unit: some are matched exactly, and the last one by how the unit begins.
struct UnitNames(&'static [&'static str], &'static str);

impl UnitNames {
    fn matches(&self, unit: &str) -> bool {
        let unit = unit.to_lowercase();
        self.0.contains(&unit.as_str()) || unit.starts_with(self.1)
    }
}

const SECOND: i64 = 1_000_000_000;
const UNITS: [(UnitNames, i64); 8] = [
    (UnitNames(&["ns"], "nano"), 1),
    (UnitNames(&["us", "µs"], "micro"), 1_000),
    (UnitNames(&["ms"], "milli"), 1_000_000),
    (UnitNames(&["s"], "sec"), SECOND),
    (UnitNames(&["m"], "min"), 60 * SECOND),
    (UnitNames(&["h", "hr"], "hour"), 3_600 * SECOND),
    (UnitNames(&["d"], "day"), 86_400 * SECOND),
    (UnitNames(&["w", "wk"], "week"), 604_800 * SECOND),
];

/// The next digits that a unit follows, that unit, and the text behind it.
fn next_amount(text: &str) -> Option<(&str, &str, &str)> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find(|c: char| c.is_ascii_digit())?..];
        let (digits, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let behind = behind.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let end = behind.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(behind.len());
        if end > 0 {
            return Some((digits, &behind[..end], &behind[end..]));
        }
        rest = behind;
    }
}

/// Format `date`.
pub fn parse_date(text: &str) -> Result<Timestamp, String> {
    timestamp::parse_date(text).ok_or_else(|| time_fault(text, "2006-01-02"))
}

/// Format `date-time`: RFC 3339, also without an offset. An empty text is the start of 1970.
pub fn parse_date_time(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Ok(Timestamp { seconds: 0, nanos: 0, offset_seconds: 0 });
    }
    timestamp::parse_any_year(text, false).ok_or_else(|| time_fault(text, "2006-01-02T15:04:05"))
}

/// Go's error for a text that does not have the layout.
fn time_fault(text: &str, layout: &str) -> String {
    let mismatch = |rest: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(text),
            quote(layout),
            quote(rest),
            quote(element)
        )
    };
    let fault = |message: &str| format!("parsing time {}: {message}", quote(text));
    let mut rest = text;
    let mut numbers = [0i64; 6];
    let elements: [(&str, &str, &str); 6] = [
        ("", "2006", "year"),
        ("-", "01", "month"),
        ("-", "02", "day"),
        ("T", "15", "hour"),
        (":", "04", "minute"),
        (":", "05", "second"),
    ];
    let count = if layout.len() > 10 { 6 } else { 3 };
    for (index, (separator, element, name)) in elements.into_iter().take(count).enumerate() {
        let Some(behind) = rest.strip_prefix(separator) else { return mismatch(rest, separator) };
        rest = behind;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let width = match name {
            "year" if digits >= 4 => 4,
            "hour" if digits == 1 => 1,
            "year" => return mismatch(rest, element),
            _ if digits >= 2 => 2,
            _ => return mismatch(rest, element),
        };
        numbers[index] = rest[..width].parse().unwrap_or_default();
        rest = &rest[width..];
        let valid = match name {
            "month" => (1..=12).contains(&numbers[index]),
            "hour" => numbers[index] < 24,
            "minute" | "second" => numbers[index] < 60,
            _ => true,
        };
        if !valid {
            return fault(&format!("{name} out of range"));
        }
    }
    if count == 6 && rest.starts_with(['.', ',']) {
        let fraction = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        rest = if fraction > 0 { &rest[1 + fraction..] } else { rest };
    }
    if !rest.is_empty() {
        return fault(&format!("extra text: {}", quote(rest)));
    }
    fault("day out of range")
}

/// Go's package time quotes in its own way: characters outside ASCII are shown as bytes.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='\x7f' => quoted.push(c),
            c => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| quoted.push_str(&format!("\\x{byte:02x}")))
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Format `byte`: base64 with the alphabet for URLs. Line breaks are skipped.
pub fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| format!("illegal base64 data at input byte {at}");
    let input: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(input.len() / 4 * 3);
    let mut group = [0u8; 4];
    let mut filled = 0;
    let mut position = 0;
    while let Some((at, byte)) = input.get(position).copied() {
        position += 1;
        if byte == b'=' {
            return end_of_bytes(&input, position, text.len(), filled, at).map_err(corrupt).map(|()| {
                let bytes = join(group);
                out.extend(&bytes[..filled - 1]);
                out
            });
        }
        group[filled] = sextet(byte).ok_or_else(|| corrupt(at))?;
        filled += 1;
        if filled == 4 {
            out.extend(join(group));
            (group, filled) = ([0; 4], 0);
        }
    }
    // Go counts line breaks inside the last group as if they were not there.
    if filled == 0 { Ok(out) } else { Err(corrupt(text.len() - filled)) }
}

/// Checks the text after the first `=`; the error is the offset of the fault.
fn end_of_bytes(
    input: &[(usize, u8)],
    behind: usize,
    length: usize,
    filled: usize,
    at: usize,
) -> Result<(), usize> {
    let mut behind = behind;
    match filled {
        0 | 1 => return Err(at),
        2 => {
            match input.get(behind) {
                None => return Err(length),
                Some((_, b'=')) => {}
                Some((next, _)) => return Err(next - 1),
            }
            behind += 1;
        }
        _ => {}
    }
    input.get(behind).map_or(Ok(()), |(next, _)| Err(*next))
}

fn join(group: [u8; 4]) -> [u8; 3] {
    let bits = group.iter().fold(0u32, |bits, six| bits << 6 | u32::from(*six));
    let [_, first, second, third] = bits.to_be_bytes();
    [first, second, third]
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_more_units_than_those_of_go() {
        for (text, nanos) in [
            ("1h", Ok(3_600 * SECOND)),
            ("2 days", Ok(172_800 * SECOND)),
            ("1d2hr", Ok(93_600 * SECOND)),
            ("1 week, 3 Minutes", Ok(604_980 * SECOND)),
            ("5 µs", Ok(5_000)),
            ("x", Err("unable to parse x as duration".to_owned())),
            ("5", Err("unable to parse 5 as duration".to_owned())),
            (
                "99999999999999999999d",
                Err("strconv.Atoi: parsing \"99999999999999999999\": value out of range".to_owned()),
            ),
        ] {
            assert_eq!(parse_duration(text), nanos);
        }
    }

    #[test]
    fn times_may_lack_an_offset() {
        for (text, seconds) in [
            ("1970-01-01T00:00:01Z", 1),
            ("1970-01-01T00:00:01", 1),
            ("1970-01-01T00:00:01.5", 1),
            ("1970-01-01T01:00:01+01:00", 1),
            ("", 0),
        ] {
            assert_eq!(parse_date_time(text).unwrap().seconds, seconds, "{text}");
        }
        assert_eq!(parse_date("1970-01-02").unwrap().seconds, 86_400);
    }

    #[test]
    fn what_is_no_time_is_an_error() {
        let date = "as \"2006-01-02\": cannot parse";
        let time = "as \"2006-01-02T15:04:05\": cannot parse";
        for (text, error) in [
            ("x", format!("parsing time \"x\" {date} \"x\" as \"2006\"")),
            ("2023-1-01", format!("parsing time \"2023-1-01\" {date} \"1-01\" as \"01\"")),
            ("2023", format!("parsing time \"2023\" {date} \"\" as \"-\"")),
            ("2023-13-01", "parsing time \"2023-13-01\": month out of range".to_owned()),
            ("2023-02-30", "parsing time \"2023-02-30\": day out of range".to_owned()),
            ("2023-02-01é", "parsing time \"2023-02-01\\xc3\\xa9\": extra text: \"\\xc3\\xa9\"".to_owned()),
        ] {
            assert_eq!(parse_date(text).unwrap_err(), error);
        }
        for (text, error) in [
            ("2023-01-01", format!("parsing time \"2023-01-01\" {time} \"\" as \"T\"")),
            ("2023-01-01T25:00:00Z", "parsing time \"2023-01-01T25:00:00Z\": hour out of range".to_owned()),
            (
                "2023-01-01T00:00:00+99:00",
                "parsing time \"2023-01-01T00:00:00+99:00\": extra text: \"+99:00\"".to_owned(),
            ),
        ] {
            assert_eq!(parse_date_time(text).unwrap_err(), error);
        }
    }

    #[test]
    fn bytes_are_base64_for_urls() {
        for (text, bytes) in [
            ("aGk=", Ok(&b"hi"[..])),
            ("aG\nk=\n", Ok(b"hi")),
            ("_-8=", Ok(b"\xff\xef")),
            ("", Ok(b"")),
            ("a+8=", Err("illegal base64 data at input byte 1")),
            ("aGk", Err("illegal base64 data at input byte 0")),
            ("aG=k", Err("illegal base64 data at input byte 2")),
            ("aG=", Err("illegal base64 data at input byte 3")),
            ("aGk=a", Err("illegal base64 data at input byte 4")),
            ("=", Err("illegal base64 data at input byte 0")),
        ] {
            assert_eq!(parse_bytes(text).as_deref(), bytes.map_err(str::to_owned).as_deref(), "{text}");
        }
    }
}
