//! OpenAPI as protobuf. It is the only form in which kubectl reads version 2, before it sends a `kind: List`, and when it
//! is given a kind that no document of version 3 has.
//!
//! The messages are those of the packages `openapi.v2` and `openapi.v3` that gnostic defines: a row for each field, with
//! its name in JSON, its number, and how its value is written. What begins with `x-` is an extension in every message.
//! Where a value may be anything it is written as YAML, which JSON is.

use serde_json::{Map, Value};

use super::dialect::Dialect;

/// A document as it was made, in JSON, as protobuf.
pub(super) fn encode(dialect: Dialect, document: &Value) -> Vec<u8> {
    let message = match dialect {
        Dialect::V2 => &DOCUMENT,
        Dialect::V3 => &V3_DOCUMENT,
    };
    let mut out = Vec::new();
    write_fields(&mut out, document, message);
    out
}

/// A kind of message.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    /// The number of the field for extensions, where there is one.
    extensions: Option<u32>,
}

/// The form of a value.
enum Form {
    Text,
    Flag,
    Float,
    Integer,
    /// Whatever it is.
    Any,
    /// A message with these fields.
    Of(&'static Message),
    /// Each element of an array by itself, or a single value.
    Each(&'static Form),
    /// A message that holds nothing but this, in the field with this number.
    Inside(u32, &'static Form),
    /// A name and a value for each key of a map, in the field with this number.
    Entries(u32, &'static Form),
    /// A parameter: where it goes decides which message it is.
    Parameter,
    /// A value of this form, in the field with the number 1, or a reference to it.
    OrReference(&'static Form),
    /// Which other fields an object may have: a schema, or whether any.
    Additional(&'static Form),
    /// A default: a number, a flag or a text has a field by its type, anything else leaves the message empty.
    Default,
}

use Form::{Additional, Any, Each, Entries, Flag, Float, Inside, Integer, Of, OrReference, Text};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        (
            "info",
            2,
            Of(&Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: Some(7) }),
        ),
        ("paths", 8, Entries(2, &Of(&PATH_ITEM))),
        ("definitions", 9, Entries(1, &Of(&SCHEMA))),
        ("parameters", 10, Entries(1, &Form::Parameter)),
        ("security", 12, Each(&Entries(1, &Inside(1, &Each(&Text))))),
        ("securityDefinitions", 13, Entries(1, &Inside(2, &Of(&API_KEY)))),
    ],
    extensions: Some(16),
};

static API_KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: Some(5),
};

static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Of(&OPERATION)),
        ("put", 3, Of(&OPERATION)),
        ("post", 4, Of(&OPERATION)),
        ("delete", 5, Of(&OPERATION)),
        ("options", 6, Of(&OPERATION)),
        ("head", 7, Of(&OPERATION)),
        ("patch", 8, Of(&OPERATION)),
        ("parameters", 9, Each(&OrReference(&Form::Parameter))),
    ],
    extensions: Some(10),
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Each(&Text)),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Each(&Text)),
        ("consumes", 7, Each(&Text)),
        ("parameters", 8, Each(&OrReference(&Form::Parameter))),
        ("responses", 9, Entries(1, &Inside(1, &Of(&RESPONSE)))),
        ("schemes", 10, Each(&Text)),
        ("deprecated", 11, Flag),
    ],
    extensions: Some(13),
};

static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Inside(1, &Of(&SCHEMA)))],
    extensions: Some(5),
};

static REFERENCE: Message = Message { fields: &[("$ref", 1, Text)], extensions: None };

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Of(&SCHEMA)),
    ],
    extensions: Some(6),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: Some(23),
};

/// Also the form of a parameter in a header.
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: Some(22),
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Float),
        ("maximum", 7, Float),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Float),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Each(&Text)),
        ("enum", 20, Each(&Any)),
        ("additionalProperties", 21, Additional(&Of(&SCHEMA))),
        ("type", 22, Inside(1, &Each(&Text))),
        ("items", 23, Inside(1, &Each(&Of(&SCHEMA)))),
        ("allOf", 24, Each(&Of(&SCHEMA))),
        ("properties", 25, Entries(1, &Of(&SCHEMA))),
        ("example", 30, Any),
    ],
    extensions: Some(31),
};

static V3_DOCUMENT: Message = Message {
    fields: &[
        ("openapi", 1, Text),
        (
            "info",
            2,
            Of(&Message { fields: &[("title", 1, Text), ("version", 6, Text)], extensions: Some(7) }),
        ),
        ("paths", 4, Entries(1, &Of(&V3_PATH_ITEM))),
        ("components", 5, Of(&V3_COMPONENTS)),
    ],
    extensions: Some(9),
};

