//! A place in a document and the faults found there.
//!
//! A [`Node`] is a value together with the way to it, so that a rule reads and blames in one breath. The way is a chain
//! of borrowed steps: it costs nothing until a fault is told, and then becomes text as `spec.containers[0].name`.

use std::fmt;

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use crate::value::same;

static NOTHING: Value = Value::Null;

/// One step of the way to a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Item(&'a str, usize),
    Entry(&'a str, &'a str),
}

#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
            if !matches!(parent.step, Step::Root)
                && !matches!(self.step, Step::Item("", _) | Step::Entry("", _))
            {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => f.write_str(name),
            Step::Item(name, at) => write!(f, "{name}[{at}]"),
            Step::Entry(name, key) => write!(f, "{name}[{key}]"),
        }
    }
}

/// A value in a document `'d`, and the way `'p` to it. What is not there is `null`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'d, 'p> {
    /// The value.
    pub(crate) value: &'d Value,
    path: Path<'p>,
}

impl<'d, 'p> Node<'d, 'p> {
    /// The whole document.
    pub(crate) fn root(value: &'d Value) -> Node<'d, 'p> {
        Node { value, path: Path { parent: None, step: Step::Root } }
    }

    fn step<'q>(&'q self, value: &'d Value, step: Step<'q>) -> Node<'d, 'q> {
        Node { value, path: Path { parent: Some(&self.path), step } }
    }

    /// The field of that name; dots lead further down.
    pub(crate) fn at<'q>(&'q self, names: &'q str) -> Node<'d, 'q> {
        let get = |value: &'d Value, name: &str| value.get(name).unwrap_or(&NOTHING);
        // Nearly all are single names, which are not worth a search.
        let value = if names.as_bytes().contains(&b'.') {
            names.split('.').fold(self.value, get)
        } else {
            get(self.value, names)
        };
        self.step(value, Step::Field(names))
    }

    /// Another value, blamed as this one is.
    pub(crate) fn with<'e>(&self, value: &'e Value) -> Node<'e, 'p> {
        Node { value, path: self.path }
    }

    /// The field of that name, blamed under another.
    pub(crate) fn at_as<'q>(&'q self, names: &str, shown: &'q str) -> Node<'d, 'q> {
        self.step(self.at(names).value, Step::Field(shown))
    }

    /// The items of the list in the field of that name.
    pub(crate) fn items<'q>(&'q self, name: &'q str) -> impl Iterator<Item = Node<'d, 'q>> + use<'d, 'p, 'q> {
        let items = self.value.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(move |(at, item)| self.step(item, Step::Item(name, at)))
    }

    /// The item of that list at that place, or nothing there.
    pub(crate) fn item<'q>(&'q self, name: &'q str, at: usize) -> Node<'d, 'q> {
        let value = self.value.get(name).and_then(|list| list.get(at)).unwrap_or(&NOTHING);
        self.step(value, Step::Item(name, at))
    }

    /// The entries of the map in the field of that name.
    pub(crate) fn entries<'q>(
        &'q self,
        name: &'q str,
    ) -> impl Iterator<Item = (&'d str, Node<'d, 'q>)> + use<'d, 'p, 'q>
    where
        'd: 'q,
    {
        let entries = self.value.get(name).and_then(Value::as_object).into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), self.step(value, Step::Entry(name, key))))
    }

    /// The entries of this map.
    pub(crate) fn own_entries<'q>(&'q self) -> impl Iterator<Item = (&'d str, Node<'d, 'q>)> + use<'d, 'p, 'q>
    where
        'd: 'q,
    {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), self.step(value, Step::Entry("", key))))
    }

    /// The entry of that map under that key, or nothing there.
    pub(crate) fn entry<'q>(&'q self, name: &'q str, key: &'q str) -> Node<'d, 'q> {
        let value = self.value.get(name).and_then(|map| map.get(key)).unwrap_or(&NOTHING);
        self.step(value, Step::Entry(name, key))
    }

    /// Whether there is something.
    pub(crate) fn exists(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is something in the field of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    /// The text; empty if there is none.
    pub(crate) fn text(&self) -> &'d str {
        self.value.as_str().unwrap_or_default()
    }

    /// The text in the field of that name; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &'d str {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The number in the field of that name; zero if there is none.
    pub(crate) fn number_of(&self, name: &str) -> i64 {
        self.value.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    /// Whether the field of that name says yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// How many items or entries there are in the field of that name.
    pub(crate) fn len_of(&self, name: &str) -> usize {
        match self.value.get(name) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(entries)) => entries.len(),
            _ => 0,
        }
    }
}

