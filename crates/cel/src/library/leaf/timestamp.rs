//! Points in time as Go reads and writes them (RFC 3339), their fields and their arithmetic.
//!
//! Kept true: a [`Timestamp`] made here lies in the years 1 to 9999 of UTC. Its local year may be 0 or 10000.

use jiff::{Timestamp as Instant, tz::TimeZone};

use crate::value::Timestamp;

/// 0001-01-01T00:00:00Z in seconds since 1970.
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z in seconds since 1970.
const SECONDS_MAX: i64 = 253_402_300_799;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const OVERFLOW: &str = "timestamp overflow";
const INTEGER_OVERFLOW: &str = "integer overflow";

/// Reads RFC 3339 as Go does, which is a little more: an hour of one digit, a comma before the fraction, and offsets
/// up to 24:60. `None` when it is not a time, an error when it is out of range.
pub fn parse(text: &str) -> Option<Result<Timestamp, String>> {
    let time = parse_any_year(text, true)?;
    Some(in_range(time.seconds, time.nanos, time.offset_seconds))
}

/// The same with years that are out of range, and with no offset unless one is required.
pub(super) fn parse_any_year(text: &str, offset_is_required: bool) -> Option<Timestamp> {
    let mut input = Input(text.as_bytes());
    let (year, month, day) = input.date()?;
    input.literal(b'T')?;
    let hour = input.hour()?;
    input.literal(b':')?;
    let minute = input.digits(2)?;
    input.literal(b':')?;
    let second = input.digits(2)?;
    let nanos = input.fraction();
    let offset = if input.0.is_empty() && !offset_is_required { 0 } else { input.offset()? };
    if hour > 23 || minute > 59 || second > 59 || !input.0.is_empty() {
        return None;
    }
    let seconds =
        days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second - offset;
    Some(Timestamp { seconds, nanos, offset_seconds: offset as i32 })
}

/// Reads `2006-01-02`, and nothing else.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let mut input = Input(text.as_bytes());
    let (year, month, day) = input.date()?;
    if !input.0.is_empty() {
        return None;
    }
    Some(Timestamp {
        seconds: days_from_civil(year, month, day) * SECONDS_PER_DAY,
        nanos: 0,
        offset_seconds: 0,
    })
}

/// The point in time so many seconds after 1970.
pub fn from_unix(seconds: i64) -> Result<Timestamp, String> {
    in_range(seconds, 0, 0)
}

fn in_range(seconds: i64, nanos: u32, offset_seconds: i32) -> Result<Timestamp, String> {
    if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
        return Err(OVERFLOW.to_owned());
    }
    Ok(Timestamp { seconds, nanos, offset_seconds })
}

/// The text that is not yet read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn literal(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then_some(())?;
        self.0 = rest;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.0.get(..count).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        self.0 = &self.0[count..];
        Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn hour(&mut self) -> Option<i64> {
        self.digits(2).or_else(|| self.digits(1))
    }

    fn date(&mut self) -> Option<(i64, i64, i64)> {
        let year = self.digits(4)?;
        self.literal(b'-')?;
        let month = self.digits(2)?;
        self.literal(b'-')?;
        let day = self.digits(2)?;
        let valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        valid.then_some((year, month, day))
    }

    fn fraction(&mut self) -> u32 {
        let [b'.' | b',', rest @ ..] = self.0 else { return 0 };
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        let nanos = (0..9).fold(0, |nanos, place| {
            nanos * 10 + rest[..count].get(place).map_or(0, |digit| u32::from(digit - b'0'))
        });
        self.0 = &rest[count..];
        nanos
    }

    /// Seconds ahead of UTC.
    fn offset(&mut self) -> Option<i64> {
        if self.literal(b'Z').is_some() {
            return Some(0);
        }
        let sign = if self.literal(b'-').is_some() {
            -1
        } else {
            self.literal(b'+')?;
            1
        };
        let hours = self.digits(2)?;
        self.literal(b':')?;
        let minutes = self.digits(2)?;
        (hours <= 24 && minutes <= 60).then_some(sign * (hours * 60 + minutes) * 60)
    }
}

