//! Texts of a server, made safe for a terminal.
//!
//! Kept true by [`plain`]: a text of a server stays on its line, and cannot move the cursor, change colours or turn
//! the direction of writing.

use jiff::Timestamp;
use std::time::Duration;

pub(super) use keepwatch_bench::report::text::{clipped, columns, plain};

/// A text in a column of this width, which it may not fill.
pub(super) fn padded(text: &str, width: usize) -> String {
    let text = clipped(text, width);
    let missing = width - columns(&text).min(width);
    format!("{text}{}", " ".repeat(missing))
}

/// Now, to the second.
pub(super) fn time() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The time since another, in kubectl's format: the longer, the less exact.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let both = |large: i64, unit: char, small: i64, other: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{other}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => both(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => both(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => both(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => both(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// As `0.8 s` or `12 s`.
pub(super) fn seconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        short if short < 9.95 => format!("{short:.1} s"),
        long => format!("{long:.0} s"),
    }
}

/// An error, in one line: the first line of those that have several, without the numbers of the operating system.
pub(crate) fn one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default().trim();
    plain(line.split(" (os error ").next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        for (text, expected) in [
            ("web-0", "web-0"),
            ("größe 大", "größe 大"),
            ("a\x1b[2Jb", "a\u{fffd}[2Jb"),
            ("a\nb\r\tc\x7f", "a\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("a\u{202e}b", "a\u{fffd}b"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn cells_that_do_not_fit_are_cut_at_the_end() {
        for (text, width, expected) in [
            ("web", 3, "web"),
            ("web-0", 3, "we…"),
            ("大大", 3, "大…"),
            ("大大", 4, "大大"),
            ("a", 0, ""),
            ("ab", 1, "…"),
        ] {
            assert_eq!(clipped(text, width), expected, "{text} {width}");
        }
        assert_eq!(padded("大", 4), "大  ");
        assert_eq!(padded("web-0", 3), "we…");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let ago = |seconds: i64| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (3_599, "59m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (8_640_000, "100d"),
            (2 * 31_536_000 + 86_400, "2y1d"),
            (10 * 31_536_000, "10y"),
        ] {
            assert_eq!(ago(seconds), expected, "{seconds}");
        }
    }
}
