//! The changes to objects before they are stored: those of one kind, and those that all kinds have in common.
//!
//! Kept true: identity (name, namespace, uid, creation time) never changes after the creation; status is written through
//! its subresource alone if the kind has one; the generation counts the changes that the kind chooses.

use crate::{
    deletion::{self, Deletion},
    document::{Edit, FieldErrors, Fields, Node, Object, same},
    error::Error,
    kind::{Generation, Kind},
    kinds::Reserved,
    options::DeleteOptions,
    rest::{Registry, Target},
    schema::{self, Timestamp},
    table::{self, Column},
    validation::{self, Step, warnings::Warnings},
};
use async_trait::async_trait;
use keepwatch_storage as stored;
use serde_json::{Map, Value};

/// The user who sends a request, as objects record it.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// The user's name.
    pub name: String,
    /// The user's uid.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further attributes of the user.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status, if the kind has a status subresource.
    Main,
    /// The status.
    Status,
    /// A namespace's finalizers.
    Finalize,
    /// The approval of a certificate signing request.
    Approval,
    /// Containers that are added to a running pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

/// The rules for the objects of one kind. The default methods implement those that most kinds have in common; those
/// that all kinds have in common are around the calls of these methods, in this file and in `validation`.
#[async_trait]
pub(crate) trait Strategy: Send + Sync {
    /// Sets the defaults. The second time, it changes nothing.
    fn set_defaults(&self, _object: &mut Object) {}

    /// Removes fields that belong to feature gates that are off by default.
    fn drop_disabled_fields(&self, _document: &mut Value) {}

    /// Sets the fields of a new object that admission adds, before validation. Returns an error with which the object
    /// is rejected if validation finds none.
    async fn admit(
        &self,
        _registry: &Registry,
        _target: Target<'_>,
        _document: &mut Value,
    ) -> Result<Option<Error>, Error> {
        Ok(None)
    }

    /// Prepares a new object for storage.
    fn prepare_create(&self, _document: &mut Value, _creation: &Creation<'_>) {}

    /// Copies a generated name into the other fields that contain the name.
    fn name_is_generated(&self, _document: &mut Value) {}

    /// Prepares the new version of an object, except for its status.
    fn prepare_update(&self, _new: &mut Value, _old: &Value) {}

    /// Prepares an object with a new status; metadata and status are the client's, everything else is the old object's.
    fn prepare_status_update(&self, _new: &mut Value, _old: &Value, _now: Timestamp) {}

    /// Prepares an object that is changed through a subresource that only its kind has.
    fn prepare_part_update(&self, _part: Part, _new: &mut Value, _old: &Value, _now: Timestamp) {}

    /// Prepares an object after any update, whichever part changed.
    fn prepare_any_update(&self, _new: &mut Value) {}

    /// Converts a valid object to the form in which it is stored.
    fn finish(&self, _document: &mut Value) {}

    /// The order of the steps in which an update is validated.
    fn update_order(&self) -> &'static [Step] {
        validation::WHOLE
    }

    /// Checks that come before all others. Returns whether their errors are the only ones that are reported.
    fn validate_first(&self, _new: &Node, _old: Option<&Node>, _faults: &mut FieldErrors) -> bool {
        false
    }

    /// Checks a new object, or the new version of an object.
    fn validate(&self, _new: &Node, _old: Option<&Node>, _faults: &mut FieldErrors) {}

    /// Checks that nothing changes that is immutable.
    fn validate_change(&self, _new: &Node, _old: &Node, _faults: &mut FieldErrors) {}

    /// Checks a new status.
    fn validate_status(&self, _new: &Node, _old: &Node, _faults: &mut FieldErrors) {}

    /// Checks a change through a subresource that only its kind has.
    fn validate_part(&self, _kind: &Kind, _part: Part, _new: &Node, _old: &Node, _errors: &mut FieldErrors) {}

    /// Evaluates the rules that users wrote for the objects of this kind, once everything else was validated. Returns
    /// warnings about what an update leaves broken.
    fn evaluate_rules(
        &self,
        _objects: &Evaluated,
        _errors: &mut FieldErrors,
    ) -> Result<Vec<String>, Interrupted> {
        Ok(Vec::new())
    }

    /// Adds warnings about fields that are deprecated, ambiguous or likely to be a mistake.
    fn warn(&self, _object: &Node, _old: Option<&Node>, _warnings: &mut Warnings) {}