/// `string(timestamp)`: with its offset, and no zeros at the end of the fraction.
pub fn text(time: Timestamp) -> String {
    let local = Local::new(time, i64::from(time.offset_seconds));
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        local.year,
        local.month,
        local.day,
        local.hour(),
        local.minute(),
        local.second()
    );
    if time.nanos != 0 {
        let fraction = format!(".{:09}", time.nanos);
        text.push_str(fraction.trim_end_matches('0'));
    }
    let minutes = time.offset_seconds / 60;
    if time.offset_seconds == 0 {
        text.push('Z');
    } else {
        let sign = if minutes < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60));
    }
    text
}

/// A point in time as Go prints it: `2006-01-02 15:04:05.5 +0100 +0100`.
pub fn go_text(time: Timestamp) -> String {
    let text = text(time);
    // The end of the text is either a letter or an offset of six characters.
    let (local, zone) = match text.strip_suffix('Z') {
        Some(local) => (local, "+0000 UTC".to_owned()),
        None => {
            let (local, offset) = text.split_at(text.len().saturating_sub("+00:00".len()));
            let offset = offset.replace(':', "");
            (local, format!("{offset} {offset}"))
        }
    };
    format!("{} {zone}", local.replacen('T', " ", 1))
}

/// `time + duration`.
pub fn add(time: Timestamp, nanos: i64) -> Result<Timestamp, String> {
    let total = i64::from(time.nanos) + nanos % NANOS_PER_SECOND;
    let seconds = time.seconds + nanos / NANOS_PER_SECOND + total.div_euclid(NANOS_PER_SECOND);
    in_range(seconds, total.rem_euclid(NANOS_PER_SECOND) as u32, time.offset_seconds)
}

/// `time - duration`.
pub fn subtract(time: Timestamp, nanos: i64) -> Result<Timestamp, String> {
    add(time, nanos.checked_neg().ok_or(INTEGER_OVERFLOW)?)
}

/// The nanoseconds from `earlier` to `later`.
pub fn difference(later: Timestamp, earlier: Timestamp) -> Result<i64, String> {
    (later.seconds - earlier.seconds)
        .checked_mul(NANOS_PER_SECOND)
        .and_then(|nanos| nanos.checked_add(i64::from(later.nanos) - i64::from(earlier.nanos)))
        .ok_or_else(|| INTEGER_OVERFLOW.to_owned())
}

/// A field of a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `getFullYear`.
    FullYear,
    /// `getMonth`: January is 0.
    Month,
    /// `getDate`: the first of the month is 1.
    Date,
    /// `getDayOfMonth`: the first of the month is 0.
    DayOfMonth,
    /// `getDayOfYear`: the first of January is 0.
    DayOfYear,
    /// `getDayOfWeek`: Sunday is 0.
    DayOfWeek,
    /// `getHours`.
    Hours,
    /// `getMinutes`.
    Minutes,
    /// `getSeconds`.
    Seconds,
    /// `getMilliseconds`.
    Milliseconds,
}

impl Field {
    /// The field that the function of this name reads.
    pub fn of_function(name: &str) -> Option<Field> {
        Some(match name {
            "getFullYear" => Field::FullYear,
            "getMonth" => Field::Month,
            "getDate" => Field::Date,
            "getDayOfMonth" => Field::DayOfMonth,
            "getDayOfYear" => Field::DayOfYear,
            "getDayOfWeek" => Field::DayOfWeek,
            "getHours" => Field::Hours,
            "getMinutes" => Field::Minutes,
            "getSeconds" => Field::Seconds,
            "getMilliseconds" => Field::Milliseconds,
            _ => return None,
        })
    }
}

/// The field in UTC.
pub fn field(time: Timestamp, field: Field) -> i64 {
    Local::new(time, 0).field(field, time.nanos)
}

/// The field in a zone: `±HH:MM`, or a name of the time zone database.
pub fn field_in_zone(time: Timestamp, field: Field, zone: &str) -> Result<i64, String> {
    Ok(Local::new(time, offset_in_zone(time, zone)?).field(field, time.nanos))
}

