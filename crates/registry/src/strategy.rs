//! What happens to objects before they are stored: what is special about a kind, and what all kinds have in common.
//!
//! Kept true: identity (name, namespace, uid, creation time) never changes after the creation; status is written through
//! its subresource alone where there is one; generation counts the changes that the kind says.

use crate::{
    defaults::fields::Object,
    deletion::{self, Deletion},
    error::Error,
    kind::{Generation, Kind},
    kinds::Reserved,
    options::DeleteOptions,
    rest::{Registry, Target},
    schema::{self, Timestamp},
    table::{self, Column},
    validation::{
        self, Step,
        document::{Faults, Node},
        warnings::Warnings,
    },
    value::{at, fields, finalizers, integer, list, same, set, text},
};
use async_trait::async_trait;
use keepwatch_storage as stored;
use serde_json::{Map, Value};

/// Who sends a request, as far as kinds keep it.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// The user's name.
    pub name: String,
    /// The user's uid.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, if that has a path of its own.
    Main,
    /// The status.
    Status,
    /// A namespace's finalizers.
    Finalize,
    /// Whether a certificate may be signed.
    Approval,
    /// Containers that are added to a running pod.
    EphemeralContainers,
    /// What a pod's containers may use.
    Resize,
}

/// What is special about the objects of a kind. What most kinds have in common stands in the default methods, and around
/// the calls of these methods in this file and in `validation`.
#[async_trait]
pub(crate) trait Strategy: Send + Sync {
    /// Fills in what a client left out. The second time, it changes nothing.
    fn set_defaults(&self, _object: &mut Object) {}

    /// Removes fields that the API has, but that no server of this version keeps unless a feature gate is on that is off by
    /// default.
    fn drop_disabled_fields(&self, _document: &mut Value) {}

    /// Adds to a new object, before it is validated, what the cluster gives it. Returns why it is refused if nothing is
    /// found wrong with its fields.
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

    /// Puts a generated name where else the object has its name.
    fn name_is_generated(&self, _document: &mut Value) {}

    /// Prepares what takes the place of an object, but for its status.
    fn prepare_update(&self, _new: &mut Value, _old: &Value) {}

    /// Prepares an object with a new status; metadata and status are the client's, everything else is the old object's.
    fn prepare_status_update(&self, _new: &mut Value, _old: &Value, _now: Timestamp) {}

    /// Prepares an object after any update, whichever part changed.
    fn prepare_any_update(&self, _new: &mut Value) {}

    /// In which order an update is checked.
    fn update_order(&self) -> &'static [Step] {
        validation::WHOLE
    }

    /// Checks before everything else; true if what was found is all that the client is told.
    fn validate_addresses(&self, _new: &Node, _old: Option<&Node>, _faults: &mut Faults) -> bool {
        false
    }

    /// Checks a new object, or one that takes the place of another.
    fn validate(&self, _new: &Node, _old: Option<&Node>, _faults: &mut Faults) {}

    /// Checks what of an object may change.
    fn validate_change(&self, _new: &Node, _old: &Node, _faults: &mut Faults) {}

    /// Checks a new status.
    fn validate_status(&self, _new: &Node, _old: &Node, _faults: &mut Faults) {}

    /// Warns of what works but is old, ambiguous, or likely to be a mistake.
    fn warn(&self, _object: &Node, _old: Option<&Node>, _warnings: &mut Warnings) {}

    /// Fills in what the server gives out for an object, such as addresses, without taking any of it.
    fn pretend(
        &self,
        _registry: &Registry,
        _document: &mut Value,
        _current: Option<&stored::Object>,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Takes what the server gives out for an object that is about to be stored, and fills it in. Nothing is taken if any
    /// of it cannot be had.
    async fn reserve(
        &self,
        _registry: &Registry,
        _target: Target<'_>,
        _document: &mut Value,
        _current: Option<&stored::Object>,
    ) -> Result<Reserved, Error> {
        Ok(Reserved::default())
    }

    /// Refuses the deletion of an object that must stay.
    fn may_be_deleted(&self, _target: Target<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Whether an object that is marked for deletion stays.
    fn is_held(&self, document: &Value) -> bool {
        !finalizers(document).is_empty()
    }

    /// What becomes of an object that is to be deleted.
    fn plan_deletion(
        &self,
        kind: &Kind,
        options: &DeleteOptions,
        document: &Value,
        now: Timestamp,
    ) -> Deletion {
        deletion::plan(kind, options, document, now)
    }

    /// What is left to do when an object is gone.
    async fn after_deletion(&self, _registry: &Registry, _target: Target<'_>, _last: &stored::Object) {}

    /// Refuses a connection to what an object stands for, if there is nothing to connect to.
    fn must_be_reachable(&self, _document: &Value) -> Result<(), Error> {
        Ok(())
    }

    /// The columns of a table of its objects.
    fn columns(&self) -> &'static [Column] {
        table::NAME_AND_CREATION
    }

    /// The cells of an object, one for each column.
    fn cells(&self, document: &Value, _now: Timestamp) -> Vec<Value> {
        table::name_and_creation(document)
    }

    /// What a row says of an object besides its cells, as a list.
    fn row_conditions(&self, _document: &Value) -> Option<Value> {
        None
    }

    /// From the stored version to its own, where the two differ.
    fn convert_from_stored(&self, _document: &mut Value) {}

    /// From its own version to the stored one, where the two differ.
    fn convert_to_stored(&self, _document: &mut Value) {}
}

/// A kind whose objects have nothing special about them.
pub(crate) struct Plain;

impl Strategy for Plain {}

/// A creation that is under way.
pub(crate) struct Creation<'a> {
    /// The uid of the new object.
    pub(crate) uid: &'a str,
    /// When the object is created.
    pub(crate) now: Timestamp,
    /// Who creates it.
    pub(crate) requester: &'a Requester,
}