    /// Sets the values that the server would allocate for an object, such as addresses, and allocates nothing.
    fn reserve_dry_run(
        &self,
        _registry: &Registry,
        _document: &mut Value,
        _current: Option<&stored::Object>,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Allocates the values that an object needs before it is stored, and sets them: all of them or none.
    async fn reserve(
        &self,
        _registry: &Registry,
        _target: Target<'_>,
        _document: &mut Value,
        _current: Option<&stored::Object>,
    ) -> Result<Reserved, Error> {
        Ok(Reserved::default())
    }

    /// Rejects the deletion of an object that is protected.
    fn may_be_deleted(&self, _target: Target<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Whether something prevents the removal of an object that is marked for deletion.
    fn is_held(&self, document: &Value) -> bool {
        !document.finalizers().is_empty()
    }

    /// Plans the deletion of an object.
    fn plan_deletion(
        &self,
        kind: &Kind,
        options: &DeleteOptions,
        document: &Value,
        now: Timestamp,
    ) -> Deletion {
        deletion::plan(kind, options, document, now)
    }

    /// Called when an object was removed.
    async fn after_deletion(&self, _registry: &Registry, _target: Target<'_>, _last: &stored::Object) {}

    /// Rejects a connection to an object that has no address.
    fn must_be_reachable(&self, _document: &Value) -> Result<(), Error> {
        Ok(())
    }

    /// The columns of a table of its objects.
    fn columns(&self) -> &[Column] {
        table::NAME_AND_CREATION
    }

    /// The cells of an object, one for each column.
    fn cells(&self, document: &Value, _now: Timestamp) -> Vec<Value> {
        table::name_and_creation(document)
    }

    /// The conditions of a row, as a list.
    fn row_conditions(&self, _document: &Value) -> Option<Value> {
        None
    }

    /// Converts an object from the stored version to this one.
    fn convert_from_stored(&self, _document: &mut Value) {}

    /// Converts an object from this version to the stored one.
    fn convert_to_stored(&self, _document: &mut Value) {}
}

/// The object that rules are evaluated for.
pub(crate) struct Evaluated<'a> {
    pub(crate) new: &'a Value,
    /// The object before an update.
    pub(crate) old: Option<&'a Value>,
    /// Asked now and then whether to stop.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// The evaluation of rules was interrupted.
#[derive(Debug)]
pub(crate) struct Interrupted;

/// The strategy of a kind without rules of its own.
pub(crate) struct Plain;

impl Strategy for Plain {}

/// The circumstances of a creation.
pub(crate) struct Creation<'a> {
    /// The uid of the new object.
    pub(crate) uid: &'a str,
    /// When the object is created.
    pub(crate) now: Timestamp,
    /// The user who creates it.
    pub(crate) requester: &'a Requester,
}

/// The place where an owner reference was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// In the request.
    InRequest,
    /// In the result of a patch.
    AfterAdmission,
}

/// Keeps each owner reference once. Returns a warning if one was repeated.
pub(crate) fn drop_repeated_owners(document: &mut Value, found: Repeated) -> Option<String> {
    let owners = document.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let (mut kept, mut repeated) = (Vec::with_capacity(owners.len()), Vec::new());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            repeated.push(owner.text("uid").to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if repeated.is_empty() {
        return None;
    }
    let when = match found {
        Repeated::InRequest => "",
        Repeated::AfterAdmission => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ))
}

/// Prepares a new object: first as every kind does, then as its own kind does.
pub(crate) fn prepare_create(
    kind: &Kind,
    document: &mut Value,
    namespace: &str,
    now: Timestamp,
    who: &Requester,
) {
    let uid = new_uid();
    let metadata = document.object_or_new("metadata");
    for dropped in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "resourceVersion"]
    {
        metadata.remove(dropped);
    }
    metadata.insert("uid".to_owned(), uid.clone().into());
    metadata.insert("creationTimestamp".to_owned(), schema::time(now).into());
    if kind.namespaced {
        metadata.insert("namespace".to_owned(), namespace.into());
    } else {
        metadata.remove("namespace");
    }
    if !matches!(kind.generation, Generation::Unmanaged | Generation::SpecOnceCreated) {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if kind.subresource("status").is_some() && !kind.keeps_status {
        reset_status(kind, document);
    }
    kind.strategy.drop_disabled_fields(document);
    kind.strategy.prepare_create(document, &Creation { uid: &uid, now, requester: who });
}

/// Prepares the new version of an object: restores what the request may not change, and counts the generation.
pub(crate) fn prepare_update(kind: &Kind, part: Part, new: &mut Value, old: &Value, now: Timestamp) {
    keep_metadata(new, old);
    kind.strategy.drop_disabled_fields(new);
    match part {
        Part::Main => prepare_main_update(kind, new, old),
        Part::Status => prepare_status_update(kind, new, old, now),
        part => kind.strategy.prepare_part_update(part, new, old, now),
    }
    new.object_or_new("metadata").remove("managedFields");
    kind.strategy.prepare_any_update(new);
}

/// Whether an object is marked for deletion and nothing prevents its removal.
pub(crate) fn is_finished(kind: &Kind, document: &Value) -> bool {
    let grace = document.number("metadata.deletionGracePeriodSeconds");
    document.is_deleting() && grace == 0 && !kind.strategy.is_held(document)
}

/// A random uid (UUID, version 4).
pub fn new_uid() -> String {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
}

const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The maximum length of the part of `generateName` that a generated name contains.
const GENERATED_PREFIX_BYTES_MAX: usize = 58;

/// A name from `generateName` and five random characters.
pub(crate) fn generate_name(prefix: &str) -> String {
    let end = prefix.floor_char_boundary(GENERATED_PREFIX_BYTES_MAX);
    let suffix = (0..5).map(|_| char::from(SUFFIX[rand::random_range(0..SUFFIX.len())]));
    prefix[..end].chars().chain(suffix).collect()
}

fn reset_status(kind: &Kind, document: &mut Value) {
    let status = kind.ty.json_field("status").map(|field| match field.kind {
        schema::ValueKind::Message(ty) => schema::zero(ty),
        _ => Value::Null,
    });
    document.set("status", status);
}

/// Restores the fields that no client can change: identity and, once set, the deletion timestamp.
fn keep_metadata(new: &mut Value, old: &Value) {
    let metadata = new.object_or_new("metadata");
    let old = &old["metadata"];
    metadata.remove("selfLink");
    for kept in ["creationTimestamp", "generation"] {
        metadata.set(kept, old.get(kept).cloned());
    }
    for kept in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(kept).is_none_or(Value::is_null) {
            metadata.set(kept, old.get(kept).cloned());
        }
    }
}

