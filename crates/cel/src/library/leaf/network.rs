//! Addresses and networks as Go's `net/netip` reads them, without zones and without IPv4 addresses inside IPv6 ones.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use keepwatch_apimachinery::Quoted;

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// Four bytes.
    V4(Ipv4Addr),
    /// Sixteen bytes.
    V6(Ipv6Addr),
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ip::V4(ip) => ip.fmt(f),
            Ip::V6(ip) => ip.fmt(f),
        }
    }
}

impl Ip {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Ip, String> {
        let (ip, zone) = parse_address(text).map_err(|error| {
            format!("IP Address {} parse error during conversion from string: {error}", Quoted(text))
        })?;
        if zone {
            return Err(format!("IP address {} with zone value is not allowed", Quoted(text)));
        }
        if ip.is_mapped() {
            return Err(mapped(text));
        }
        Ok(ip)
    }

    /// Whether the text is how the address is written; an error when it is none.
    pub fn is_canonical(text: &str) -> Result<bool, String> {
        Ok(Ip::parse(text)?.to_string() == text)
    }

    /// 4 or 6.
    pub fn family(self) -> i64 {
        match self {
            Ip::V4(_) => 4,
            Ip::V6(_) => 6,
        }
    }

    /// The size of the address in bytes.
    pub fn size(self) -> u64 {
        match self {
            Ip::V4(_) => 4,
            Ip::V6(_) => 16,
        }
    }

    /// Whether it is `0.0.0.0` or `::`.
    pub fn is_unspecified(self) -> bool {
        match self {
            Ip::V4(ip) => ip.is_unspecified(),
            Ip::V6(ip) => ip.is_unspecified(),
        }
    }

    /// Whether it is in `127.0.0.0/8` or `::1`.
    pub fn is_loopback(self) -> bool {
        match self {
            Ip::V4(ip) => ip.is_loopback(),
            Ip::V6(ip) => ip.is_loopback(),
        }
    }

    fn is_multicast(self) -> bool {
        match self {
            Ip::V4(ip) => ip.is_multicast(),
            Ip::V6(ip) => ip.is_multicast(),
        }
    }

    /// Whether it is in `224.0.0.0/24` or `ff02::/16`, whatever the flags of the latter.
    pub fn is_link_local_multicast(self) -> bool {
        match self {
            Ip::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            Ip::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }
    }

    /// Whether it is in `169.254.0.0/16` or `fe80::/10`.
    pub fn is_link_local_unicast(self) -> bool {
        match self {
            Ip::V4(ip) => ip.is_link_local(),
            Ip::V6(ip) => ip.is_unicast_link_local(),
        }
    }

    /// Whether it is none of the others, nor broadcast. Private addresses are global.
    pub fn is_global_unicast(self) -> bool {
        self != Ip::V4(Ipv4Addr::BROADCAST)
            && !self.is_unspecified()
            && !self.is_loopback()
            && !self.is_multicast()
            && !self.is_link_local_unicast()
    }

    fn is_mapped(self) -> bool {
        matches!(self, Ip::V6(ip) if ip.to_ipv4_mapped().is_some())
    }

    /// The address as a number, and how many bits it has.
    fn bits(self) -> (u128, u32) {
        match self {
            Ip::V4(ip) => (u128::from(ip.to_bits()), 32),
            Ip::V6(ip) => (ip.to_bits(), 128),
        }
    }

    fn masked(self, prefix: u32) -> Ip {
        match self {
            Ip::V4(ip) => {
                Ip::V4(Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)))
            }
            Ip::V6(ip) => {
                Ip::V6(Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(128 - prefix).unwrap_or(0)))
            }
        }
    }
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", Quoted(text))
}

/// A network: an address, whose host bits may be set, and how many of its bits are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    ip: Ip,
    prefix: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Cidr {
    /// Reads a network.
    pub fn parse(text: &str) -> Result<Cidr, String> {
        const CONVERSION: &str = "network address parse error during conversion from string: ";
        let cidr = parse_prefix(text).map_err(|error| {
            // Kubernetes says so twice.
            format!("{CONVERSION}{CONVERSION}netip.ParsePrefix({}): {error}", Quoted(text))
        })?;
        if cidr.ip.is_mapped() {
            return Err(format!("{CONVERSION}{}", mapped(text)));
        }
        Ok(cidr)
    }

    /// The address as it was written.
    pub fn ip(self) -> Ip {
        self.ip
    }

    /// The length of the network prefix in bits.
    pub fn prefix_length(self) -> u8 {
        self.prefix
    }

    /// The same network without host bits.
    pub fn masked(self) -> Cidr {
        Cidr { ip: self.ip.masked(self.prefix.into()), ..self }
    }

    /// Whether the address is in the network.
    pub fn contains_ip(self, ip: Ip) -> bool {
        self.ip.bits().1 == ip.bits().1 && self.ip.masked(self.prefix.into()) == ip.masked(self.prefix.into())
    }

    /// Whether all of the other network is in this one.
    pub fn contains_cidr(self, other: Cidr) -> bool {
        self.prefix <= other.prefix && self.contains_ip(other.ip)
    }
}

