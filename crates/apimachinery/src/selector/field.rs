//! Field selectors: `metadata.name=web-0,status.phase!=Failed`.
//!
//! Kept true: terms are sorted, and their values are unescaped. Which fields a kind has is not known
//! here; callers that know it rename or refuse them with [`FieldSelector::try_map_fields`].

use std::fmt;

use super::Lookup;

/// The objects that a client wants, by the values of fields: those for which every term holds.
///
/// ```
/// use keepwatch_apimachinery::selector::FieldSelector;
///
/// let selector = FieldSelector::parse("spec.nodeName=n1,status.phase!=Failed").expect("well formed");
/// assert!(selector.matches(&[("spec.nodeName", "n1"), ("status.phase", "Running")]));
/// assert_eq!(selector.exact_match("spec.nodeName"), Some("n1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// The selector that every object matches.
    pub fn everything() -> FieldSelector {
        FieldSelector::default()
    }

    /// Reads the `fieldSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<FieldSelector, InvalidFieldSelector> {
        let mut terms = split_terms(text);
        // With several faults the one in the first term, in this order, is reported.
        terms.sort_unstable();
        terms.into_iter().filter(|term| !term.is_empty()).map(|term| parse_term(text, term)).collect()
    }

    /// Whether every object matches because there is no term.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, sorted.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether an object with these fields is wanted. A field it lacks has the value `""`.
    pub fn matches<L: Lookup + ?Sized>(&self, fields: &L) -> bool {
        self.terms.iter().all(|term| term.matches(fields))
    }

    /// The one value that `field` must have, if the selector names it.
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let mut equalities = self.terms.iter().filter(|term| term.comparison == Comparison::Equal);
        equalities.find(|term| term.field == field).map(|term| term.value.as_str())
    }

    /// The same selector over renamed fields, or the first refusal of a field. A term without a field and a value, as `=`
    /// is one, says nothing and is left out.
    ///
    /// ```
    /// # use keepwatch_apimachinery::selector::FieldSelector;
    /// let known = |field: String| match field.as_str() {
    ///     "spec.host" => Ok("spec.nodeName".to_owned()),
    ///     "metadata.name" => Ok(field),
    ///     _ => Err(format!("field label not supported: {field}")),
    /// };
    /// let selector = FieldSelector::parse("spec.host=n1").expect("well formed").try_map_fields(known);
    /// assert_eq!(selector.expect("a known field").to_string(), "spec.nodeName=n1");
    /// ```
    pub fn try_map_fields<E>(
        self,
        mut rename: impl FnMut(String) -> Result<String, E>,
    ) -> Result<FieldSelector, E> {
        let says_something = |term: &FieldTerm| !(term.field.is_empty() && term.value.is_empty());
        let terms = self.terms.into_iter().filter(says_something);
        terms.map(|term| Ok(FieldTerm { field: rename(term.field)?, ..term })).collect()
    }
}

impl FromIterator<FieldTerm> for FieldSelector {
    fn from_iter<I: IntoIterator<Item = FieldTerm>>(terms: I) -> FieldSelector {
        let mut terms: Vec<_> = terms.into_iter().collect();
        terms.sort_unstable();
        FieldSelector { terms }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{term}")?;
        }
        Ok(())
    }
}

/// Whether the value of a field must be the term's, or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// `f=v` or `f==v`
    Equal,
    /// `f!=v`
    NotEqual,
}

/// One condition of a field selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldTerm {
    /// The field's name, as `spec.nodeName`.
    pub field: String,
    /// Whether the field's value must be `value`, or must not.
    pub comparison: Comparison,
    /// The value, unescaped.
    pub value: String,
}

impl FieldTerm {
    /// The term `field=value`.
    pub fn equal(field: impl Into<String>, value: impl Into<String>) -> FieldTerm {
        FieldTerm { field: field.into(), comparison: Comparison::Equal, value: value.into() }
    }

    /// Whether the term holds for an object with these fields. A field it lacks has the value `""`.
    pub fn matches<L: Lookup + ?Sized>(&self, fields: &L) -> bool {
        let is_equal = fields.lookup(&self.field).unwrap_or_default() == self.value;
        is_equal == (self.comparison == Comparison::Equal)
    }
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(match self.comparison {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
        })?;
        for c in self.value.chars() {
            if needs_escape(c) {
                f.write_str("\\")?;
            }
            fmt::Write::write_char(f, c)?;
        }
        Ok(())
    }
}

/// The text is no field selector. `Display` says why, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidFieldSelector {
    /// A term without `=`, `==` or `!=`.
    Term {
        /// The whole selector.
        selector: String,
        /// The part that is no term.
        term: String,
    },
    /// A backslash before a character that needs none, or at the end.
    Escape(Option<char>),
    /// A character that has to be escaped in a value, and is not.
    Unescaped(char),
}

