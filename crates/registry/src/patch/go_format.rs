//! JSON as Go prints it, which is how messages about patches quote it.

use serde_json::{Number, Value};
use std::fmt::{self, Display, Formatter};

/// A value as Go's `%v` prints it: `map[a:1 b:[x y] c:<nil>]`.
#[derive(Clone, Copy, Debug)]
pub struct GoFormat<'a>(pub &'a Value);

impl Display for GoFormat<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => value.fmt(f),
            Value::Number(number) => write_number(number, f),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => write_items(items, f),
            Value::Object(fields) => {
                f.write_str("map[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let blank = if at == 0 { "" } else { " " };
                    write!(f, "{blank}{name}:{}", GoFormat(value))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Lists as Go's `%v` prints them.
pub(super) struct GoFormatItems<'a>(pub(super) &'a [Value]);

impl Display for GoFormatItems<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_items(self.0, f)
    }
}

fn write_items(items: &[Value], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("[")?;
    for (at, item) in items.iter().enumerate() {
        let blank = if at == 0 { "" } else { " " };
        write!(f, "{blank}{}", GoFormat(item))?;
    }
    f.write_str("]")
}

/// Whole numbers of 64 bits are printed as they are; of the others, the large and the very small have an exponent.
fn write_number(number: &Number, f: &mut Formatter<'_>) -> fmt::Result {
    let Some(float) = number.as_f64().filter(|_| !number.is_i64()) else { return number.fmt(f) };
    let scientific = format!("{float:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if !(-4..6).contains(&exponent) => write!(f, "{digits}e{exponent:+03}"),
        _ => float.fmt(f),
    }
}

/// The name of the Go type of a value, as messages have it.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        for (value, shown) in [
            (json!(null), "<nil>"),
            (json!(true), "true"),
            (json!(-5), "-5"),
            (json!(1.5), "1.5"),
            (json!(100.0), "100"),
            (json!(123456.0), "123456"),
            (json!(1234567.0), "1.234567e+06"),
            (json!(1e21), "1e+21"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(0.0001), "0.0001"),
            (json!(u64::MAX), "1.8446744073709552e+19"),
            (json!("a b"), "a b"),
            (json!([]), "[]"),
            (json!(["a", 1, null]), "[a 1 <nil>]"),
            (json!({}), "map[]"),
            (json!({"z": {"k": [1]}, "a": "x"}), "map[a:x z:map[k:[1]]]"),
        ] {
            assert_eq!(GoFormat(&value).to_string(), shown);
        }
    }
}