fn parse_prefix(text: &str) -> Result<Cidr, String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let (ip, zone) = parse_address(address)?;
    if zone {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let bad = || format!("bad bits after slash: {}", Quoted(bits));
    if bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9') {
        return Err(bad());
    }
    let prefix = super::number::atoi(bits).map_err(|_| bad())?;
    let prefix = u8::try_from(prefix)
        .ok()
        .filter(|prefix| u32::from(*prefix) <= ip.bits().1)
        .ok_or("prefix length out of range")?;
    Ok(Cidr { ip, prefix })
}

/// An error message, and the text from the error on; empty if the error has no position.
type Fault<'a> = (&'static str, &'a str);

/// The address, and whether it has a zone.
pub(super) fn parse_address(text: &str) -> Result<(Ip, bool), String> {
    let parsed = match text.bytes().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => parse_v4(text, text).map(|fields| (Ip::V4(Ipv4Addr::from(fields)), false)),
        Some(b':') => parse_v6(text),
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    parsed.map_err(|(message, at)| match at {
        "" => format!("ParseAddr({}): {message}", Quoted(text)),
        at => format!("ParseAddr({}): {message} (at {})", Quoted(text), Quoted(at)),
    })
}

/// Four fields; errors show the rest of `text`.
fn parse_v4<'a>(text: &'a str, fields: &'a str) -> Result<[u8; 4], Fault<'a>> {
    debug_assert!(text.ends_with(fields) || text.contains(fields));
    let bytes = fields.as_bytes();
    let mut parsed = [0; 4];
    let (mut position, mut value, mut digits) = (0, 0u32, 0);
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if index == 0 || index == bytes.len() - 1 || bytes[index - 1] == b'.' {
                    return Err(("IPv4 field must have at least one digit", &fields[index..]));
                }
                if position == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                parsed[position] = value as u8;
                (position, value, digits) = (position + 1, 0, 0);
            }
            _ => return Err(("unexpected character", &fields[index..])),
        }
    }
    if position < 3 {
        return Err(("IPv4 address too short", ""));
    }
    parsed[3] = value as u8;
    Ok(parsed)
}

