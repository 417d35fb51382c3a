//! The paths of printer columns: the JSONPath of kubectl, without its templates.
//!
//! Kept true: a path is looked up in time proportional to the values that it visits. A path with the index of an item
//! that a list does not have finds nothing at all, whatever its other parts match.

use serde_json::Value;
use std::cell::Cell;

/// A path through a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Box<[Step]>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The field of that name.
    Field(Box<str>),
    /// Every field or item.
    All,
    /// The values themselves and all below them.
    Below,
    /// Items from one number to before another, each so many after the one before. Negative ones count from the end.
    Items { from: Option<i64>, to: Option<i64>, step: Option<i64> },
    /// One item.
    Item(i64),
    /// The items for which this is so.
    Filter(Box<Filter>),
    /// The values to which each of these leads.
    Union(Box<[JsonPath]>),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// The comparison with another operand. Without one, the item only has to have the left operand.
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A path that starts at the item.
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The number of values that a path may visit. Unions and `..` can visit one value again and again.
const VISITS_MAX: usize = 100_000;
/// The largest depth of nested filters.
const FILTERS_DEEP_MAX: usize = 8;

impl JsonPath {
    /// Reads a path that begins with a dot. None if it is not one.
    pub(super) fn parse(text: &str) -> Option<JsonPath> {
        parse(text, FILTERS_DEEP_MAX)
    }

    /// Everything that it leads to, in the order of the document.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.find_all(value, &Cell::new(VISITS_MAX)).unwrap_or_default()
    }

    /// None if a list on the way does not have an item that is named, or if the path leads to too many values.
    fn find_all<'v>(&self, value: &'v Value, visits_left: &Cell<usize>) -> Option<Vec<&'v Value>> {
        self.0.iter().try_fold(vec![value], |found, step| step.of_each(found, visits_left))
    }
}

fn parse(text: &str, filters_left: usize) -> Option<JsonPath> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Below);
            rest = after;
            if !rest.starts_with('[') {
                rest = name(rest, &mut steps)?;
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = match after.starts_with('[') {
                true => after,
                false => name(after, &mut steps)?,
            };
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.extend(bracket(&after[..end], filters_left)?);
            rest = &after[end + 1..];
        } else {
            return None;
        }
    }
    Some(JsonPath(steps.into()))
}

/// Reads the name of a field, or the star, and returns the rest of the text.
fn name<'t>(text: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    let (mut name, mut end, mut is_escaped) = (String::new(), text.len(), false);
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '.' | '[' if !is_escaped => {
                end = at;
                break;
            }
            ' ' | '{' | '}' | ']' if !is_escaped => return None,
            c => {
                is_escaped = false;
                name.push(c);
            }
        }
    }
    match name.as_str() {
        // A dot at the end adds no step.
        "" if end == text.len() => {}
        "" => return None,
        "*" => steps.push(Step::All),
        own => steps.push(Step::Field(own.into())),
    }
    Some(&text[end..])
}

/// The index of the bracket that closes the one opened before the text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Reads the text between two brackets.
fn bracket(text: &str, filters_left: usize) -> Option<Vec<Step>> {
    let text = text.trim();
    if let Some(condition) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let filters_left = filters_left.checked_sub(1)?;
        return Some(vec![Step::Filter(Box::new(filter(condition, filters_left)?))]);
    }
    if text == "*" {
        return Some(vec![Step::All]);
    }
    if text.contains(',') {
        let part = |text| bracket(text, filters_left).map(|steps| JsonPath(steps.into()));
        let parts: Option<Vec<JsonPath>> = text.split(',').map(part).collect();
        return parts.map(|parts| vec![Step::Union(parts.into())]);
    }
    if let Some(quoted) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''))
        && !quoted.contains('\'')
    {
        // A quoted name is parsed like any other path: a dot in it has to be escaped here too.
        return parse(&format!(".{quoted}"), filters_left).map(|path| path.0.into_vec());
    }
    let mut parts = text.split(':');
    let mut number = || match parts.next().map(str::trim) {
        None | Some("") => Some(None),
        Some(text) => text.parse().ok().map(Some),
    };
    let (from, to, step) = (number()?, number()?, number()?);
    match text.matches(':').count() {
        0 => from.map(|at| vec![Step::Item(at)]),
        1 | 2 => Some(vec![Step::Items { from, to, step }]),
        _ => None,
    }
}

fn filter(text: &str, filters_left: usize) -> Option<Filter> {
    const COMPARISONS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) => {
                let found = COMPARISONS.iter().find(|(sign, _)| text[at..].starts_with(sign));
                if let Some((sign, comparison)) = found {
                    let left = operand(&text[..at], filters_left)?;
                    let right = operand(&text[at + sign.len()..], filters_left)?;
                    return Some(Filter { left, comparison: Some((*comparison, right)) });
                }
            }
        }
    }
    Some(Filter { left: operand(text, filters_left)?, comparison: None })
}

fn operand(text: &str, filters_left: usize) -> Option<Operand> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix('@') {
        return parse(path, filters_left).map(Operand::Path);
    }
    let quoted = ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let literal = match quoted {
        Some(quoted) => quoted.into(),
        None => {
            serde_json::from_str(text).ok().filter(|value: &Value| value.is_number() || value.is_boolean())?
        }
    };
    Some(Operand::Literal(literal))
}

