//! Parsers of the values of flags. Each error says what was wrong and what would be right.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use keepwatch::AllowedOrigins;
use keepwatch_apimachinery::selector::{FieldSelector, LabelSelector};

/// A range of addresses, as `10.0.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpRange {
    /// The first address, with nothing behind the prefix.
    pub(crate) network: IpAddr,
    /// The length of the prefix in bits.
    pub(crate) prefix_bits: u8,
}

impl IpRange {
    /// The number of host bits in the range: at least 8 addresses, at most a million.
    const HOST_BITS: std::ops::RangeInclusive<u8> = 3..=20;

    /// The range, if it is one of IPv4.
    pub(crate) fn ipv4(&self) -> Option<(Ipv4Addr, u8)> {
        match self.network {
            IpAddr::V4(network) => Some((network, self.prefix_bits)),
            IpAddr::V6(_) => None,
        }
    }
}

impl FromStr for IpRange {
    type Err = String;

    fn from_str(text: &str) -> Result<IpRange, String> {
        let malformed = || format!("{text:?} is not a range of addresses: write it as 10.0.0.0/24");
        let (address, bits) = text.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let prefix_bits: u8 = digits(bits).and_then(|bits| bits.parse().ok()).ok_or_else(malformed)?;
        let address_bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = address_bits.checked_sub(prefix_bits).ok_or_else(malformed)?;
        if !IpRange::HOST_BITS.contains(&host_bits) {
            let (widest, narrowest) =
                (address_bits - IpRange::HOST_BITS.end(), address_bits - IpRange::HOST_BITS.start());
            return Err(format!("{text:?} must have a prefix from /{widest} to /{narrowest}"));
        }
        let network = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> host_bits << host_bits).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits).into(),
        };
        Ok(IpRange { network, prefix_bits })
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_bits)
    }
}

/// A range of ports, both ends included, as `30000-32767` or `30000+2767`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// The lowest port.
    pub(crate) first: u16,
    /// The highest port.
    pub(crate) last: u16,
}

impl PortRange {
    /// Its ports.
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let malformed = || format!("{text:?} is not a range of ports: write it as 30000-32767");
        let number = |part: &str| -> Option<u16> { digits(part)?.parse().ok() };
        let range = if let Some((first, last)) = text.split_once('-') {
            number(first).zip(number(last))
        } else if let Some((first, more)) = text.split_once('+') {
            number(first).zip(number(more)).and_then(|(first, more)| Some((first, first.checked_add(more)?)))
        } else {
            number(text).map(|port| (port, port))
        };
        let (first, last) =
            range.filter(|(first, last)| 0 < *first && first <= last).ok_or_else(malformed)?;
        Ok(PortRange { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = digits(text).and_then(|text| text.parse().ok());
    port.ok_or_else(|| format!("{text:?} is not a port: give a number from 0 to 65535"))
}

pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an IP address"))
}

pub(super) fn count(text: &str) -> Result<usize, String> {
    let count = digits(text).and_then(|text| text.parse().ok());
    count.ok_or_else(|| format!("{text:?} is not a whole number of 0 or more"))
}

/// A number of bytes with a unit, such as `64Mi`.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    const MIN: usize = 1 << 20;
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let shift = match unit {
        "" => Some(0),
        "Ki" => Some(10),
        "Mi" => Some(20),
        "Gi" => Some(30),
        _ => None,
    };
    let number = text.strip_suffix(unit).and_then(digits).and_then(|number| number.parse::<usize>().ok());
    let bytes = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or_else(|| format!("{text:?} is not a number of bytes: write it as 64Mi"))?;
    if bytes < MIN { Err(format!("{text:?} is too little: give 1Mi or more")) } else { Ok(bytes) }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = digits(text).and_then(|text| text.parse::<u32>().ok());
    let seconds = seconds.ok_or_else(|| format!("{text:?} is not a number of seconds"))?;
    Ok(Duration::from_secs(seconds.into()))
}

pub(super) fn verbosity(text: &str) -> Result<u8, String> {
    let level = digits(text).and_then(|text| text.parse().ok()).filter(|level| *level <= 10);
    level.ok_or_else(|| format!("{text:?} is not a level: give a number from 0 to 10"))
}

/// A boolean in any of the forms that Go reads.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// An origin or regular expression that [`AllowedOrigins`] accepts.
pub(super) fn origin(text: &str) -> Result<String, String> {
    AllowedOrigins::parse([text]).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A URL of an etcd member.
pub(super) fn etcd_server(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host.is_some_and(|host| !host.is_empty()) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a URL: write it as http(s)://host:2379")),
    }
}

/// A name that a namespace can have.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let is_fine = |b: u8| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit();
    match !text.is_empty() && text.bytes().all(is_fine) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is not the name of a namespace: it has lower case letters, digits and dashes"
        )),
    }
}

