//! Objects of every kind, made by the table of types: sent as JSON, as YAML and as Protobuf. The properties of an
//! accepted one are in `checks`.

#![no_main]

use keepwatch_fuzz::{checks, document, resource};
use keepwatch_registry::{
    codec::{Body, Decoded, Expected, Media, decode},
    kind::Kind,
    options::FieldValidation,
};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use serde_json::Value;

fn read(resource: &'static Kind, text: &str, media: Media) -> Option<Decoded> {
    let body = Body { bytes: text.as_bytes(), media };
    decode(&body, Expected::of(resource), FieldValidation::Warn).ok()
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let Ok(resource) = resource(&mut source) else { return };
    let Ok(made) = document(&mut source, resource.ty) else { return };
    let text = made.to_string();
    let json = read(resource, &text, Media::Json);
    // JSON is almost YAML: an escaped surrogate, a line end and a huge number have another meaning there.
    if text.is_ascii() && !text.contains("\\u") && !text.contains('\u{7f}') && !has_large_numbers(&made) {
        let yaml = read(resource, &format!("# not JSON\n{text}"), Media::Yaml);
        assert_eq!(json.as_ref().map(|d| &d.document), yaml.as_ref().map(|d| &d.document), "{text}");
    }
    if let Some(decoded) = json {
        checks::object(resource, &decoded.document);
    }
});

fn has_large_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() || number.as_i64().is_none_or(|n| n.unsigned_abs() > 1 << 53)
        }
        Value::Array(items) => items.iter().any(has_large_numbers),
        Value::Object(fields) => fields.values().any(has_large_numbers),
        _ => false,
    }
}