/// Where an owner was found twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// In what the client sent.
    InRequest,
    /// In what came of a patch.
    AfterAdmission,
}

/// Keeps each owner reference once. Returns a warning if one stood there again.
pub(crate) fn drop_repeated_owners(document: &mut Value, found: Repeated) -> Option<String> {
    let owners = document.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let (mut kept, mut repeated) = (Vec::with_capacity(owners.len()), Vec::new());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            repeated.push(text(&owner, &["uid"]).to_owned());
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

/// Fills in what every new object gets, then what its kind does.
pub(crate) fn prepare_create(
    kind: &Kind,
    document: &mut Value,
    namespace: &str,
    now: Timestamp,
    who: &Requester,
) {
    let uid = new_uid();
    let metadata = fields(document, &["metadata"]);
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

/// Keeps what the part in question may not change, and counts the generation.
pub(crate) fn prepare_update(kind: &Kind, part: Part, new: &mut Value, old: &Value, now: Timestamp) {
    keep_metadata(new, old);
    kind.strategy.drop_disabled_fields(new);
    match part {
        Part::Main => prepare_main_update(kind, new, old),
        Part::Status => prepare_status_update(kind, new, old, now),
        Part::Finalize => {
            let wanted = at(new, &["spec", "finalizers"])
                .filter(|list| list.as_array().is_some_and(|l| !l.is_empty()));
            let wanted = wanted.cloned();
            *new = old.clone();
            set(fields(new, &["spec"]), "finalizers", wanted);
        }
        Part::Approval => {
            let (metadata, conditions) =
                (new["metadata"].take(), at(new, &["status", "conditions"]).cloned());
            *new = old.clone();
            new["metadata"] = metadata;
            set(fields(new, &["status"]), "conditions", conditions);
            date_conditions(new, at(old, &["status", "conditions"]), now);
        }
        Part::EphemeralContainers => {
            let containers = at(new, &["spec", "ephemeralContainers"]).cloned();
            *new = old.clone();
            set(fields(new, &["spec"]), "ephemeralContainers", containers);
            if new["spec"] != old["spec"] {
                bump(new, old);
            }
        }
        Part::Resize => {
            let wanted = std::mem::take(new);
            *new = old.clone();
            for kind in ["containers", "initContainers"] {
                resize(new, &wanted, kind);
            }
            if new["spec"] != old["spec"] {
                bump(new, old);
            }
        }
    }
    fields(new, &["metadata"]).remove("managedFields");
    kind.strategy.prepare_any_update(new);
}

/// Whether an object is marked for deletion and nothing holds it any more.
pub(crate) fn is_finished(kind: &Kind, document: &Value) -> bool {
    let grace = integer(document, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    crate::value::is_deleting(document) && grace == 0 && !kind.strategy.is_held(document)
}

/// A random uid (UUID, version 4).
pub fn new_uid() -> String {
    let mut bits: u128 = rand::random();
    bits = (bits & !(0xf << 76)) | (4 << 76);
    bits = (bits & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How much of the beginning of a generated name is kept.
const GENERATED_PREFIX_BYTES_MAX: usize = 58;

/// A name with that beginning and five random letters.
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
    set(fields(document, &[]), "status", status);
}

/// What no client changes: identity and, once set, the mark of deletion.
fn keep_metadata(new: &mut Value, old: &Value) {
    let metadata = fields(new, &["metadata"]);
    let old = &old["metadata"];
    for kept in ["creationTimestamp", "generation"] {
        set(metadata, kept, old.get(kept).cloned());
    }
    for kept in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(kept).is_none_or(Value::is_null) {
            set(metadata, kept, old.get(kept).cloned());
        }
    }
}

fn prepare_main_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.subresource("status").is_some() {
        set(fields(new, &[]), "status", old.get("status").cloned());
    }
    kind.strategy.prepare_update(new, old);
    if counts(kind.generation, new, old) {
        bump(new, old);
    }
}

fn counts(generation: Generation, new: &Value, old: &Value) -> bool {
    let differ = |path: &[&str]| {
        let part = |document| at(document, path).unwrap_or(&Value::Null);
        !same(part(new), part(old))
    };
    let content = |document: &Value, without_status: bool| -> Value {
        let fields = document.as_object().cloned().unwrap_or_default();
        let skipped = |name: &str| name == "metadata" || (without_status && name == "status");
        fields.into_iter().filter(|(name, _)| !skipped(name)).collect::<Map<_, _>>().into()
    };
    match generation {
        Generation::Unmanaged | Generation::Once => false,
        Generation::Spec | Generation::SpecOnceCreated => differ(&["spec"]),
        Generation::SpecOrAnnotations => differ(&["spec"]) || differ(&["metadata", "annotations"]),
        Generation::Content => !same(&content(new, true), &content(old, true)),
        Generation::ContentOrLabels => {
            !same(&content(new, false), &content(old, false)) || differ(&["metadata", "labels"])
        }
    }
}

fn bump(new: &mut Value, old: &Value) {
    let generation = integer(old, &["metadata", "generation"]).unwrap_or(0);
    fields(new, &["metadata"]).insert("generation".to_owned(), (generation + 1).into());
}

fn prepare_status_update(kind: &Kind, new: &mut Value, old: &Value, now: Timestamp) {
    let (mut metadata, status) = (new["metadata"].take(), new.get("status").cloned());
    if kind.status_keeps_metadata {
        for kept in ["labels", "annotations", "finalizers", "ownerReferences"] {
            set(fields(&mut metadata, &[]), kept, at(old, &["metadata", kept]).cloned());
        }
    }
    *new = old.clone();
    new["metadata"] = metadata;
    set(fields(new, &[]), "status", status);
    kind.strategy.prepare_status_update(new, old, now);
}

/// Says of conditions when they were written and when they came to be, where their writer does not.
pub(crate) fn date_conditions(new: &mut Value, old: Option<&Value>, now: Timestamp) {
    let now = Value::from(schema::time(now));
    let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let conditions = fields(new, &["status"]).get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let is_same =
            |other: &&Value| ["type", "status"].iter().all(|name| other.get(name) == condition.get(name));
        let began = old.iter().filter(is_same).find_map(|same| at(same, &["lastTransitionTime"]));
        let began = began.unwrap_or(&now).clone();
        for (field, moment) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", began)] {
            if at(condition, &[field]).is_none() {
                fields(condition, &[]).insert(field.to_owned(), moment);
            }
        }
    }
}

fn resize(new: &mut Value, wanted: &Value, kind: &str) {
    let wanted = list(wanted, &["spec", kind]);
    for container in new["spec"].get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
        let same = wanted.iter().find(|other| text(other, &["name"]) == text(container, &["name"]));
        if let Some(same) = same {
            for field in ["resources", "resizePolicy"] {
                set(fields(container, &[]), field, same.get(field).cloned());
            }
        }
    }
}