static V3_COMPONENTS: Message = Message {
    fields: &[
        ("schemas", 1, Entries(1, &OrReference(&Of(&V3_SCHEMA)))),
        ("securitySchemes", 7, Entries(1, &OrReference(&Of(&V3_SECURITY_SCHEME)))),
    ],
    extensions: Some(10),
};

static V3_SECURITY_SCHEME: Message = Message {
    fields: &[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)],
    extensions: Some(9),
};

static V3_PATH_ITEM: Message = Message {
    fields: &[
        ("get", 4, Of(&V3_OPERATION)),
        ("put", 5, Of(&V3_OPERATION)),
        ("post", 6, Of(&V3_OPERATION)),
        ("delete", 7, Of(&V3_OPERATION)),
        ("options", 8, Of(&V3_OPERATION)),
        ("head", 9, Of(&V3_OPERATION)),
        ("patch", 10, Of(&V3_OPERATION)),
        ("parameters", 13, Each(&OrReference(&Of(&V3_PARAMETER)))),
    ],
    extensions: Some(14),
};

static V3_OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Each(&Text)),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Each(&OrReference(&Of(&V3_PARAMETER)))),
        ("requestBody", 7, OrReference(&Of(&V3_REQUEST_BODY))),
        ("responses", 8, Entries(2, &OrReference(&Of(&V3_RESPONSE)))),
    ],
    extensions: Some(13),
};

static V3_PARAMETER: Message = Message {
    fields: &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("schema", 10, OrReference(&Of(&V3_SCHEMA))),
    ],
    extensions: Some(14),
};

static V3_REQUEST_BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("content", 2, Entries(1, &Of(&V3_MEDIA_TYPE))),
        ("required", 3, Flag),
    ],
    extensions: Some(4),
};

static V3_RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("content", 3, Entries(1, &Of(&V3_MEDIA_TYPE)))],
    extensions: Some(5),
};

static V3_MEDIA_TYPE: Message =
    Message { fields: &[("schema", 1, OrReference(&Of(&V3_SCHEMA)))], extensions: Some(5) };

static V3_SCHEMA: Message = Message {
    fields: &[
        ("uniqueItems", 20, Flag),
        ("required", 23, Each(&Text)),
        ("enum", 24, Each(&Any)),
        ("type", 25, Text),
        ("allOf", 26, Each(&OrReference(&Of(&V3_SCHEMA)))),
        ("oneOf", 27, Each(&OrReference(&Of(&V3_SCHEMA)))),
        ("items", 30, Inside(1, &OrReference(&Of(&V3_SCHEMA)))),
        ("properties", 31, Entries(1, &OrReference(&Of(&V3_SCHEMA)))),
        ("additionalProperties", 32, Additional(&OrReference(&Of(&V3_SCHEMA)))),
        ("default", 33, Form::Default),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    extensions: Some(36),
};

fn write_fields(out: &mut Vec<u8>, value: &Value, message: &Message) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match message.fields.iter().find(|(name, ..)| name == key) {
            Some((_, number, form)) => write(out, *number, value, form),
            None if key.starts_with("x-") => {
                if let Some(number) = message.extensions {
                    write_entry(out, number, key, value, &Any);
                }
            }
            None => debug_assert!(false, "{key} has no place in the protobuf form"),
        }
    }
}

