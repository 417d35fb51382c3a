//! The values of literals.

/// The text of a string literal with its quotes and prefix.
///
/// # Errors
///
/// The reason why the literal is invalid.
pub(super) fn string(token: &str) -> Result<String, &'static str> {
    let mut text = String::with_capacity(token.len());
    for part in parts(token) {
        match part {
            Part::Text(verbatim) => text.push_str(verbatim),
            Part::Byte(value) | Part::CodePoint(value) => {
                text.push(char::from_u32(value).ok_or("invalid unicode code point")?);
            }
        }
    }
    Ok(text)
}

/// The bytes of a bytes literal with its quotes and prefix.
///
/// # Errors
///
/// The reason why the literal is invalid.
pub(super) fn bytes(token: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(token.len());
    for part in parts(&token[1..]) {
        match part {
            Part::Text(verbatim) => bytes.extend_from_slice(verbatim.as_bytes()),
            Part::Byte(value) => bytes.push(u8::try_from(value).map_err(|_| UNREADABLE)?),
            Part::CodePoint(_) => return Err(UNREADABLE),
        }
    }
    Ok(bytes)
}

const UNREADABLE: &str = "unable to unescape string";

/// A piece of a string.
enum Part<'t> {
    Text(&'t str),
    /// `\xHH`, `\ooo`, `\n` and the like: a code point of a string, a byte of bytes.
    Byte(u32),
    /// `\uHHHH` or `\UHHHHHHHH`.
    CodePoint(u32),
}

/// The pieces between the quotes. The lexer has seen to it that every escape is whole.
fn parts(token: &str) -> impl Iterator<Item = Part<'_>> {
    let raw = token.starts_with(['r', 'R']);
    let quoted = if raw { &token[1..] } else { token };
    let quotes = match quoted.as_bytes() {
        [b'\'', b'\'', b'\'', .., b'\'', b'\'', b'\''] | [b'"', b'"', b'"', .., b'"', b'"', b'"'] => 3,
        _ => 1,
    };
    let mut rest = &quoted[quotes..quoted.len() - quotes];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, length) = match rest.find('\\').filter(|_| !raw) {
            None => (Part::Text(rest), rest.len()),
            Some(0) => escape(rest),
            Some(before) => (Part::Text(&rest[..before]), before),
        };
        // `length` never leaves the text: the lexer accepts whole escapes only.
        rest = rest.get(length..).unwrap_or("");
        Some(part)
    })
}

fn escape(text: &str) -> (Part<'_>, usize) {
    let number = |digits: usize, from: usize, base: u32| {
        u32::from_str_radix(text.get(from..from + digits).unwrap_or(""), base).unwrap_or(u32::MAX)
    };
    let bytes = text.as_bytes();
    let simple = |value: u8| (Part::Byte(u32::from(value)), 2);
    match bytes.get(1).copied().unwrap_or(b'\\') {
        b'a' => simple(0x07),
        b'b' => simple(0x08),
        b'f' => simple(0x0c),
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'v' => simple(0x0b),
        b'x' | b'X' => (Part::Byte(number(2, 2, 16)), 4),
        b'u' => (Part::CodePoint(number(4, 2, 16)), 6),
        b'U' => (Part::CodePoint(number(8, 2, 16)), 10),
        b'0'..=b'3' => (Part::Byte(number(3, 1, 8)), 4),
        other => simple(other),
    }
}