/// Up to eight fields of which a run may be `::`, and the last two an IPv4 address.
fn parse_v6(text: &str) -> Result<(Ip, bool), Fault<'_>> {
    let (address, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let mut bytes = [0u8; 16];
    let mut length = 0;
    let mut ellipsis = None;
    let mut rest = address;
    if let Some(behind) = rest.strip_prefix("::") {
        if behind.is_empty() {
            return Ok((Ip::V6(Ipv6Addr::UNSPECIFIED), zone));
        }
        (ellipsis, rest) = (Some(0), behind);
    }
    while length < 16 {
        let (field, behind) = parse_field(rest)?;
        if behind.starts_with('.') {
            if ellipsis.is_none() && length != 12 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if length + 4 > 16 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            bytes[length..length + 4].copy_from_slice(&parse_v4(text, rest)?);
            (length, rest) = (length + 4, "");
            break;
        }
        bytes[length..length + 2].copy_from_slice(&field.to_be_bytes());
        (length, rest) = (length + 2, behind);
        if rest.is_empty() {
            break;
        }
        let Some(behind) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if behind.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = behind;
        if let Some(behind) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            (ellipsis, rest) = (Some(length), behind);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match ellipsis {
        None if length < 16 => return Err(("address string too short", "")),
        Some(_) if length == 16 => {
            return Err(("the :: must expand to at least one field of zeros", ""));
        }
        Some(at) => {
            bytes.copy_within(at..length, 16 - (length - at));
            bytes[at..16 - (length - at)].fill(0);
        }
        None => {}
    }
    Ok((Ip::V6(Ipv6Addr::from(bytes)), zone))
}

/// The field of at most four digits that the text begins with, and the text behind it.
fn parse_field(text: &str) -> Result<(u16, &str), Fault<'_>> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    match end {
        0 => Err(("each colon-separated field must have at least one digit", text)),
        1..=4 => Ok((u16::from_str_radix(&text[..end], 16).unwrap_or_default(), &text[end..])),
        _ => Err(("each group must have 4 or less digits", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_canonically() {
        for (text, written) in [
            ("127.0.0.1", "127.0.0.1"),
            ("2001:DB8::ABCD", "2001:db8::abcd"),
            ("::", "::"),
            ("1:0:0:0:2:0:0:0", "1::2:0:0:0"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("::1.2.3.4", "::102:304"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
            ("1::", "1::"),
        ] {
            assert_eq!(Ip::parse(text).unwrap().to_string(), written);
            assert_eq!(Ip::is_canonical(text), Ok(text == written), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_an_error() {
        for (text, error) in [
            ("x", "unable to parse IP"),
            ("", "unable to parse IP"),
            ("%1", "missing IPv6 address"),
            ("127.0.0.256", "IPv4 field has value >255"),
            ("127.0.0", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            ("1:2", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2:", "colon must be followed by more characters (at \":\")"),
            (":1", "each colon-separated field must have at least one digit (at \":1\")"),
            ("1:g", "each colon-separated field must have at least one digit (at \"g\")"),
            ("1:2g", "unexpected character, want colon (at \"g\")"),
            ("fe80::%", "zone must be a non-empty string"),
            ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
            (
                "1:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
        ] {
            let expected = format!(
                "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {error}"
            );
            assert_eq!(Ip::parse(text).unwrap_err(), expected);
        }
        assert_eq!(
            Ip::parse("fe80::1%eth0").unwrap_err(),
            "IP address \"fe80::1%eth0\" with zone value is not allowed"
        );
        assert_eq!(
            Ip::parse("::ffff:1.2.3.4").unwrap_err(),
            "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed"
        );
    }

    #[test]
    fn addresses_have_kinds() {
        let ip = |text| Ip::parse(text).unwrap();
        for (text, expected) in [
            ("0.0.0.0", "unspecified"),
            ("::", "unspecified"),
            ("127.9.9.9", "loopback"),
            ("::1", "loopback"),
            ("224.0.0.1", "link local multicast"),
            ("ff02::1", "link local multicast"),
            ("ff12::1", "link local multicast"),
            ("169.254.1.1", "link local unicast"),
            ("fe80::1", "link local unicast"),
            ("10.0.0.1", "global unicast"),
            ("fd00::1", "global unicast"),
            ("255.255.255.255", ""),
            ("224.0.1.1", ""),
        ] {
            let ip = ip(text);
            let kinds: Vec<&str> = [
                ("unspecified", ip.is_unspecified()),
                ("loopback", ip.is_loopback()),
                ("link local multicast", ip.is_link_local_multicast()),
                ("link local unicast", ip.is_link_local_unicast()),
                ("global unicast", ip.is_global_unicast()),
            ]
            .into_iter()
            .filter_map(|(kind, is)| is.then_some(kind))
            .collect();
            assert_eq!(kinds.join(","), expected, "{text}");
        }
    }

    #[test]
    fn networks_contain_addresses_and_networks() {
        let cidr = |text| Cidr::parse(text).unwrap();
        let ip = |text| Ip::parse(text).unwrap();
        assert!(cidr("192.168.0.0/24").contains_ip(ip("192.168.0.1")));
        assert!(!cidr("192.168.0.0/24").contains_ip(ip("192.168.1.1")));
        assert!(!cidr("0.0.0.0/0").contains_ip(ip("::1")) && cidr("::/0").contains_ip(ip("::1")));
        assert!(cidr("192.168.0.0/16").contains_cidr(cidr("192.168.10.0/24")));
        assert!(!cidr("192.168.0.0/24").contains_cidr(cidr("192.168.0.0/16")));
        assert_eq!(cidr("192.168.0.1/24").masked().to_string(), "192.168.0.0/24");
        assert_eq!(cidr("1::ffff/0").masked().to_string(), "::/0");
        assert_ne!(cidr("192.168.0.1/24"), cidr("192.168.0.0/24"));
    }

    #[test]
    fn what_is_no_network_is_an_error() {
        let twice = "network address parse error during conversion from string: ".repeat(2);
        for (text, error) in [
            ("192.168.0.0/33", "prefix length out of range"),
            ("192.168.0.0", "no '/'"),
            ("192.168.0.0/", "bad bits after slash: \"\""),
            ("192.168.0.0/01", "bad bits after slash: \"01\""),
            ("192.168.0.0/-1", "bad bits after slash: \"-1\""),
            ("192.168.0.0/999", "prefix length out of range"),
            ("x/1", "ParseAddr(\"x\"): unable to parse IP"),
            ("fe80::1%a/1", "IPv6 zones cannot be present in a prefix"),
        ] {
            assert_eq!(
                Cidr::parse(text).unwrap_err(),
                format!("{twice}netip.ParsePrefix({text:?}): {error}")
            );
        }
    }
}
