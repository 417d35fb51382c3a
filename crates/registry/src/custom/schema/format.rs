//! The formats of strings, as Kubernetes checks them. Some checks are laxer than the names of the formats suggest.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

use super::{node::Type, parse};
use crate::validation::names;

mod address;
mod duration;
mod mail;
mod uri;

/// The format that a schema names.
#[derive(Debug)]
pub(crate) struct Format {
    /// Its name in the schema.
    pub(crate) name: Box<str>,
    /// The format of that name, dashes ignored.
    pub(crate) kind: FormatKind,
    /// Whether objects are checked for it. Formats that are unknown or do not suit the type do not apply to objects,
    /// only to defaults.
    pub(crate) is_supported: bool,
}

/// The format of a string, or the width of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatKind {
    Unknown,
    Int32,
    Int64,
    Float,
    Double,
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

use FormatKind as Kind;

impl Format {
    pub(super) fn new(name: &str, ty: Type) -> Format {
        let kind = kind(name);
        let is_supported = match ty {
            Type::Unset | Type::String => kind.is_of_strings(),
            Type::Integer => matches!(kind, Kind::Int32 | Kind::Int64),
            Type::Number => matches!(kind, Kind::Float | Kind::Double),
            Type::Object | Type::Array | Type::Boolean => false,
        };
        Format { name: name.into(), kind, is_supported }
    }
}

/// The formats in a schema and below that do not apply to values of their types.
pub(crate) fn unrecognized_formats(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_unrecognized(schema, &mut found);
    found
}

fn collect_unrecognized(schema: &Value, found: &mut BTreeSet<String>) {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let format = text("format");
    if !format.is_empty() && !Format::new(format, parse::ty(text("type"))).is_supported {
        found.insert(format.to_owned());
    }
    for name in ["items", "additionalProperties", "not"] {
        schema.get(name).into_iter().for_each(|below| collect_unrecognized(below, found));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let all = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        all.for_each(|below| collect_unrecognized(below, found));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|all| all.values()).for_each(|below| collect_unrecognized(below, found));
}

fn kind(name: &str) -> Kind {
    match name {
        "int32" => return Kind::Int32,
        "int64" => return Kind::Int64,
        "float" => return Kind::Float,
        "double" => return Kind::Double,
        _ => {}
    }
    match name.replace('-', "").as_str() {
        "bsonobjectid" => Kind::BsonObjectId,
        "uri" => Kind::Uri,
        "email" => Kind::Email,
        "hostname" => Kind::Hostname,
        "ipv4" => Kind::Ipv4,
        "ipv6" => Kind::Ipv6,
        "cidr" => Kind::Cidr,
        "mac" => Kind::Mac,
        "uuid" => Kind::Uuid,
        "uuid3" => Kind::Uuid3,
        "uuid4" => Kind::Uuid4,
        "uuid5" => Kind::Uuid5,
        "isbn" => Kind::Isbn,
        "isbn10" => Kind::Isbn10,
        "isbn13" => Kind::Isbn13,
        "creditcard" => Kind::CreditCard,
        "ssn" => Kind::Ssn,
        "hexcolor" => Kind::HexColor,
        "rgbcolor" => Kind::RgbColor,
        "byte" => Kind::Byte,
        "password" => Kind::Password,
        "date" => Kind::Date,
        "duration" => Kind::Duration,
        "datetime" => Kind::DateTime,
        "k8sshortname" => Kind::ShortName,
        "k8slongname" => Kind::LongName,
        _ => Kind::Unknown,
    }
}

impl FormatKind {
    /// Whether it applies to strings.
    pub(crate) fn is_of_strings(self) -> bool {
        !matches!(self, Kind::Unknown | Kind::Int32 | Kind::Int64 | Kind::Float | Kind::Double)
    }

