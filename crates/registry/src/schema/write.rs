//! Documents as bytes: JSON as Kubernetes writes it, fields in the order of their type and without blanks.
//!
//! Written by hand rather than by a serializer: every object is written once for each of its versions, and the names of
//! fields need no escaping.

use super::{
    Field, Shape, TypeRef, ValueKind,
    types::{FIELDS_MAX, FieldSet},
};
use serde_json::{Map, Value};
use std::io::Write;

/// Appends a document.
pub fn write(out: &mut Vec<u8>, document: &Value, ty: TypeRef) {
    of_kind(out, document, ValueKind::Message(ty), EmptyLists::Kept);
}

/// Appends a document in its stored form.
pub(crate) fn write_stored(out: &mut Vec<u8>, document: &Value, ty: TypeRef, empty_lists: EmptyLists) {
    of_kind(out, document, ValueKind::Message(ty), empty_lists);
}

/// The encoding of an empty list in a field that is always written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyLists {
    /// The list: Kubernetes stores the kind as JSON.
    Kept,
    /// Null: Kubernetes stores the kind as Protobuf, which has no lists that are empty.
    Null,
}

/// Appends a value of any kind, the fields of objects in the order of their names.
pub(crate) fn write_any(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write!(out, "{number}").expect("writing to memory does not fail"),
        Value::String(text) => write_text(out, text),
        Value::Array(items) => write_list(out, items, write_any),
        Value::Object(fields) => write_fields(out, fields),
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    let mut object = ObjectWriter::begin(out);
    for (name, value) in fields {
        write_any(object.entry(name), value);
    }
    object.end();
}

/// Appends a list, each item as `write` does.
pub(crate) fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Appends an object, field by field.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> ObjectWriter<'o> {
        out.push(b'{');
        ObjectWriter { out, is_empty: true }
    }

    /// A field with a name that needs no escaping; what is to be appended next is its value.
    pub(crate) fn field(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// The same with any name.
    pub(crate) fn entry(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        write_text(self.out, name);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }
}

fn of_kind(out: &mut Vec<u8>, value: &Value, kind: ValueKind, empty: EmptyLists) {
    match (value, kind) {
        (Value::Object(fields), ValueKind::Message(ty)) => message(out, fields, ty, empty),
        (value, _) => write_any(out, value),
    }
}

fn message(out: &mut Vec<u8>, fields: &Map<String, Value>, ty: TypeRef, empty: EmptyLists) {
    if ty.open {
        return write_fields(out, fields);
    }
    let (mut given, mut values) = (FieldSet::default(), [&Value::Null; FIELDS_MAX]);
    for (name, value) in fields {
        if let Some(index) = ty.field_index(name) {
            given.insert(index);
            values[index] = value;
        }
    }
    let mut object = ObjectWriter::begin(out);
    if ty.typed {
        for name in ["kind", "apiVersion"] {
            if let Some(value) = fields.get(name) {
                write_any(object.field(name), value);
            }
        }
    }
    for index in given {
        let field = ty.json_fields()[index];
        of_field(object.field(field.name), values[index], field, empty);
    }
    object.end();
}

fn of_field(out: &mut Vec<u8>, value: &Value, field: &Field, empty: EmptyLists) {
    let kind = field.kind;
    match (field.shape, value, kind) {
        (Shape::List, Value::Array(items), _) if items.is_empty() && empty == EmptyLists::Null => {
            out.extend_from_slice(b"null");
        }
        (Shape::List, Value::Array(items), ValueKind::Message(_)) => {
            write_list(out, items, |out, item| of_kind(out, item, kind, empty));
        }
        (Shape::Map, Value::Object(entries), ValueKind::Message(_)) => {
            let mut object = ObjectWriter::begin(out);
            for (name, value) in entries {
                of_kind(object.entry(name), value, kind, empty);
            }
            object.end();
        }
        (_, value, kind) => of_kind(out, value, kind, empty),
    }
}

/// Whether a byte must be escaped in a string, or begins a character that must be: one that JSON reserves, or one that
/// could end a script in a page.
const fn is_special(byte: u8) -> bool {
    matches!(byte, 0..0x20 | b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

static IS_SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = is_special(byte as u8);
        byte += 1;
    }
    table
};

/// Appends a text in quotes.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // Hardly any text has one of these, so all bytes are read without a branch for each.
    if text.bytes().fold(false, |any, byte| any | IS_SPECIAL[usize::from(byte)]) {
        write_escaped(out, text);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("writing to memory does not fail");
                continue;
            }
            other => {
                out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        out.extend_from_slice(short.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write_any(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_written_document_reads_the_same() {
        let every: String = (0..0x3000).filter_map(char::from_u32).chain(['\u{feff}', '\u{1f600}']).collect();
        for value in [
            json!(null),
            json!([true, false, 0, -1, u64::MAX, i64::MIN, 0.5, 1e300, []]),
            json!({"": {}, "a\"b": every, "c": ["\u{2028}", "é", ""]}),
        ] {
            let text = written(&value);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn a_stored_list_that_is_empty_is_null() {
        let ty = crate::schema::lookup("core.v1.LimitRange").unwrap();
        let document = json!({"kind": "LimitRange", "spec": {"limits": []}});
        let (mut given, mut stored) = (Vec::new(), Vec::new());
        write(&mut given, &document, ty);
        write_stored(&mut stored, &document, ty, EmptyLists::Null);
        assert_eq!(String::from_utf8(given).unwrap(), r#"{"kind":"LimitRange","spec":{"limits":[]}}"#);
        assert_eq!(String::from_utf8(stored).unwrap(), r#"{"kind":"LimitRange","spec":{"limits":null}}"#);
    }

    #[test]
    fn characters_that_html_reserves_are_escaped_as_in_go() {
        assert_eq!(
            written(&json!("a<b>&\u{2028}\u{2029}\u{2030}\u{1}\u{7f}\t\n\r\u{8}\u{c}/\"\\")),
            r#""a\u003cb\u003e\u0026\u2028\u2029‰\u0001"#.to_owned() + "\u{7f}" + r#"\t\n\r\b\f/\"\\""#
        );
    }
}
