//! Addresses of mail, as Go reads one in a header: `a@b.c` or `Name <a@b.c>`.

/// The largest depth of nested comments.
const COMMENT_LEVELS_MAX: usize = 64;

/// Whether the text is one address.
pub(super) fn is_address(text: &str) -> bool {
    address(text).is_some_and(|rest| rest.is_empty())
}

/// The text after an address and the comments behind it.
fn address(text: &str) -> Option<&str> {
    let text = blanks(text);
    if text.is_empty() {
        return None;
    }
    if let Some(rest) = addr_spec(text) {
        return skip_comments(rest);
    }
    let rest = match text.starts_with('<') {
        true => text,
        false => phrase(text)?,
    };
    let rest = blanks(rest).strip_prefix('<')?;
    skip_comments(addr_spec(rest)?.strip_prefix('>')?)
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn skip_comments(text: &str) -> Option<&str> {
    let mut rest = blanks(text);
    while let Some(inner) = rest.strip_prefix('(') {
        rest = blanks(comment(inner)?);
    }
    Some(rest)
}

fn comment(text: &str) -> Option<&str> {
    let (mut depth, mut chars) = (1, text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            '(' if depth < COMMENT_LEVELS_MAX => depth += 1,
            '(' => return None,
            ')' if depth == 1 => return Some(&text[at + 1..]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Reads `local@domain` and returns the text after it.
fn addr_spec(text: &str) -> Option<&str> {
    let rest = match text.starts_with('"') {
        true => {
            let (content, rest) = quoted(text)?;
            if content.is_empty() {
                return None;
            }
            rest
        }
        false => dot_atom(text)?,
    };
    let rest = blanks(blanks(rest).strip_prefix('@')?);
    match rest.strip_prefix('[') {
        Some(literal) => {
            let (literal, rest) = literal.split_once(']')?;
            let is_address = match literal.strip_prefix("IPv6:") {
                Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
                None => literal.parse::<std::net::IpAddr>().is_ok(),
            };
            is_address.then_some(rest)
        }
        None => dot_atom(rest),
    }
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

/// Reads atoms with single dots between them and returns the text after them.
fn dot_atom(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(is_atom_char(c) || c == '.')).unwrap_or(text.len());
    let (atom, rest) = text.split_at(end);
    atom.split('.').all(|part| !part.is_empty()).then_some(rest)
}

/// The content of a quoted string, and the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((&inner[..at], &inner[at + 1..])),
            '\\' => {
                let (_, escaped) = chars.next()?;
                is_visible(escaped).then_some(())?;
            }
            c if is_visible(c) => {}
            _ => return None,
        }
    }
    None
}

fn is_visible(c: char) -> bool {
    !c.is_ascii() || ('!'..='~').contains(&c) || matches!(c, ' ' | '\t')
}

/// Words before an address in angle brackets. Dots need no quotes.
fn phrase(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut words = 0;
    loop {
        rest = if words > 0 { skip_comments(rest)? } else { blanks(rest) };
        let next = if rest.starts_with('"') {
            quoted(rest).map(|(_, behind)| behind)
        } else {
            let end = rest.find(|c: char| !(is_atom_char(c) || c == '.')).unwrap_or(rest.len());
            (end > 0).then(|| &rest[end..])
        };
        match next {
            Some(behind) => rest = behind,
            None if words > 0 => return Some(rest),
            None => return None,
        }
        words += 1;
    }
}
