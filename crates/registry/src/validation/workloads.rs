//! Controllers of pods: what they run, how many, and what of it may change.

use serde_json::Value;

use super::{
    cron,
    document::{Faults, Node, same_but},
    metadata, names, pod, selectors,
};

const MISMATCH: &str = "`selector` does not match template `labels`";
const JOB_NAME_BYTES_MAX: usize = 52;

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
        other => faults.not_supported(&strategy.at("type"), other, &["Recreate", "RollingUpdate"]),
    }
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
            match (is_zero(&unavailable), is_zero(&surge)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    faults.invalid(&surge, surge.value.clone(), detail);
                }
                (true, true) => faults.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        other => faults.not_supported(&strategy.at("type"), other, &["RollingUpdate", "OnDelete"]),
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
    faults.not_negative(&spec.at("replicas"));
    faults.not_negative(&spec.at("minReadySeconds"));
    faults.not_negative(&spec.at("ordinals.start"));
    faults.not_negative(&spec.at("revisionHistoryLimit"));
    if old.is_none() {
        faults.if_given(&spec.at("serviceName"), names::label);
    }
    selector(&spec, "empty selector is invalid for statefulset", "", faults);
    let claims = spec.items("volumeClaimTemplates").map(|claim| claim.at("metadata").text_of("name"));
    pod::template_with(&spec.at("template"), claims.collect(), faults);
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
        faults.invalid(&status.at("availableReplicas"), available, "cannot be greater than readyReplicas");
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
pub(super) fn job(job: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = job.at("spec");
    if old.is_none() {
        generated_selector(job, &spec, faults);
    }
    job_spec(&spec, faults);
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, faults);
    } else {
        faults.required(&selector, "");
    }
    if selectors::can_be_asked(&selector) {
        picks_template(&spec, &selector, faults);
    }
    let completions = spec.number_of("completions");
    if old.is_none() && spec.text_of("completionMode") == "Indexed" && completions > 0 {
        let meta = job.at("metadata");
        let longest = format!("{}-{}", meta.text_of("name"), completions - 1);
        if !names::label(&longest).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label {longest}");
            faults.invalid(&meta.at("name"), meta.text_of("name"), &detail);
        }
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
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
        ("controller-uid", "uid"),
        ("job-name", "name"),
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
        for (blamed, fault) in names::domain_path(manager.text()) {
            faults.invalid(&manager, blamed, &fault);
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
    } else if spec.has("backoffLimitPerIndex") {
        let limit = spec.at("backoffLimitPerIndex");
        faults.invalid(&limit, limit.value.clone(), "requires indexed completion mode");
    }
    let replacement = spec.at("podReplacementPolicy");
    if spec.has("podFailurePolicy") {
        failure_policy(&spec.at("podFailurePolicy"), faults);
        faults.if_given_one_of(&replacement, &["Failed"]);
    } else {
        faults.if_given_one_of(&replacement, &["Failed", "TerminatingOrFailed"]);
    }
    pod::template(&spec.at("template"), faults);
    job_restart(spec, faults);
}

fn failure_policy(policy: &Node, faults: &mut Faults) {
    for rule in policy.items("rules") {
        faults.one_of(&rule.at("action"), &["Count", "FailIndex", "FailJob", "Ignore"]);
        match (rule.has("onExitCodes"), rule.len_of("onPodConditions") > 0) {
            (true, true) => faults.invalid(
                &rule,
                rule.value.clone(),
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, false) => faults.invalid(
                &rule,
                rule.value.clone(),
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            (true, false) => {
                let codes = rule.at("onExitCodes");
                faults.one_of(&codes.at("operator"), &["In", "NotIn"]);
                if codes.len_of("values") == 0 {
                    let values = codes.at("values");
                    faults.invalid(&values, values.value.clone(), "at least one value is required");
                }
            }
            (false, true) => {}
        }
    }
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
pub(super) fn job_counts(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        faults.not_negative(&status.at(name));
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
        faults.not_supported(&job.at("manualSelector"), "true", &["nil", "false"]);
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
            faults.forbidden(&meta.at(name), "cannot be set");
        }
    }
}
