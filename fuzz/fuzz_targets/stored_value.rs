//! For every stored value, a table row and its fields can be computed, or it is reported as undecodable; if they can be
//! computed, the value can also be encoded with its version.

#![no_main]

use keepwatch_apimachinery::{ResourceVersion, meta::write_versioned};
use keepwatch_fuzz::{any, checks, document, resource};
use keepwatch_registry::{convert, inspect::ResourceInspector, kind::Kind};
use keepwatch_storage::{Inspector, Key};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use serde_json::Value;

fn check(resource: &'static Kind, value: &[u8]) {
    if let Ok(parsed) = serde_json::from_slice::<Value>(value) {
        checks::row(resource, &parsed);
        checks::row(resource, &convert::from_stored(resource, parsed));
    }
    let inspector = ResourceInspector::new(resource);
    let Ok(attributes) = inspector.inspect(&Key::from_backend("/registry/x/y"), value) else { return };
    // A number or an escape that no parser accepts may be in a field that is not read.
    let Ok(parsed) = serde_json::from_slice::<Value>(value) else { return };
    let mut out = Vec::new();
    let version = ResourceVersion::new(7).expect("not zero");
    write_versioned(&mut out, value, attributes.version_at, version);
    let shown: Value = serde_json::from_slice(&out).expect("a version does not break an object");
    if attributes.version_at.is_some() {
        assert_eq!(shown["metadata"]["resourceVersion"], "7");
    }
    let name = parsed["metadata"]["name"].as_str().unwrap_or_default();
    assert_eq!(
        attributes.fields.iter().find(|(field, _)| *field == "metadata.name").map(|(_, name)| name),
        Some(name)
    );
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let Ok(resource) = resource(&mut source) else { return };
    check(resource, source.peek_bytes(source.len()).unwrap_or_default());
    if let Ok(made) = document(&mut source, resource.ty) {
        check(resource, made.to_string().as_bytes());
    }
    if let Ok(made) = any(&mut source, 0) {
        check(resource, made.to_string().as_bytes());
    }
});
