//! Character classes: bracket expressions, and the classes that have a name.

use super::parser::{Flags, error};

/// Adds one code point or a range of them, without the surrogates, which no text has.
pub(super) fn push_range(out: &mut String, low: u32, high: u32) {
    let mut push = |low: u32, high: u32| {
        if low == high {
            out.push_str(&format!("\\x{{{low:X}}}"));
        } else if low < high {
            out.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
        }
    };
    push(low, high.min(0xd7ff));
    push(low.max(0xe000), high);
}

/// `\d`, `\s`, `\w` and their opposites: only ASCII.
pub(super) fn perl_class(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'd' => "[0-9]",
        b'D' => "[^0-9]",
        b's' => "[\\t\\n\\f\\r\\x20]",
        b'S' => "[^\\t\\n\\f\\r\\x20]",
        b'w' => "[0-9A-Za-z_]",
        b'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// `[:alpha:]` at the beginning of the text, and the text behind it. `None` if there is no such thing.
pub(super) fn posix_class(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some(end) = text.strip_prefix("[:").and_then(|rest| rest.find(":]")) else { return Ok(None) };
    let (whole, behind) = text.split_at(end + 4);
    let name = &whole[2..end + 2];
    if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(error("invalid character class range", whole));
    }
    Ok(Some((whole.to_owned(), behind)))
}

/// `\pL` or `\p{Greek}` at the beginning of the text, and the text behind it. `None` if there is no such thing.
pub(super) fn unicode_class(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some(rest) = text.strip_prefix("\\p").or_else(|| text.strip_prefix("\\P")) else { return Ok(None) };
    let Some(first) = rest.chars().next() else { return Ok(None) };
    let mut negated = text.as_bytes()[1] == b'P';
    let (whole, behind, mut name) = if first == '{' {
        let end = text.find('}').ok_or_else(|| error("invalid character class range", text))?;
        (&text[..=end], &text[end + 1..], &text[3..end])
    } else {
        let end = 2 + first.len_utf8();
        (&text[..end], &text[end..], &text[2..end])
    };
    if let Some(rest) = name.strip_prefix('^') {
        (negated, name) = (!negated, rest);
    }
    let property = unicode_property(name).ok_or_else(|| error("invalid character class range", whole))?;
    Ok(Some((format!("\\{}{{{property}}}", if negated { 'P' } else { 'p' }), behind)))
}

/// Scripts whose name has four letters. Every other name of four letters is a code, which Go does not know.
const SHORT_SCRIPTS: [&str; 9] = ["ahom", "cham", "kawi", "lisu", "modi", "newa", "thai", "toto", "garay"];

/// The category or script of this name in the syntax of crate `regex`.
fn unicode_property(name: &str) -> Option<String> {
    // Names are matched without case, spaces, dashes and underscores.
    let plain: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    if matches!(plain.as_str(), "any" | "ascii" | "assigned") {
        return Some(plain);
    }
    let category = format!("gc={plain}");
    if is_property(&category) {
        return Some(category);
    }
    let script = format!("sc={plain}");
    let is_code = plain.len() == 4 && !SHORT_SCRIPTS.contains(&plain.as_str());
    (!is_code && is_property(&script)).then_some(script)
}

fn is_property(property: &str) -> bool {
    regex::Regex::new(&format!("\\p{{{property}}}")).is_ok()
}

/// The class in brackets at the beginning of the text, in the syntax of crate `regex`, and the text behind it.
pub(super) fn bracketed(text: &str, flags: Flags) -> Result<(String, &str), String> {
    let mut rest = &text[1..];
    let mut class = String::from("[");
    if let Some(behind) = rest.strip_prefix('^') {
        class.push('^');
        rest = behind;
    }
    let mut items = String::new();
    let mut first = true;
    while first || !rest.starts_with(']') {
        first = false;
        if let Some((item, behind)) = posix_class(rest)? {
            items.push_str(&item);
            rest = behind;
            continue;
        }
        if let Some((item, behind)) = unicode_class(rest)? {
            items.push_str(&item);
            rest = behind;
            continue;
        }
        if let Some((item, behind)) = rest
            .strip_prefix('\\')
            .and_then(|escape| Some((perl_class(*escape.as_bytes().first()?)?, &escape[1..])))
        {
            items.push_str(item);
            rest = behind;
            continue;
        }
        let (low, high);
        (low, high, rest) = range(rest, text)?;
        push_range(&mut items, low, high);
    }
    rest = &rest[1..];
    // A class of which only surrogates were left matches nothing, or everything.
    if items.is_empty() {
        items.push_str("[^\\x00-\\x{10FFFF}]");
    }
    class.push_str(&items);
    class.push(']');
    Ok((flags.around(&class), rest))
}

/// One character or a range, and the text behind it.
fn range<'a>(text: &'a str, whole: &'a str) -> Result<(u32, u32, &'a str), String> {
    let (low, rest) = class_char(text, whole)?;
    if !rest.starts_with('-') || rest.len() < 2 || rest[1..].starts_with(']') {
        return Ok((low, low, rest));
    }
    let (high, rest) = class_char(&rest[1..], whole)?;
    if high < low {
        return Err(error("invalid character class range", &text[..text.len() - rest.len()]));
    }
    Ok((low, high, rest))
}

fn class_char<'a>(text: &'a str, whole: &str) -> Result<(u32, &'a str), String> {
    match text.chars().next() {
        None => Err(error("missing closing ]", whole)),
        Some('\\') => super::parser::escape(text),
        Some(c) => Ok((u32::from(c), &text[c.len_utf8()..])),
    }
}
