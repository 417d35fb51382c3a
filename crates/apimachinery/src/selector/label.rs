//! Label selectors: `app=web,tier in (front, back),!legacy`.
//!
//! Kept true: requirements are sorted by key; every key and value is one that a label can have; the
//! values of a requirement are sorted and distinct, and as many as its operator takes.

use std::fmt;

use super::{Lookup, names};
use crate::go::{self, Quoted};

/// The objects that a client wants, by their labels: those for which every requirement holds.
///
/// ```
/// use keepwatch_apimachinery::selector::LabelSelector;
///
/// let selector = LabelSelector::parse("tier in (front,back), app=web").expect("well formed");
/// assert!(selector.matches(&[("app", "web"), ("tier", "back")]));
/// assert_eq!(selector.exact_match("app"), Some("web"));
/// assert_eq!(selector.to_string(), "app=web,tier in (back,front)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// The selector that every object matches.
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// Reads the `labelSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<LabelSelector, InvalidLabelSelector> {
        Parser::new(text).selector()
    }

    /// Whether every object matches because nothing is required.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with these labels is wanted.
    pub fn matches<L: Lookup + ?Sized>(&self, labels: &L) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The one value that `key` must have, if the selector names it.
    pub fn exact_match(&self, key: &str) -> Option<&str> {
        self.requirements
            .iter()
            .filter(|requirement| requirement.key == key)
            .find_map(Requirement::exact_value)
    }
}

impl FromIterator<Requirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> LabelSelector {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// The relation of the value of a label to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `k=v`
    Equals,
    /// `k==v`, which means the same
    DoubleEquals,
    /// `k in (v,w)`
    In,
    /// `k!=v`; holds also without the label
    NotEquals,
    /// `k notin (v,w)`; holds also without the label
    NotIn,
    /// `k`
    Exists,
    /// `!k`
    DoesNotExist,
    /// `k>1`, both sides read as integers
    GreaterThan,
    /// `k<1`, both sides read as integers
    LessThan,
}