/// A valid label selector.
pub(super) fn label_selector(text: &str) -> Result<String, String> {
    LabelSelector::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A valid field selector; whether the fields exist depends on the resource.
pub(super) fn field_selector(text: &str) -> Result<String, String> {
    FieldSelector::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A duration as Go writes them, as `1h0m0s`, `1.5h` or `300ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let malformed = || format!("{text:?} is not a duration: write it as 1h30m, 90s or 500ms");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut nanoseconds) = (text, 0_u128);
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(malformed)?;
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let part = unit_nanoseconds(unit).and_then(|unit| times(number, unit)).ok_or_else(malformed)?;
        (rest, nanoseconds) = (behind, nanoseconds + part);
    }
    // Go's durations end here, after 292 years.
    let nanoseconds =
        u64::try_from(nanoseconds).ok().filter(|n| i64::try_from(*n).is_ok() && !text.is_empty());
    nanoseconds.map(Duration::from_nanos).ok_or_else(malformed)
}

fn unit_nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

/// A decimal number times a unit, in nanoseconds. No number that fits has more than 19 digits.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 19 || fraction.contains('.') {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some(parse(whole)? * unit + parse(fraction)? * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", 0),
            ("0s", 0),
            ("1h0m0s", 3_600_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("300ms", 300_000_000),
            ("1m30.5s", 90_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1us2µs3ns", 3_003),
            ("0.0000000001s", 0),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(expected)), "{text}");
        }
        let far = "9".repeat(40);
        for text in [
            "",
            "5",
            "s",
            ".s",
            "1x",
            "-5m",
            "+5m",
            "1 s",
            "1.2.3s",
            "2562047h48m",
            "5m ",
            "é",
            &far,
            &format!("{far}h"),
        ] {
            let message = format!("{text:?} is not a duration: write it as 1h30m, 90s or 500ms");
            assert_eq!(duration(text), Err(message));
        }
    }

    #[test]
    fn bytes_are_read_with_a_unit_or_without() {
        for (text, expected) in
            [("1048576", 1 << 20), ("1024Ki", 1 << 20), ("64Mi", 64 << 20), ("2Gi", 2 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        let far = "9".repeat(40);
        for text in ["", "Mi", "5 Mi", "-5Mi", "1.5Mi", "5mi", "5MiB", "5é", "17179869184Gi", &far] {
            let message = format!("{text:?} is not a number of bytes: write it as 64Mi");
            assert_eq!(bytes(text), Err(message));
        }
        for text in ["0", "5", "1048575", "1Ki"] {
            assert_eq!(bytes(text), Err(format!("{text:?} is too little: give 1Mi or more")));
        }
    }

    #[test]
    fn a_range_of_addresses_begins_where_its_prefix_says() {
        for (text, shown) in [
            ("10.0.0.0/24", "10.0.0.0/24"),
            ("10.0.0.77/24", "10.0.0.0/24"),
            ("10.96.0.0/12", "10.96.0.0/12"),
            ("192.168.1.8/29", "192.168.1.8/29"),
            ("fd00::/108", "fd00::/108"),
        ] {
            let range: IpRange = text.parse().unwrap();
            assert_eq!(range.to_string(), shown);
        }
        for text in
            ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0/24", "a/24", "10.0.0.0/+24", "10.0.0.0/24/1"]
        {
            let error = text.parse::<IpRange>().unwrap_err();
            assert_eq!(error, format!("{text:?} is not a range of addresses: write it as 10.0.0.0/24"));
        }
        for (text, message) in [
            ("10.0.0.0/11", "\"10.0.0.0/11\" must have a prefix from /12 to /29"),
            ("10.0.0.0/30", "\"10.0.0.0/30\" must have a prefix from /12 to /29"),
            ("fd00::/64", "\"fd00::/64\" must have a prefix from /108 to /125"),
        ] {
            assert_eq!(text.parse::<IpRange>(), Err(message.to_owned()));
        }
    }

    #[test]
    fn a_range_of_ports_has_two_ends() {
        for (text, first, last) in [
            ("30000-32767", 30000, 32767),
            ("30000+2767", 30000, 32767),
            ("80", 80, 80),
            ("1-65535", 1, 65535),
        ] {
            assert_eq!(text.parse(), Ok(PortRange { first, last }), "{text}");
        }
        for text in ["", "0", "0-10", "2-1", "1-65536", "65535+1", "a-b", "1-2-3", "-1", "1-", "+1"] {
            let error = text.parse::<PortRange>().unwrap_err();
            assert_eq!(error, format!("{text:?} is not a range of ports: write it as 30000-32767"));
        }
    }
}
