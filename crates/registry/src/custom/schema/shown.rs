//! Values as Kubernetes shows them in errors: as Go prints them, or as Go writes them as JSON.

use std::fmt::Write;

use keepwatch_apimachinery::{go::Quoted, status::Cause};
use serde_json::{Number, Value};

/// A value behind `Invalid value: `.
pub(in crate::custom) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => Quoted(text).to_string(),
        Value::Number(number) => number_shown(number),
        Value::Bool(flag) => flag.to_string(),
        other => json(other),
    }
}

/// A number as `%v` prints it.
pub(super) fn number_shown(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or_default()),
    }
}

/// A float as `%v` prints it: with an exponent from a million on.
pub(super) fn float(number: f64) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let spelled = format!("{number:e}");
    let (digits, exponent) = spelled.split_once('e').unwrap_or((&spelled, "0"));
    match exponent.parse::<i32>() {
        Ok(-4..=5) | Err(_) => number.to_string(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

/// A value as Go writes it as JSON: fields in the order of their names, and nothing that could be HTML.
pub(in crate::custom) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) => out.push_str(&number_as_json(number)),
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(out, name);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
    }
}

fn number_as_json(number: &Number) -> String {
    let (None, Some(float)) = (number.as_i64(), number.as_f64()) else { return number.to_string() };
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let spelled = format!("{float:e}");
        return match spelled.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => spelled,
        };
    }
    float.to_string()
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A value that breaks a rule.
pub(super) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Cause {
    let colon = if detail.is_empty() { "" } else { ": " };
    Cause::new("FieldValueInvalid", format!("Invalid value: {}{colon}{detail}", shown(value)), field)
}

/// A value that occurs twice.
pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Cause {
    Cause::new("FieldValueDuplicate", format!("Duplicate value: {}", shown(value)), field)
}