    /// Whether a string has the format.
    pub(crate) fn matches(self, text: &str) -> bool {
        match self {
            Kind::Unknown | Kind::Int32 | Kind::Int64 | Kind::Float | Kind::Double | Kind::Password => true,
            Kind::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Kind::Uri => uri::is_request_uri(text),
            Kind::Email => mail::is_address(text),
            Kind::Hostname => is_hostname(text),
            Kind::Ipv4 => text.contains('.') && names::parse_ip(text).is_some(),
            Kind::Ipv6 => text.parse::<std::net::Ipv6Addr>().is_ok(),
            Kind::Cidr => names::parse_cidr(text).is_some(),
            Kind::Mac => address::is_mac(text),
            Kind::Uuid => is_uuid(text, None, false),
            Kind::Uuid3 => is_uuid(text, Some('3'), false),
            Kind::Uuid4 => is_uuid(text, Some('4'), true),
            Kind::Uuid5 => is_uuid(text, Some('5'), true),
            Kind::Isbn => is_isbn10(text) || is_isbn13(text),
            Kind::Isbn10 => is_isbn10(text),
            Kind::Isbn13 => is_isbn13(text),
            Kind::CreditCard => is_credit_card(text),
            Kind::Ssn => is_ssn(text),
            Kind::HexColor => is_hex_color(text),
            Kind::RgbColor => is_rgb_color(text).is_some(),
            Kind::Byte => is_base64(text),
            Kind::Date => duration::is_date(text),
            Kind::Duration => duration::is_duration(text),
            Kind::DateTime => duration::is_date_time(text),
            Kind::ShortName => text.len() <= 63 && is_name(text),
            Kind::LongName => text.len() <= 253 && text.split('.').all(is_name),
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_name(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|b| plain(b) || *b == b'-')
}

/// Letters and signs of any script are allowed, and even a dot may be missing; the length of each part is limited apart.
fn is_hostname(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
        Regex::new(text).expect("the pattern is a constant")
    });
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && PATTERN.is_match(text)
}

/// Four groups behind the first, each of which may follow a dash.
fn is_uuid(text: &str, version: Option<char>, has_variant: bool) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, behind)) = rest.split_at_checked(length) else { return false };
        let first = group.chars().next().unwrap_or_default();
        let fits = match at {
            2 => version.is_none_or(|version| first == version),
            3 => !has_variant || matches!(first.to_ascii_lowercase(), '8' | '9' | 'a' | 'b'),
            _ => true,
        };
        if !fits || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_blanks(text);
    let Some((digits, check)) = text.split_at_checked(9).filter(|(_, check)| check.len() == 1) else {
        return false;
    };
    if !is_digits(digits) {
        return false;
    }
    let last = match check {
        "X" => 10,
        digit => match digit.parse() {
            Ok(digit) => digit,
            Err(_) => return false,
        },
    };
    let values = digits.bytes().map(|b| u32::from(b - b'0')).chain([last]);
    values.zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = without_blanks(text);
    if text.len() != 13 || !is_digits(&text) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    text.bytes().zip(weights).map(|(b, weight)| u32::from(b - b'0') * weight).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
    let starts = |wanted: &[u8]| digits.starts_with(wanted);
    let issuer_fits = match (digits.len(), digits.as_slice()) {
        (13 | 16, [4, ..]) => true,
        (16, [5, 1..=5, ..]) => true,
        (16, [6, ..]) => starts(&[6, 0, 1, 1]) || starts(&[6, 5]),
        (15, [3, 4 | 7, ..]) => true,
        (14, [3, 0, 0..=5, ..] | [3, 6 | 8, ..]) => true,
        (15, _) => starts(&[2, 1, 3, 1]) || starts(&[1, 8, 0, 0]),
        (16, [3, 5, ..]) => true,
        _ => false,
    };
    let doubled = |digit: u8| if digit >= 5 { digit * 2 - 9 } else { digit * 2 };
    let sum = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| u32::from(if at % 2 == 1 { doubled(*digit) } else { *digit }));
    issuer_fits && sum.sum::<u32>() % 10 == 0
}

fn is_ssn(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', ' ']).collect();
    text.len() == 11 && parts.iter().map(|part| part.len()).eq([3, 2, 4]) && parts.into_iter().all(is_digits)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Blanks are allowed around the numbers, but nowhere else.
fn is_rgb_color(text: &str) -> Option<()> {
    let numbers = text.strip_prefix("rgb(")?.strip_suffix(')')?;
    let parts: Vec<&str> = numbers.split(',').collect();
    let blank = |c: char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let is_number = |part: &&str| {
        let part = part.trim_matches(blank);
        is_digits(part) && (part == "0" || !part.starts_with('0')) && part.parse::<u8>().is_ok()
    };
    (parts.len() == 3 && parts.iter().all(is_number)).then_some(())
}

fn is_base64(text: &str) -> bool {
    let data = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && data.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}
