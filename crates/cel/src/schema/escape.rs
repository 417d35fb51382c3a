//! Names of properties as identifiers of the language, and back.

/// Words that are tokens or reserved identifiers of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is a token or a reserved identifier of the language.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The identifier for a property. `None`: expressions cannot name the property.
pub fn escape(property: &str) -> Option<String> {
    if property.is_empty() || property.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if is_reserved(property) {
        return Some(format!("__{property}__"));
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match first {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => escaped.push(first),
            _ => return None,
        }
        rest = &rest[first.len_utf8()..];
    }
    Some(escaped)
}

/// The property that an identifier names. `None`: no property has this identifier.
pub fn unescape(identifier: &str) -> Option<String> {
    let mut property = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let inner = &rest[start + 2..];
        // An escape is two underscores, something without underscores, and two underscores.
        let end = inner.find('_').unwrap_or(inner.len());
        if end == 0 || !inner[end..].starts_with("__") {
            let past = if end == 0 { start + 1 } else { start + 2 };
            property.push_str(&rest[..past]);
            rest = &rest[past..];
            continue;
        }
        property.push_str(&rest[..start]);
        let word = &inner[..end];
        match word {
            "underscores" => property.push_str("__"),
            "dot" => property.push('.'),
            "dash" => property.push('-'),
            "slash" => property.push('/'),
            _ if is_reserved(word) && identifier.len() == word.len() + 4 => property.push_str(word),
            _ => return None,
        }
        rest = &inner[end + 2..];
    }
    property.push_str(rest);
    Some(property)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_escaped_and_found_again() {
        for (property, identifier) in [
            ("a-b", "a__dash__b"),
            ("c.d", "c__dot__d"),
            ("e/f", "e__slash__f"),
            ("in", "__in__"),
            ("__x", "__underscores__x"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("x_y", "x_y"),
            ("_x", "_x"),
        ] {
            assert_eq!(escape(property).as_deref(), Some(identifier), "{property}");
            assert_eq!(unescape(identifier).as_deref(), Some(property), "{identifier}");
        }
    }

    #[test]
    fn some_properties_cannot_be_named() {
        for property in ["", "1a", "a b", "é", "a$"] {
            assert_eq!(escape(property), None, "{property}");
        }
        for identifier in ["__nope__", "a__in__", "__for__x"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