impl fmt::Display for InvalidFieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidFieldSelector::Term { selector, term } => {
                write!(f, "invalid selector: '{selector}'; can't understand '{term}'")
            }
            InvalidFieldSelector::Escape(c) => {
                write!(f, "invalid field selector: invalid escape sequence: \\")?;
                c.map_or(Ok(()), |c| write!(f, "{c}"))
            }
            InvalidFieldSelector::Unescaped(c) => {
                write!(f, "invalid field selector: unescaped character in value: {}", u32::from(*c))
            }
        }
    }
}

impl std::error::Error for InvalidFieldSelector {}

/// Cuts at every comma that is not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
    .collect()
}

fn parse_term(selector: &str, term: &str) -> Result<FieldTerm, InvalidFieldSelector> {
    let not_understood =
        || InvalidFieldSelector::Term { selector: selector.to_owned(), term: term.to_owned() };
    let equals = term.find('=').ok_or_else(not_understood)?;
    let (field, value) = (&term[..equals], &term[equals + 1..]);
    let (field, comparison, value) = match field.strip_suffix('!') {
        Some(field) => (field, Comparison::NotEqual, value),
        None => (field, Comparison::Equal, value.strip_prefix('=').unwrap_or(value)),
    };
    Ok(FieldTerm { field: field.to_owned(), comparison, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, InvalidFieldSelector> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) if needs_escape(escaped) => plain.push(escaped),
                other => return Err(InvalidFieldSelector::Escape(other)),
            },
            c if needs_escape(c) => return Err(InvalidFieldSelector::Unescaped(c)),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

fn needs_escape(c: char) -> bool {
    matches!(c, '\\' | ',' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_prints_sorted_and_escaped() {
        for (text, printed) in [
            ("", ""),
            (",", ""),
            (",,a=1,", "a=1"),
            ("b=2,a==1,c!=3", "a=1,b=2,c!=3"),
            ("a==b,a=a", "a=a,a=b"),
            ("a=", "a="),
            ("a!=", "a!="),
            ("=x", "=x"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            (" a = b ", " a = b "),
            (r"a\,b=1", r"a\,b=1"),
            ("a!b=1", "a!b=1"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().to_string(), printed, "{text:?}");
        }
    }

    #[test]
    fn values_are_unescaped() {
        let selector = FieldSelector::parse(r"a=x\,y\=z\\").unwrap();
        assert_eq!(selector.terms(), [FieldTerm::equal("a", r"x,y=z\")]);
    }

    /// The answers of a v1.36 server, as far as they were recorded.
    #[test]
    fn invalid_selectors_are_refused_with_the_known_texts() {
        for (text, message) in [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("metadata.name>a", "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
            (
                "metadata.name in (a)",
                "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
            ),
            ("a=1,z,b", "invalid selector: 'a=1,z,b'; can't understand 'b'"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            ("a!==b", "invalid field selector: unescaped character in value: 61"),
            ("a===b", "invalid field selector: unescaped character in value: 61"),
            (r"metadata.name=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
            (r"a\=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn a_field_that_is_absent_is_empty() {
        let fields = [("spec.nodeName", "n1"), ("status.phase", "Running")];
        for (text, matches) in [
            ("", true),
            ("spec.nodeName=n1", true),
            ("spec.nodeName==n2", false),
            ("spec.nodeName!=n2", true),
            ("spec.nodeName!=n1", false),
            ("status.podIP=", true),
            ("status.podIP!=", false),
            ("spec.nodeName=n1,status.phase!=Failed", true),
            ("spec.nodeName=n1,spec.nodeName=n2", false),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(&fields), matches, "{text}");
        }
    }

    #[test]
    fn only_equality_is_an_exact_match() {
        for (text, exact) in [
            ("a=1", Some("1")),
            ("a==1", Some("1")),
            ("a=", Some("")),
            ("a!=1", None),
            ("b=1", None),
            ("a!=2,a=1", Some("1")),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().exact_match("a"), exact, "{text}");
        }
    }

    #[test]
    fn fields_are_renamed_or_refused() {
        let rename = |field: String| match field.as_str() {
            "z" => Ok("a".to_owned()),
            "m" => Ok(field),
            _ => Err(format!("field label not supported: {field}")),
        };
        let map = |text| FieldSelector::parse(text).unwrap().try_map_fields(rename).map(|s| s.to_string());
        assert_eq!(map("z=1,m!=2"), Ok("a=1,m!=2".to_owned()));
        assert_eq!(map("m=1,x=2"), Err("field label not supported: x".to_owned()));
        for (text, left) in [("=", ""), ("!=", ""), ("=,=", ""), ("==,m=1", "m=1")] {
            assert_eq!(map(text), Ok(left.to_owned()), "{text}");
        }
        assert!(map("=x").is_err());
    }
}
