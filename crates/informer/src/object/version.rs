//! Compares resource versions.

use std::cmp::Ordering;

/// Compares two versions; nothing if either is not a number in canonical form.
///
/// ```
/// use keepwatch_informer::object::compare_versions;
/// use std::cmp::Ordering;
///
/// assert_eq!(compare_versions("9", "10"), Some(Ordering::Less));
/// assert_eq!(compare_versions("9", "abc"), None);
/// ```
pub fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    (is_number(a) && is_number(b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
}

/// The oldest of several versions. The empty version counts as the oldest.
pub fn oldest_version<'a>(versions: impl IntoIterator<Item = &'a str>) -> &'a str {
    let order = |a: &&str, b: &&str| match (a.is_empty(), b.is_empty()) {
        (false, false) => compare_versions(a, b).unwrap_or(Ordering::Equal),
        (a, b) => b.cmp(&a),
    };
    versions.into_iter().min_by(order).unwrap_or_default()
}

fn is_number(version: &str) -> bool {
    !version.is_empty() && !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_any_length_are_compared() {
        let long = "9".repeat(40);
        for (a, b, expected) in [
            ("1", "1", Some(Ordering::Equal)),
            ("2", "10", Some(Ordering::Less)),
            ("10", "2", Some(Ordering::Greater)),
            ("5", long.as_str(), Some(Ordering::Less)),
            ("", "1", None),
            ("1", "", None),
            ("01", "1", None),
            ("0", "1", None),
            ("-1", "1", None),
            ("1a", "1", None),
            ("١", "1", None),
        ] {
            assert_eq!(compare_versions(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_empty_version_is_the_oldest() {
        for (versions, expected) in
            [(&["10", "9"][..], "9"), (&["10", "", "9"], ""), (&["a", "9"], "a"), (&[], "")]
        {
            assert_eq!(oldest_version(versions.iter().copied()), expected, "{versions:?}");
        }
    }
}
