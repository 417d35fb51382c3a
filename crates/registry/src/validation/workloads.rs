//! Controllers of pods: what they run, how many, and what of it may change.

use std::collections::BTreeSet;

use keepwatch_apimachinery::status::Cause;
use serde_json::{Value, json};

use super::{
    cron,
    document::{Faults, Node, same_but},
    metadata, names, pod, selectors, storage,
};

const MISMATCH: &str = "`selector` does not match template `labels`";
const JOB_NAME_BYTES_MAX: usize = 52;
const MANAGER_BYTES_MAX: usize = 63;
const POLICY_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_MAX: i64 = 100_000;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// A selector that has to be given and to say something, and the template that it picks.
fn selector(spec: &Node, empty: &str, unreadable: &str, faults: &mut Faults) {
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, faults);
        if selectors::selects_all(&selector) {
            faults.invalid(&selector, selector.value.clone(), empty);
        }
    } else {
        faults.required(&selector, "");
    }
    if !selectors::can_be_asked(&selector) {
        faults.invalid(&selector, selector.value.clone(), unreadable);
        return;
    }
    if !selector.exists() || !selectors::selects_all(&selector) {
        picks_template(spec, &selector, faults);
    }
}

fn picks_template(spec: &Node, selector: &Node, faults: &mut Faults) {
    let labels = spec.at("template.metadata.labels");
    if !selector.exists() || !selectors::selects(selector, labels.value) {
        faults.invalid(&labels, labels.value.clone(), MISMATCH);
    }
}