impl Step {
    fn of_each<'v>(&self, values: Vec<&'v Value>, visits_left: &Cell<usize>) -> Option<Vec<&'v Value>> {
        let mut found = Vec::new();
        for value in values {
            let more = self.of(value, visits_left)?;
            visits_left.set(visits_left.get().checked_sub(1 + more.len())?);
            found.extend(more);
        }
        Some(found)
    }

    fn of<'v>(&self, value: &'v Value, visits_left: &Cell<usize>) -> Option<Vec<&'v Value>> {
        Some(match self {
            Step::Field(name) => value.get(&**name).into_iter().collect(),
            Step::All => inside(value).collect(),
            Step::Below => {
                let mut all = Vec::new();
                collect(value, &mut all);
                all
            }
            Step::Item(at) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                vec![items.get(position(*at, items.len())?)?]
            }
            Step::Items { from, to, step } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let from = position(from.unwrap_or(0), items.len())?;
                let to = to.map_or(Some(items.len()), |to| position(to, items.len()))?;
                let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
                if from == to {
                    return Some(Vec::new());
                }
                items.get(from..to)?.iter().step_by(step).collect()
            }
            Step::Filter(filter) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().filter(|item| filter.is_met(item, visits_left)).collect()
            }
            Step::Union(paths) => {
                let found: Option<Vec<_>> =
                    paths.iter().map(|path| path.find_all(value, visits_left)).collect();
                found?.concat()
            }
        })
    }
}

fn inside(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(|fields| fields.values()))
}

fn collect<'v>(value: &'v Value, all: &mut Vec<&'v Value>) {
    all.push(value);
    inside(value).for_each(|inner| collect(inner, all));
}

/// The place of an item; none if it lies before the first.
fn position(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 { at + i64::try_from(length).ok()? } else { at };
    usize::try_from(at).ok()
}

impl Filter {
    fn is_met(&self, item: &Value, visits_left: &Cell<usize>) -> bool {
        let Some(left) = self.left.of(item, visits_left) else { return false };
        let Some((comparison, right)) = &self.comparison else { return true };
        let Some(right) = right.of(item, visits_left) else { return false };
        let order = match (left, right) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (a, b) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
        };
        // Values that cannot be compared meet no condition.
        order.is_some_and(|order| match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        })
    }
}

impl Operand {
    fn of<'v>(&'v self, item: &'v Value, visits_left: &Cell<usize>) -> Option<&'v Value> {
        match self {
            Operand::Path(path) => path.find_all(item, visits_left)?.first().copied(),
            Operand::Literal(literal) => Some(literal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The expected results are those of a real server.
    #[test]
    fn paths_lead_where_kubectl_goes() {
        let document = json!({
            "metadata": {"name": "o", "labels": {"x.y/z": "q"}},
            "spec": {"s": "text", "i": 7, "items": [{"name": "a", "v": 1, "ok": true}, {"name": "b", "v": 2}, {"name": "c", "v": 3}]},
        });
        for (path, expected) in [
            (".spec.s", json!(["text"])),
            (".spec.items[*].name", json!(["a", "b", "c"])),
            (".spec.items[0].name", json!(["a"])),
            (".spec.items[-1].name", json!(["c"])),
            (".spec.items[0:2].name", json!(["a", "b"])),
            (".spec.items[::2].name", json!(["a", "c"])),
            (".spec.items[5].name", json!([])),
            (".spec.items[-5].name", json!([])),
            (r#".spec.items[?(@.name=="b")].v"#, json!([2])),
            (r#".spec.items[?(@.name!='b')].v"#, json!([1, 3])),
            (".spec.items[?(@.v>1)].name", json!(["b", "c"])),
            (".spec.items[?(@.v>=2)].name", json!(["b", "c"])),
            (".spec.items[?(@.ok==true)].name", json!(["a"])),
            (".spec.items[?(@.ok)].name", json!(["a"])),
            (".spec.missing", json!([])),
            (r".metadata.labels.x\.y/z", json!(["q"])),
            (r".metadata.labels['x\.y/z']", json!(["q"])),
            (".metadata.labels['x.y/z']", json!([])),
            (".spec['s','i']", json!(["text", 7])),
            (".spec.items[0,5].name", json!([])),
            (".spec.items[0:9].name", json!([])),
            (".spec.items[-9:2].name", json!([])),
            (r#".spec.items[?(@.name=="b")]['v']"#, json!([2])),
            ("..v", json!([1, 2, 3])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(json!(parsed.find(&document)), expected, "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_to_one_value_again_and_again_finds_nothing() {
        let document = json!({"u": [[[[1]]]], "deep": [[[[[[[[1]]]]]]]]});
        let union = format!(".u{}", "[0,0]".repeat(4));
        assert_eq!(JsonPath::parse(&union).unwrap().find(&document).len(), 16);
        let doubled = (0..40).fold(json!(1), |value, _| json!([value]));
        for path in [format!(".u{}", "[0,0]".repeat(40)), ".u".to_owned() + &"..[*]".repeat(20)] {
            assert!(JsonPath::parse(&path).unwrap().find(&json!({"u": doubled})).is_empty(), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            r#".a["k"]"#,
            ".a[",
            ".a[x]",
            ".a[?(@.b==)]",
            "a",
            "{.a}",
            ".a}{.b",
            ".a b",
            ".a[1:2:3:4]",
            ".a[']",
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
