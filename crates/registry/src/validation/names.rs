//! The rules for names, and the errors for names that break them.
//!
//! Every function returns the errors of a text; for a valid text it returns none and allocates nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use keepwatch_apimachinery::selector::{key_faults as qualified, value_faults as label_value};

use crate::kind::NameRule;

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;
const PORT_NAME_BYTES_MAX: usize = 15;

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const UNDERSCORED_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
     an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD_RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
     which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
     (e.g. '*.example.com', regex used for validation is \
     '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const CONFIG_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
     'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const HEADER_RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
     regex used for validation is '[-A-Za-z0-9]+')";
const PERCENT_RULE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
     '93%', regex used for validation is '[0-9]+%')";
const PATH_RULE: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const IP_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR_RULE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} characters")
}

fn checked(text: &str, bytes_max: usize, fine: bool, rule: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > bytes_max {
        errors.push(too_long(bytes_max));
    }
    if !fine {
        errors.push(rule.to_owned());
    }
    errors
}

fn is_label(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|b| plain(b) || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// One part of a DNS name.
pub(crate) fn label(text: &str) -> Vec<String> {
    if is_label(text) {
        return checked(text, LABEL_BYTES_MAX, true, "");
    }
    let rule = if is_subdomain(text) { "must not contain dots" } else { LABEL_RULE };
    checked(text, LABEL_BYTES_MAX, false, rule)
}

/// One part of a DNS name that starts with a letter.
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    let fine = is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    checked(text, LABEL_BYTES_MAX, fine, LABEL_1035_RULE)
}

/// A DNS name in lower case.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    checked(text, SUBDOMAIN_BYTES_MAX, is_subdomain(text), SUBDOMAIN_RULE)
}

/// A DNS name in lower case whose parts may have underscores.
pub(crate) fn underscored_subdomain(text: &str) -> Vec<String> {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.strip_prefix('_').unwrap_or(part).as_bytes();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.iter().all(|b| plain(b) || matches!(b, b'-' | b'_'))
    };
    checked(text, SUBDOMAIN_BYTES_MAX, text.split('.').all(part), UNDERSCORED_RULE)
}

/// A DNS name that may begin with `*.`.
pub(crate) fn host(text: &str) -> Vec<String> {
    if !text.contains('*') {
        return subdomain(text);
    }
    checked(text, SUBDOMAIN_BYTES_MAX, text.strip_prefix("*.").is_some_and(is_subdomain), WILDCARD_RULE)
}

/// Validates a path segment.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_prefix(text),
    }
}

fn path_prefix(text: &str) -> Vec<String> {
    let unwanted = ["/", "%"].into_iter().filter(|part| text.contains(part));
    unwanted.map(|part| format!("may not contain '{part}'")).collect()
}

