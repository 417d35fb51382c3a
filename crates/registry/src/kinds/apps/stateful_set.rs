//! StatefulSet.

use crate::{
    defaults::{
        fields::{self, Object, child, child_or_new, children, set_default, set_if_zero},
        pod::template,
        storage,
        workloads::REVISIONS_KEPT,
    },
    kind::{Generation, Kind, NameRule, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, CONTAINERS, Column, IMAGES, NAME,
        read::Read,
        row, text,
        words::{age_of, containers},
        workloads::{POD_CONTAINERS, ready},
    },
    validation::{
        self, SPEC, Step,
        document::{Faults, Node, same_but},
        names, pod,
        warnings::{self, Warnings, same_generation},
        workloads::{at_most_all, is_zero, number_or_percent, replica_counts, selector},
    },
    value::{self, list_mut},
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
        let spec = child_or_new(object, "spec");
        set_default(spec, "replicas", 1);
        set_if_zero(spec, "podManagementPolicy", "OrderedReady");
        default_stateful_strategy(child_or_new(spec, "updateStrategy"));
        let retention = child_or_new(spec, "persistentVolumeClaimRetentionPolicy");
        set_if_zero(retention, "whenDeleted", "Retain");
        set_if_zero(retention, "whenScaled", "Retain");
        set_default(spec, "revisionHistoryLimit", REVISIONS_KEPT);
        template(spec);
        for claim in children(spec, "volumeClaimTemplates") {
            set_if_zero(claim, "kind", "PersistentVolumeClaim");
            set_if_zero(claim, "apiVersion", "v1");
            storage::claim(claim);
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        let rolling = document.pointer_mut("/spec/updateStrategy/rollingUpdate");
        if let Some(rolling) = rolling.and_then(Value::as_object_mut) {
            rolling.remove("maxUnavailable");
        }
        for claim in list_mut(document, "/spec/volumeClaimTemplates") {
            let claim = value::fields(claim, &[]);
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, set: &Node, old: Option<&Node>, faults: &mut Faults) {
        let spec = set.at("spec");
        let management = spec.at("podManagementPolicy");
        match management.text() {
            "" => faults.required(&management, ""),
            "OrderedReady" | "Parallel" => {}
            other => faults.invalid(&management, other, "must be 'OrderedReady' or 'Parallel'"),
        }
        stateful_strategy(&spec.at("updateStrategy"), faults);
        for moment in ["whenDeleted", "whenScaled"] {
            let policy = spec.at("persistentVolumeClaimRetentionPolicy");
            if policy.exists() {
                faults.if_given_one_of(&policy.at(moment), &["Retain", "Delete"]);
            }
        }
        if old.is_none() {
            for template in spec.items("volumeClaimTemplates") {
                validation::storage::claim_spec(&template.at("spec"), faults);
            }
        }
        faults.not_negative(&spec.at("replicas"));
        faults.not_negative(&spec.at("minReadySeconds"));
        faults.not_negative(&spec.at("ordinals.start"));
        if old.is_none() {
            faults.if_given(&spec.at("serviceName"), names::label);
        }
        selector(&spec, "empty selector is invalid for statefulset", "", faults);
        let template = spec.at("template");
        pod::template(&template.with(&with_claims(&spec, template.value)), faults);
        let restart = spec.at("template.spec.restartPolicy");
        if restart.text() != "Always" {
            faults.not_supported(&restart, restart.text(), &["Always"]);
        }
        let deadline = spec.at("template.spec.activeDeadlineSeconds");
        if deadline.exists() {
            let detail = "activeDeadlineSeconds in StatefulSet is not Supported";
            faults.forbidden(&deadline, detail);
        }
    }

    /// What may change in a StatefulSet.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        let free = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if !same_but(new.at("spec").value, old.at("spec").value, &free) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
                 are forbidden";
            faults.forbidden(&new.at("spec"), detail);
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let parts = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        replica_counts(new, "status.readyReplicas", parts, faults)
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
        if limit.number().is_some_and(|limit| limit < 0) {
            let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.add(&limit, text);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(set, POD_CONTAINERS);
        row![set.name(), ready(set), age_of(set, now), names, images]
    }
}

/// The template of the pods that a StatefulSet makes: each of its claims is a volume, and the names that its pods get are
/// not those of the template.
fn with_claims(spec: &Node, template: &Value) -> Value {
    let mut template = template.clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let claims: BTreeSet<_> =
        spec.items("volumeClaimTemplates").map(|claim| claim.at("metadata").text_of("name")).collect();
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

fn stateful_strategy(strategy: &Node, faults: &mut Faults) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text_of("type") {
        "" => faults.required(strategy, ""),
        "OnDelete" if rolling.exists() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            faults.invalid(&rolling, rolling.value.clone(), detail);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            faults.not_negative(&rolling.at("partition"));
            let unavailable = rolling.at("maxUnavailable");
            if unavailable.exists() {
                number_or_percent(&unavailable, faults);
                if is_zero(&unavailable) {
                    faults.invalid(&unavailable, unavailable.value.clone(), "cannot be 0");
                }
                at_most_all(&unavailable, faults);
            }
        }
        _ => faults.invalid(strategy, strategy.value.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// The parameters of a rolling update are filled if they, or no type at all, were given.
fn default_stateful_strategy(strategy: &mut Object) {
    if fields::text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        child_or_new(strategy, "rollingUpdate");
    }
    if fields::text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = child(strategy, "rollingUpdate")
    {
        set_default(rolling, "partition", 0);
    }
}
