//! CustomResourceDefinition.

use crate::{
    custom::{self, rules},
    defaults::extension::service_port,
    deletion::{self, Deletion},
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    options::DeleteOptions,
    schema::Timestamp,
    strategy::{Creation, Strategy},
    validation::{SPEC, Step, warnings::Warnings},
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "apiextensions.k8s.io",
        "apiextensions.v1.CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .cluster_scoped()
    .short_names(&["crd", "crds"])
    .categories(&["api-extensions"])
    .subresources([Subresource::status()])
    .stored_at("apiextensions.k8s.io/customresourcedefinitions")
    .requires_version()
    .generation(Generation::Spec)
    .takes_any_finalizer()
    .costly_to_check()
    .stored_as_json()
    .strategy(CustomResourceDefinitionStrategy)
}

struct CustomResourceDefinitionStrategy;

impl Strategy for CustomResourceDefinitionStrategy {
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        let names = spec.object_or_new("names");
        let kind = names.text("kind").to_owned();
        if !kind.is_empty() {
            names.set_if_zero("singular", kind.to_lowercase());
            names.set_if_zero("listKind", format!("{kind}List"));
        }
        spec.set_default("conversion", json!({"strategy": "None"}));
        if let Some(webhook) =
            spec.object_mut("conversion").and_then(|conversion| conversion.object_mut("webhook"))
        {
            service_port(webhook, "clientConfig");
        }
        let stored = stored_version(spec);
        let status = object.object_or_new("status");
        if let Some(version) = stored
            && !status.is_filled("storedVersions")
        {
            status.insert("storedVersions".to_owned(), json!([version]));
        }
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        remember_stored_version(document);
    }

    fn prepare_update(&self, new: &mut Value, _: &Value) {
        remember_stored_version(new);
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, definition: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        rules::check(definition, old, errors);
    }

    fn warn(&self, definition: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        rules::warn(definition, old, warnings);
    }

    fn validate_status(&self, definition: &Node, _: &Node, errors: &mut FieldErrors) {
        rules::check_status(definition, errors);
    }

    /// A deleted definition stays until its objects are deleted.
    fn plan_deletion(
        &self,
        kind: &Kind,
        options: &DeleteOptions,
        document: &Value,
        now: Timestamp,
    ) -> Deletion {
        if document.is_deleting() {
            let Deletion { marked, removes } = deletion::plan(kind, options, document, now);
            let lacks_grace = document.field("metadata.deletionGracePeriodSeconds").is_none();
            let mut marked = marked.or_else(|| (lacks_grace && !removes).then(|| document.clone()));
            if let Some(marked) = &mut marked {
                marked.object_or_new("metadata").insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
            return Deletion { marked, removes };
        }
        Deletion { marked: Some(custom::mark_for_deletion(document, now)), removes: false }
    }
}

fn stored_version(spec: &Object) -> Option<String> {
    let versions = spec.get("versions")?.as_array()?;
    let stored = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)))?;
    Some(stored.get("name")?.as_str()?.to_owned())
}

/// Adds the storage version to `status.storedVersions`.
fn remember_stored_version(definition: &mut Value) {
    let is_stored = |version: &&Value| version.field("storage") == Some(&Value::Bool(true));
    let stored = definition.list("spec.versions").iter().find(is_stored);
    let Some(stored) = stored.and_then(|version| version.field("name")).cloned() else { return };
    let mut all = definition.list("status.storedVersions").to_vec();
    if !all.contains(&stored) {
        all.push(stored);
        definition.object_or_new("status").insert("storedVersions".to_owned(), Value::Array(all));
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        kinds::find,
        schema::Timestamp,
        strategy::{Part, Requester, prepare_create, prepare_update},
    };
    use serde_json::Value;
    use serde_json::json;

    #[test]
    fn a_definition_remembers_every_version_in_which_objects_may_be_stored() {
        let kind = find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
        let definition =
            |versions: Value| json!({"metadata": {"name": "a.b"}, "spec": {"versions": versions}});
        let now = Timestamp::now();
        let mut made = definition(json!([version("v1", true)]));
        prepare_create(kind, &mut made, "", now, &Requester::default());
        assert_eq!(made["status"]["storedVersions"], json!(["v1"]));

        let mut changed = definition(json!([version("v2", true), version("v1", false)]));
        prepare_update(kind, Part::Main, &mut changed, &made, now);
        assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));

        let mut dropped = changed.clone();
        dropped["status"]["storedVersions"] = json!(["v2"]);
        prepare_update(kind, Part::Status, &mut dropped, &changed, now);
        assert_eq!(
            dropped["status"]["storedVersions"],
            json!(["v2"]),
            "a client that moved the objects may say so"
        );
    }
}
