//! Namespace.

mod contents;

pub use contents::empty_deleted_namespaces;

use crate::{
    deletion::{Deletion, set_dependents_finalizer},
    document::{Edit, FieldErrors, Fields, Node, Object, is_zero},
    error::Error,
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    options::DeleteOptions,
    rest::Target,
    schema::{self, Timestamp},
    strategy::{Creation, Part, Strategy},
    table::{self, AGE, Column, NAME, row, words::age_of},
    validation::{LATE, Step, metadata, names, warnings::Warnings},
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Namespace", "namespaces")
        .cluster_scoped()
        .short_names(&["ns"])
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .subresources([Subresource::new("finalize", &["update"]), Subresource::status()])
        .names(NameRule::Label)
        .depends_on_name()
        .returns_deleted()
        .selectable([SelectableField::new("status.phase")], UnknownField::NotSupported)
        .strategy(NamespaceStrategy)
}

const COLUMNS: &[Column] = &[NAME, table::text("Status", "Whether it is in use or being deleted"), AGE];

struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    /// Sets the label with the name of a namespace, and its phase.
    fn set_defaults(&self, object: &mut Object) {
        let metadata = object.object_or_new("metadata");
        let name = metadata.text("name").to_owned();
        if !name.is_empty() {
            metadata.object_or_new("labels").insert(NAME_LABEL.to_owned(), name.into());
        }
        object.object_or_new("status").set_if_zero("phase", "Active");
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        label_with_name(document);
        let mut finalizers = document.list("spec.finalizers").to_vec();
        if !finalizers.contains(&json!("kubernetes")) {
            finalizers.push(json!("kubernetes"));
        }
        document.object_or_new("spec").insert("finalizers".to_owned(), finalizers.into());
        document["status"] = json!({"phase": "Active"});
    }

    fn name_is_generated(&self, document: &mut Value) {
        label_with_name(document);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        label_with_name(new);
        new.object_or_new("spec").set("finalizers", old.field("spec.finalizers").cloned());
    }

    fn prepare_status_update(&self, new: &mut Value, _: &Value, _: Timestamp) {
        label_with_name(new);
    }

    /// `finalize` changes the finalizers in the spec and nothing else.
    fn prepare_part_update(&self, part: Part, new: &mut Value, old: &Value, _: Timestamp) {
        if part == Part::Finalize {
            let finalizers = new.field("spec.finalizers").filter(|list| !is_zero(list)).cloned();
            *new = old.clone();
            new.object_or_new("spec").set("finalizers", finalizers);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, namespace: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = namespace.at("spec");
        for finalizer in spec.items("finalizers") {
            for error in names::qualified(finalizer.as_text()) {
                errors.invalid(&spec.at("finalizers"), finalizer.as_text(), &error);
            }
            metadata::known_finalizer(&spec.at("finalizers").with(finalizer.value), errors);
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let phase = new.at_as("status.phase", "status.Phase");
        match (new.at("metadata").has("deletionTimestamp"), phase.as_text()) {
            (false, "Active") | (true, "Terminating") => {}
            (false, other) => {
                errors.invalid(&phase, other, "may only be 'Active' if `deletionTimestamp` is empty");
            }
            (true, other) => {
                errors.invalid(
                    &phase,
                    other,
                    "may only be 'Terminating' if `deletionTimestamp` is not empty",
                );
            }
        }
    }

    fn warn(&self, namespace: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        if namespace
            .entries("metadata.labels")
            .any(|(label, _)| label.starts_with("pod-security.kubernetes.io/"))
        {
            warnings.push("levels of pod security are kept but not enforced yet");
        }
    }

    fn may_be_deleted(&self, target: Target<'_>) -> Result<(), Error> {
        if IMMORTAL.contains(&target.name) {
            let why = "this namespace may not be deleted";
            return Err(Error::forbidden(target.qualified(), target.name, why));
        }
        Ok(())
    }

    fn is_held(&self, namespace: &Value) -> bool {
        !namespace.finalizers().is_empty() || !namespace.list("spec.finalizers").is_empty()
    }

    /// The contents are deleted first.
    fn plan_deletion(
        &self,
        kind: &Kind,
        options: &DeleteOptions,
        document: &Value,
        now: Timestamp,
    ) -> Deletion {
        if document.is_deleting() {
            return Deletion { marked: None, removes: !self.is_held(document) };
        }
        let mut marked = document.clone();
        set_dependents_finalizer(kind, options.propagation, &mut marked);
        if !self.is_held(&marked) {
            return Deletion { marked: None, removes: true };
        }
        marked.object_or_new("metadata").insert("deletionTimestamp".to_owned(), schema::time(now).into());
        marked.object_or_new("status").insert("phase".to_owned(), "Terminating".into());
        Deletion { marked: Some(marked), removes: false }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, namespace: &Value, now: Timestamp) -> Vec<Value> {
        row![namespace.name(), namespace.text("status.phase"), age_of(namespace, now)]
    }
}

/// The namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Every namespace can be selected by its name.
fn label_with_name(document: &mut Value) {
    let own = document.name().to_owned();
    if own.is_empty() {
        return;
    }
    document.object_or_new("metadata.labels").insert(NAME_LABEL.to_owned(), own.into());
}
