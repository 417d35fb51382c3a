//! Any bytes are an object of the kind that a path expects, or an error. The fuzzer writes the bytes themselves here;
//! the properties of an object are in `checks`.

#![no_main]

use keepwatch_fuzz::checks;
use keepwatch_registry::{
    codec::{Body, Expected, Media, decode},
    kinds::built_in,
    options::FieldValidation,
    protobuf,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (which, media, bytes) = input;
    let resource = &built_in()[usize::from(which) % built_in().len()];
    let (bytes, media) = match media % 4 {
        0 => (bytes.to_vec(), Media::Json),
        1 => (bytes.to_vec(), Media::Yaml),
        2 => (bytes.to_vec(), Media::Protobuf),
        _ => {
            let mut message = Vec::new();
            protobuf::wrap(&mut message, &resource.api_version(), &resource.name, |out| {
                out.extend_from_slice(bytes)
            });
            (message, Media::Protobuf)
        }
    };
    if let Ok(decoded) = decode(&Body { bytes: &bytes, media }, Expected::of(resource), FieldValidation::Warn)
    {
        checks::object(resource, &decoded.document);
    }
});
