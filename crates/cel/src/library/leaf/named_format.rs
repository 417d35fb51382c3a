//! Formats that have a name, and the errors of a text that does not have them.

use keepwatch_apimachinery::selector::{key_faults, value_faults};

use super::{openapi_format, url};

/// A format that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedFormat {
    /// `dns1123Label`
    Dns1123Label,
    /// `dns1123Subdomain`
    Dns1123Subdomain,
    /// `dns1035Label`
    Dns1035Label,
    /// `qualifiedName`
    QualifiedName,
    /// `dns1123LabelPrefix`: may end with a dash.
    Dns1123LabelPrefix,
    /// `dns1123SubdomainPrefix`: may end with a dash.
    Dns1123SubdomainPrefix,
    /// `dns1035LabelPrefix`: may end with a dash.
    Dns1035LabelPrefix,
    /// `labelValue`
    LabelValue,
    /// `uri`
    Uri,
    /// `uuid`
    Uuid,
    /// `byte`: base64.
    Byte,
    /// `date`
    Date,
    /// `datetime`
    Datetime,
}

/// Every format: its name and the length of its regular expression, which determines the cost of validation.
pub const FORMATS: [(NamedFormat, &str, u64); 13] = [
    (NamedFormat::Dns1123Label, "dns1123Label", 30),
    (NamedFormat::Dns1123Subdomain, "dns1123Subdomain", 60),
    (NamedFormat::Dns1035Label, "dns1035Label", 30),
    (NamedFormat::QualifiedName, "qualifiedName", 60),
    (NamedFormat::Dns1123LabelPrefix, "dns1123LabelPrefix", 30),
    (NamedFormat::Dns1123SubdomainPrefix, "dns1123SubdomainPrefix", 60),
    (NamedFormat::Dns1035LabelPrefix, "dns1035LabelPrefix", 30),
    (NamedFormat::LabelValue, "labelValue", 40),
    (NamedFormat::Uri, "uri", 1103),
    (NamedFormat::Uuid, "uuid", 70),
    (NamedFormat::Byte, "byte", 84),
    (NamedFormat::Date, "date", 71),
    (NamedFormat::Datetime, "datetime", 71),
];

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

impl NamedFormat {
    /// The format of this name.
    pub fn named(name: &str) -> Option<NamedFormat> {
        FORMATS.iter().find(|(_, known, _)| *known == name).map(|(format, ..)| *format)
    }

    /// The length of its regular expression, as costs count it.
    pub fn regex_length(self) -> u64 {
        FORMATS.iter().find(|(format, ..)| *format == self).map_or(0, |(.., length)| *length)
    }

    /// The errors of the text; empty if it is valid.
    pub fn faults(self, text: &str) -> Vec<String> {
        let unless = |valid: bool, fault: &str| if valid { Vec::new() } else { vec![fault.to_owned()] };
        match self {
            NamedFormat::Dns1123Label => label_faults(text),
            NamedFormat::Dns1123Subdomain => subdomain_faults(text),
            NamedFormat::Dns1035Label => old_label_faults(text),
            NamedFormat::QualifiedName => key_faults(text),
            NamedFormat::Dns1123LabelPrefix => label_faults(&without_dash(text)),
            NamedFormat::Dns1123SubdomainPrefix => subdomain_faults(&without_dash(text)),
            NamedFormat::Dns1035LabelPrefix => old_label_faults(&without_dash(text)),
            NamedFormat::LabelValue => value_faults(text),
            NamedFormat::Uri => url::check(text).err().into_iter().collect(),
            NamedFormat::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            NamedFormat::Byte => unless(is_base64(text), "invalid base64"),
            NamedFormat::Date => unless(openapi_format::parse_date(text).is_ok(), "invalid date"),
            NamedFormat::Datetime => unless(is_datetime(text), "invalid datetime"),
        }
    }
}

/// A name that something is appended to may end with a dash. Kubernetes drops the character before it as well.
fn without_dash(text: &str) -> String {
    if text.len() > 1 && text.ends_with('-') {
        let end = text.len() - 2;
        return match text.get(..end) {
            Some(start) => format!("{start}a"),
            // Half of a character remains, which no name allows.
            None => format!("{}\u{fffd}a", text.get(..text.floor_char_boundary(end)).unwrap_or_default()),
        };
    }
    text.to_owned()
}

fn label_faults(text: &str) -> Vec<String> {
    let mut faults = too_long(text, LABEL_BYTES_MAX);
    if !is_label(text) {
        faults.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned()
        });
    }
    faults
}

fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults = too_long(text, SUBDOMAIN_BYTES_MAX);
    if !is_subdomain(text) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    faults
}

fn old_label_faults(text: &str) -> Vec<String> {
    let mut faults = too_long(text, LABEL_BYTES_MAX);
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    faults
}

