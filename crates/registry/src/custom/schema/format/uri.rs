//! Addresses of resources, as Go reads those of HTTP requests.

/// Whether the text is absolute: a scheme and anything, or a path that begins with a slash.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((has_scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return has_scheme;
    }
    let authority = rest.strip_prefix("//").filter(|_| has_scheme);
    let path = match authority {
        Some(behind) => {
            let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            if !is_authority(authority) {
                return false;
            }
            path
        }
        None => rest,
    };
    is_unescaped(path)
}

/// Whether there is a scheme, and the text after it. None if the text begins with a colon.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' => return (at > 0).then(|| (true, &text[at + 1..])),
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(text: &str) -> bool {
    match text.rsplit_once('@') {
        Some((user, host)) => is_user(user) && is_host(host),
        None => is_host(text),
    }
}

fn is_user(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b))
        && is_unescaped(text)
}

fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[') {
        let Some((address, port)) = inner.rsplit_once(']') else { return false };
        let (address, zone) = address.split_once("%25").unwrap_or((address, "x"));
        return is_port(port) && !zone.is_empty() && is_unescaped(zone) && is_v6(address);
    }
    match text.find(':') {
        Some(at) => is_port(&text[at..]) && is_plain_host(&text[..at]),
        None => is_plain_host(text),
    }
}

fn is_v6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>()
        .is_ok_and(|address| address.to_ipv4_mapped().is_none() || text.contains(':'))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Bytes of other scripts may stand for themselves or be escaped; of ASCII only a percent sign may be.
fn is_plain_host(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'%' => match bytes.get(at + 1..at + 3) {
                Some([high, low]) if low.is_ascii_hexdigit() && is_high(*high) => 3,
                Some(b"25") => 3,
                _ => return false,
            },
            0x80.. => 1,
            b if b.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&b) => 1,
            _ => return false,
        };
    }
    true
}

fn is_high(digit: u8) -> bool {
    digit.is_ascii_hexdigit() && !digit.is_ascii_digit() || matches!(digit, b'8' | b'9')
}

/// Whether two digits follow every percent sign.
fn is_unescaped(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}
