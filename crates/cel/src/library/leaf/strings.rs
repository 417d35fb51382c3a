//! Functions on text. Positions count characters (code points).

/// `s.charAt(i)`: empty just behind the last character.
pub fn char_at(text: &str, index: i64) -> Result<String, String> {
    let rest = usize::try_from(index)
        .ok()
        .and_then(|index| skip_chars(text, index))
        .ok_or_else(|| out_of_range(index))?;
    Ok(rest.chars().take(1).collect())
}

/// `s.indexOf(t)`: the first position, or -1.
pub fn index_of(text: &str, part: &str) -> i64 {
    text.find(part).map_or(-1, |at| position(text, at))
}

/// `s.indexOf(t, from)`.
pub fn index_of_from(text: &str, part: &str, from: i64) -> Result<i64, String> {
    if part.is_empty() {
        return Ok(from);
    }
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some(rest) = skip_chars(text, start) else { return Ok(-1) };
    Ok(rest.find(part).map_or(-1, |at| from + position(rest, at)))
}

/// `s.lastIndexOf(t)`: the last position, or -1.
pub fn last_index_of(text: &str, part: &str) -> i64 {
    text.rfind(part).map_or(-1, |at| position(text, at))
}

/// `s.lastIndexOf(t, to)`: the last position that is not behind `to`; -1 if `to` is behind the text.
pub fn last_index_of_to(text: &str, part: &str, to: i64) -> Result<i64, String> {
    if part.is_empty() {
        return Ok(to);
    }
    let end = usize::try_from(to).map_err(|_| out_of_range(to))?;
    let Some(rest) = skip_chars(text, end).filter(|rest| !rest.is_empty()) else { return Ok(-1) };
    // A match may begin at `to`, so it may end as far behind it as the part is long.
    let start = text.len() - rest.len();
    let end = rest.char_indices().nth(part.chars().count()).map_or(text.len(), |(at, _)| start + at);
    Ok(text[..end].rfind(part).map_or(-1, |at| position(text, at)))
}

/// `s.lowerAscii()`.
pub fn lower_ascii(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// `s.upperAscii()`.
pub fn upper_ascii(text: &str) -> String {
    text.to_ascii_uppercase()
}

/// `s.replace(a, b)`, or the first `count` of them; all if it is negative.
pub fn replace(text: &str, old: &str, new: &str, count: i64) -> String {
    match usize::try_from(count) {
        Ok(count) => text.replacen(old, new, count),
        Err(_) => text.replace(old, new),
    }
}

/// `s.split(separator)`, or at most `count` parts of which the last holds the rest; all if it is negative.
pub fn split<'a>(text: &'a str, separator: &str, count: i64) -> Vec<&'a str> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(count, separator).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == count {
            parts.push(rest);
            break;
        }
        let (character, behind) = rest.split_at(first.len_utf8());
        parts.push(character);
        rest = behind;
    }
    parts
}

/// `s.substring(from)`.
pub fn substring(text: &str, from: i64) -> Result<&str, String> {
    usize::try_from(from).ok().and_then(|from| skip_chars(text, from)).ok_or_else(|| out_of_range(from))
}