fn too_long(text: &str, bytes_max: usize) -> Vec<String> {
    if text.len() > bytes_max {
        vec![format!("must be no more than {bytes_max} characters")]
    } else {
        Vec::new()
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| plain(byte) || byte == b'-')
        && text.bytes().next().is_some_and(plain)
        && text.bytes().last().is_some_and(plain)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// 32 digits, of which the groups may be separated by a dash.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((digits, behind)) = rest.split_at_checked(length) else { return false };
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

/// Groups of four characters, at least one, the last of them padded.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    !digits.is_empty()
        && padding <= 2
        && text.len().is_multiple_of(4)
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

/// A date, the letter T, and a time of day with its offset. What stands behind a second T does not matter.
fn is_datetime(text: &str) -> bool {
    // In small letters as Go has them: no other character becomes an ASCII digit, dash or t.
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    openapi_format::parse_date(date).is_ok() && is_time_of_day(time)
}

fn is_time_of_day(text: &str) -> bool {
    let two = |text: &str, at: usize, most: u32| {
        text.get(at..at + 2)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u32>().ok())
            .is_some_and(|number| number <= most)
    };
    let bytes = text.as_bytes();
    if !(two(text, 0, 23) && two(text, 3, 59) && two(text, 6, 59)) || bytes[2] != b':' || bytes[5] != b':' {
        return false;
    }
    let zone = |text: &str| {
        let offset = || {
            text.len() == 6
                && text.starts_with(['+', '-'])
                && two(text, 1, 99)
                && text.as_bytes()[3] == b':'
                && two(text, 4, 99)
        };
        text == "z" || offset()
    };
    let rest = &text[8..];
    if zone(rest) {
        return true;
    }
    // Any character may separate the fraction.
    let mut characters = rest.chars();
    if characters.next().is_none_or(|separator| separator == '\n') {
        return false;
    }
    let fraction = characters.as_str();
    let behind = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    behind.len() < fraction.len() && zone(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(name: &str, text: &str) -> bool {
        NamedFormat::named(name).unwrap().faults(text).is_empty()
    }

    #[test]
    fn formats_accept_what_has_them() {
        let long = "a".repeat(64);
        for (name, accepted, refused) in [
            ("dns1123Label", &["a", "1-a", "my-name"][..], &["", "-a", "a-", "A", "a.b", &long, "é"][..]),
            ("dns1123Subdomain", &["a.b", "1.2"], &["a..b", ".a", "A.b"]),
            ("dns1035Label", &["a", "a1"], &["1a", "", "a-"]),
            ("dns1123LabelPrefix", &["a-", "ab--"], &["-", "-a-a"]),
            ("dns1123SubdomainPrefix", &["a.b-"], &["a..-b"]),
            ("dns1035LabelPrefix", &["a1-"], &["1a-"]),
            ("qualifiedName", &["a", "a.b/C"], &["", "a/", "A/b"]),
            ("labelValue", &["", "A.b"], &["-a"]),
            ("uri", &["/a", "x:y"], &["../x", ""]),
            (
                "uuid",
                &["123e4567-E89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
                &["", "x", "123e4567-e89b-12d3-a456-42661417400", "123e4567--e89b-12d3-a456-426614174000"],
            ),
            ("byte", &["aGk=", "aA==", "abcd", "a+/="], &["", "a", "a===", "====", "a-_=", "aG=k"]),
            ("date", &["2024-02-29"], &["2023-02-29", "2023-1-01", "", "2023-01-01T"]),
            (
                "datetime",
                &["2021-01-01T00:00:00Z", "2021-01-01t00:00:00.5z", "2021-01-01T00:00:00x12+99:99"],
                &["2021-01-01", "2021-01-01T24:00:00Z", "2021-01-01T00:00:00", "2021-01-01T00:00:00.Z", "t"],
            ),
        ] {
            for text in accepted {
                assert!(valid(name, text), "{name} {text}");
            }
            for text in refused {
                assert!(!valid(name, text), "{name} {text}");
            }
        }
    }

    #[test]
    fn faults_have_the_texts_of_kubernetes() {
        for (name, text, fault) in [
            ("dns1123Label", "a.b", "must not contain dots"),
            ("uuid", "x", "does not match the UUID format"),
            ("uri", "../x", "parse \"../x\": invalid URI for request"),
            ("datetime", "2021-01-01", "invalid datetime"),
            ("byte", "x", "invalid base64"),
            ("date", "x", "invalid date"),
        ] {
            assert_eq!(NamedFormat::named(name).unwrap().faults(text), [fault]);
        }
        assert_eq!(NamedFormat::Dns1035Label.faults(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(NamedFormat::LabelValue.faults(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!((NamedFormat::named("nope"), NamedFormat::named("DNS1123Label")), (None, None));
        assert_eq!(NamedFormat::Uri.regex_length(), 1103);
    }
}