/// Pods that are replaced when they end restart for ever and without a deadline.
fn runs_for_ever(spec: &Node, kind: &str, faults: &mut Faults) {
    let restart = spec.at("template.spec.restartPolicy");
    if restart.text() != "Always" {
        faults.not_supported(&restart, restart.text(), &["Always"]);
    }
    let deadline = spec.at("template.spec.activeDeadlineSeconds");
    if deadline.exists() {
        faults.forbidden(&deadline, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// A number, or a share of all, that is not negative.
pub(super) fn number_or_percent(at: &Node, faults: &mut Faults) {
    match at.value {
        Value::String(text) => faults.texts(at, names::percent(text)),
        _ => faults.not_negative(at),
    }
}

/// A share of all is not more than all.
pub(super) fn at_most_all(at: &Node, faults: &mut Faults) {
    let percent = at.text().strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        faults.invalid(at, at.text(), "must not be greater than 100%");
    }
}

fn is_zero(at: &Node) -> bool {
    match at.value {
        Value::String(text) => text.strip_suffix('%').is_some_and(|digits| digits.parse() == Ok(0)),
        _ => at.number().unwrap_or_default() == 0,
    }
}

/// A Deployment.
pub(super) fn deployment(deployment: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = deployment.at("spec");
    faults.not_negative(&spec.at("replicas"));
    let empty = "empty selector is invalid for deployment";
    selector(&spec, empty, "invalid label selector", faults);
    pod::template(&spec.at("template"), faults);
    runs_for_ever(&spec, "ReplicaSet", faults);
    deployment_strategy(&spec.at("strategy"), faults);
    faults.not_negative(&spec.at("minReadySeconds"));
    faults.not_negative(&spec.at("revisionHistoryLimit"));
    let deadline = spec.at("progressDeadlineSeconds");
    faults.not_negative(&deadline);
    if let Some(seconds) = deadline.number().filter(|seconds| *seconds <= spec.number_of("minReadySeconds")) {
        faults.invalid(&deadline, seconds, "must be greater than minReadySeconds");
    }
}

fn deployment_strategy(strategy: &Node, faults: &mut Faults) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text_of("type") {
        "Recreate" if rolling.exists() => {
            faults.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.exists() => {
            faults.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            number_or_percent(&unavailable, faults);
            number_or_percent(&surge, faults);
            if is_zero(&unavailable) && is_zero(&surge) {
                faults.invalid(&unavailable, unavailable.value.clone(), "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&unavailable, faults);
        }
        _ => {
            faults.not_supported_shown_of(strategy, &shown_strategy(strategy), &["Recreate", "RollingUpdate"])
        }
    }
}

/// A strategy as Go writes it.
fn shown_strategy(strategy: &Node) -> String {
    let rolling = strategy.at("rollingUpdate");
    let shown = if rolling.exists() {
        let number = |name: &str| match rolling.at(name).value {
            Value::Null => "0".to_owned(),
            given => given.to_string(),
        };
        format!(r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#, number("maxUnavailable"), number("maxSurge"))
    } else {
        "null".to_owned()
    };
    format!(r#"{{"Type":"{}","RollingUpdate":{shown}}}"#, strategy.text_of("type"))
}

/// A controller's selector stays what it is.
pub(super) fn selector_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("spec.selector"), &old.at("spec.selector"));
}

/// A ReplicaSet.
pub(super) fn replica_set(set: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = set.at("spec");
    faults.not_negative(&spec.at("replicas"));
    faults.not_negative(&spec.at("minReadySeconds"));
    let empty = "empty selector is invalid for deployment";
    selector(&spec, empty, "invalid label selector", faults);
    pod::template(&spec.at("template"), faults);
    runs_for_ever(&spec, "ReplicaSet", faults);
}

/// A ReplicationController, whose selector is a mere set of labels.
pub(super) fn replication_controller(controller: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = controller.at("spec");
    faults.not_negative(&spec.at("minReadySeconds"));
    if spec.len_of("selector") == 0 {
        faults.required(&spec.at("selector"), "");
    }
    faults.not_negative(&spec.at("replicas"));
    let template = spec.at("template");
    if !template.exists() {
        faults.required(&template, "");
        return;
    }
    let labels = template.at("metadata.labels");
    if !spec.entries("selector").all(|(key, value)| labels.value.get(key) == Some(value.value)) {
        faults.invalid(&labels, labels.value.clone(), MISMATCH);
    }
    pod::template(&template, faults);
    runs_for_ever(&spec, "ReplicationController", faults);
}

/// A DaemonSet.
pub(super) fn daemon_set(set: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = set.at("spec");
    let selector = spec.at("selector");
    selectors::label_selector(&selector, faults);
    if selectors::can_be_asked(&selector) {
        picks_template(&spec, &selector, faults);
    }
    if selector.exists() && selectors::selects_all(&selector) {
        faults.invalid(&selector, selector.value.clone(), "empty selector is invalid for daemonset");
    }
    pod::template(&spec.at("template"), faults);
    runs_for_ever(&spec, "DaemonSet", faults);
    faults.not_negative(&spec.at("minReadySeconds"));
    daemon_strategy(&spec.at("updateStrategy"), faults);
    faults.not_negative(&spec.at("revisionHistoryLimit"));
}

fn daemon_strategy(strategy: &Node, faults: &mut Faults) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text_of("type") {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.exists() => faults.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            for limit in [&unavailable, &surge] {
                number_or_percent(limit, faults);
                at_most_all(limit, faults);
            }
            // A text that is no share counts as none.
            let is_none = |limit: &Node| {
                is_zero(limit) || limit.value.as_str().is_some_and(|text| !names::percent(text).is_empty())
            };
            match (is_none(&unavailable), is_none(&surge)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    faults.invalid(&surge, surge.value.clone(), detail);
                }
                (true, true) => faults.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => {
            faults.not_supported_shown_of(strategy, &shown_strategy(strategy), &["RollingUpdate", "OnDelete"])
        }
    }
}

/// A StatefulSet.
pub(super) fn stateful_set(set: &Node, old: Option<&Node>, faults: &mut Faults) {
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
            storage::claim_spec(&template.at("spec"), faults);
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

/// What may change in a StatefulSet.
pub(super) fn stateful_set_change(new: &Node, old: &Node, faults: &mut Faults) {
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

/// How many pods a controller has, as it tells in its status: none of the counts is negative or above all.
pub(super) fn replica_counts(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "currentReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    for name in counts {
        faults.not_negative(&status.at(name));
    }
    let all = status.number_of("replicas");
    let parts: &[&str] = match new.text_of("kind") {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "StatefulSet" => &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for name in parts.iter().filter(|name| status.number_of(name) > all) {
        faults.invalid(&status.at(name), status.number_of(name), "cannot be greater than status.replicas");
    }
    let available = status.number_of("availableReplicas");
    if available > status.number_of("readyReplicas") {
        let path = if new.text_of("kind") == "StatefulSet" { "status." } else { "" };
        let detail = format!("cannot be greater than {path}readyReplicas");
        faults.invalid(&status.at("availableReplicas"), available, &detail);
    }
}

/// How many pods a DaemonSet has.
pub(super) fn daemon_counts(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    for name in counts {
        faults.not_negative(&status.at(name));
    }
}

/// A Job.
pub(super) fn job(job: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = job.at("spec");
    generated_selector(job, &spec, faults);
    job_spec_and_selector(&spec, faults);
    let completions = spec.number_of("completions");
    if spec.text_of("completionMode") == "Indexed" && completions > 0 {
        let meta = job.at("metadata");
        let longest = format!("{}-{}", meta.text_of("name"), completions - 1);
        if !names::label(&longest).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {longest}");
            faults.invalid(&meta.at("name"), meta.text_of("name"), &detail);
        }
    }
}

fn job_spec_and_selector(spec: &Node, faults: &mut Faults) {
    job_spec(spec, faults);
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, faults);
    } else {
        faults.required(&selector, "");
    }
    if selectors::can_be_asked(&selector) {
        picks_template(spec, &selector, faults);
    }
}

/// Unless told otherwise, a Job picks its pods by labels that the server gave them.
fn generated_selector(job: &Node, spec: &Node, faults: &mut Faults) {
    let (meta, selector) = (job.at("metadata"), spec.at("selector"));
    if spec.flag("manualSelector") || !selector.exists() {
        return;
    }
    if meta.text_of("uid").is_empty() {
        faults.required(&meta.at("uid"), "");
    }
    let template = spec.at("template.metadata");
    let mut given = serde_json::Map::new();
    for (key, source) in [
        ("controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
    ] {
        let (label, expected) = (template.entry("labels", key), meta.text_of(source));
        given.insert(key.to_owned(), expected.into());
        let detail = format!("must be '{expected}'");
        if !label.exists() {
            faults.required(&label, &detail);
        } else if label.text() != expected {
            faults.invalid(&label, template.at("labels").value.clone(), &detail);
        }
    }
    if selectors::can_be_asked(&selector) && !selectors::selects(&selector, &given.into()) {
        faults.invalid(&selector, selector.value.clone(), "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Node, faults: &mut Faults) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        faults.not_negative(&spec.at(name));
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        faults.required(&spec.at("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        let manager = spec.at("managedBy");
        faults.given(&manager);
        for (blamed, fault) in names::domain_path(manager.text()) {
            if manager.text().is_empty() {
                break;
            }
            faults.invalid(&manager, blamed, &fault);
        }
        if manager.text().len() > MANAGER_BYTES_MAX {
            faults.too_long(&manager, MANAGER_BYTES_MAX);
        }
    }
    let mode = spec.at("completionMode");
    faults.if_given_one_of(&mode, &["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        if !spec.has("completions") {
            faults.required(&spec.at("completions"), "when completion mode is Indexed");
        }
        if spec.number_of("parallelism") > 100_000 {
            let detail = "must be less than or equal to 100000 when completion mode is Indexed";
            faults.invalid(&spec.at("parallelism"), spec.number_of("parallelism"), detail);
        }
        failed_indexes(spec, faults);
    }
    if !mode.exists() || mode.text() == "NonIndexed" {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            let limit = spec.at(name);
            if limit.exists() {
                faults.invalid(&limit, limit.value.clone(), "requires indexed completion mode");
            }
        }
    }
    if spec.has("podFailurePolicy") {
        failure_policy(spec, faults);
    }
    let success = spec.at("successPolicy");
    if success.exists() {
        if mode.text() == "Indexed" {
            success_policy(spec, faults);
        } else {
            faults.invalid(&success, success.value.clone(), "requires indexed completion mode");
        }
    }
    let known: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    faults.if_given_one_of(&spec.at("podReplacementPolicy"), known);
    pod::template(&spec.at("template"), faults);
    job_restart(spec, faults);
}

/// How many indexes of a Job may fail.
fn failed_indexes(spec: &Node, faults: &mut Faults) {
    let (limit, completions) = (spec.at("maxFailedIndexes"), spec.at("completions"));
    if let Some(number) = limit.number() {
        if completions.number().is_some_and(|completions| number > completions) {
            faults.invalid(&limit, number, "must be less than or equal to completions");
        }
        if number > INDEXES_MAX {
            faults.invalid(&limit, number, &format!("must be less than or equal to {INDEXES_MAX}"));
        }
    }
    if completions.number().is_none_or(|number| number <= INDEXES_MAX) || !spec.has("backoffLimitPerIndex") {
        return;
    }
    if !limit.exists() {
        faults.required(&limit, &format!("must be specified when completions is above {INDEXES_MAX}"));
    }
    for name in ["parallelism", "maxFailedIndexes"] {
        let at = spec.at(name);
        if let Some(number) = at.number().filter(|number| *number > INDEXES_MAX / 10) {
            let detail = format!(
                "must be less than or equal to {} when completions are above {INDEXES_MAX} and used with backoff limit \
                 per index",
                INDEXES_MAX / 10
            );
            faults.invalid(&at, number, &detail);
        }
    }
}

fn failure_policy(spec: &Node, faults: &mut Faults) {
    let policy = spec.at("podFailurePolicy");
    let count = policy.len_of("rules");
    if count > POLICY_RULES_MAX {
        faults.too_many(&policy.at("rules"), count, POLICY_RULES_MAX);
    }
    for rule in policy.items("rules") {
        let action = rule.at("action");
        if action.text() != "FailIndex" {
            faults.required_one_of(&action, &["Count", "FailIndex", "FailJob", "Ignore"]);
        } else if !spec.has("backoffLimitPerIndex") {
            faults.invalid(&action, action.text(), "requires the backoffLimitPerIndex to be set");
        }
        let has_conditions = rule.len_of("onPodConditions") > 0;
        if rule.has("onExitCodes") {
            exit_codes(spec, &rule.at("onExitCodes"), faults);
        }
        pod_conditions(&rule, faults);
        match (rule.has("onExitCodes"), has_conditions) {
            (true, true) => faults
                .invalid_unshown(&rule, "specifying both OnExitCodes and OnPodConditions is not supported"),
            (false, false) => {
                faults.invalid_unshown(&rule, "specifying one of OnExitCodes and OnPodConditions is required")
            }
            _ => {}
        }
    }
}

fn pod_conditions(rule: &Node, faults: &mut Faults) {
    let count = rule.len_of("onPodConditions");
    if count > POLICY_RULES_MAX {
        faults.too_many(&rule.at("onPodConditions"), count, POLICY_RULES_MAX);
    }
    for pattern in rule.items("onPodConditions") {
        let kind = pattern.at("type");
        faults.texts(&kind, names::qualified(kind.text()));
        faults.required_one_of(&pattern.at("status"), &["False", "True", "Unknown"]);
    }
}

fn exit_codes(spec: &Node, codes: &Node, faults: &mut Faults) {
    faults.required_one_of(&codes.at("operator"), &["In", "NotIn"]);
    let (container, pod) = (codes.at("containerName"), spec.at("template.spec"));
    let is_known = ["containers", "initContainers"]
        .iter()
        .any(|list| pod.items(list).any(|one| one.text_of("name") == container.text()));
    if container.exists() && !is_known {
        let detail = "must be one of the container or initContainer names in the pod template";
        faults.invalid(&container, container.text(), detail);
    }
    let values = codes.at("values");
    match codes.len_of("values") {
        0 => faults.invalid(&values, values.value.clone(), "at least one value is required"),
        count if count > EXIT_CODES_MAX => faults.too_many(&values, count, EXIT_CODES_MAX),
        _ => {}
    }
    let (mut seen, mut last, mut is_ordered) = (BTreeSet::new(), i64::MIN, true);
    for value in codes.items("values") {
        let number = value.number().unwrap_or_default();
        if codes.text_of("operator") == "In" && number == 0 {
            faults.invalid(&value, number, "must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            faults.duplicate_shown(&value, &number.to_string());
        }
        is_ordered &= last <= number;
        last = number;
    }
    if !is_ordered {
        faults.invalid(&values, values.value.clone(), "must be ordered");
    }
}

/// Which indexes of a Job have to succeed for all of it to.
fn success_policy(spec: &Node, faults: &mut Faults) {
    let policy = spec.at("successPolicy");
    match policy.len_of("rules") {
        0 => faults.required(
            &policy.at("rules"),
            "at least one rules must be specified when the successPolicy is specified",
        ),
        count if count > POLICY_RULES_MAX => faults.too_many(&policy.at("rules"), count, POLICY_RULES_MAX),
        _ => {}
    }
    let completions = spec.number_of("completions");
    for rule in policy.items("rules") {
        let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
        if !indexes.exists() && !count.exists() {
            faults.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut all = 0;
        if indexes.exists() {
            if indexes.text().len() > INDEXES_BYTES_MAX {
                faults.too_long(&indexes, INDEXES_BYTES_MAX);
            }
            match count_indexes(indexes.text(), completions) {
                Ok(number) => all = number,
                Err(wrong) => {
                    let detail = format!("error parsing succeededIndexes: {wrong}");
                    faults.invalid(&indexes, indexes.text(), &detail);
                }
            }
        }
        faults.not_negative(&count);
        let Some(number) = count.number() else { continue };
        if number > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            faults.invalid(&count, number, &detail);
        }
        if indexes.exists() && number > all {
            let detail = format!(
                "must be less than or equal to {all} (the number of indexes in the specified succeededIndexes field)"
            );
            faults.invalid(&count, number, &detail);
        }
    }
}

/// How many indexes a text such as `0-2,4` names, or what is wrong with it.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let (mut all, mut last) = (0, None);
    for interval in text.split(',') {
        let mut parts = interval.split('-');
        let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if more.is_some() {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts \
                 separated by '-'"
            ));
        }
        let first = index(first)?;
        let second = second.map(index).transpose()?;
        if let Some(previous) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        if let Some(second) = second.filter(|second| first >= *second) {
            return Err(format!("non-increasing order, previous: {first}, current: {second}"));
        }
        let end = second.unwrap_or(first);
        all += end - first + 1;
        last = Some(end);
    }
    Ok(all)
}

fn job_restart(spec: &Node, faults: &mut Faults) {
    let restart = spec.at("template.spec.restartPolicy");
    match restart.text() {
        "" | "Always" => faults.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            faults.invalid(&restart, restart.text(), detail);
        }
        "OnFailure" | "Never" => {}
        other => faults.not_supported(&restart, other, &["OnFailure", "Never"]),
    }
}

/// What may change in a Job.
pub(super) fn job_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    job_spec_and_selector(&spec, faults);
    let completions = spec.at("completions");
    if spec.text_of("completionMode") == "Indexed" && before.text_of("completionMode") == "Indexed" {
        let elastic = spec.number_of("completions") == spec.number_of("parallelism");
        if completions.value != before.at("completions").value && !elastic {
            let detail = "can only be modified in tandem with spec.parallelism";
            faults.invalid(&completions, completions.value.clone(), detail);
        }
    } else {
        faults.unchanged(&completions, &before.at("completions"));
    }
    faults.unchanged(&spec.at("selector"), &before.at("selector"));
    let unstarted = before.flag("suspend") && !old.at("status").has("startTime");
    if !same_template(&spec.at("template"), &before.at("template"), unstarted) {
        let template = spec.at("template");
        faults.invalid(&template, template.value.clone(), "field is immutable");
    }
    for name in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        faults.unchanged(&spec.at(name), &before.at(name));
    }
}

