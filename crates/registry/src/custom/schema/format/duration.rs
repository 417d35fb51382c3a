//! Dates, times and durations, as Go and Kubernetes read them.

/// A day of the calendar, as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    if [year.len(), month.len(), day.len()] != [4, 2, 2] || !parts.iter().all(|part| super::is_digits(part)) {
        return false;
    }
    let number = |part: &str| part.parse::<u32>().unwrap_or_default();
    let (year, month, day) = (number(year), number(month), number(day));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date, a `t`, and a time with a zone. The text after a second `t` is ignored.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && is_time(time).is_some(),
        _ => false,
    }
}

/// Any character may precede the decimals.
fn is_time(text: &str) -> Option<()> {
    let (clock, rest) = text.split_at_checked(8)?;
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    let within = |part: &str, most: &str| part.len() == 2 && super::is_digits(part) && part <= most;
    if !within(hours, "23") || !within(minutes, "59") || !within(seconds, "59") {
        return None;
    }
    if is_zone(rest) {
        return Some(());
    }
    let mut behind = rest.chars();
    if behind.next()? == '\n' {
        return None;
    }
    let decimals = behind.as_str();
    let zone = decimals.trim_start_matches(|c: char| c.is_ascii_digit());
    (zone.len() < decimals.len() && is_zone(zone)).then_some(())
}

fn is_zone(text: &str) -> bool {
    if text == "z" {
        return true;
    }
    let Some(clock) = text.strip_prefix(['+', '-']) else { return false };
    let is_part = |part: &str| part.len() == 2 && super::is_digits(part);
    clock.split_once(':').is_some_and(|(hours, minutes)| is_part(hours) && is_part(minutes))
}

/// A duration of Go, or any text in which a number precedes a word that begins like a unit.
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text).is_some() || is_loose_duration(text)
}

const NANOSECONDS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The most that a duration can be, and one more for those below zero.
const NANOSECONDS_MAX: u64 = 1 << 63;

fn is_go_duration(text: &str) -> Option<()> {
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(());
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (whole, behind) = split_digits(rest);
        let (decimals, behind) = match behind.strip_prefix('.') {
            Some(behind) => split_digits(behind),
            None => ("", behind),
        };
        if whole.is_empty() && decimals.is_empty() {
            return None;
        }
        let end = behind.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let (_, nanoseconds) = NANOSECONDS.iter().find(|(name, _)| *name == unit)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut sum = whole.checked_mul(*nanoseconds)?;
        if !decimals.is_empty() {
            // Digits beyond the eighteenth are cut off, as a float would lose them.
            let digits = &decimals[..decimals.len().min(18)];
            let part = digits.parse::<u64>().ok()? as f64 / 10_f64.powi(digits.len() as i32);
            sum = sum.checked_add((part * *nanoseconds as f64) as u64)?;
        }
        total = total.checked_add(sum)?;
        if total > NANOSECONDS_MAX {
            return None;
        }
        rest = next;
    }
    (is_negative || total < NANOSECONDS_MAX).then_some(())
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The names of units. Any name that begins with the last one of a unit is accepted too.
const UNITS: [(&[&str], &str); 8] = [
    (&["ns"], "nano"),
    (&["us", "µs"], "micro"),
    (&["ms"], "milli"),
    (&["s"], "sec"),
    (&["m"], "min"),
    (&["h", "hr"], "hour"),
    (&["d"], "day"),
    (&["w", "wk"], "week"),
];

fn is_loose_duration(text: &str) -> bool {
    let mut found = false;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (digits, behind) = split_digits(&rest[at..]);
        let unit = behind.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let end = unit.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(unit.len());
        rest = behind;
        if end == 0 {
            continue;
        }
        if digits.parse::<i64>().is_err() {
            return false;
        }
        let name = unit[..end].to_lowercase();
        found |= UNITS.iter().any(|(names, last)| names.contains(&name.as_str()) || name.starts_with(last));
        rest = &unit[end..];
    }
    found
}
