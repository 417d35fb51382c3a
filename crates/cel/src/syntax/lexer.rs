//! Text into tokens.
//!
//! The longest token wins. Where none begins, the text up to the character that no token could go on
//! with is reported and dropped, and the lexer goes on behind it.

use super::source::Errors;

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind,
    pub(super) text: &'s str,
    /// The offset of its beginning, in code points.
    pub(super) offset: usize,
    /// The offset of its beginning, in bytes.
    pub(super) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    Identifier,
    QuotedIdentifier,
    End,
}

/// The tokens of a text, with one [`TokenKind::End`] at their end.
pub(super) fn tokens<'s>(text: &'s str, errors: &mut Errors) -> Vec<Token<'s>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut offset = 0;
    while !rest.is_empty() && !errors.is_full() {
        let length = match next(rest) {
            Next::Blank(length) => length,
            Next::Token(kind, length) => {
                let start = text.len() - rest.len();
                tokens.push(Token { kind, text: &rest[..length], offset, start });
                length
            }
            Next::Nothing(failed_at) => {
                let length = failed_at + rest[failed_at..].chars().next().map_or(0, char::len_utf8);
                let text = escaped_whitespace(&rest[..length]);
                errors.report_at(offset, format!("Syntax error: token recognition error at: '{text}'"));
                length
            }
        };
        offset += rest[..length].chars().count();
        rest = &rest[length..];
    }
    tokens.push(Token { kind: TokenKind::End, text: "<EOF>", offset, start: text.len() });
    tokens
}

