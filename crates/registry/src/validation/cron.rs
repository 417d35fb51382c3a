//! The schedule of a CronJob: five fields or a descriptor, and a time zone.

use std::{collections::HashSet, sync::LazyLock};

/// The names of the time zones that there are.
static ZONES: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("zones.txt").lines().collect());

struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field { low: 1, high: 12, names: MONTHS },
    Field { low: 0, high: 6, names: DAYS },
];

/// The error in a schedule.
pub(crate) fn schedule(text: &str) -> Option<String> {
    if let Some(word) = text.strip_prefix('@') {
        return descriptor(text, word);
    }
    let parts: Vec<_> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let found = parts.len();
        return Some(format!("expected exactly 5 fields, found {found}: [{}]", parts.join(" ")));
    }
    let ranges = parts.iter().zip(&FIELDS).flat_map(|(part, field)| {
        part.split(',').filter(|range| !range.is_empty()).map(move |range| (range, field))
    });
    ranges.into_iter().find_map(|(text, field)| range(text, field).err())
}

fn descriptor(text: &str, word: &str) -> Option<String> {
    match word {
        "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => None,
        _ => match word.strip_prefix("every ") {
            Some(duration) if is_duration(duration) => None,
            Some(duration) => {
                Some(format!("failed to parse duration {text}: time: invalid duration \"{duration}\""))
            }
            None => Some(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// Whether Go reads the text as a duration: numbers, each with a unit, as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        if !rest[..number].contains(|c: char| c.is_ascii_digit()) || rest[..number].matches('.').count() > 1 {
            return false;
        }
        rest = &rest[number..];
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(unit) = units.iter().find(|unit| rest.starts_with(**unit)) else { return false };
        rest = &rest[unit.len()..];
    }
    true
}

fn range(text: &str, field: &Field) -> Result<(), String> {
    let (span, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [span] => (span, None),
        [span, step] => (span, Some(step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let (start, end, single) = match span.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?", ..] => (field.low, field.high, !span.contains('-')),
        [one] => {
            let number = number_or_name(one, field)?;
            (number, number, true)
        }
        [first, last] => (number_or_name(first, field)?, number_or_name(last, field)?, false),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step_size = step.map_or(Ok(1), number)?;
    let end = if step.is_some() && single { field.high } else { end };
    if start < field.low {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", field.low));
    }
    if end > field.high {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", field.high));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step_size == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    match field.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(field.low + at as u32),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| match text.parse::<i64>() {
        Ok(number) if number < 0 => format!("negative number ({number}) not allowed: {text}"),
        _ => format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"),
    })
}

/// The error in the name of a time zone.
pub(crate) fn time_zone(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    if text.eq_ignore_ascii_case("local") {
        let rule = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Some(rule.to_owned());
    }
    (!ZONES.contains(text)).then(|| format!("unknown time zone {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_five_fields_or_a_word() {
        for text in [
            "* * * * *",
            "*/5 0-23/2 1,15 jan-dec mon-fri",
            "0 0 ? * SUN",
            "5/10 * * * *",
            "@daily",
            "@every 1h30m",
        ] {
            assert_eq!(schedule(text), None, "{text}");
        }
        for (text, wrong) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(schedule(text).as_deref(), Some(wrong), "{text}");
        }
    }

    #[test]
    fn time_zones_are_known_by_name() {
        assert_eq!(time_zone("Europe/Berlin"), None);
        assert_eq!(time_zone("Etc/UTC"), None);
        assert_eq!(time_zone("Mars/Base").as_deref(), Some("unknown time zone Mars/Base"));
        assert!(time_zone("Local").is_some());
    }
}