/// Whether a Job's template stayed what it was. Before it starts, where its pods run is open.
fn same_template(new: &Node, old: &Node, unstarted: bool) -> bool {
    if !unstarted {
        return new.value == old.value;
    }
    let free = ["nodeSelector", "affinity", "tolerations", "schedulingGates", "containers", "initContainers"];
    let containers = |list: &str| {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        spec.len_of(list) == before.len_of(list)
            && spec
                .items(list)
                .zip(before.items(list))
                .all(|(new, old)| same_but(new.value, old.value, &["resources"]))
    };
    same_but(new.at("metadata").value, old.at("metadata").value, &["labels", "annotations"])
        && same_but(new.at("spec").value, old.at("spec").value, &free)
        && containers("containers")
        && containers("initContainers")
}

/// How many pods a Job has.
pub(super) fn job_counts(new: &Node, old: &Node, faults: &mut Faults) {
    let (status, before) = (new.at("status"), old.at("status"));
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        faults.not_negative(&status.at(name));
    }
    let ready = status.at("ready");
    if ready.number().is_some_and(|ready| ready > status.number_of("active")) {
        faults.invalid(&ready, ready.value.clone(), "cannot set more ready pods than active");
    }
    let mut terminated = BTreeSet::new();
    let uncounted = status.at("uncountedTerminatedPods");
    for pod in uncounted.items("succeeded").chain(uncounted.items("failed")) {
        if pod.text().is_empty() {
            faults.invalid(&pod, "", "must not be empty");
        } else if !terminated.insert(pod.text()) {
            faults.duplicate(&pod, pod.text());
        }
    }
    // Those of an Indexed Job can become fewer when it gets smaller.
    let indexed = new.at("spec").text_of("completionMode") == "Indexed";
    let counters: &[&str] = if indexed { &["failed"] } else { &["failed", "succeeded"] };
    for name in counters {
        let count = status.at(name);
        if status.number_of(name) < before.number_of(name) {
            faults.invalid(&count, status.number_of(name), &format!("cannot decrease the {name} counter"));
        }
    }
    let failed = status.at("failedIndexes");
    if failed.exists() && !new.at("spec").has("backoffLimitPerIndex") {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        faults.invalid(&failed, failed.text(), detail);
    }
    let completion = status.at("completionTime");
    let is_complete = status
        .items("conditions")
        .any(|condition| condition.text_of("type") == "Complete" && condition.text_of("status") == "True");
    if completion.exists() && completion.text() != before.text_of("completionTime") && !is_complete {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        faults.invalid(&completion, completion.text(), detail);
    }
}

