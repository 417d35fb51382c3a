//! Decoding of bodies and patched documents of custom resources into the form of their schema.
//!
//! Kept true: a decoded document has the form of its schema, has its defaults, and has the apiVersion of its path. Its
//! kind is checked by validation, as upstream.

use super::{Served, schema::Source};
use crate::{
    codec::{Body, Decoded, Media, read_untyped_json, read_yaml, summary, too_many_values},
    document::Fields,
    error::Error,
    options::FieldValidation,
    patch::cannot_unmarshal,
    schema::{Problems, ReadError},
};
use serde_json::Value;

/// Decodes the body of a create or update.
pub(crate) fn decode(
    body: &Body<'_>,
    served: &Served,
    strictness: FieldValidation,
) -> Result<Decoded, Error> {
    let kind = &served.definition.names.kind;
    let unrecognized = |why: &str| {
        let summary = summary(body.bytes);
        Error::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
        ))
    };
    let mut problems = Problems::default();
    let document = match read(body, &mut problems) {
        Ok(document) => document,
        Err(ReadError::TooManyValues) => return Err(too_many_values()),
        Err(ReadError::Malformed(why)) => return Err(unrecognized(&why)),
    };
    for field in ["kind", "apiVersion"] {
        if let Some(found) = document.get(field).filter(|value| !value.is_string() && !value.is_null()) {
            let why = cannot_unmarshal(found, &format!("Go struct field .{field} of type string"));
            return Err(unrecognized(&format!("couldn't get version/kind; json parse error: {why}")));
        }
    }
    let said = document.text("kind");
    if said.is_empty() {
        let shown = match body.media {
            Media::Json => String::from_utf8_lossy(body.bytes).into_owned(),
            _ => document.to_string(),
        };
        return Err(unrecognized(&format!("Object 'Kind' is missing in '{shown}'")));
    }
    must_be_of_version(served, &document)?;
    let said = said.to_owned();
    let decoded = in_form(served, document, problems, strictness);
    decoded.map_err(|refused| match refused {
        Refused::TooManyValues(error) => error,
        Refused::Form(why) => {
            let version = &served.version().name;
            Error::bad_request(format!(
                "{said} in version \"{version}\" cannot be handled as a {kind}: {why}"
            ))
        }
    })
}

/// The reason why a document cannot have the form of its kind.
pub(crate) enum Refused {
    /// The reason as a text.
    Form(String),
    /// Its defaults would be too many.
    TooManyValues(Error),
}

/// Gives a patched document the form of its kind.
pub(crate) fn finish_patch(
    served: &Served,
    document: Value,
    strictness: FieldValidation,
) -> Result<Decoded, Refused> {
    in_form(served, document, Problems::default(), strictness)
}

fn must_be_of_version(served: &Served, document: &Value) -> Result<(), Error> {
    let (said, wanted) = (document.text("apiVersion"), served.definition.api_version(served.version));
    if said == wanted {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({wanted})"
    )))
}

fn in_form(
    served: &Served,
    mut document: Value,
    mut problems: Problems,
    strictness: FieldValidation,
) -> Result<Decoded, Refused> {
    let unknown = served.definition.form(served.version, &mut document, Source::Client);
    let unknown = unknown.map_err(Refused::Form)?;
    problems.0.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    let warnings = match strictness {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict if !problems.0.is_empty() => {
            return Err(Refused::Form(format!("strict decoding error: {}", problems.0.join(", "))));
        }
        _ => problems.0,
    };
    let filled = served.definition.fill_defaults(served.version, &mut document);
    filled.map_err(|error| Refused::TooManyValues(Error::TooLarge(error.to_string())))?;
    Ok(Decoded { document, warnings })
}

/// Of two fields with one name the last counts.
fn read(body: &Body<'_>, problems: &mut Problems) -> Result<Value, ReadError> {
    match body.media {
        Media::Yaml => read_yaml(body.bytes, problems),
        _ => read_untyped_json(body.bytes, problems),
    }
}
