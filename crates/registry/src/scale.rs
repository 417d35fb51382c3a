//! The scale subresource: the number of replicas of an object.

use crate::{
    codec::Expected,
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

impl Registry {
    /// The scale of an object.
    pub async fn scale(&self, target: Target<'_>) -> Result<Value, Error> {
        let object = self.get(target, Position::MostRecent).await?;
        Ok(scale_of(target.kind, &self.current_document(target.kind, &object).await?))
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
                    return Ok((
                        scale_of(target.kind, &shown_document(target.kind, &written.object)),
                        warnings,
                    ));
                }
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }
}

fn scale_of(kind: &Kind, document: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata.set(field, document.field("metadata").field(field).cloned());
    }
    let mut spec = Map::new();
    let (replicas, current, selector) = match &kind.scale_paths {
        None => (
            document.number_if_set("spec.replicas"),
            document.number_if_set("status.replicas"),
            selector_text(document.field("spec.selector")),
        ),
        Some(paths) => (
            document.number_if_set(&paths.spec_replicas.join(".")),
            document.number_if_set(&paths.status_replicas.join(".")),
            paths.selector.as_ref().map_or("", |path| document.text(&path.join("."))).to_owned(),
        ),
    };
    let replicas = replicas.unwrap_or(0);
    spec.set("replicas", (replicas != 0).then(|| replicas.into()));
    let mut status = Map::new();
    status.insert("replicas".to_owned(), current.unwrap_or(0).into());
    status.set_text("selector", &selector);
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
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
            apply_scale_patch(patch, *strictness, &scale_of(kind, &document), warnings)?
        }
    };
    target.must_be_of(&scale)?;
    let is_replaced = matches!(change, Change::Replace(_));
    if is_replaced {
        must_have_uid(target, &scale, object)?;
    }
    let replicas = scale.number("spec.replicas");
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(Error::invalid(SCALE, target.name, vec![cause]));
    }
    let has_version = !scale.text("metadata.resourceVersion").is_empty();
    if has_version {
        must_be_based_on(target, &scale, object)?;
    }
    match kind.scale_paths.as_ref().and_then(|paths| paths.spec_replicas.split_last()) {
        None => drop(document.object_or_new("spec").insert("replicas".to_owned(), replicas.into())),
        Some((last, parents)) => {
            drop(document.object_or_new(&parents.join(".")).insert(last.clone(), replicas.into()))
        }
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