/// A CronJob.
pub(super) fn cron_job(cron: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = cron.at("spec");
    schedule(&spec, old, faults);
    faults.not_negative(&spec.at("startingDeadlineSeconds"));
    let zone = spec.at("timeZone");
    let is_new = old.is_none_or(|old| old.at("spec.timeZone").value != zone.value);
    if let Some(wrong) = cron::time_zone(zone.text()).filter(|_| is_new && zone.exists()) {
        faults.invalid(&zone, zone.text(), &wrong);
    }
    faults.one_of(&spec.at("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = spec.at("jobTemplate.spec");
    job_spec(&job, faults);
    if job.has("selector") {
        let selector = job.at("selector");
        faults.invalid(&selector, selector.value.clone(), "`selector` will be auto-generated");
    }
    if job.flag("manualSelector") {
        faults.0.push(Cause::new(
            "FieldValueNotSupported",
            "Unsupported value: true: supported values: \"nil\", \"false\"",
            "spec.jobTemplate.spec.manualSelector",
        ));
    }
    faults.not_negative(&spec.at("successfulJobsHistoryLimit"));
    faults.not_negative(&spec.at("failedJobsHistoryLimit"));
    let name = cron.at("metadata.name");
    if old.is_none() && name.text().len() > JOB_NAME_BYTES_MAX {
        faults.invalid(&name, name.text(), &format!("must be no more than {JOB_NAME_BYTES_MAX} characters"));
    }
}

fn schedule(spec: &Node, old: Option<&Node>, faults: &mut Faults) {
    let schedule = spec.at("schedule");
    let text = schedule.text();
    if text.is_empty() {
        faults.required(&schedule, "");
        return;
    }
    if text.contains("TZ") {
        if spec.has("timeZone") {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            faults.invalid(&schedule, text, detail);
        }
        if old.is_none_or(|old| !old.at("spec").text_of("schedule").contains("TZ")) {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            faults.invalid(&schedule, text, detail);
        }
        return;
    }
    if let Some(wrong) = cron::schedule(text) {
        faults.invalid(&schedule, text, &wrong);
    }
}

/// A revision of a controller.
pub(super) fn controller_revision(revision: &Node, _: Option<&Node>, faults: &mut Faults) {
    if !revision.has("data") {
        faults.required(&revision.at("data"), "data is mandatory");
    }
    faults.not_negative(&revision.at("revision"));
}

/// A revision's data stays what it is.
pub(super) fn controller_revision_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("data"), &old.at("data"));
}

/// A template that stands by itself.
pub(super) fn pod_template(object: &Node, _: Option<&Node>, faults: &mut Faults) {
    pod::template(&object.at("template"), faults);
}

/// The metadata of something that is made later: labels and annotations, and nothing else.
pub(super) fn template_metadata(meta: &Node, faults: &mut Faults) {
    metadata::annotations(&meta.at("annotations"), faults);
    metadata::labels(&meta.at("labels"), faults);
    for (name, _) in meta.own_entries().filter(|(name, _)| !matches!(*name, "annotations" | "labels")) {
        if meta.has(name) {
            let shown = if name == "uid" { "uID" } else { name };
            faults.forbidden(&meta.at_as(name, shown), "cannot be set");
        }
    }
}