/// A key in a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let fine = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let mut errors = checked(text, SUBDOMAIN_BYTES_MAX, fine, CONFIG_KEY_RULE);
    match text {
        "." | ".." => errors.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// The name of a variable in a container's environment.
pub(crate) fn variable(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    let rule =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![rule.to_owned()]
}

/// The name of a port, as IANA has them.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |wrong: bool, text: &str| {
        if wrong {
            errors.push(text.to_owned());
        }
    };
    check(text.len() > PORT_NAME_BYTES_MAX, "must be no more than 15 characters");
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    check(
        text.is_empty() || !text.bytes().all(known),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    check(!text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    check(text.contains("--"), "must not contain consecutive hyphens");
    check(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    errors
}

/// The name of an HTTP header.
pub(crate) fn header(text: &str) -> Vec<String> {
    let fine = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if fine { Vec::new() } else { vec![HEADER_RULE.to_owned()] }
}

/// A percentage: digits and a `%`.
pub(crate) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let fine = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if fine { Vec::new() } else { vec![PERCENT_RULE.to_owned()] }
}

/// Validates a domain, a slash and a path. Each error is returned with the text that it is about.
pub(crate) fn domain_path(text: &str) -> Vec<(&str, String)> {
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return vec![(text, "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())];
    };
    let mut errors: Vec<_> = subdomain(host).into_iter().map(|error| (host, error)).collect();
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.push((path, PATH_RULE.to_owned()));
    }
    errors
}

/// The address, even if its numbers begin with zeros.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut numbers = [0; 4];
    let mut parts = text.split('.');
    for number in &mut numbers {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part
            .trim_start_matches('0')
            .parse()
            .or_else(|_| if part.bytes().all(|b| b == b'0') { Ok(0) } else { Err(()) })
            .ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(numbers).into())
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The canonical form of an address; an IPv4-mapped IPv6 address becomes an IPv4 address.
fn canonical_ip(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Validates an address whose meaning is clear, though it may not be in canonical form.
pub(crate) fn ip(text: &str) -> Vec<String> {
    let Some(address) = parse_ip(text) else { return vec![IP_RULE.to_owned()] };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if is_mapped(address) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    Vec::new()
}

/// Validates an address in its canonical form.
pub(crate) fn strict_ip(text: &str) -> Vec<String> {
    let errors = ip(text);
    let canonical = parse_ip(text).map(canonical_ip).unwrap_or_default();
    if errors.is_empty() && canonical != text {
        return vec![format!("must be in canonical form (\"{canonical}\")")];
    }
    errors
}

/// Validates an address at which other machines can be reached.
pub(crate) fn ordinary_ip(text: &str) -> Vec<String> {
    let Some(address) = parse_ip(text).map(|address| address.to_canonical()) else {
        return vec!["must be a valid IP address".to_owned()];
    };
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut errors = Vec::new();
    if address.is_unspecified() {
        errors.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        errors.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_multicast {
        errors.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    errors
}

/// A network: its address as a number of the same width as in version 6, the bits that count, and whether it is of
/// version 6.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    bits: u128,
    length: u32,
    pub(crate) v6: bool,
}

impl Network {
    /// Whether another network lies in this one and is smaller.
    pub(crate) fn contains_smaller(&self, other: &Network) -> bool {
        self.v6 == other.v6 && self.length < other.length && (self.bits ^ other.bits) & self.mask() == 0
    }

    fn width(&self) -> u32 {
        if self.v6 { 128 } else { 32 }
    }

    fn mask(&self) -> u128 {
        let free = self.width() - self.length;
        if free == 128 { 0 } else { u128::MAX << free }
    }

    fn canonical(&self) -> String {
        let bits = self.bits & self.mask();
        if self.v6 {
            format!("{}/{}", Ipv6Addr::from(bits), self.length)
        } else {
            format!("{}/{}", Ipv4Addr::from(bits as u32), self.length)
        }
    }
}

/// The network that the text names.
pub(crate) fn parse_cidr(text: &str) -> Option<Network> {
    let (address, length) = text.split_once('/')?;
    let address = parse_ip(address)?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length = length.parse().ok()?;
    let network = match address {
        IpAddr::V4(v4) => Network { bits: u32::from(v4).into(), length, v6: false },
        IpAddr::V6(v6) => Network { bits: v6.into(), length, v6: true },
    };
    (length <= network.width()).then_some(network)
}

/// Validates a network whose meaning is clear, though it may not be in canonical form.
pub(crate) fn cidr(text: &str) -> Vec<String> {
    let Some(network) = parse_cidr(text) else { return vec![CIDR_RULE.to_owned()] };
    let (address, length) = text.split_once('/').unwrap_or_default();
    let Ok(address) = address.parse::<IpAddr>() else {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    };
    if length.len() > 1 && length.starts_with('0') {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if is_mapped(address) {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if network.bits & !network.mask() & (u128::MAX >> (128 - network.width())) != 0 {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    Vec::new()
}

/// Validates a network in its canonical form.
pub(crate) fn strict_cidr(text: &str) -> Vec<String> {
    let errors = cidr(text);
    let canonical = parse_cidr(text).map(|network| network.canonical()).unwrap_or_default();
    if errors.is_empty() && canonical != text {
        return vec![format!("must be in canonical form (\"{canonical}\")")];
    }
    errors
}

/// The name of an object, by the rule of its kind.
pub(crate) fn object(name: &str, rule: NameRule) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::PathSegment => path_segment(name),
        NameRule::Ip => strict_ip(name),
    }
}

/// The beginning of a name: what a name may be, but a dash at the end is fine.
pub(crate) fn object_prefix(prefix: &str, rule: NameRule) -> Vec<String> {
    if rule == NameRule::PathSegment {
        return path_prefix(prefix);
    }
    let mut chars = prefix.chars();
    if prefix.len() < 2 || chars.next_back() != Some('-') {
        return object(prefix, rule);
    }
    chars.next_back();
    object(&format!("{}a", chars.as_str()), rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Vec<String>, cases: &[(&str, &[&str])]) {
        for (text, errors) in cases {
            assert_eq!(rule(text), *errors, "{text:?}");
        }
    }

    #[test]
    fn labels_and_subdomains_have_different_rules() {
        check(label, &[("a", &[]), ("a-1", &[]), ("1", &[]), ("a.b", &["must not contain dots"])]);
        check(
            label,
            &[("", &[LABEL_RULE]), ("-a", &[LABEL_RULE]), ("A", &[LABEL_RULE]), ("a.", &[LABEL_RULE])],
        );
        check(label_1035, &[("a1", &[]), ("1a", &[LABEL_1035_RULE])]);
        check(subdomain, &[("a.b-c.d", &[]), ("a..b", &[SUBDOMAIN_RULE]), ("a_b", &[SUBDOMAIN_RULE])]);
        check(underscored_subdomain, &[("_tcp.a_b", &[]), ("a._", &[UNDERSCORED_RULE])]);
        check(host, &[("*.a.b", &[]), ("a.*.b", &[WILDCARD_RULE]), ("a.b", &[])]);
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn other_names_have_rules_of_their_own() {
        check(
            path_segment,
            &[("system:a", &[]), ("..", &["may not be '..'"]), ("a/b", &["may not contain '/'"])],
        );
        check(
            config_key,
            &[("a_B.c-1", &[]), ("a b", &[CONFIG_KEY_RULE]), ("..a", &["must not start with '..'"])],
        );
        check(port_name, &[("http", &[]), ("1", &["must contain at least one letter (a-z)"])]);
        check(header, &[("X-A", &[]), ("X A", &[HEADER_RULE])]);
        check(percent, &[("5%", &[]), ("%", &[PERCENT_RULE]), ("5", &[PERCENT_RULE])]);
        check(
            variable,
            &[
                ("A B.c", &[]),
                (
                    "é",
                    &[
                        "a valid environment variable name must consist only of printable ASCII characters other than '='",
                    ],
                ),
            ],
        );
        assert_eq!(domain_path("a.io/b/c"), []);
        assert_eq!(
            domain_path("a"),
            [("a", "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())]
        );
    }

    #[test]
    fn addresses_are_clear_and_in_their_usual_form() {
        check(ip, &[("10.0.0.1", &[]), ("010.0.0.1", &["must not have leading 0s"]), ("x", &[IP_RULE])]);
        check(ip, &[("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"]), ("FE80::1", &[])]);
        check(strict_ip, &[("fe80::1", &[]), ("FE80::1", &["must be in canonical form (\"fe80::1\")"])]);
        check(
            cidr,
            &[("10.0.0.0/8", &[]), ("10.0.0.1/8", &["must not have bits set beyond the prefix length"])],
        );
        check(
            cidr,
            &[("10.0.0.0/33", &[CIDR_RULE]), ("10.0.0.0", &[CIDR_RULE]), ("::/0", &[]), ("0.0.0.0/0", &[])],
        );
        check(cidr, &[("10.0.0.0/08", &["must not have leading 0s in IP or prefix length"])]);
        check(strict_cidr, &[("2001:DB8::/32", &["must be in canonical form (\"2001:db8::/32\")"])]);
        check(
            ordinary_ip,
            &[("127.0.0.1", &["may not be in the loopback range (127.0.0.0/8, ::1/128)"]), ("10.0.0.1", &[])],
        );
        let parsed = |text: &str| parse_cidr(text).unwrap();
        assert!(parsed("10.0.0.0/8").contains_smaller(&parsed("10.1.0.0/16")));
        assert!(!parsed("10.0.0.0/8").contains_smaller(&parsed("11.1.0.0/16")));
        assert!(!parsed("10.0.0.0/8").contains_smaller(&parsed("10.0.0.0/8")));
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        assert!(object_prefix("a-", NameRule::Subdomain).is_empty());
        assert!(object_prefix("a", NameRule::Label).is_empty());
        assert_eq!(object_prefix("Ab-", NameRule::Subdomain), [SUBDOMAIN_RULE]);
        assert_eq!(object_prefix("-", NameRule::Subdomain), [SUBDOMAIN_RULE]);
        assert!(object_prefix(".", NameRule::PathSegment).is_empty());
    }
}
