//! Versions as semver.org has them, with the error texts of the Go package that Kubernetes uses.

use std::cmp::Ordering;
use std::fmt;

use keepwatch_apimachinery::Quoted;

/// A version. Build metadata does not count when versions are compared.
#[derive(Clone, Debug)]
pub struct Semver {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    prerelease: Vec<Identifier>,
    /// The build metadata: the text after the plus sign.
    build: String,
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Name(name) => f.write_str(name)?,
            }
        }
        if self.build.is_empty() { Ok(()) } else { write!(f, "+{}", self.build) }
    }
}

/// A part of a prerelease. Numbers come before names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Name(String),
}

impl Semver {
    /// Reads a version with all of its three numbers.
    pub fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number("Major", major)?;
        let minor = number("Minor", minor)?;
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number("Patch", patch)?;
        let prerelease = prerelease.into_iter().flat_map(|text| text.split('.')).map(identifier);
        let prerelease = prerelease.collect::<Result<_, _>>()?;
        for part in build.into_iter().flat_map(|text| text.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_name_byte) {
                return Err(format!("Invalid character(s) found in build meta data {}", Quoted(part)));
            }
        }
        Ok(Semver { major, minor, patch, prerelease, build: build.unwrap_or_default().to_owned() })
    }

    /// Reads a version that may begin with a `v`, have leading zeros, or lack its last numbers.
    pub fn parse_normalized(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }

    /// By the numbers, then the prerelease; a version without one comes last.
    pub fn compare(&self, other: &Semver) -> Ordering {
        let numbers = |version: &Semver| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| self.prerelease.is_empty().cmp(&other.prerelease.is_empty()))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    // An empty text has no invalid character; `parse_uint` reports its error.
    if text.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {} number {}",
            name.to_ascii_lowercase(),
            Quoted(text)
        ));
    }
    if has_leading_zero(text) {
        return Err(format!("{name} number must not contain leading zeroes {}", Quoted(text)));
    }
    parse_uint(text)
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if has_leading_zero(text) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                Quoted(text)
            ));
        }
        return Ok(Identifier::Number(parse_uint(text)?));
    }
    if !text.bytes().all(is_name_byte) {
        return Err(format!("Invalid character(s) found in prerelease {}", Quoted(text)));
    }
    Ok(Identifier::Name(text.to_owned()))
}

fn parse_uint(text: &str) -> Result<u64, String> {
    let fault = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {fault}", Quoted(text)))
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let ordered = [
            "0.0.1",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-a",
            "1.0.0-a.1",
            "1.0.0-a.b",
            "1.0.0",
            "1.2.3",
            "1.10.0",
        ];
        let parsed: Vec<Semver> = ordered.iter().map(|text| Semver::parse(text).unwrap()).collect();
        assert!(parsed.windows(2).all(|pair| pair[0].compare(&pair[1]) == Ordering::Less));
        assert!(ordered.iter().zip(&parsed).all(|(text, version)| *text == version.to_string()));
        assert_eq!(Semver::parse("1.2.3-a.1+b.2").unwrap().to_string(), "1.2.3-a.1+b.2");
        let build = |text| Semver::parse(text).unwrap();
        assert_eq!(build("1.0.0+a").compare(&build("1.0.0+b.-")), Ordering::Equal);
    }

    #[test]
    fn what_is_no_version_is_an_error() {
        for (text, error) in [
            ("", "Version string empty"),
            ("1.0", "No Major.Minor.Patch elements found"),
            ("a.0.0", "Invalid character(s) found in major number \"a\""),
            ("1.a.0", "Invalid character(s) found in minor number \"a\""),
            ("1.0.a", "Invalid character(s) found in patch number \"a\""),
            ("1.0.0.0", "Invalid character(s) found in patch number \"0.0\""),
            ("01.0.0", "Major number must not contain leading zeroes \"01\""),
            ("1.0.00", "Patch number must not contain leading zeroes \"00\""),
            ("1..0", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("1.0.0-", "Prerelease is empty"),
            ("1.0.0-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.2.3-a_+b", "Invalid character(s) found in prerelease \"a_\""),
            ("1.0.0+", "Build meta data is empty"),
            ("1.0.0+a_", "Invalid character(s) found in build meta data \"a_\""),
            (
                "99999999999999999999.0.0",
                "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
            ),
        ] {
            assert_eq!(Semver::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn normalizing_fills_and_trims() {
        for (text, numbers) in [
            ("v01.2", Some((1, 2, 0))),
            ("1", Some((1, 0, 0))),
            ("00.0.007-a", Some((0, 0, 7))),
            ("", None),
            ("vv1", None),
            (" 1", None),
        ] {
            let parsed = Semver::parse_normalized(text).ok();
            assert_eq!(
                parsed.map(|version| (version.major, version.minor, version.patch)),
                numbers,
                "{text}"
            );
        }
        assert_eq!(
            Semver::parse_normalized("1.2-a").unwrap_err(),
            "short version cannot contain PreRelease/Build meta data"
        );
    }
}
