//! Job.

use crate::{
    defaults::{pod::template, workloads::labels_of_template},
    document::{Edit, FieldErrors, Fields, Node, Object, same_except},
    kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{
        AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, row, text,
        words::{age_of, containers, duration, selector_or_none},
        workloads::POD_CONTAINERS,
    },
    validation::{
        LATE, Step, names, pod, selectors,
        warnings::{self, Warnings, same_generation},
        workloads::must_match_template,
    },
};
use serde_json::Value;
use std::collections::BTreeSet;

const DELETION_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

pub(super) fn kind() -> Kind {
    Kind::of_type("batch", "batch.v1.Job", "jobs")
        .categories(&["all"])
        .subresources([Subresource::status()])
        .orphans_dependents()
        .warns_of_deletion(DELETION_WARNING)
        .generation(Generation::Spec)
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("status.successful").at(At::Number(path("status.succeeded"))),
            ],
            UnknownField::NotSupportedFor("Job"),
        )
        .strategy(JobStrategy)
        .depends_on_name()
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "How far it is"),
    text("Completions", "How many pods have succeeded, of those wanted"),
    text("Duration", "How long it has been running, or ran"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

struct JobStrategy;

impl Strategy for JobStrategy {
    fn set_defaults(&self, object: &mut Object) {
        job(object)
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn prepare_create(&self, document: &mut Value, creation: &Creation<'_>) {
        own_pods(document, creation.uid);
    }

    fn name_is_generated(&self, document: &mut Value) {
        name_pods(document);
    }

    fn prepare_any_update(&self, new: &mut Value) {
        label_like_pods(new);
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, job: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = job.at("spec");
        generated_selector(job, &spec, errors);
        job_spec_and_selector(&spec, errors);
        let completions = spec.number("completions");
        if spec.text("completionMode") == "Indexed" && completions > 0 {
            let meta = job.at("metadata");
            let longest = format!("{}-{}", meta.text("name"), completions - 1);
            if !names::label(&longest).is_empty() {
                let detail = format!("will not able to create pod with invalid DNS label: {longest}");
                errors.invalid(&meta.at("name"), meta.text("name"), &detail);
            }
        }
    }

    /// Allows those changes that Kubernetes allows in a stored Job.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        job_spec_and_selector(&spec, errors);
        let completions = spec.at("completions");
        if spec.text("completionMode") == "Indexed" && before.text("completionMode") == "Indexed" {
            let elastic = spec.number("completions") == spec.number("parallelism");
            if completions.value != before.at("completions").value && !elastic {
                let detail = "can only be modified in tandem with spec.parallelism";
                errors.invalid(&completions, completions.value.clone(), detail);
            }
        } else {
            errors.immutable(&completions, &before.at("completions"));
        }
        errors.immutable(&spec.at("selector"), &before.at("selector"));
        let unstarted = before.flag("suspend") && !old.at("status").has("startTime");
        if !same_template(&spec.at("template"), &before.at("template"), unstarted) {
            let template = spec.at("template");
            errors.invalid(&template, template.value.clone(), "field is immutable");
        }
        for name in
            ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
        {
            errors.immutable(&spec.at(name), &before.at(name));
        }
    }

    /// Validates the numbers of pods, the indexes and the conditions in the status.
    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (status, before) = (new.at("status"), old.at("status"));
        for name in ["active", "succeeded", "failed", "ready", "terminating"] {
            errors.not_negative(&status.at(name));
        }
        let ready = status.at("ready");
        if ready.as_number().is_some_and(|ready| ready > status.number("active")) {
            errors.invalid(&ready, ready.value.clone(), "cannot set more ready pods than active");
        }
        let mut terminated = BTreeSet::new();
        let uncounted = status.at("uncountedTerminatedPods");
        for pod in uncounted.items("succeeded").chain(uncounted.items("failed")) {
            if pod.as_text().is_empty() {
                errors.invalid(&pod, "", "must not be empty");
            } else if !terminated.insert(pod.as_text()) {
                errors.duplicate(&pod, pod.as_text());
            }
        }
        // The completed indexes of an Indexed Job can become fewer when it is scaled down.
        let indexed = new.at("spec").text("completionMode") == "Indexed";
        let counters: &[&str] = if indexed { &["failed"] } else { &["failed", "succeeded"] };
        for name in counters {
            let count = status.at(name);
            if status.number(name) < before.number(name) {
                errors.invalid(&count, status.number(name), &format!("cannot decrease the {name} counter"));
            }
        }
        let failed = status.at("failedIndexes");
        if failed.exists() && !new.at("spec").has("backoffLimitPerIndex") {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&failed, failed.as_text(), detail);
        }
        let completion = status.at("completionTime");
        let is_complete = status
            .items("conditions")
            .any(|condition| condition.text("type") == "Complete" && condition.text("status") == "True");
        if completion.exists() && completion.as_text() != before.text("completionTime") && !is_complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&completion, completion.as_text(), detail);
        }
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        if !same_generation(object, old) {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, job: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(job, POD_CONTAINERS);
        row![
            job.name(),
            job_status(job),
            job_completions(job),
            job_duration(job, now),
            age_of(job, now),
            names,
            images,
            selector_or_none(job, "spec.selector"),
        ]
    }
}

