//! The scale subresource: the number of replicas of an object.

use crate::{
    codec::Expected,
    custom::{Scale, dotted},
    document::{Edit, Fields},
    error::Error,
    kind::Kind,
    options::{FieldValidation, WriteOptions},
    rest::{
        Attempts, Change, ObjectView, Patch, Registry, Target, apply_patch, convert_from_stored,
        must_be_based_on, must_have_uid,
    },
    schema,
    selector::selector_text,
    strategy::{Part, Requester},
};
use keepwatch_apimachinery::{list_options::Position, meta::Qualified, status::Cause};
use keepwatch_storage::{Existing, Object};
use serde_json::{Map, Value, json};

/// The name of a scale in paths and messages.
const SCALE: Qualified<'static> = Qualified::new("autoscaling", "Scale");
/// The number of replicas that a patch finds in the scale of a custom object without one.
const UNSET_REPLICAS: i64 = i32::MIN as i64;

impl Registry {
    /// The scale of an object.
    pub async fn scale(&self, target: Target<'_>) -> Result<Value, Error> {
        let object = self.get(target, Position::MostRecent).await?;
        let document = self.current_document(target.kind, &object).await?;
        let (scale, is_set) = scale_of(target.kind, &document)?;
        must_be_set(target.kind, is_set)?;
        Ok(scale)
    }

    /// Changes the scale of an object.
    pub async fn set_scale(
        &self,
        target: Target<'_>,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<(Value, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let storage = self.storage(target.kind).ok_or_else(|| target.not_found())?;
        let (key, mut attempts) = (target.key(), Attempts::new(options.dry_run));
        while let Some(existing) = attempts.next(storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failed("get", error))?;
            let object = object.ok_or_else(|| target.not_found())?;
            let old = self.current_document(target.kind, &object).await?;
            let (document, names_version) = match scaled(target, &change, (&object, old), &mut warnings) {
                Err(_) if !is_current => continue,
                scaled => scaled?,
            };
            match self.update(target, Part::Main, Change::Replace(document), options, who).await {
                // Another write came first; only a request with a resource version fails for that.
                Err(failed) if failed.error.is_conflict() && !(names_version && is_current) => continue,
                Err(failed) => return Err(failed.error),
                Ok(written) => {
                    warnings.extend(written.warnings);
                    let (scale, _) = scale_of(target.kind, &shown_document(target.kind, &written.object))?;
                    return Ok((scale, warnings));
                }
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }
}

/// The scale of an object, and whether the object says how many there are to be. Only custom ones can fail to say it.
fn scale_of(kind: &Kind, document: &Value) -> Result<(Value, bool), Error> {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata.set(field, document.field("metadata").field(field).cloned());
    }
    let scale = match &kind.scale_paths {
        Some(paths) => paths.read(document)?,
        None => Scale {
            wanted: Some(document.number("spec.replicas")),
            current: document.number("status.replicas"),
            selector: selector_text(document.field("spec.selector")),
        },
    };
    let mut spec = Map::new();
    spec.set("replicas", scale.wanted.filter(|replicas| *replicas != 0).map(Value::from));
    let mut status = Map::new();
    status.insert("replicas".to_owned(), scale.current.into());
    status.set_text("selector", &scale.selector);
    let shown = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((shown, scale.wanted.is_some()))
}

/// A scale that is read has a number of replicas.
fn must_be_set(kind: &Kind, is_set: bool) -> Result<(), Error> {
    match &kind.scale_paths {
        Some(paths) if !is_set => {
            let path = dotted(&paths.spec_replicas);
            Err(Error::Internal(format!("the spec replicas field {path:?} does not exist")))
        }
        _ => Ok(()),
    }
}

/// The object with a changed scale, and whether the change has a resource version. That of a patch is checked in every
/// attempt.
fn scaled(
    target: Target<'_>,
    change: &Change<'_>,
    (object, mut document): (&Object, Value),
    warnings: &mut Vec<String>,
) -> Result<(Value, bool), Error> {
    let kind = target.kind;
    let scale = match change {
        Change::Replace(scale) => scale.clone(),
        Change::Patch { patch, strictness } => {
            warnings.clear();
            let (mut scale, is_set) = scale_of(kind, &document)?;
            if !is_set {
                scale.object_or_new("spec").insert("replicas".to_owned(), UNSET_REPLICAS.into());
            }
            apply_scale_patch(patch, *strictness, &scale, warnings)?
        }
    };
    target.must_be_of(&scale)?;
    let is_replaced = matches!(change, Change::Replace(_));
    if is_replaced {
        must_have_uid(target, &scale, object)?;
    }
    let replicas = scale.number("spec.replicas");
    match &kind.scale_paths {
        // What else is wrong with the number is found when the whole object is checked.
        Some(paths) if replicas == UNSET_REPLICAS => {
            let path = dotted(&paths.spec_replicas);
            return Err(Error::BadRequest(format!("the spec replicas field {path:?} cannot be empty")));
        }
        // An object whose scale cannot be read cannot be scaled either.
        Some(paths) => drop(paths.read(&document)?),
        None if replicas < 0 => {
            let cause =
                Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
            return Err(Error::invalid(SCALE, target.name, vec![cause]));
        }
        None => {}
    }
    let has_version = !scale.text("metadata.resourceVersion").is_empty();
    if has_version {
        must_be_based_on(target, &scale, object)?;
    }
    match &kind.scale_paths {
        None => drop(document.object_or_new("spec").insert("replicas".to_owned(), replicas.into())),
        Some(paths) => paths.set(&mut document, replicas)?,
    }
    Ok((document, is_replaced && has_version))
}

/// The document of what was written, in the version of the kind.
fn shown_document(kind: &Kind, shown: &ObjectView) -> Value {
    match kind.is_custom() {
        true => shown.document(),
        false => convert_from_stored(kind, shown.document()),
    }
}

fn apply_scale_patch(
    patch: &Patch,
    strictness: FieldValidation,
    scale: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Error> {
    let ty = schema::lookup("autoscaling.v1.Scale").expect("the table of types has scales");
    let expected = Expected::part("autoscaling", "v1", "Scale", ty);
    apply_patch(expected, patch, strictness, scale, warnings)
}
