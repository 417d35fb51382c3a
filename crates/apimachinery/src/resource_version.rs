//! A position in the history of writes of one store.
//!
//! Kept true by the type: a version is never zero. On the wire `""` and `"0"` are not positions but
//! requests ("the newest", "any"), so they become [`None`] where text is read and never travel further.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::go::{self, NumberFault, Quoted};

/// A position in the history of writes. Versions of one resource compare as numbers.
///
/// ```
/// use keepwatch_apimachinery::ResourceVersion;
///
/// let version = ResourceVersion::parse("41").expect("a number").expect("not zero");
/// assert_eq!(version.next().to_string(), "42");
/// assert_eq!(ResourceVersion::parse("0"), Ok(None));
/// assert!(ResourceVersion::parse("abc").is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(NonZeroU64);

impl ResourceVersion {
    /// The position with this number; `None` for zero.
    pub const fn new(number: u64) -> Option<ResourceVersion> {
        match NonZeroU64::new(number) {
            Some(number) => Some(ResourceVersion(number)),
            None => None,
        }
    }

    /// The number of this position, never zero.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The position right after this one.
    ///
    /// # Panics
    /// After `u64::MAX`, which no store reaches.
    #[must_use]
    pub fn next(self) -> ResourceVersion {
        ResourceVersion(self.0.checked_add(1).expect("no store makes 2^64 writes"))
    }

    /// Reads a version sent by a client. `None` when it names no position (`""` or zero).
    ///
    /// Leading zeros are read, though never written.
    pub fn parse(text: &str) -> Result<Option<ResourceVersion>, InvalidResourceVersion> {
        if text.is_empty() {
            return Ok(None);
        }
        match go::parse_u64(text) {
            Ok(number) => Ok(ResourceVersion::new(number)),
            Err(fault) => Err(InvalidResourceVersion { text: text.to_owned(), fault }),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ResourceVersion, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ResourceVersion;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decimal string above zero")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ResourceVersion, E> {
                ResourceVersion::parse(text)
                    .map_err(E::custom)?
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// The text is no resource version. The client sent something that it did not get from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResourceVersion {
    text: String,
    fault: NumberFault,
}

impl InvalidResourceVersion {
    /// The reason alone, without the name of the parameter: what an update answers when the version in
    /// the object is at fault.
    pub fn reason(&self) -> String {
        format!("strconv.ParseUint: parsing {}: {}", Quoted(&self.text), self.fault)
    }
}

impl fmt::Display for InvalidResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resourceVersion: Invalid value: {}: {}", Quoted(&self.text), self.reason())
    }
}

impl std::error::Error for InvalidResourceVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_texts_are_positions_and_zero_is_none() {
        for (text, number) in [
            ("", None),
            ("0", None),
            ("00", None),
            ("1", Some(1)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            assert_eq!(ResourceVersion::parse(text).unwrap().map(ResourceVersion::get), number, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_in_the_words_of_go() {
        for (text, message) in [
            (
                "abc",
                r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
            ),
            (
                "-1",
                r#"resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax"#,
            ),
            (
                "+1",
                r#"resourceVersion: Invalid value: "+1": strconv.ParseUint: parsing "+1": invalid syntax"#,
            ),
            (
                "1.5",
                r#"resourceVersion: Invalid value: "1.5": strconv.ParseUint: parsing "1.5": invalid syntax"#,
            ),
            (
                "18446744073709551616",
                r#"resourceVersion: Invalid value: "18446744073709551616": strconv.ParseUint: parsing "18446744073709551616": value out of range"#,
            ),
        ] {
            assert_eq!(ResourceVersion::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_reason_is_also_available_alone() {
        let reason = ResourceVersion::parse("abc").unwrap_err().reason();
        assert_eq!(reason, r#"strconv.ParseUint: parsing "abc": invalid syntax"#);
    }

    #[test]
    fn in_json_a_version_is_a_decimal_string() {
        let version = ResourceVersion::new(42).unwrap();
        assert_eq!(serde_json::to_string(&version).unwrap(), r#""42""#);
        assert_eq!(serde_json::from_str::<ResourceVersion>(r#""42""#).unwrap(), version);
        for wrong in ["42", r#""""#, r#""0""#, r#""x""#, "null"] {
            assert!(serde_json::from_str::<ResourceVersion>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        let [nine, ten] = [9, 10].map(|n| ResourceVersion::new(n).unwrap());
        assert!(nine < ten);
        assert_eq!(nine.next(), ten);
    }
}
