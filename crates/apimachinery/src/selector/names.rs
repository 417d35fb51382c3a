//! The syntax of label keys and label values, and the error texts.

const NAME_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The faults of a label key; empty if there are none.
pub fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            faults.extend(prefix_faults(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(format!("name part {}", too_long(NAME_BYTES_MAX)));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    faults
}

/// The faults of a label value; empty if there are none.
pub fn value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        faults.push(too_long(NAME_BYTES_MAX));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    faults
}

fn prefix_faults(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let mut faults = Vec::new();
    if prefix.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    if !prefix.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN_RULE.to_owned());
    }
    faults
}

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

fn is_name(text: &str) -> bool {
    ends_match(text, |b| b.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn is_dns_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    ends_match(text, plain) && text.bytes().all(|b| plain(b) || b == b'-')
}

fn ends_match(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    matches!(text.as_bytes(), [first, .., last] if allowed(*first) && allowed(*last))
        || matches!(text.as_bytes(), [only] if allowed(*only))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_an_optional_dns_prefix() {
        let long = "a".repeat(63);
        for key in
            ["a", "A", "1", "a.b-c_d", "example.com/a", "a-1.b/B", &long, "kubernetes.io/metadata.name"]
        {
            assert!(key_faults(key).is_empty(), "{key}");
        }
    }

    #[test]
    fn an_error_lists_everything_that_is_wrong_with_a_key() {
        let longer = "a".repeat(64);
        let long_prefix = format!("{}/a", "a".repeat(254));
        let name = format!("name part {NAME_RULE}");
        let prefix = format!("prefix part {SUBDOMAIN_RULE}");
        let empty = "name part must be non-empty";
        for (key, faults) in [
            ("", vec![empty, &name]),
            ("-a", vec![&name]),
            ("a b", vec![&name]),
            ("ä", vec![&name]),
            (&longer, vec!["name part must be no more than 63 bytes"]),
            ("/a", vec!["prefix part must be non-empty"]),
            ("a/", vec![empty, &name]),
            ("A/b", vec![&prefix]),
            ("a..b/c", vec![&prefix]),
            ("a_b/-", vec![&prefix, &name]),
            (&long_prefix, vec!["prefix part must be no more than 253 bytes"]),
        ] {
            assert_eq!(key_faults(key), faults, "{key:?}");
        }
    }

    #[test]
    fn values_are_empty_or_names() {
        let (long, longer) = ("a".repeat(63), "-".repeat(64));
        for (value, faults) in [
            ("", vec![]),
            ("a", vec![]),
            ("A.b_c-1", vec![]),
            (&long, vec![]),
            ("a/b", vec![VALUE_RULE]),
            ("-1", vec![VALUE_RULE]),
            (&longer, vec!["must be no more than 63 bytes", VALUE_RULE]),
        ] {
            assert_eq!(value_faults(value), faults, "{value:?}");
        }
    }
}