/// `s.substring(from, to)`: `to` is behind the last character.
pub fn substring_to(text: &str, from: i64, to: i64) -> Result<&str, String> {
    if from > to {
        return Err(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let rest = substring(text, from)?;
    let behind = substring(text, to)?;
    Ok(&rest[..rest.len() - behind.len()])
}

/// `s.trim()`: without white space of Unicode at both ends.
pub fn trim(text: &str) -> &str {
    text.trim()
}

/// `strings.quote(s)`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The text behind its first `count` characters; `None` if it has fewer.
fn skip_chars(text: &str, count: usize) -> Option<&str> {
    let mut chars = text.chars();
    for _ in 0..count {
        chars.next()?;
    }
    Some(chars.as_str())
}

fn position(text: &str, byte: usize) -> i64 {
    text[..byte].chars().count() as i64
}

fn out_of_range(index: i64) -> String {
    format!("index out of range: {index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        assert_eq!(char_at("hé", 1).unwrap(), "é");
        assert_eq!(char_at("hé", 2).unwrap(), "");
        for index in [-1, 3, i64::MAX] {
            assert_eq!(char_at("hé", index).unwrap_err(), format!("index out of range: {index}"));
        }
        assert_eq!((index_of("éaéa", "a"), index_of("a", "x"), index_of("", "")), (1, -1, 0));
        assert_eq!(
            (last_index_of("éaéa", "éa"), last_index_of("ab", ""), last_index_of("", "x")),
            (2, 2, -1)
        );
    }

    #[test]
    fn searches_start_where_they_are_told() {
        for (from, found) in [(0, 1), (1, 1), (2, 4), (5, -1), (6, -1), (9, -1)] {
            assert_eq!(index_of_from("xéayéa", "é", from), Ok(found), "{from}");
        }
        assert_eq!((index_of_from("abc", "", 7), index_of_from("abc", "", -7)), (Ok(7), Ok(-7)));
        assert_eq!(index_of_from("abc", "a", -1).unwrap_err(), "index out of range: -1");
        for (to, found) in [(0, -1), (1, 1), (3, 1), (4, 4), (5, 4), (6, -1)] {
            assert_eq!(last_index_of_to("xéayéa", "éa", to), Ok(found), "{to}");
        }
        assert_eq!(last_index_of_to("abc", "bcd", 1), Ok(-1));
        assert_eq!((last_index_of_to("abc", "", 7), last_index_of_to("", "x", 0)), (Ok(7), Ok(-1)));
        assert_eq!(last_index_of_to("abc", "c", -1).unwrap_err(), "index out of range: -1");
    }

    #[test]
    fn parts_are_replaced_and_split() {
        assert_eq!(replace("hello", "", "_", -1), "_h_e_l_l_o_");
        assert_eq!(replace("hello", "", "_", 2), "_h_ello");
        assert_eq!(replace("aaa", "a", "b", 0), "aaa");
        assert_eq!(split("a,b,c", ",", 2), ["a", "b,c"]);
        assert_eq!(split("a,b", ",", -1), ["a", "b"]);
        assert_eq!(split("éb", "", -1), ["é", "b"]);
        assert_eq!(split("ébc", "", 2), ["é", "bc"]);
        assert_eq!(split("", ",", -1), [""]);
        assert!(split("", "", -1).is_empty() && split("a", ",", 0).is_empty());
    }

    #[test]
    fn substrings_stay_inside_the_text() {
        assert_eq!((substring("tacocat", 4), substring_to("tacocat", 0, 4)), (Ok("cat"), Ok("taco")));
        assert_eq!((substring("é", 1), substring_to("éab", 1, 2)), (Ok(""), Ok("a")));
        assert_eq!(substring("tacocat", 8).unwrap_err(), "index out of range: 8");
        for (from, to, error) in [
            (4, 2, "invalid substring range. start: 4, end: 2"),
            (-1, 2, "index out of range: -1"),
            (0, 9, "index out of range: 9"),
            (9, 10, "index out of range: 9"),
        ] {
            assert_eq!(substring_to("tacocat", from, to).unwrap_err(), error);
        }
    }

    #[test]
    fn quoted_text_has_escapes_for_what_cel_can_escape() {
        assert_eq!(quote("a\"b\n\\\0é\u{200b}"), "\"a\\\"b\\n\\\\\0é\u{200b}\"");
        assert_eq!(quote("\x07\x08\x0c\r\t\x0b"), "\"\\a\\b\\f\\r\\t\\v\"");
        assert_eq!(trim("\u{a0}\u{85} a\u{feff}\u{2003}"), "a\u{feff}");
    }
}