fn write(out: &mut Vec<u8>, number: u32, value: &Value, form: &Form) {
    match form {
        Text => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Flag => {
            tag(out, number, 0);
            out.push(value.as_bool().unwrap_or_default().into());
        }
        Float => {
            tag(out, number, 1);
            out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Integer => {
            tag(out, number, 0);
            varint(out, value.as_u64().unwrap_or_default());
        }
        Any => nested(out, number, |out| write_bytes(out, 2, value.to_string().as_bytes())),
        Of(message) => nested(out, number, |out| write_fields(out, value, message)),
        Each(form) => match value.as_array() {
            Some(values) => values.iter().for_each(|value| write(out, number, value, form)),
            None => write(out, number, value, form),
        },
        Inside(inner, form) => nested(out, number, |out| write(out, *inner, value, form)),
        Entries(inner, form) => nested(out, number, |out| {
            let entries: Option<&Map<String, Value>> = value.as_object();
            entries.into_iter().flatten().for_each(|(key, value)| write_entry(out, *inner, key, value, form));
        }),
        Form::Parameter => nested(out, number, |out| write_parameter(out, value)),
        OrReference(_) if value.get("$ref").is_some() => {
            nested(out, number, |out| write(out, 2, value, &Of(&REFERENCE)));
        }
        OrReference(form) => nested(out, number, |out| write(out, 1, value, form)),
        Additional(_) if value.is_boolean() => nested(out, number, |out| write(out, 2, value, &Flag)),
        Additional(form) => nested(out, number, |out| write(out, 1, value, form)),
        Form::Default => nested(out, number, |out| match value {
            Value::Number(_) => write(out, 1, value, &Float),
            Value::Bool(_) => write(out, 2, value, &Flag),
            Value::String(_) => write(out, 3, value, &Text),
            _ => {}
        }),
    }
}

fn write_entry(out: &mut Vec<u8>, number: u32, key: &str, value: &Value, form: &Form) {
    nested(out, number, |out| {
        write_bytes(out, 1, key.as_bytes());
        write(out, 2, value, form);
    });
}

fn write_parameter(out: &mut Vec<u8>, value: &Value) {
    let (number, message) = match value["in"].as_str() {
        Some("body") => return write(out, 1, value, &Of(&BODY_PARAMETER)),
        Some("header") => (1, &PATH_PARAMETER),
        Some("query") => (3, &QUERY_PARAMETER),
        _ => (4, &PATH_PARAMETER),
    };
    nested(out, 2, |out| write(out, number, value, &Of(message)));
}

fn nested(out: &mut Vec<u8>, number: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    body(&mut inner);
    write_bytes(out, number, &inner);
}

fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    tag(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number << 3 | wire_type));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The bytes of a message, with what is text in it shown as such.
    fn check(form: &Form, value: Value, expected: &[u8]) {
        let mut out = Vec::new();
        write(&mut out, 1, &value, form);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{value}");
    }

    #[test]
    fn values_are_written_in_their_form() {
        check(&Text, json!("ab"), b"\x0a\x02ab");
        check(&Flag, json!(true), b"\x08\x01");
        check(&Integer, json!(300), b"\x08\xac\x02");
        check(&Float, json!(1.5), b"\x09\0\0\0\0\0\0\xf8\x3f");
        check(&Each(&Text), json!(["a", "b"]), b"\x0a\x01a\x0a\x01b");
        check(&Any, json!([1]), b"\x0a\x05\x12\x03[1]");
        check(&Entries(1, &Text), json!({"k": "v"}), b"\x0a\x08\x0a\x06\x0a\x01k\x12\x01v");
    }

    #[test]
    fn a_schema_is_one_whatever_its_type() {
        check(&Of(&SCHEMA), json!({"type": "string"}), b"\x0a\x0b\xb2\x01\x08\x0a\x06string");
        check(&Of(&SCHEMA), json!({"$ref": "#/d"}), b"\x0a\x05\x0a\x03#/d");
        check(&Of(&SCHEMA), json!({"x-k": 1}), b"\x0a\x0d\xfa\x01\x0a\x0a\x03x-k\x12\x03\x12\x011");
        check(&Of(&SCHEMA), json!({"additionalProperties": true}), b"\x0a\x05\xaa\x01\x02\x10\x01");
        let of_texts = json!({"additionalProperties": {"type": "x"}});
        check(&Of(&SCHEMA), of_texts, b"\x0a\x0b\xaa\x01\x08\x0a\x06\xb2\x01\x03\x0a\x01x");
    }

    #[test]
    fn a_parameter_is_written_by_where_it_goes() {
        const ITEM: Form = OrReference(&Form::Parameter);
        check(&ITEM, json!({"$ref": "#/p"}), b"\x0a\x07\x12\x05\x0a\x03#/p");
        check(&ITEM, json!({"in": "query"}), b"\x0a\x0d\x0a\x0b\x12\x09\x1a\x07\x12\x05query");
        check(&ITEM, json!({"in": "path"}), b"\x0a\x0c\x0a\x0a\x12\x08\x22\x06\x12\x04path");
        check(&ITEM, json!({"in": "body"}), b"\x0a\x0a\x0a\x08\x0a\x06\x1a\x04body");
    }

    #[test]
    fn a_default_is_written_by_its_type() {
        check(&Form::Default, json!(1), b"\x0a\x09\x09\0\0\0\0\0\0\xf0\x3f");
        check(&Form::Default, json!(false), b"\x0a\x02\x10\0");
        check(&Form::Default, json!("a"), b"\x0a\x03\x1a\x01a");
        check(&Form::Default, json!({}), b"\x0a\0");
    }

    #[test]
    fn a_schema_of_openapi_3_is_one_or_a_reference_to_one() {
        static FORM: Form = OrReference(&Of(&V3_SCHEMA));
        check(&FORM, json!({"type": "x"}), b"\x0a\x06\x0a\x04\xca\x01\x01x");
        check(&FORM, json!({"$ref": "#/c"}), b"\x0a\x07\x12\x05\x0a\x03#/c");
        check(
            &FORM,
            json!({"items": {"$ref": "#/c"}}),
            b"\x0a\x0e\x0a\x0c\xf2\x01\x09\x0a\x07\x12\x05\x0a\x03#/c",
        );
    }
}
