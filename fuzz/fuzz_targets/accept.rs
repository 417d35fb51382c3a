//! Any Accept header gets a form that it accepts, or an error; there is no error if a clause accepts every form.

#![no_main]

use keepwatch_endpoints::negotiation::{
    ACCEPTED, Form, MetaVersion, Representation, ResponseKind, body_media, negotiate,
};
use libfuzzer_sys::fuzz_target;

const PARTS: [&str; 20] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*",
    "text/html",
    ";",
    ",",
    "as=Table",
    "as=PartialObjectMetadata",
    "as=PartialObjectMetadataList",
    "g=meta.k8s.io",
    "v=v1",
    "v=v1beta1",
    "stream=watch",
    "q=0.5",
    "q=nan",
    "q=-1",
    " ",
    "\"v1\"",
];

/// A header that accepts just this form.
fn accept_header(form: Form) -> String {
    let (kind, version) = match form.representation {
        Representation::Itself => return form.content_type().to_owned(),
        Representation::Table(version) => ("Table", version),
        Representation::Metadata(version) => ("PartialObjectMetadata", version),
        Representation::MetadataList(version) => ("PartialObjectMetadataList", version),
    };
    let version = if version == MetaVersion::V1 { "v1" } else { "v1beta1" };
    format!("{};as={kind};g=meta.k8s.io;v={version}", form.content_type())
}

fn check(accept: &str) {
    for (answering, is_collection) in
        [(ResponseKind::One, false), (ResponseKind::List, true), (ResponseKind::Watch, true)]
    {
        match negotiate(Some(accept), answering, is_collection) {
            Ok(form) => {
                assert!(accept.is_empty() || accept.contains(form.content_type()) || accept.contains("*/*"));
                assert_eq!(negotiate(Some(&accept_header(form)), answering, is_collection), Ok(form));
            }
            Err(status) => assert_eq!(status.code, 406),
        }
        let fallback = format!("{accept},application/json");
        if answering != ResponseKind::Watch {
            assert!(negotiate(Some(&fallback), answering, is_collection).is_ok(), "{fallback}");
        }
    }
    if let Ok(media) = body_media(Some(accept)) {
        let form = Form { media, ..Form::JSON };
        assert!(
            accept.split(';').next().unwrap_or_default().trim().is_empty()
                || ACCEPTED.contains(&form.content_type())
        );
        assert_eq!(body_media(Some(form.content_type())), Ok(media));
    }
}

fuzz_target!(|input: (&str, Vec<u8>)| {
    let (text, parts) = input;
    check(text);
    let parts: String = parts.iter().map(|part| PARTS[usize::from(*part) % PARTS.len()]).collect();
    check(&parts);
});