/// Whether two values are the same but for these fields; what is null is not there.
pub(crate) fn same_but(a: &Value, b: &Value, except: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return same(a, b) };
    let mut keys = a.keys().chain(b.keys()).filter(|key| !except.contains(&key.as_str()));
    keys.all(|key| same(a.get(key).unwrap_or(&NOTHING), b.get(key).unwrap_or(&NOTHING)))
}

/// A selector of labels as it is shown, with its labels first. Absent if the value is none, or has only one of the two.
fn selector_shown(value: &Value) -> Option<String> {
    let (labels, terms) = (value.get("matchLabels")?, value.get("matchExpressions")?.as_array()?);
    let term = |term: &Value| {
        let fields = ["key", "operator", "values"].iter().filter_map(|name| {
            let value = term.get(name)?;
            Some(format!("\"{name}\":{value}"))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let terms: Vec<String> = terms.iter().map(term).collect();
    Some(format!("{{\"matchLabels\":{labels},\"matchExpressions\":[{}]}}", terms.join(",")))
}

/// The faults found so far, in the order in which rules were asked.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<Cause>);

impl Faults {
    /// Nothing is there, but something has to be. `detail` may be empty.
    pub(crate) fn required(&mut self, at: &Node, detail: &str) {
        self.0.push(Cause::required(at.path.to_string(), detail));
    }

    /// The value breaks a rule.
    pub(crate) fn invalid(&mut self, at: &Node, value: impl Into<Value>, detail: &str) {
        let value = value.into();
        let field = at.path.to_string();
        self.0.push(match selector_shown(&value) {
            Some(shown) => {
                let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
                Cause::new("FieldValueInvalid", format!("Invalid value: {shown}{detail}"), field)
            }
            None => Cause::invalid(field, &value, detail),
        });
    }

    /// What is there breaks a rule, and is too much to show.
    pub(crate) fn invalid_unshown(&mut self, at: &Node, detail: &str) {
        let message = format!("Invalid value: {detail}");
        self.0.push(Cause::new("FieldValueInvalid", message, at.path.to_string()));
    }

    /// The text has to be one of these. If there is none, they are named all the same.
    pub(crate) fn must_be_one_of(&mut self, at: &Node, supported: &[&str]) {
        if !supported.contains(&at.text()) {
            self.not_supported(at, at.text(), supported);
        }
    }

    /// The text has to be given, and has to be one of these, which are named in either case.
    pub(crate) fn required_one_of(&mut self, at: &Node, supported: &[&str]) {
        match at.text() {
            "" => {
                let all: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
                self.required(at, &format!("valid values: [{}]", all.join(" ")));
            }
            text if supported.contains(&text) => {}
            text => self.not_supported(at, text, supported),
        }
    }

    /// The text there breaks these rules.
    pub(crate) fn texts(&mut self, at: &Node, details: Vec<String>) {
        for detail in details {
            self.invalid(at, at.text(), &detail);
        }
    }

    /// The value is not among those that are known.
    pub(crate) fn not_supported(&mut self, at: &Node, value: &str, supported: &[&str]) {
        self.0.push(Cause::not_supported(at.path.to_string(), value, supported));
    }

    /// Something that is not a text, shown like this, is not what is known.
    pub(crate) fn not_supported_shown(&mut self, at: &Node, shown: &str, supported: &str) {
        let message = format!("Unsupported value: {shown}: supported values: \"{supported}\"");
        self.0.push(Cause::new("FieldValueNotSupported", message, at.path.to_string()));
    }

    /// The same where several are known.
    pub(crate) fn not_supported_shown_of(&mut self, at: &Node, shown: &str, supported: &[&str]) {
        self.not_supported_shown(at, shown, &supported.join("\", \""));
    }

    /// The text occurs twice.
    pub(crate) fn duplicate(&mut self, at: &Node, value: &str) {
        self.0.push(Cause::duplicate(at.path.to_string(), value));
    }

    /// Something that is not a text, shown like this, occurs twice.
    pub(crate) fn duplicate_shown(&mut self, at: &Node, shown: &str) {
        self.0.push(Cause::new(
            "FieldValueDuplicate",
            format!("Duplicate value: {shown}"),
            at.path.to_string(),
        ));
    }

    /// Nothing may be there.
    pub(crate) fn forbidden(&mut self, at: &Node, detail: &str) {
        self.0.push(Cause::forbidden(at.path.to_string(), detail));
    }

    /// What the text names is not there.
    pub(crate) fn not_found(&mut self, at: &Node, value: &str) {
        self.0.push(Cause::not_found(at.path.to_string(), value));
    }

    /// The same, with the reason.
    pub(crate) fn not_found_because(&mut self, at: &Node, value: &str, detail: &str) {
        let mut cause = Cause::not_found(at.path.to_string(), value);
        cause.message.push_str(": ");
        cause.message.push_str(detail);
        self.0.push(cause);
    }

    /// More bytes than there may be.
    pub(crate) fn too_long(&mut self, at: &Node, bytes_max: usize) {
        self.0.push(Cause::too_long(at.path.to_string(), bytes_max));
    }

    /// More items than there may be.
    pub(crate) fn too_many(&mut self, at: &Node, items: usize, items_max: usize) {
        self.0.push(Cause::too_many(at.path.to_string(), items, items_max));
    }

    /// The number, if there is one, must not be negative.
    pub(crate) fn not_negative(&mut self, at: &Node) {
        if let Some(number) = at.number().filter(|number| *number < 0) {
            self.invalid(at, number, "must be greater than or equal to 0");
        }
    }

    /// The number, if there is one, must be above zero.
    pub(crate) fn positive(&mut self, at: &Node) {
        if let Some(number) = at.number().filter(|number| *number <= 0) {
            self.invalid(at, number, "must be greater than 0");
        }
    }

    /// The number, if there is one, must lie between these two.
    pub(crate) fn in_range(&mut self, at: &Node, low: i64, high: i64) {
        if let Some(number) = at.number().filter(|number| !(low..=high).contains(number)) {
            self.invalid(at, number, &format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// The text has to be given, and has to be one of these.
    pub(crate) fn one_of(&mut self, at: &Node, supported: &[&str]) {
        match at.text() {
            "" => self.required(at, ""),
            text if supported.contains(&text) => {}
            text => self.not_supported(at, text, supported),
        }
    }

    /// The text, if it is given, has to be one of these.
    pub(crate) fn if_given_one_of(&mut self, at: &Node, supported: &[&str]) {
        if at.exists() && !supported.contains(&at.text()) {
            self.not_supported(at, at.text(), supported);
        }
    }

    /// The text has to be given.
    pub(crate) fn given(&mut self, at: &Node) {
        if at.text().is_empty() {
            self.required(at, "");
        }
    }

    /// The text has to be given and to keep a rule.
    pub(crate) fn named(&mut self, at: &Node, rule: fn(&str) -> Vec<String>) {
        if at.text().is_empty() {
            self.required(at, "");
        } else {
            self.texts(at, rule(at.text()));
        }
    }

    /// The text, if it is given, has to keep a rule.
    pub(crate) fn if_given(&mut self, at: &Node, rule: fn(&str) -> Vec<String>) {
        if !at.text().is_empty() {
            self.texts(at, rule(at.text()));
        }
    }

    /// The text must be what it was; one that is not there is empty.
    pub(crate) fn text_unchanged(&mut self, new: &Node, old: &Node) {
        if new.text() != old.text() {
            self.invalid(new, new.text(), "field is immutable");
        }
    }

    /// The value must be what it was.
    pub(crate) fn unchanged(&mut self, new: &Node, old: &Node) {
        if !same(new.value, old.value) {
            self.invalid(new, new.value.clone(), "field is immutable");
        }
    }
}
