//! The size bounds of values, from their schema and from the largest request a server takes.

/// The largest request: 3 MiB, as the API server has it.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// The two bytes around a string, an array or an object.
const BRACKETS_BYTES: u64 = 2;
/// A character takes up to so many bytes of UTF-8.
const CHARACTER_BYTES_MAX: u64 = 4;

/// A date-time or duration with its quotation marks takes at most so many bytes.
pub(super) const DATE_TIME_BYTES_MAX: u64 = 32;
/// A date with its quotation marks takes exactly so many bytes.
pub(super) const DATE_BYTES: u64 = 12;
/// The shortest date-time with its quotation marks.
pub(super) const DATE_TIME_BYTES_MIN: u64 = 21;
/// The shortest duration, `"0"`.
pub(super) const DURATION_BYTES_MIN: u64 = 3;
/// An empty string, array or object.
pub(super) const EMPTY_BYTES: u64 = 2;
/// `true`.
pub(super) const BOOL_BYTES_MIN: u64 = 4;
/// `0`.
pub(super) const NUMBER_BYTES_MIN: u64 = 1;

/// A limit as a schema has it; a negative one counts as 0.
pub(super) fn limit(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Characters of a string without a limit of its own.
pub(super) const fn string_without_limit() -> u64 {
    REQUEST_BYTES_MAX - BRACKETS_BYTES
}

/// Bytes of a string of so many characters.
pub(super) fn string(max_length: i64) -> u64 {
    limit(max_length).saturating_mul(CHARACTER_BYTES_MAX)
}

/// Items of an array without a limit of its own.
pub(super) fn items(item_bytes_min: u64) -> u64 {
    (REQUEST_BYTES_MAX - BRACKETS_BYTES) / (item_bytes_min + 1)
}

/// Entries of a map without a limit of its own: a key takes two quotation marks, a colon and a comma more.
pub(super) fn entries(value_bytes_min: u64) -> u64 {
    (REQUEST_BYTES_MAX - BRACKETS_BYTES) / (value_bytes_min + 6)
}