/// The zone's offset from UTC at that time, in seconds; positive if it is ahead of UTC.
fn offset_in_zone(time: Timestamp, zone: &str) -> Result<i64, String> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return named_offset(time, zone);
    };
    let hours = super::number::atoi(hours)?;
    let minutes = super::number::atoi(minutes)?;
    let whole = hours.wrapping_mul(60);
    let total = if zone.starts_with('-') { whole.wrapping_sub(minutes) } else { whole.wrapping_add(minutes) };
    // Go counts the offset in nanoseconds, of which only 64 bits remain.
    Ok(total.wrapping_mul(60 * NANOS_PER_SECOND) / NANOS_PER_SECOND)
}

fn named_offset(time: Timestamp, name: &str) -> Result<i64, String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let unknown = || format!("unknown time zone {name}");
    let zone = TimeZone::get(name).map_err(|_| unknown())?;
    // Names are matched exactly.
    if zone.iana_name() != Some(name) {
        return Err(unknown());
    }
    // The last day of the year 9999 is beyond the range of the crate; no offset changes on it.
    let seconds = time.seconds.clamp(Instant::MIN.as_second(), Instant::MAX.as_second());
    let instant = Instant::new(seconds, 0).map_err(|_| unknown())?;
    Ok(i64::from(zone.to_offset(instant).seconds()))
}

/// A date and a time of day somewhere.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    days: i64,
    second_of_day: i64,
}

impl Local {
    fn new(time: Timestamp, offset: i64) -> Local {
        let seconds = time.seconds + offset;
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Local { year, month, day, days, second_of_day: seconds.rem_euclid(SECONDS_PER_DAY) }
    }

    fn hour(&self) -> i64 {
        self.second_of_day / 3_600
    }

    fn minute(&self) -> i64 {
        self.second_of_day / 60 % 60
    }

    fn second(&self) -> i64 {
        self.second_of_day % 60
    }

    fn field(&self, field: Field, nanos: u32) -> i64 {
        match field {
            Field::FullYear => self.year,
            Field::Month => self.month - 1,
            Field::Date => self.day,
            Field::DayOfMonth => self.day - 1,
            Field::DayOfYear => self.days - days_from_civil(self.year, 1, 1),
            // The first of January 1970 was a Thursday.
            Field::DayOfWeek => (self.days + 4).rem_euclid(7),
            Field::Hours => self.hour(),
            Field::Minutes => self.minute(),
            Field::Seconds => self.second(),
            Field::Milliseconds => i64::from(nanos / 1_000_000),
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the 400 years after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from the first of March of year 0 to 1970.
const EPOCH_DAYS: i64 = 719_468;

/// Days since 1970. The year is counted from March, so that a leap day is its last day.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_DAYS
}

/// Year, month and day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        parse(text).unwrap().unwrap()
    }

    #[test]
    fn times_are_read_and_written_as_go_does() {
        for (read, written) in [
            ("2023-01-02T03:04:05Z", "2023-01-02T03:04:05Z"),
            ("2023-01-02T03:04:05+01:00", "2023-01-02T03:04:05+01:00"),
            ("2023-01-02T03:04:05-00:00", "2023-01-02T03:04:05Z"),
            ("2023-01-02T3:04:05Z", "2023-01-02T03:04:05Z"),
            ("2023-01-02T03:04:05,50Z", "2023-01-02T03:04:05.5Z"),
            ("2023-01-02T03:04:05.1234567891Z", "2023-01-02T03:04:05.123456789Z"),
            ("2023-01-02T03:04:05+24:60", "2023-01-02T03:04:05+25:00"),
            ("0001-01-01T00:00:00-01:00", "0001-01-01T00:00:00-01:00"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(text(at(read)), written);
        }
        for refused in [
            "",
            "2023",
            "2023-01-02",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01t00:00:00Z",
            "2023-01-01T00:00:00z",
            "2023-01-01T00:00:00.Z",
            "2023-01-01T00:00:60Z",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:00:00+25:00",
            "2023-01-01T00:00:00Z ",
            "10000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(refused), None, "{refused}");
        }
        for overflow in ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"] {
            assert_eq!(parse(overflow), Some(Err("timestamp overflow".to_owned())), "{overflow}");
        }
        assert_eq!(from_unix(253_402_300_800).unwrap_err(), "timestamp overflow");
    }