/// One thing that a label selector requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// A requirement, if a label can have this key and these values and the operator takes that many.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Requirement, InvalidLabelSelector> {
        let key = key.into();
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        values.sort();
        values.dedup();
        let mut faults = Vec::new();
        faults.extend(key_fault("key", &key));
        faults.extend(count_fault(operator, &values));
        if let Operator::GreaterThan | Operator::LessThan = operator {
            faults.extend(values.iter().enumerate().filter_map(|(i, value)| integer_fault(i, value)));
        }
        faults.extend(values.iter().enumerate().filter_map(|(i, value)| value_fault(&key, i, value)));
        match faults.as_slice() {
            [] => Ok(Requirement { key, operator, values }),
            [only] => Err(InvalidLabelSelector(only.clone())),
            several => Err(InvalidLabelSelector(format!("[{}]", several.join(", ")))),
        }
    }

    /// The key of the label that is looked at.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The relation of the label's value to [`values`](Requirement::values).
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values with which the label's value is compared: sorted, distinct.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The one value that the label must have, if there is only one.
    pub fn exact_value(&self) -> Option<&str> {
        match (self.operator, self.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [only]) => Some(only),
            _ => None,
        }
    }

    /// The values of which the label must have one, if the requirement is of that kind.
    pub fn accepted(&self) -> Option<&[String]> {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => Some(&self.values),
            _ => None,
        }
    }

    /// Whether an object with these labels meets the requirement.
    pub fn matches<L: Lookup + ?Sized>(&self, labels: &L) -> bool {
        let value = labels.lookup(&self.key);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(|v| self.has(v)),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(|v| self.has(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |value, bound| value > bound),
            Operator::LessThan => self.compares(value, |value, bound| value < bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|v| v == value)
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        match (value.map(go::parse_i64), self.values.first().map(|bound| go::parse_i64(bound))) {
            (Some(Ok(value)), Some(Ok(bound))) => holds(value, bound),
            _ => false,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The text is no label selector, or no requirement. `Display` says what was found and expected, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLabelSelector(String);

impl fmt::Display for InvalidLabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidLabelSelector {}

fn key_fault(path: &str, key: &str) -> Option<String> {
    invalid(path, key, &names::key_faults(key).join("; "))
}

fn value_fault(key: &str, index: usize, value: &str) -> Option<String> {
    invalid(&format!("values[{index}][{key}]"), value, &names::value_faults(value).join("; "))
}

fn integer_fault(index: usize, value: &str) -> Option<String> {
    go::parse_i64(value).err()?;
    let fault = "for 'Gt', 'Lt' operators, the value must be an integer";
    invalid(&format!("values[{index}]"), value, fault)
}

fn count_fault(operator: Operator, values: &[String]) -> Option<String> {
    let (count_is_right, fault) = match operator {
        Operator::In | Operator::NotIn => {
            (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (values.len() == 1, "exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (values.is_empty(), "values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (values.len() == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    let quoted: Vec<_> = values.iter().map(|value| Quoted(value).to_string()).collect();
    (!count_is_right).then(|| format!("values: Invalid value: [{}]: {fault}", quoted.join(",")))
}

fn invalid(path: &str, value: &str, fault: &str) -> Option<String> {
    (!fault.is_empty()).then(|| format!("{path}: Invalid value: {}: {fault}", Quoted(value)))
}

#[derive(Clone, Copy)]
enum Token<'a> {
    End,
    Symbol(&'a str),
    /// A key or a value; also `in` and `notin`, which are operators only where one is due.
    Word(&'a str),
}

impl<'a> Token<'a> {
    /// The token that `text` begins with, and what follows it.
    fn split(text: &'a str) -> (Token<'a>, &'a str) {
        let text = text.trim_start_matches(is_blank);
        let symbol_bytes = match text.as_bytes() {
            [] => return (Token::End, text),
            [b'=' | b'!', b'=', ..] => 2,
            [first, ..] if is_symbol(char::from(*first)) => 1,
            _ => {
                let end = text.find(|c| is_symbol(c) || is_blank(c)).unwrap_or(text.len());
                let (word, rest) = text.split_at(end);
                return (Token::Word(word), rest);
            }
        };
        let (symbol, rest) = text.split_at(symbol_bytes);
        (Token::Symbol(symbol), rest)
    }

    fn begins_requirement(self) -> bool {
        matches!(self, Token::Word(_) | Token::Symbol("!"))
    }

    fn but_expected<T>(self, expected: &str) -> Result<T, InvalidLabelSelector> {
        let found = match self {
            Token::End => "",
            Token::Symbol(text) | Token::Word(text) => text,
        };
        Err(InvalidLabelSelector(format!("found '{found}'{expected}")))
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

struct Parser<'a> {
    next: Token<'a>,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        let (next, rest) = Token::split(text);
        Parser { next, rest }
    }

    fn take(&mut self) -> Token<'a> {
        let (next, rest) = Token::split(self.rest);
        self.rest = rest;
        std::mem::replace(&mut self.next, next)
    }

    fn selector(mut self) -> Result<LabelSelector, InvalidLabelSelector> {
        if let Token::End = self.next {
            return Ok(LabelSelector::everything());
        }
        if !self.next.begins_requirement() {
            return self.next.but_expected(", expected: !, identifier, or 'end of string'");
        }
        let mut requirements = Vec::new();
        loop {
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|InvalidLabelSelector(why)| {
                InvalidLabelSelector(format!("unable to parse requirement: {why}"))
            })?);
            match self.take() {
                Token::End => return Ok(requirements.into_iter().collect()),
                Token::Symbol(",") if self.next.begins_requirement() => {}
                Token::Symbol(",") => return self.next.but_expected(", expected: identifier after ','"),
                other => return other.but_expected(", expected: ',' or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, InvalidLabelSelector> {
        if let Token::Symbol("!") = self.next {
            self.take();
            return Requirement::new(self.key()?, Operator::DoesNotExist, [""; 0]);
        }
        let key = self.key()?;
        if let Token::End | Token::Symbol(",") = self.next {
            return Requirement::new(key, Operator::Exists, [""; 0]);
        }
        match self.operator()? {
            operator @ (Operator::In | Operator::NotIn) => Requirement::new(key, operator, self.value_set()?),
            operator => Requirement::new(key, operator, [self.value()?]),
        }
    }

    fn key(&mut self) -> Result<&'a str, InvalidLabelSelector> {
        match self.take() {
            // Clients know this text with the path that upstream's parser forgets to set.
            Token::Word(key) => {
                key_fault("<nil>", key).map_or(Ok(key), |fault| Err(InvalidLabelSelector(fault)))
            }
            other => other.but_expected(", expected: identifier"),
        }
    }

    fn operator(&mut self) -> Result<Operator, InvalidLabelSelector> {
        Ok(match self.take() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => return other.but_expected(", expected: in, notin, =, ==, !=, gt, lt"),
        })
    }

    fn value(&mut self) -> Result<&'a str, InvalidLabelSelector> {
        if let Token::End | Token::Symbol(",") = self.next {
            return Ok("");
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            other => other.but_expected(", expected: identifier"),
        }
    }

    /// Values in parentheses. Between two commas, and where nothing stands, is the empty value.
    fn value_set(&mut self) -> Result<Vec<&'a str>, InvalidLabelSelector> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return other.but_expected(" expected: '('"),
        }
        if !matches!(self.next, Token::Word(_) | Token::Symbol("," | ")")) {
            return self.next.but_expected(", expected: ',', ')' or identifier");
        }
        let mut values = Vec::new();
        loop {
            match self.next {
                Token::Word(value) => {
                    values.push(value);
                    self.take();
                }
                Token::Symbol("," | ")") => values.push(""),
                other => return other.but_expected(", expected: ',', or identifier"),
            }
            match self.next {
                Token::Symbol(",") => self.take(),
                Token::Symbol(")") => {
                    self.take();
                    return Ok(values);
                }
                other => return other.but_expected(", expected: ',' or ')'"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LabelSelector {
        LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_selector_prints_sorted_and_without_blanks() {
        for (text, printed) in [
            ("", ""),
            (" \t\r\n", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            (" x = a , y==b ", "x=a,y==b"),
            ("z,y=1,!x", "!x,y=1,z"),
            ("x!=a", "x!=a"),
            ("x>1,y<5", "x>1,y<5"),
            ("x=,y", "x=,y"),
            ("x in (c,a,b,a)", "x in (a,b,c)"),
            ("x notin(b)", "x notin (b)"),
            ("x in ()", "x in ()"),
            ("x in (,)", "x in ()"),
            ("x in (b,,a)", "x in (,a,b)"),
            ("x in (a,)", "x in (,a)"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin,in=in", "in=in,notin"),
            ("!in", "!in"),
            ("example.com/role=a", "example.com/role=a"),
            ("b=1,a=3,b=2", "a=3,b=1,b=2"),
        ] {
            assert_eq!(parse(text).to_string(), printed, "{text:?}");
        }
    }

    #[test]
    fn a_selector_matches_the_labels_it_describes() {
        let labels =
            [("e", ""), ("f", "3"), ("app", "web"), ("word", "x1"), ("huge", "99999999999999999999")];
        for (text, matches) in [
            ("", true),
            ("e=", true),
            ("e in ()", true),
            ("g=", false),
            ("f>2", true),
            ("f>3", false),
            ("f<4", true),
            ("f<3", false),
            ("g>1", false),
            ("word>0", false),
            ("huge>0", false),
            ("g!=1", true),
            ("g notin (1)", true),
            ("app!=web", false),
            ("app notin (db,web)", false),
            ("!g", true),
            ("!app", false),
            ("app", true),
            ("g", false),
            ("app=web", true),
            ("app==db", false),
            ("app in (db,web)", true),
            ("app=web,f=3", true),
            ("app=web,f=4", false),
            ("app=web,app=db", false),
        ] {
            assert_eq!(parse(text).matches(&labels), matches, "{text}");
        }
    }

    #[test]
    fn one_required_value_is_an_exact_match() {
        for (text, exact) in [
            ("a=1", Some("1")),
            ("a==1", Some("1")),
            ("a in (1)", Some("1")),
            ("a=", Some("")),
            ("a in (1,2)", None),
            ("a!=1", None),
            ("a notin (1)", None),
            ("a", None),
            ("a>1", None),
            ("b=1", None),
            ("a!=2,a=1", Some("1")),
        ] {
            assert_eq!(parse(text).exact_match("a"), exact, "{text}");
        }
    }

    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

    /// The answers of a v1.36 server, as far as they were recorded; `NAME` and `VALUE` stand for the long rules.
    #[test]
    fn invalid_selectors_are_refused_with_the_known_texts() {
        let long = "a".repeat(64);
        for (text, message) in [
            ("x==a==b", "found '==', expected: ',' or 'end of string'"),
            ("x=a||y=b", r#"unable to parse requirement: values[0][x]: Invalid value: "a||y": VALUE"#),
            ("!x=a", "found '=', expected: ',' or 'end of string'"),
            (
                "x<a",
                r#"unable to parse requirement: values[0]: Invalid value: "a": for 'Gt', 'Lt' operators, the value must be an integer"#,
            ),
            ("x,,y", "found ',', expected: identifier after ','"),
            ("x in", "unable to parse requirement: found '' expected: '('"),
            ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x in (a,b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x notin a", "unable to parse requirement: found 'a' expected: '('"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            ("-x=1", r#"unable to parse requirement: <nil>: Invalid value: "-x": name part NAME"#),
            (
                &format!("x={long}"),
                &format!(
                    r#"unable to parse requirement: values[0][x]: Invalid value: "{long}": must be no more than 63 bytes"#
                ),
            ),
            (
                "a/b/c=1",
                r#"unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key NAME with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#,
            ),
            ("x=a,", "found '', expected: identifier after ','"),
            (",x", "found ',', expected: !, identifier, or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!!x", "unable to parse requirement: found '!', expected: identifier"),
            ("x y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
            ("x!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("x=(", "unable to parse requirement: found '(', expected: identifier"),
            ("x=!a", "unable to parse requirement: found '!', expected: identifier"),
            ("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("x in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("x in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
            ("x in (a,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("x in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
            ("x>+1!", r#"unable to parse requirement: values[0][x]: Invalid value: "+1": VALUE"#),
            (
                "x>-",
                r#"unable to parse requirement: [values[0]: Invalid value: "-": for 'Gt', 'Lt' operators, the value must be an integer, values[0][x]: Invalid value: "-": VALUE]"#,
            ),
            ("x in (a\\,b)", r#"unable to parse requirement: values[0][x]: Invalid value: "a\\": VALUE"#),
        ] {
            let message = message.replace("VALUE", VALUE).replace("NAME", NAME);
            assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn an_operator_takes_as_many_values_as_it_can_compare_with() {
        for (operator, values, message) in [
            (
                Operator::In,
                vec![],
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                Operator::Equals,
                vec!["a", "b"],
                r#"values: Invalid value: ["a","b"]: exact-match compatibility requires one single value"#,
            ),
            (
                Operator::Exists,
                vec!["a"],
                r#"values: Invalid value: ["a"]: values set must be empty for exists and does not exist"#,
            ),
            (
                Operator::LessThan,
                vec![],
                "values: Invalid value: []: for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        ] {
            assert_eq!(Requirement::new("x", operator, values).unwrap_err().to_string(), message);
        }
        let message = format!(r#"key: Invalid value: "-x": name part {NAME}"#);
        assert_eq!(Requirement::new("-x", Operator::Exists, [""; 0]).unwrap_err().to_string(), message);
    }
}
