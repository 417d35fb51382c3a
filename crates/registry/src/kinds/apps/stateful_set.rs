//! StatefulSet.

use crate::{
    defaults::{pod::template, storage, workloads::REVISIONS_KEPT},
    document::{Edit, FieldErrors, Fields, Node, Object, same_except},
    kind::{Generation, Kind, NameRule, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, CONTAINERS, Column, IMAGES, NAME, row, text,
        words::{age_of, containers},
        workloads::{POD_CONTAINERS, ready},
    },
    validation::{
        self, SPEC, Step, names, pod,
        warnings::{self, Warnings, same_generation},
        workloads::{at_most_all, is_zero, number_or_percent, replica_counts, selector},
    },
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.StatefulSet", "statefulsets")
        .short_names(&["sts"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .names(NameRule::Label)
        .generation(Generation::Spec)
        .strategy(StatefulSetStrategy)
}

const COLUMNS: &[Column] =
    &[NAME, text("Ready", "How many pods are ready, of those wanted"), AGE, CONTAINERS, IMAGES];

struct StatefulSetStrategy;

impl Strategy for StatefulSetStrategy {
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_default("replicas", 1);
        spec.set_if_zero("podManagementPolicy", "OrderedReady");
        default_stateful_strategy(spec.object_or_new("updateStrategy"));
        let retention = spec.object_or_new("persistentVolumeClaimRetentionPolicy");
        retention.set_if_zero("whenDeleted", "Retain");
        retention.set_if_zero("whenScaled", "Retain");
        spec.set_default("revisionHistoryLimit", REVISIONS_KEPT);
        template(spec);
        for claim in spec.objects_mut("volumeClaimTemplates") {
            claim.set_if_zero("kind", "PersistentVolumeClaim");
            claim.set_if_zero("apiVersion", "v1");
            storage::claim(claim);
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        let rolling = document.pointer_mut("/spec/updateStrategy/rollingUpdate");
        if let Some(rolling) = rolling.and_then(Value::as_object_mut) {
            rolling.remove("maxUnavailable");
        }
        for claim in document.list_mut("spec.volumeClaimTemplates") {
            let claim = claim.make_object();
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, set: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = set.at("spec");
        let management = spec.at("podManagementPolicy");
        match management.as_text() {
            "" => errors.required(&management, ""),
            "OrderedReady" | "Parallel" => {}
            other => errors.invalid(&management, other, "must be 'OrderedReady' or 'Parallel'"),
        }
        stateful_strategy(&spec.at("updateStrategy"), errors);
        for moment in ["whenDeleted", "whenScaled"] {
            let policy = spec.at("persistentVolumeClaimRetentionPolicy");
            if policy.exists() {
                errors.one_of_if_set(&policy.at(moment), &["Retain", "Delete"]);
            }
        }
        if old.is_none() {
            for template in spec.items("volumeClaimTemplates") {
                validation::storage::claim_spec(&template.at("spec"), errors);
            }
        }
        errors.not_negative(&spec.at("replicas"));
        errors.not_negative(&spec.at("minReadySeconds"));
        errors.not_negative(&spec.at("ordinals.start"));
        if old.is_none() {
            errors.valid_if_set(&spec.at("serviceName"), names::label);
        }
        selector(&spec, "empty selector is invalid for statefulset", "", errors);
        let template = spec.at("template");
        pod::template(&template.with(&with_claims(&spec, template.value)), errors);
        let restart = spec.at("template.spec.restartPolicy");
        if restart.as_text() != "Always" {
            errors.not_supported(&restart, restart.as_text(), &["Always"]);
        }
        let deadline = spec.at("template.spec.activeDeadlineSeconds");
        if deadline.exists() {
            let detail = "activeDeadlineSeconds in StatefulSet is not Supported";
            errors.forbidden(&deadline, detail);
        }
    }

    /// Allows changes of the listed fields of the spec only.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let free = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if !same_except(new.at("spec").value, old.at("spec").value, &free) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
                 are forbidden";
            errors.forbidden(&new.at("spec"), detail);
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let parts = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        replica_counts(new, "status.readyReplicas", parts, errors)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        if same_generation(object, old) {
            return;
        }
        warnings::template(&object.at("spec.template"), warnings);
        for claim in object.at("spec").items("volumeClaimTemplates") {
            warnings::claimed(&claim.at_as("spec.resources", "resources"), warnings);
        }
        let limit = object.at("spec.revisionHistoryLimit");
        if limit.as_number().is_some_and(|limit| limit < 0) {
            let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.add(&limit, text);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(set, POD_CONTAINERS);
        row![set.name(), ready(set), age_of(set, now), names, images]
    }
}

/// The pod template of a StatefulSet as it is validated: with a volume for each claim template, and without hostname
/// and subdomain, which the controller sets.
fn with_claims(spec: &Node, template: &Value) -> Value {
    let mut template = template.clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let claims: BTreeSet<_> =
        spec.items("volumeClaimTemplates").map(|claim| claim.at("metadata").text("name")).collect();
    if !claims.is_empty() {
        let is_claim =
            |volume: &Value| claims.contains(volume.get("name").and_then(Value::as_str).unwrap_or_default());
        let given = pod.get("volumes").and_then(Value::as_array).into_iter().flatten();
        let others = given.filter(|volume| !is_claim(volume)).cloned();
        let claimed =
            claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> = claimed.chain(others).collect();
        pod.insert("volumes".to_owned(), volumes.into());
    }
    template
}

fn stateful_strategy(strategy: &Node, errors: &mut FieldErrors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "" => errors.required(strategy, ""),
        "OnDelete" if rolling.exists() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(&rolling, rolling.value.clone(), detail);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            errors.not_negative(&rolling.at("partition"));
            let unavailable = rolling.at("maxUnavailable");
            if unavailable.exists() {
                number_or_percent(&unavailable, errors);
                if is_zero(&unavailable) {
                    errors.invalid(&unavailable, unavailable.value.clone(), "cannot be 0");
                }
                at_most_all(&unavailable, errors);
            }
        }
        _ => errors.invalid(strategy, strategy.value.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// Sets the default type, and completes the parameters of a rolling update if they are set or the type was not.
fn default_stateful_strategy(strategy: &mut Object) {
    if strategy.text("type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        strategy.object_or_new("rollingUpdate");
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling) = strategy.object_mut("rollingUpdate")
    {
        rolling.set_default("partition", 0);
    }
}