    #[test]
    fn go_prints_times_with_the_offset_as_the_name_of_the_zone() {
        assert_eq!(go_text(at("2023-01-02T03:04:05Z")), "2023-01-02 03:04:05 +0000 UTC");
        assert_eq!(go_text(at("2023-01-02T03:04:05.5-01:30")), "2023-01-02 03:04:05.5 -0130 -0130");
    }

    #[test]
    fn fields_are_those_of_the_zone() {
        use Field::{
            Date, DayOfMonth, DayOfWeek, DayOfYear, FullYear, Hours, Milliseconds, Minutes, Month, Seconds,
        };
        let time = at("2023-01-02T03:04:05.678Z");
        for (name, value) in [
            (FullYear, 2023),
            (Month, 0),
            (Date, 2),
            (DayOfMonth, 1),
            (DayOfYear, 1),
            (DayOfWeek, 1),
            (Hours, 3),
            (Minutes, 4),
            (Seconds, 5),
            (Milliseconds, 678),
        ] {
            assert_eq!(field(time, name), value, "{name:?}");
        }
        for (zone, hours) in [
            ("", 3),
            ("UTC", 3),
            ("Local", 3),
            ("+02:00", 5),
            ("-3:10", 23),
            ("America/New_York", 22),
            ("EST5EDT", 22),
            ("99:99", 7),
        ] {
            assert_eq!(field_in_zone(time, Hours, zone), Ok(hours), "{zone}");
        }
        assert_eq!(field_in_zone(at("2500-07-01T00:00:00Z"), Hours, "America/New_York"), Ok(20));
        assert_eq!(field_in_zone(at("1800-01-01T00:00:00Z"), Minutes, "Europe/Berlin"), Ok(53));
        assert_eq!(field_in_zone(at("9999-12-31T23:59:59Z"), Hours, "Asia/Kolkata"), Ok(5));
        assert_eq!(field_in_zone(time, FullYear, "10000000000:99"), Ok(1768));
        for (zone, error) in [
            ("utc", "unknown time zone utc"),
            ("europe/berlin", "unknown time zone europe/berlin"),
            ("Nope/Zone", "unknown time zone Nope/Zone"),
            ("../x", "time: invalid location name"),
            ("aa:30", "strconv.Atoi: parsing \"aa\": invalid syntax"),
            (":30", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("1:2:3", "strconv.Atoi: parsing \"2:3\": invalid syntax"),
        ] {
            assert_eq!(field_in_zone(time, Hours, zone).unwrap_err(), error);
        }
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let second = 1_000_000_000;
        assert_eq!(
            text(add(at("2023-01-01T00:00:00.5+01:00"), second / 2).unwrap()),
            "2023-01-01T00:00:01+01:00"
        );
        assert_eq!(text(subtract(at("1970-01-01T00:00:00Z"), 1).unwrap()), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(add(at("9999-12-31T23:59:59Z"), second).unwrap_err(), "timestamp overflow");
        assert_eq!(subtract(at("1970-01-01T00:00:00Z"), i64::MIN).unwrap_err(), "integer overflow");
        assert_eq!(difference(at("1970-01-01T00:00:00Z"), at("1970-01-01T00:00:00.5Z")), Ok(-second / 2));
        assert_eq!(
            difference(at("2023-01-01T00:00:00Z"), at("1000-01-01T00:00:00Z")).unwrap_err(),
            "integer overflow"
        );
        assert_eq!(
            text(subtract(at("0001-01-01T00:00:00-23:59"), 3_600 * second).unwrap()),
            "0000-12-31T23:00:00-23:59"
        );
    }
}
