//! Namespace.

use crate::{
    defaults::fields::{Object, child_or_new, set_if_zero, text},
    deletion::{Deletion, set_dependents_finalizer},
    error::Error,
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    options::DeleteOptions,
    rest::Target,
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::{self, AGE, Column, NAME, read::Read, row, words::age_of},
    validation::{
        LATE, Step,
        document::{Faults, Node},
        metadata, names,
        warnings::Warnings,
    },
    value::{at, fields, finalizers, is_deleting, list, name, set},
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
    /// A namespace, which carries its name as a label.
    fn set_defaults(&self, object: &mut Object) {
        let metadata = child_or_new(object, "metadata");
        let name = text(metadata, "name").to_owned();
        if !name.is_empty() {
            child_or_new(metadata, "labels").insert(NAME_LABEL.to_owned(), name.into());
        }
        set_if_zero(child_or_new(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        label_with_name(document);
        let mut finalizers = list(document, &["spec", "finalizers"]).to_vec();
        if !finalizers.contains(&json!("kubernetes")) {
            finalizers.push(json!("kubernetes"));
        }
        fields(document, &["spec"]).insert("finalizers".to_owned(), finalizers.into());
        document["status"] = json!({"phase": "Active"});
    }

    fn name_is_generated(&self, document: &mut Value) {
        label_with_name(document);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        label_with_name(new);
        set(fields(new, &["spec"]), "finalizers", at(old, &["spec", "finalizers"]).cloned());
    }

    fn prepare_status_update(&self, new: &mut Value, _: &Value, _: Timestamp) {
        label_with_name(new);
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, namespace: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = namespace.at("spec");
        for finalizer in spec.items("finalizers") {
            for fault in names::qualified(finalizer.text()) {
                faults.invalid(&spec.at("finalizers"), finalizer.text(), &fault);
            }
            metadata::known_finalizer(&spec.at("finalizers").with(finalizer.value), faults);
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let phase = new.at_as("status.phase", "status.Phase");
        match (new.at("metadata").has("deletionTimestamp"), phase.text()) {
            (false, "Active") | (true, "Terminating") => {}
            (false, other) => {
                faults.invalid(&phase, other, "may only be 'Active' if `deletionTimestamp` is empty");
            }
            (true, other) => {
                faults.invalid(
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
        !finalizers(namespace).is_empty() || !list(namespace, &["spec", "finalizers"]).is_empty()
    }

    /// What is in it goes first.
    fn plan_deletion(
        &self,
        kind: &Kind,
        options: &DeleteOptions,
        document: &Value,
        now: Timestamp,
    ) -> Deletion {
        if is_deleting(document) {
            return Deletion { marked: None, removes: !self.is_held(document) };
        }
        let mut marked = document.clone();
        set_dependents_finalizer(kind, options.propagation, &mut marked);
        if !self.is_held(&marked) {
            return Deletion { marked: None, removes: true };
        }
        fields(&mut marked, &["metadata"]).insert("deletionTimestamp".to_owned(), schema::time(now).into());
        fields(&mut marked, &["status"]).insert("phase".to_owned(), "Terminating".into());
        Deletion { marked: Some(marked), removes: false }
    }

    fn columns(&self) -> &'static [Column] {
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
    let own = name(document).to_owned();
    if own.is_empty() {
        return;
    }
    fields(document, &["metadata", "labels"]).insert(NAME_LABEL.to_owned(), own.into());
}
