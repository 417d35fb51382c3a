//! Times as objects have them: RFC 3339, in UTC, with whole seconds or with six decimals.

pub use jiff::Timestamp;

/// A time with whole seconds: `2026-01-02T03:04:05Z`.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time with microseconds: `2026-01-02T03:04:05.000006Z`.
pub fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads a time as clients send it: RFC 3339 with any offset and any number of decimals.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    // The parser is more lenient than RFC 3339: it accepts a blank for the T, and offsets with seconds.
    let bytes = text.as_bytes();
    let offset_is_short =
        bytes.ends_with(b"Z") || bytes.len().checked_sub(6).is_some_and(|at| bytes[at + 3] == b':');
    if bytes.get(10) != Some(&b'T') || bytes.get(16) != Some(&b':') || !offset_is_short {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (text, seconds, micros) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z", "2026-01-02T01:04:05.000000Z"),
            ("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z"),
        ] {
            let at = parse_time(text).unwrap();
            assert_eq!((time(at).as_str(), micro_time(at).as_str()), (seconds, micros));
        }
    }

    #[test]
    fn malformed_times_are_rejected() {
        for text in
            ["", "now", "2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