fn prepare_main_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.subresource("status").is_some() {
        new.set("status", old.get("status").cloned());
    }
    kind.strategy.prepare_update(new, old);
    if counts(kind.generation, new, old) {
        next_generation(new, old);
    }
}

fn counts(generation: Generation, new: &Value, old: &Value) -> bool {
    let differ = |path| {
        let [new, old] = [new, old].map(|document| document.field(path).unwrap_or(&Value::Null));
        !same(new, old)
    };
    let content = |document: &Value, without_status: bool| -> Value {
        let fields = document.as_object().cloned().unwrap_or_default();
        let skipped = |name: &str| name == "metadata" || (without_status && name == "status");
        fields.into_iter().filter(|(name, _)| !skipped(name)).collect::<Map<_, _>>().into()
    };
    match generation {
        Generation::Unmanaged | Generation::Once => false,
        Generation::Spec | Generation::SpecOnceCreated => differ("spec"),
        Generation::SpecOrAnnotations => differ("spec") || differ("metadata.annotations"),
        Generation::Content => !same(&content(new, true), &content(old, true)),
        Generation::ContentOrStatus => content(new, false) != content(old, false),
        Generation::ContentOrLabels => {
            !same(&content(new, false), &content(old, false)) || differ("metadata.labels")
        }
    }
}

/// Sets the next generation.
pub(crate) fn next_generation(new: &mut Value, old: &Value) {
    let generation = old.number("metadata.generation");
    new.object_or_new("metadata").insert("generation".to_owned(), (generation + 1).into());
}

fn prepare_status_update(kind: &Kind, new: &mut Value, old: &Value, now: Timestamp) {
    let (mut metadata, status) = (new["metadata"].take(), new.get("status").cloned());
    if kind.status_keeps_metadata {
        for kept in ["labels", "annotations", "finalizers", "ownerReferences"] {
            metadata.set(kept, old.field("metadata").field(kept).cloned());
        }
    }
    *new = old.clone();
    new["metadata"] = metadata;
    new.set("status", status);
    kind.strategy.prepare_status_update(new, old, now);
}

/// Sets the missing times of conditions: now, and the time of the last transition.
pub(crate) fn date_conditions(new: &mut Value, old: Option<&Value>, now: Timestamp) {
    let now = Value::from(schema::time(now));
    let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let conditions = new.object_or_new("status").get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let is_same =
            |other: &&Value| ["type", "status"].iter().all(|name| other.get(name) == condition.get(name));
        let began = old.iter().filter(is_same).find_map(|same| same.field("lastTransitionTime"));
        let began = began.unwrap_or(&now).clone();
        for (field, moment) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", began)] {
            if condition.field(field).is_none() {
                condition.make_object().insert(field.to_owned(), moment);
            }
        }
    }
}