fn escaped_whitespace(text: &str) -> String {
    text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// The beginning of a text. Lengths are in bytes.
enum Next {
    /// White space or a comment.
    Blank(usize),
    Token(TokenKind, usize),
    /// No token; none can go on with the character at this position.
    Nothing(usize),
}

fn next(text: &str) -> Next {
    let bytes = text.as_bytes();
    let second = bytes.get(1).copied();
    let either = |char: u8, long: TokenKind, short: TokenKind| {
        if second == Some(char) { Next::Token(long, 2) } else { Next::Token(short, 1) }
    };
    let both = |char: u8, kind: TokenKind| {
        if second == Some(char) { Next::Token(kind, 2) } else { Next::Nothing(1) }
    };
    match bytes[0] {
        b' ' | b'\t' | b'\r' | b'\n' | b'\x0c' => Next::Blank(1),
        b'/' if second == Some(b'/') => Next::Blank(text.find('\n').unwrap_or(text.len())),
        b'=' => both(b'=', TokenKind::Equals),
        b'!' => either(b'=', TokenKind::NotEquals, TokenKind::Exclamation),
        b'<' => either(b'=', TokenKind::LessEquals, TokenKind::Less),
        b'>' => either(b'=', TokenKind::GreaterEquals, TokenKind::Greater),
        b'&' => both(b'&', TokenKind::And),
        b'|' => both(b'|', TokenKind::Or),
        b'[' => Next::Token(TokenKind::LeftBracket, 1),
        b']' => Next::Token(TokenKind::RightBracket, 1),
        b'{' => Next::Token(TokenKind::LeftBrace, 1),
        b'}' => Next::Token(TokenKind::RightBrace, 1),
        b'(' => Next::Token(TokenKind::LeftParen, 1),
        b')' => Next::Token(TokenKind::RightParen, 1),
        b'.' if second.is_some_and(|digit| digit.is_ascii_digit()) => number(bytes),
        b'.' => Next::Token(TokenKind::Dot, 1),
        b',' => Next::Token(TokenKind::Comma, 1),
        b'-' => Next::Token(TokenKind::Minus, 1),
        b'?' => Next::Token(TokenKind::Question, 1),
        b':' => Next::Token(TokenKind::Colon, 1),
        b'+' => Next::Token(TokenKind::Plus, 1),
        b'*' => Next::Token(TokenKind::Star, 1),
        b'/' => Next::Token(TokenKind::Slash, 1),
        b'%' => Next::Token(TokenKind::Percent, 1),
        b'0'..=b'9' => number(bytes),
        b'\'' | b'"' => string(text, TokenKind::String),
        b'`' => quoted_identifier(bytes),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(text),
        _ => Next::Nothing(0),
    }
}

fn digits(bytes: &[u8], from: usize) -> usize {
    from + bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn number(bytes: &[u8]) -> Next {
    let is_unsigned = |at: usize| matches!(bytes.get(at), Some(b'u' | b'U'));
    if bytes.starts_with(b"0x") {
        let end = 2 + bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if end > 2 {
            return if is_unsigned(end) {
                Next::Token(TokenKind::Uint, end + 1)
            } else {
                Next::Token(TokenKind::Int, end)
            };
        }
    }
    let whole = digits(bytes, 0);
    let mut end = whole;
    if bytes.get(whole) == Some(&b'.') && digits(bytes, whole + 1) > whole + 1 {
        end = digits(bytes, whole + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(bytes, end + 1 + sign);
        if exponent > end + 1 + sign {
            return Next::Token(TokenKind::Float, exponent);
        }
    }
    if end > whole {
        Next::Token(TokenKind::Float, end)
    } else if is_unsigned(end) {
        Next::Token(TokenKind::Uint, end + 1)
    } else {
        Next::Token(TokenKind::Int, end)
    }
}

fn quoted_identifier(bytes: &[u8]) -> Next {
    let is_inside =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ');
    let end = 1 + bytes[1..].iter().take_while(|byte| is_inside(byte)).count();
    if end > 1 && bytes.get(end) == Some(&b'`') {
        Next::Token(TokenKind::QuotedIdentifier, end + 1)
    } else {
        Next::Nothing(end)
    }
}

fn word(text: &str) -> Next {
    let bytes = text.as_bytes();
    // A prefix of a string: `b`, `r` or both in this order.
    let mut prefix = usize::from(matches!(bytes[0], b'b' | b'B'));
    let kind = if prefix == 1 { TokenKind::Bytes } else { TokenKind::String };
    prefix += usize::from(matches!(bytes.get(prefix), Some(b'r' | b'R')));
    if prefix > 0
        && matches!(bytes.get(prefix), Some(b'\'' | b'"'))
        && let Next::Token(kind, length) = string(text, kind)
    {
        return Next::Token(kind, length);
    }
    let end = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let kind = match &text[..end] {
        "in" => TokenKind::In,
        "true" => TokenKind::True,
        "false" => TokenKind::False,
        "null" => TokenKind::Null,
        _ => TokenKind::Identifier,
    };
    Next::Token(kind, end)
}

fn string(text: &str, kind: TokenKind) -> Next {
    let quote_at = text.find(['\'', '"']).unwrap_or(0);
    let raw = text[..quote_at].ends_with(['r', 'R']);
    let body = &text[quote_at..];
    let quote = &body[..1];
    let triple = &body.as_bytes()[..body.len().min(3)] == quote.repeat(3).as_bytes();
    if triple && let Ok(length) = string_body(&body[3..], &quote.repeat(3), raw, true) {
        return Next::Token(kind, quote_at + 3 + length);
    }
    match string_body(&body[1..], quote, raw, false) {
        Ok(length) => Next::Token(kind, quote_at + 1 + length),
        Err(failed_at) => Next::Nothing(quote_at + 1 + failed_at),
    }
}

/// The length of the body of a string with the quotes at its end, or the offset at which it stops being one.
fn string_body(body: &str, end: &str, raw: bool, lines: bool) -> Result<usize, usize> {
    let mut at = 0;
    while let Some(char) = body[at..].chars().next() {
        if body[at..].starts_with(end) {
            return Ok(at + end.len());
        }
        if !lines && matches!(char, '\n' | '\r') {
            return Err(at);
        }
        at += if char == '\\' && !raw {
            escape_length(&body.as_bytes()[at..]).map_err(|failed| at + failed)?
        } else {
            char.len_utf8()
        };
    }
    Err(at)
}

/// The length of an escape, or the offset of the byte that cannot be part of one.
fn escape_length(bytes: &[u8]) -> Result<usize, usize> {
    let all = |count: usize, is: fn(&u8) -> bool| {
        let good = bytes.iter().skip(2).take(count).take_while(|byte| is(byte)).count();
        if good == count { Ok(2 + count) } else { Err(2 + good) }
    };
    match bytes.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(2),
        Some(b'x' | b'X') => all(2, u8::is_ascii_hexdigit),
        Some(b'u') => all(4, u8::is_ascii_hexdigit),
        Some(b'U') => all(8, u8::is_ascii_hexdigit),
        Some(b'0'..=b'3') => all(2, |byte| matches!(byte, b'0'..=b'7')),
        _ => Err(1),
    }
}
