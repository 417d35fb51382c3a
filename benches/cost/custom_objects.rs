//! Objects of a custom kind with a hundred fields and five rules; and the compilation of a definition to a kind.

use crate::{
    Ready,
    creates::created,
    custom, objects,
    server::{self, collection, create, renderer},
};
use bytes::Bytes;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_endpoints::negotiation::Form;
use keepwatch_registry::{
    custom::kinds_of,
    kind::Kind,
    options::{FieldValidation, WriteOptions},
    patch,
    rest::{Change, Patch, Target},
    schema::Problems,
    strategy::{Part, Requester},
    validation,
};
use serde_json::{Value, json};
use std::{hint::black_box, sync::Arc};
use tokio::runtime::Runtime;

/// The name of the run, of which the group is made.
const RUN: &str = "cost";
/// The approximate size of an object.
const OBJECT_BYTES: usize = 3500;
/// The number of objects to patch.
const PATCHED: usize = 20;

pub(crate) fn creates(runtime: &Runtime, times: usize) -> Ready<'_> {
    created(runtime, record(), (0..times).map(|number| (name(number), body(number))).collect())
}

pub(crate) fn patches(runtime: &Runtime, _: usize) -> Ready<'_> {
    let kind = record();
    let registry = runtime.block_on(async {
        let registry = server::registry_serving(kind).await;
        for number in 0..PATCHED {
            create(&registry, kind, body(number).as_bytes()).await.expect("it may be created");
        }
        registry
    });
    let renderer = renderer(kind, Form::JSON);
    let who = Requester { name: "kubernetes-admin".to_owned(), ..Requester::default() };
    let mut count = 0;
    Box::new(move |times| {
        runtime.block_on(async {
            for _ in 0..times {
                count += 1;
                let name = name(count % PATCHED);
                let target = Target { name: &name, ..collection(kind) };
                let change = format!(r#"{{"spec":{{"count07":{count}}}}}"#);
                let merge = patch::merge::parse(change.as_bytes(), &mut Problems::default());
                let patch = Patch::Merge(merge.expect("it is one"));
                let change = Change::Patch { patch: &patch, strictness: FieldValidation::Warn };
                let written =
                    registry.update(target, Part::Main, change, &WriteOptions::default(), &who).await;
                let Ok(written) = written else { panic!("{name} may be changed") };
                black_box(renderer.object(&written.object).expect("it can be shown as itself"));
                let position = Position::At(written.object.revision.expect("it was stored"));
                black_box(registry.get(target, position).await.expect("it is there"));
            }
        });
    })
}

/// A stored definition becomes a kind, and its first object is checked, for which schema and rules are compiled.
pub(crate) fn schemas(_: &Runtime, _: usize) -> Ready<'_> {
    let stored = stored_definition();
    let mut object: Value = serde_json::from_str(&body(0)).expect("it is JSON");
    object["metadata"]["namespace"] = "default".into();
    Box::new(move |times| {
        for _ in 0..times {
            let kinds = kinds_of(black_box(&stored));
            let mut causes = validation::create(&kinds[0], &object);
            let evaluated =
                validation::rules(&kinds[0], &object, None, &WriteOptions::default(), &mut causes);
            assert!(evaluated.is_ok() && black_box(causes).is_empty(), "it is valid");
        }
    })
}

/// The kind of the objects. It lives as long as the program.
fn record() -> &'static Arc<Kind> {
    let kind = kinds_of(&stored_definition()).pop().expect("it is served");
    Box::leak(Box::new(kind))
}

/// The definition as it is stored when its names were accepted.
fn stored_definition() -> Bytes {
    let mut definition: Value =
        serde_json::from_str(&custom::definition_of_records(RUN, &json!({}))).expect("it is JSON");
    definition["spec"]["names"]["listKind"] = "RecordList".into();
    definition["spec"]["names"]["singular"] = "record".into();
    definition["status"] = json!({
        "acceptedNames": definition["spec"]["names"],
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    });
    definition.to_string().into()
}

fn name(number: usize) -> String {
    format!("record-{number:06}")
}

fn body(number: usize) -> String {
    let (group, name) = (custom::group(RUN), name(number));
    let object = |padding: &str| {
        let spec = custom::spec_of_record(number, padding);
        format!(
            r#"{{"apiVersion":"{group}/v1","kind":"Record","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        )
    };
    let padding = "x".repeat(OBJECT_BYTES.saturating_sub(object("").len()));
    let body = object(&padding);
    objects::must_be_about(OBJECT_BYTES, body.as_bytes());
    body
}
