//! Any patch applies to an object of any kind or is rejected; an empty patch changes nothing; a merge patch that is
//! applied twice has the effect of one; and every result can be read again.

#![no_main]

use keepwatch_fuzz::{any, checks, document, resource, text};
use keepwatch_registry::{
    codec::{Expected, finish},
    kind::Kind,
    patch::{json, merge, strategic},
    schema::{self, Problems, TypeRef},
};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use serde_json::{Map, Value, json};

/// Decodes a patched document as an update does, and checks it if it is one of the kind.
fn check(resource: &'static Kind, patched: Value) {
    let mut problems = Problems::default();
    let text = patched.to_string();
    schema::read(text.as_bytes(), &mut problems)
        .expect("what a patch makes is nested no deeper than what is read");
    if let Ok(mut normalized) = schema::normalize(patched, resource.ty, &mut problems) {
        finish(&mut normalized, &Expected::of(resource));
        checks::object(resource, &normalized);
    }
}

fn merges(resource: &'static Kind, live: &Value, patch: &Value) {
    assert_eq!(&merge::apply(live.clone(), json!({})), live);
    let parsed = merge::parse(patch.to_string().as_bytes(), &mut Problems::default());
    let Ok(patch) = parsed else { return };
    let once = merge::apply(live.clone(), patch.clone());
    assert_eq!(merge::apply(once.clone(), patch), once);
    check(resource, once);
}

fn merges_by_type(resource: &'static Kind, live: &Value, patch: &Value) {
    let ty = resource.ty;
    assert_eq!(strategic::apply(live.clone(), json!({}), ty).as_ref(), Ok(live));
    let Ok(patch) = strategic::parse(patch.to_string().as_bytes(), &mut Problems::default()) else { return };
    let Ok(once) = strategic::apply(live.clone(), patch.clone(), ty) else { return };
    check(resource, once);
}

fn operations(resource: &'static Kind, live: &Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut places = Vec::new();
    places_in(live, String::new(), &mut places);
    let mut operations = Vec::new();
    for _ in 0..bytes.int_in_range(0..=6)? {
        let op = *bytes.choose(&["add", "remove", "replace", "move", "copy", "test", "other"])?;
        let (mut path, from) = (bytes.choose(&places)?.clone(), bytes.choose(&places)?.clone());
        if bytes.ratio(1, 4)? {
            path = format!("{path}/{}", *bytes.choose(&["-", "0", "-1", "name", "~01", "9", ""])?);
        }
        operations.push(json!({"op": op, "path": path, "from": from, "value": any(bytes, 6)?}));
    }
    let body = Value::Array(operations).to_string();
    let patch = json::Patch::parse(body.as_bytes(), &mut Problems::default())
        .expect("a list of operations is a patch");
    if let Ok(patched) = patch.apply(live.clone()) {
        check(resource, patched);
    }
    Ok(())
}

/// Every path of a document, as JSON patches write it.
fn places_in(value: &Value, here: String, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                places_in(item, format!("{here}/{at}"), places);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                places_in(value, format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        _ => {}
    }
    places.push(here);
}

/// Inserts directives of strategic merge patches.
fn with_directives(bytes: &mut Unstructured<'_>, value: Value, depth: u32) -> Result<Value> {
    Ok(match value {
        Value::Array(items) => {
            let mut own: Vec<Value> = items
                .into_iter()
                .map(|item| with_directives(bytes, item, depth + 1))
                .collect::<Result<_>>()?;
            if bytes.ratio(1, 8)? {
                own.push(json!({"$patch": *bytes.choose(&["replace", "delete", "merge", "x"])?}));
            }
            own.into()
        }
        Value::Object(fields) => {
            let mut own = Map::new();
            let names: Vec<String> = fields.keys().cloned().collect();
            for (name, value) in fields {
                let value =
                    if bytes.ratio(1, 10)? { Value::Null } else { with_directives(bytes, value, depth + 1)? };
                own.insert(name, value);
            }
            if bytes.ratio(1, 8)? {
                own.insert("$patch".to_owned(), (*bytes.choose(&["replace", "delete", "merge"])?).into());
            }
            if bytes.ratio(1, 8)? {
                own.insert("$retainKeys".to_owned(), names.clone().into());
            }
            if let (true, false) = (bytes.ratio(1, 4)?, names.is_empty()) {
                let name = bytes.choose(&names)?.clone();
                let directive = *bytes.choose(&["$setElementOrder/", "$deleteFromPrimitiveList/"])?;
                let items = match bytes.arbitrary()? {
                    true => json!([{"name": text(bytes)?}, {"name": text(bytes)?}]),
                    false => json!([text(bytes)?, text(bytes)?]),
                };
                own.insert(format!("{directive}{name}"), items);
            }
            own.into()
        }
        other => other,
    })
}

fn run(bytes: &mut Unstructured<'_>) -> Result<()> {
    let resource = resource(bytes)?;
    let ty: TypeRef = resource.ty;
    let (live, patch) = (document(bytes, ty)?, document(bytes, ty)?);
    let Ok(mut live) = schema::normalize(live, ty, &mut Problems::default()) else { return Ok(()) };
    finish(&mut live, &Expected::of(resource));
    merges(resource, &live, &patch);
    merges_by_type(resource, &live, &patch);
    merges_by_type(resource, &live, &with_directives(bytes, patch, 0)?);
    operations(resource, &live, bytes)
}

fuzz_target!(|bytes: &[u8]| {
    for parse in [merge::parse, strategic::parse] {
        if let Ok(patch) = parse(bytes, &mut Problems::default()) {
            assert!(patch.is_object());
        }
    }
    if let Ok(patch) = json::Patch::parse(bytes, &mut Problems::default()) {
        let _ = patch.apply(json!({"a": [1, 2], "b": {}}));
    }
    let _ = run(&mut Unstructured::new(bytes));
});
