//! Any definition is valid or has errors; with a valid one, any object is decoded and validated, and a decoded object
//! does not change when it is decoded again.

#![no_main]

use keepwatch_fuzz::custom::{definition, object, root_schema};
use keepwatch_registry::{
    codec::{Body, Expected, Media, decode},
    custom::{OpenApiVersion, kinds_of},
    kinds,
    options::{FieldValidation, WriteOptions},
    strategy::Part,
    validation,
};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let Ok(schema) = root_schema(&mut source) else { return };
    let sent = definition(&schema).to_string();
    let definitions =
        kinds::find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("it is built in");
    let body = Body { bytes: sent.as_bytes(), media: Media::Json };
    let Ok(decoded) = decode(&body, Expected::of(definitions), FieldValidation::Warn) else { return };
    let causes = validation::create(definitions, &decoded.document);
    for cause in &causes {
        assert!(!cause.field.is_empty() && !cause.message.is_empty(), "{sent}");
    }
    if !causes.is_empty() {
        return;
    }
    let stored = decoded.document.to_string().into();
    let kind = kinds_of(&stored).pop().expect("a valid definition makes a kind");
    for version in [OpenApiVersion::V2, OpenApiVersion::V3] {
        assert!(kind.published_schemas(version).is_some());
    }
    let Ok(made) = object(&mut source, &schema) else { return };
    let text = made.to_string();
    let read = |text: &str, strictness| {
        decode(&Body { bytes: text.as_bytes(), media: Media::Json }, Expected::of(&kind), strictness)
    };
    let Ok(decoded) = read(&text, FieldValidation::Warn) else { return };
    let again = read(&decoded.document.to_string(), FieldValidation::Strict);
    let again = again.unwrap_or_else(|error| panic!("{error:?}: {} of {sent}", decoded.document));
    assert_eq!(again.document, decoded.document, "what was decoded stays as it is: {sent}");
    let options = WriteOptions::default();
    let mut causes = validation::create(&kind, &decoded.document);
    let _ = validation::rules(&kind, &decoded.document, None, &options, &mut causes);
    validation::warnings(&kind, &decoded.document, None);
    let Ok(older) = object(&mut source, &schema) else { return };
    if let Ok(older) = read(&older.to_string(), FieldValidation::Ignore) {
        let mut causes = validation::update(&kind, &decoded.document, &older.document);
        let _ = validation::rules(&kind, &decoded.document, Some(&older.document), &options, &mut causes);
        validation::update_part(&kind, Part::Status, &decoded.document, &older.document);
    }
});
