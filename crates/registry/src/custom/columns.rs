//! The printer columns of custom resources, as their definitions specify them.

use super::{definition::StoredColumn, json_path::JsonPath};
use crate::{
    document::Fields,
    schema::{Timestamp, parse_time},
    table::{self, Column},
};
use serde_json::Value;
use std::borrow::Cow;

/// The columns of one version.
#[derive(Debug)]
pub(super) struct PrinterColumns {
    /// With the name in front.
    columns: Box<[Column]>,
    /// The paths of the cells after the name.
    paths: Box<[JsonPath]>,
}

/// The types that columns may have.
pub(super) const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// The formats.
pub(super) const FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

impl PrinterColumns {
    /// The columns of a definition, up to the first one whose path cannot be read, as upstream.
    pub(super) fn new(stored: Vec<StoredColumn>) -> PrinterColumns {
        let name = Column { description: Cow::Borrowed(table::NAME_DESCRIPTION), ..table::NAME };
        if stored.is_empty() {
            let age = table::column("Age", "date", table::AGE_DESCRIPTION);
            let path = JsonPath::parse(".metadata.creationTimestamp").expect("it is a path");
            return PrinterColumns { columns: [name, age].into(), paths: [path].into() };
        }
        let paths: Box<[JsonPath]> =
            stored.iter().map_while(|column| JsonPath::parse(&column.json_path)).collect();
        let columns = stored.into_iter().take(paths.len()).map(column);
        PrinterColumns { columns: std::iter::once(name).chain(columns).collect(), paths }
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of an object.
    pub(super) fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = Vec::with_capacity(self.columns.len());
        cells.push(document.name().into());
        let rest = self.columns[1..].iter().zip(&self.paths);
        cells.extend(rest.map(|(column, path)| match path.find(document).first() {
            Some(value) => cell(column.kind, value, now),
            None => Value::Null,
        }));
        cells
    }
}

fn column(stored: StoredColumn) -> Column {
    let known = |words: &[&'static str], word: &str| words.iter().find(|own| **own == word).copied();
    let description = match stored.description.as_str() {
        "" => format!("Custom resource definition column (in JSONPath format): {}", stored.json_path),
        _ => stored.description,
    };
    Column {
        name: Cow::Owned(stored.name),
        kind: known(&TYPES, &stored.kind).unwrap_or_default(),
        format: known(&FORMATS, &stored.format).unwrap_or_default(),
        description: Cow::Owned(description),
        priority: stored.priority,
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match kind {
        "string" => in_words(value).into(),
        "integer" => match value.as_i64() {
            Some(number) => number.into(),
            None => value.as_f64().map_or(Value::Null, |number| truncated(number).into()),
        },
        "number" => value.as_number().cloned().map_or(Value::Null, Value::Number),
        "boolean" => value.as_bool().map_or(Value::Null, Value::Bool),
        "date" => match value.as_str() {
            Some(text) => match parse_time(text) {
                Some(since) => table::age(Some(since), now).into(),
                None => "<invalid>".into(),
            },
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

/// Converts a float as Go does on the usual processors.
fn truncated(number: f64) -> i64 {
    let fits = number >= -(2f64.powi(63)) && number < 2f64.powi(63);
    if fits { number as i64 } else { i64::MIN }
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) => crate::patch::GoFormat(value).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The expected cells are those of a real server.
    #[test]
    fn a_cell_is_shown_as_its_column_says() {
        let now = parse_time("2026-11-19T00:00:00Z").unwrap();
        for (value, [text, integer, number, boolean, date]) in [
            (json!("text"), [json!("text"), json!(null), json!(null), json!(null), json!("<invalid>")]),
            (json!(7), [json!("7"), json!(7), json!(7), json!(null), json!(null)]),
            (json!(1.5), [json!("1.5"), json!(1), json!(1.5), json!(null), json!(null)]),
            (json!(true), [json!("true"), json!(null), json!(null), json!(true), json!(null)]),
            (
                json!({"x": 1, "a": [1]}),
                [json!("{\"a\":[1],\"x\":1}"), json!(null), json!(null), json!(null), json!(null)],
            ),
            (json!(null), [json!("<no value>"), json!(null), json!(null), json!(null), json!(null)]),
            (json!(1e21), [json!("1e+21"), json!(i64::MIN), json!(1e21), json!(null), json!(null)]),
            (
                json!("2020-01-01T00:00:00Z"),
                [json!("2020-01-01T00:00:00Z"), json!(null), json!(null), json!(null), json!("6y324d")],
            ),
        ] {
            let shown =
                ["string", "integer", "number", "boolean", "date"].map(|kind| cell(kind, &value, now));
            assert_eq!(shown, [text, integer, number, boolean, date], "{value}");
        }
    }

    #[test]
    fn a_definition_without_columns_shows_the_age_and_one_with_a_bad_path_the_columns_before_it() {
        let document = json!({"metadata": {"name": "a", "creationTimestamp": "2026-11-18T23:00:00Z"}});
        let now = parse_time("2026-11-19T00:00:00Z").unwrap();
        let column = |path: &str| StoredColumn {
            name: "C".to_owned(),
            kind: "string".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: path.to_owned(),
        };
        assert_eq!(PrinterColumns::new(Vec::new()).cells(&document, now), [json!("a"), json!("60m")]);
        let bad = PrinterColumns::new(vec![column(".metadata.name"), column(".a[")]);
        assert_eq!((bad.cells(&document, now), bad.columns().len()), (vec![json!("a"), json!("a")], 2));
        let good = PrinterColumns::new(vec![column(".metadata.name"), column(".spec.absent")]);
        assert_eq!(good.cells(&document, now), [json!("a"), json!("a"), json!(null)]);
    }
}
