//! Any body is options of a delete or an error; options can be read again from their JSON.

#![no_main]

use keepwatch_fuzz::{document, text};
use keepwatch_registry::{
    codec::{Body, Media},
    options::{DeleteOptions, Propagation},
    protobuf,
    schema::lookup,
};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use serde_json::{Value, json};

fn check(bytes: &[u8], media: Media) {
    let Ok(options) = DeleteOptions::read(Some(&Body { bytes, media }), &[]) else { return };
    assert!(options.grace_period_seconds.is_none_or(|seconds| seconds >= 0));
    let said = json_of(&options).to_string();
    let again = DeleteOptions::read(Some(&Body { bytes: said.as_bytes(), media: Media::Json }), &[]);
    assert_eq!(again.expect("options that were read"), options, "{said}");
}

fn json_of(options: &DeleteOptions) -> Value {
    let policy = options.propagation.map(|propagation| match propagation {
        Propagation::Foreground => "Foreground",
        Propagation::Background => "Background",
        Propagation::Orphan => "Orphan",
    });
    json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "dryRun": options.dry_run.then_some(["All"]),
        "gracePeriodSeconds": options.grace_period_seconds,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": policy.filter(|_| options.orphan_dependents.is_none()),
        "preconditions": {"uid": options.uid, "resourceVersion": options.resource_version},
    })
}

fuzz_target!(|bytes: &[u8]| {
    for media in [Media::Json, Media::Yaml, Media::Protobuf] {
        check(bytes, media);
    }
    let ty = lookup("meta.v1.DeleteOptions").expect("the table has the options of a delete");
    let mut source = Unstructured::new(bytes);
    let Ok(mut made) = document(&mut source, ty) else { return };
    if let (Ok(true), Ok(policy)) = (source.arbitrary(), text(&mut source)) {
        let policy = if policy.len() < 3 { "Foreground".to_owned() } else { policy };
        made["propagationPolicy"] = policy.into();
    }
    check(made.to_string().as_bytes(), Media::Json);
    let mut message = Vec::new();
    protobuf::wrap(&mut message, "v1", "DeleteOptions", |out| protobuf::encode(out, &made, ty));
    check(&message, Media::Protobuf);
});