const MANAGER_BYTES_MAX: usize = 63;

const POLICY_RULES_MAX: usize = 20;

const EXIT_CODES_MAX: usize = 255;

const INDEXES_MAX: i64 = 100_000;

const INDEXES_BYTES_MAX: usize = 64 * 1024;

fn job_spec_and_selector(spec: &Node, errors: &mut FieldErrors) {
    job_spec(spec, errors);
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, errors);
    } else {
        errors.required(&selector, "");
    }
    if selectors::can_be_evaluated(&selector) {
        must_match_template(spec, &selector, errors);
    }
}

/// By default, a Job selects its pods by labels that the server sets.
fn generated_selector(job: &Node, spec: &Node, errors: &mut FieldErrors) {
    let (meta, selector) = (job.at("metadata"), spec.at("selector"));
    if spec.flag("manualSelector") || !selector.exists() {
        return;
    }
    if meta.text("uid").is_empty() {
        errors.required(&meta.at("uid"), "");
    }
    let template = spec.at("template.metadata");
    let mut given = serde_json::Map::new();
    for (key, source) in [
        ("controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
    ] {
        let (label, expected) = (template.entry("labels", key), meta.text(source));
        given.insert(key.to_owned(), expected.into());
        let detail = format!("must be '{expected}'");
        if !label.exists() {
            errors.required(&label, &detail);
        } else if label.as_text() != expected {
            errors.invalid(&label, template.at("labels").value.clone(), &detail);
        }
    }
    if selectors::can_be_evaluated(&selector) && !selectors::selects(&selector, &given.into()) {
        errors.invalid(&selector, selector.value.clone(), "`selector` not auto-generated");
    }
}

pub(crate) fn job_spec(spec: &Node, errors: &mut FieldErrors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(&spec.at(name));
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(&spec.at("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        let manager = spec.at("managedBy");
        errors.not_empty(&manager);
        for (reported_at, error) in names::domain_path(manager.as_text()) {
            if manager.as_text().is_empty() {
                break;
            }
            errors.invalid(&manager, reported_at, &error);
        }
        if manager.as_text().len() > MANAGER_BYTES_MAX {
            errors.too_long(&manager, MANAGER_BYTES_MAX);
        }
    }
    let mode = spec.at("completionMode");
    errors.one_of_if_set(&mode, &["NonIndexed", "Indexed"]);
    if mode.as_text() == "Indexed" {
        if !spec.has("completions") {
            errors.required(&spec.at("completions"), "when completion mode is Indexed");
        }
        if spec.number("parallelism") > 100_000 {
            let detail = "must be less than or equal to 100000 when completion mode is Indexed";
            errors.invalid(&spec.at("parallelism"), spec.number("parallelism"), detail);
        }
        failed_indexes(spec, errors);
    }
    if !mode.exists() || mode.as_text() == "NonIndexed" {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            let limit = spec.at(name);
            if limit.exists() {
                errors.invalid(&limit, limit.value.clone(), "requires indexed completion mode");
            }
        }
    }
    if spec.has("podFailurePolicy") {
        failure_policy(spec, errors);
    }
    let success = spec.at("successPolicy");
    if success.exists() {
        if mode.as_text() == "Indexed" {
            success_policy(spec, errors);
        } else {
            errors.invalid(&success, success.value.clone(), "requires indexed completion mode");
        }
    }
    let known: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    errors.one_of_if_set(&spec.at("podReplacementPolicy"), known);
    pod::template(&spec.at("template"), errors);
    job_restart(spec, errors);
}

/// Validates the maximum number of failed indexes.
fn failed_indexes(spec: &Node, errors: &mut FieldErrors) {
    let (limit, completions) = (spec.at("maxFailedIndexes"), spec.at("completions"));
    if let Some(number) = limit.as_number() {
        if completions.as_number().is_some_and(|completions| number > completions) {
            errors.invalid(&limit, number, "must be less than or equal to completions");
        }
        if number > INDEXES_MAX {
            errors.invalid(&limit, number, &format!("must be less than or equal to {INDEXES_MAX}"));
        }
    }
    if completions.as_number().is_none_or(|number| number <= INDEXES_MAX) || !spec.has("backoffLimitPerIndex")
    {
        return;
    }
    if !limit.exists() {
        errors.required(&limit, &format!("must be specified when completions is above {INDEXES_MAX}"));
    }
    for name in ["parallelism", "maxFailedIndexes"] {
        let at = spec.at(name);
        if let Some(number) = at.as_number().filter(|number| *number > INDEXES_MAX / 10) {
            let detail = format!(
                "must be less than or equal to {} when completions are above {INDEXES_MAX} and used with backoff limit \
                 per index",
                INDEXES_MAX / 10
            );
            errors.invalid(&at, number, &detail);
        }
    }
}

fn failure_policy(spec: &Node, errors: &mut FieldErrors) {
    let policy = spec.at("podFailurePolicy");
    let count = policy.length("rules");
    if count > POLICY_RULES_MAX {
        errors.too_many(&policy.at("rules"), count, POLICY_RULES_MAX);
    }
    for rule in policy.items("rules") {
        let action = rule.at("action");
        if action.as_text() != "FailIndex" {
            errors.required_one_of(&action, &["Count", "FailIndex", "FailJob", "Ignore"]);
        } else if !spec.has("backoffLimitPerIndex") {
            errors.invalid(&action, action.as_text(), "requires the backoffLimitPerIndex to be set");
        }
        let has_conditions = rule.length("onPodConditions") > 0;
        if rule.has("onExitCodes") {
            exit_codes(spec, &rule.at("onExitCodes"), errors);
        }
        pod_conditions(&rule, errors);
        match (rule.has("onExitCodes"), has_conditions) {
            (true, true) => errors.invalid_omit_value(
                &rule,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, false) => errors
                .invalid_omit_value(&rule, "specifying one of OnExitCodes and OnPodConditions is required"),
            _ => {}
        }
    }
}

fn pod_conditions(rule: &Node, errors: &mut FieldErrors) {
    let count = rule.length("onPodConditions");
    if count > POLICY_RULES_MAX {
        errors.too_many(&rule.at("onPodConditions"), count, POLICY_RULES_MAX);
    }
    for pattern in rule.items("onPodConditions") {
        let kind = pattern.at("type");
        errors.invalid_each(&kind, names::qualified(kind.as_text()));
        errors.required_one_of(&pattern.at("status"), &["False", "True", "Unknown"]);
    }
}

fn exit_codes(spec: &Node, codes: &Node, errors: &mut FieldErrors) {
    errors.required_one_of(&codes.at("operator"), &["In", "NotIn"]);
    let (container, pod) = (codes.at("containerName"), spec.at("template.spec"));
    let is_known = ["containers", "initContainers"]
        .iter()
        .any(|list| pod.items(list).any(|one| one.text("name") == container.as_text()));
    if container.exists() && !is_known {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&container, container.as_text(), detail);
    }
    let values = codes.at("values");
    match codes.length("values") {
        0 => errors.invalid(&values, values.value.clone(), "at least one value is required"),
        count if count > EXIT_CODES_MAX => errors.too_many(&values, count, EXIT_CODES_MAX),
        _ => {}
    }
    let (mut seen, mut last, mut is_ordered) = (BTreeSet::new(), i64::MIN, true);
    for value in codes.items("values") {
        let number = value.as_number().unwrap_or_default();
        if codes.text("operator") == "In" && number == 0 {
            errors.invalid(&value, number, "must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            errors.duplicate_formatted(&value, &number.to_string());
        }
        is_ordered &= last <= number;
        last = number;
    }
    if !is_ordered {
        errors.invalid(&values, values.value.clone(), "must be ordered");
    }
}

/// Validates the rules under which a Job has succeeded.
fn success_policy(spec: &Node, errors: &mut FieldErrors) {
    let policy = spec.at("successPolicy");
    match policy.length("rules") {
        0 => errors.required(
            &policy.at("rules"),
            "at least one rules must be specified when the successPolicy is specified",
        ),
        count if count > POLICY_RULES_MAX => errors.too_many(&policy.at("rules"), count, POLICY_RULES_MAX),
        _ => {}
    }
    let completions = spec.number("completions");
    for rule in policy.items("rules") {
        let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
        if !indexes.exists() && !count.exists() {
            errors.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut all = 0;
        if indexes.exists() {
            if indexes.as_text().len() > INDEXES_BYTES_MAX {
                errors.too_long(&indexes, INDEXES_BYTES_MAX);
            }
            match count_indexes(indexes.as_text(), completions) {
                Ok(number) => all = number,
                Err(wrong) => {
                    let detail = format!("error parsing succeededIndexes: {wrong}");
                    errors.invalid(&indexes, indexes.as_text(), &detail);
                }
            }
        }
        errors.not_negative(&count);
        let Some(number) = count.as_number() else { continue };
        if number > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(&count, number, &detail);
        }
        if indexes.exists() && number > all {
            let detail = format!(
                "must be less than or equal to {all} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid(&count, number, &detail);
        }
    }
}

/// The number of indexes in a text such as `0-2,4`, or the error in it.
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

fn job_restart(spec: &Node, errors: &mut FieldErrors) {
    let restart = spec.at("template.spec.restartPolicy");
    match restart.as_text() {
        "" | "Always" => errors.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&restart, restart.as_text(), detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&restart, other, &["OnFailure", "Never"]),
    }
}

/// Whether a Job's template is unchanged. Before the Job starts, the scheduling of its pods may change.
fn same_template(new: &Node, old: &Node, unstarted: bool) -> bool {
    if !unstarted {
        return new.value == old.value;
    }
    let free = ["nodeSelector", "affinity", "tolerations", "schedulingGates", "containers", "initContainers"];
    let containers = |list: &str| {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        spec.length(list) == before.length(list)
            && spec
                .items(list)
                .zip(before.items(list))
                .all(|(new, old)| same_except(new.value, old.value, &["resources"]))
    };
    same_except(new.at("metadata").value, old.at("metadata").value, &["labels", "annotations"])
        && same_except(new.at("spec").value, old.at("spec").value, &free)
        && containers("containers")
        && containers("initContainers")
}

/// Sets the defaults of a Job.
pub(crate) fn job(object: &mut Object) {
    // A new Job without labels gets those of its pods once these have the labels by which it selects them.
    let spec = object.object_or_new("spec");
    let is_manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels"));
    if is_manual || labels.is_some_and(|labels| labels.get("controller-uid").is_some()) {
        labels_of_template(object);
    }
    let spec = object.object_or_new("spec");
    if !spec.has("parallelism") {
        spec.set_default("completions", 1);
        spec.set_default("parallelism", 1);
    }
    // Each index counts its own failures; their total is not limited.
    let backoff_limit = if spec.has("backoffLimitPerIndex") { i32::MAX } else { 6 };
    spec.set_default("backoffLimit", backoff_limit);
    spec.set_default("completionMode", "NonIndexed");
    spec.set_default("suspend", false);
    spec.set_default("manualSelector", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.set_default("podReplacementPolicy", replacement);
    default_job_spec(spec);
}

/// Sets the defaults that apply both to the spec of a Job and to a job template.
pub(crate) fn default_job_spec(spec: &mut Object) {
    if let Some(policy) = spec.object_mut("podFailurePolicy") {
        for rule in policy.objects_mut("rules") {
            for pattern in rule.objects_mut("onPodConditions") {
                pattern.set_if_zero("status", "True");
            }
        }
    }
    template(spec);
}

fn job_status(job: &Value) -> &'static str {
    let first = |words: &[&'static str]| words.iter().copied().find(|word| job.is_condition_true(word));
    first(&["Complete", "Failed"])
        .or(job.is_deleting().then_some("Terminating"))
        .or_else(|| first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}

fn job_completions(job: &Value) -> String {
    let succeeded = job.number("status.succeeded");
    let parallelism = job.number("spec.parallelism");
    match job.field("spec.completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let Some(start) = job.time("status.startTime") else { return String::new() };
    let end = job.time("status.completionTime").unwrap_or(now);
    duration(end.duration_since(start).as_secs())
}

fn selects_its_pods(job: &Value) -> bool {
    job.field("spec.manualSelector") != Some(&Value::Bool(true))
}

/// Sets the labels with the name of a Job in its pod template, and the labels of a Job without any. Labels that the
/// client has set stay; validation rejects them if they are not the Job's.
fn name_pods(document: &mut Value) {
    let own = document.name().to_owned();
    if own.is_empty() {
        return;
    }
    if selects_its_pods(document) {
        let labels = document.object_or_new("spec.template.metadata.labels");
        for label in ["job-name", "batch.kubernetes.io/job-name"] {
            labels.entry(label).or_insert_with(|| own.as_str().into());
        }
    }
    label_like_pods(document);
}

/// Gives a Job without labels those of its pods.
fn label_like_pods(job: &mut Value) {
    let labels = job.field("spec.template.metadata.labels").cloned();
    if let Some(labels) = labels.filter(|_| job.field("metadata.labels").is_none()) {
        job.object_or_new("metadata").insert("labels".to_owned(), labels);
    }
}

fn own_pods(document: &mut Value, uid: &str) {
    if selects_its_pods(document) {
        let labels = document.object_or_new("spec.template.metadata.labels");
        for label in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
            labels.entry(label).or_insert_with(|| uid.into());
        }
        let selector = document.object_or_new("spec.selector.matchLabels");
        selector.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
    }
    name_pods(document);
}
