//! Applies patches to objects.

use crate::{
    codec::{self, Expected},
    custom,
    document::Fields,
    error::Error,
    options::FieldValidation,
    patch::{self, PatchError},
    schema::{self, Problems},
};
use keepwatch_apimachinery::{meta::Qualified, status::Cause};
use serde_json::Value;

/// A patch of one of the three types.
pub enum Patch {
    /// Operations (RFC 6902).
    Json(patch::json::Patch),
    /// A merge patch (RFC 7386).
    Merge(Value),
    /// A strategic merge patch.
    Strategic(Value),
}

impl Patch {
    /// Whether it may change a field at the top of a document.
    fn may_change(&self, field: &str) -> bool {
        match self {
            Patch::Json(_) => true,
            Patch::Merge(patch) | Patch::Strategic(patch) => patch.as_object().is_none_or(|fields| {
                // Directives can be about any field.
                fields.contains_key(field) || fields.keys().any(|name| name.starts_with('$'))
            }),
        }
    }
}

/// Applies a patch to a document.
pub(crate) fn apply_patch(
    expected: Expected,
    patch: &Patch,
    strictness: FieldValidation,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Error> {
    let patched = || {
        let patched = match patch {
            Patch::Json(patch) => patch.apply(old.clone()),
            Patch::Merge(patch) => Ok(patch::merge::apply(old.clone(), patch.clone())),
            Patch::Strategic(patch) => patch::strategic::apply(old.clone(), patch.clone(), expected.ty),
        };
        patched.map_err(|error: PatchError| Error::from(error))
    };
    let document = patched()?;
    // Kubernetes quotes the patched object or the patch here. It is rare, so the document is encoded again.
    let undecodable = |why: &str| {
        let shown = match patch {
            Patch::Strategic(patch) => patch::GoFormat(patch).to_string(),
            _ => patched().map(|document| document.to_string()).unwrap_or_default(),
        };
        Error::invalid(Qualified::core(""), "", vec![Cause::invalid("patch", &shown.into(), why)])
    };
    if let Some(served) = expected.custom() {
        must_not_grow(&document, old)?;
        let decoded =
            custom::finish_patch(served, document, strictness).map_err(|refused| match refused {
                custom::Refused::Form(why) => undecodable(&why),
                custom::Refused::TooManyValues(error) => error,
            })?;
        warnings.extend(decoded.warnings);
        return Ok(decoded.document);
    }
    let kind = document.text("kind");
    // A strategic patch is applied to typed fields, so its kind is not read.
    if !matches!(patch, Patch::Strategic(_)) && !kind.is_empty() && kind != old.text("kind") {
        return Err(undecodable(&codec::not_registered(kind, document.text("apiVersion"))));
    }
    must_not_grow(&document, old)?;
    let mut problems = Problems::default();
    let decoder = match patch {
        Patch::Strategic(_) => schema::Decoder::Untyped,
        _ => schema::Decoder::Text,
    };
    let may_change = |field: &str| patch.may_change(field);
    let result = schema::normalize_some(document, expected.ty, decoder, &mut problems, may_change);
    let mut document = result.map_err(|error| undecodable(&error.to_string()))?;
    match strictness {
        FieldValidation::Strict if !problems.0.is_empty() => {
            return Err(undecodable(&format!("strict decoding error: {}", problems.0.join(", "))));
        }
        FieldValidation::Warn => warnings.extend(problems.0),
        _ => {}
    }
    codec::finish(&mut document, &expected);
    Ok(document)
}

/// Refuses a document with too many values. One that had more all along may still be changed, as long as it does not get
/// yet more.
fn must_not_grow(new: &Value, old: &Value) -> Result<(), Error> {
    let count = schema::count_values(new);
    if count > schema::VALUES_MAX && count > schema::count_values(old) {
        return Err(codec::too_many_values());
    }
    Ok(())
}
