//! Addresses of network devices.

/// Six, eight or twenty bytes: each behind a colon or dash, or two behind a dot.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = match text.as_bytes().get(2) {
        Some(b':') => groups(text, ':', 2),
        Some(b'-') => groups(text, '-', 2),
        _ => groups(text, '.', 4).map(|count| count * 2),
    };
    matches!(bytes, Some(6 | 8 | 20))
}

/// The number of groups, each of `digits` hexadecimal digits. None if the text has anything else.
fn groups(text: &str, between: char, digits: usize) -> Option<usize> {
    let is_group = |group: &str| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit());
    let groups: Vec<&str> = text.split(between).collect();
    groups.iter().all(|group| is_group(group)).then_some(groups.len())
}
