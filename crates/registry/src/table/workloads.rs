//! The rows of what makes pods, and of what protects them.

use super::{
    AGE, CONTAINERS, Column, Form, IMAGES, NAME, SELECTOR, boolean, integer,
    read::Read,
    row, text,
    words::{NONE, UNSET, age, age_of, containers, duration, labels, selector, selector_or_none},
};
use crate::schema::Timestamp;
use serde_json::Value;

pub(super) const FORMS: &[Form] = &[
    Form {
        ty: "core.v1.PodTemplate",
        columns: &[
            NAME,
            text("Containers", "The names of the containers of a pod"),
            text("Images", "The images of the containers of a pod"),
            text("Pod Labels", "The labels of a pod"),
        ],
        cells: pod_template,
    },
    Form { ty: "core.v1.ReplicationController", columns: REPLICATED, cells: replication_controller },
    Form { ty: "apps.v1.ReplicaSet", columns: REPLICATED, cells: replica_set },
    Form {
        ty: "apps.v1.Deployment",
        columns: &[
            NAME,
            text("Ready", "How many pods are ready, of those wanted"),
            text("Up-to-date", "How many pods are of the newest template"),
            text("Available", "How many pods have been ready for long enough"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: deployment,
    },
    Form {
        ty: "apps.v1.StatefulSet",
        columns: &[NAME, text("Ready", "How many pods are ready, of those wanted"), AGE, CONTAINERS, IMAGES],
        cells: stateful_set,
    },
    Form {
        ty: "apps.v1.DaemonSet",
        columns: &[
            NAME,
            integer("Desired", "How many nodes should run a pod of it"),
            integer("Current", "How many of those nodes have one"),
            integer("Ready", "How many of those nodes have one that is ready"),
            integer("Up-to-date", "How many of those nodes have one of the newest template"),
            integer("Available", "How many of those nodes have one that has been ready for long enough"),
            text("Node Selector", "The labels of the nodes that should run a pod of it"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: daemon_set,
    },
    Form {
        ty: "apps.v1.ControllerRevision",
        columns: &[
            NAME,
            text("Controller", "What it is a state of"),
            text("Revision", "The number of the state"),
            AGE,
        ],
        cells: controller_revision,
    },
    Form {
        ty: "batch.v1.Job",
        columns: &[
            NAME,
            text("Status", "How far it is"),
            text("Completions", "How many pods have succeeded, of those wanted"),
            text("Duration", "How long it has been running, or ran"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: job,
    },
    Form {
        ty: "batch.v1.CronJob",
        columns: &[
            NAME,
            text("Schedule", "When it starts jobs, as cron says it"),
            text("Timezone", "The time zone of the schedule"),
            boolean("Suspend", "Whether it starts no jobs for now"),
            integer("Active", "How many of its jobs are running"),
            text("Last Schedule", "How long ago it last started a job"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: cron_job,
    },
    Form {
        ty: "policy.v1.PodDisruptionBudget",
        columns: &[
            NAME,
            text("Min Available", "How many pods must stay available"),
            text("Max Unavailable", "How many pods may be unavailable"),
            integer("Allowed Disruptions", "How many pods may be evicted now"),
            AGE,
        ],
        cells: pod_disruption_budget,
    },
];

const REPLICATED: &[Column] = &[
    NAME,
    integer("Desired", "How many pods are wanted"),
    integer("Current", "How many pods there are"),
    integer("Ready", "How many pods are ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const POD_CONTAINERS: &str = "spec.template.spec.containers";

fn pod_template(template: &Value, _: Timestamp) -> Vec<Value> {
    let (names, images) = containers(template, "template.spec.containers");
    row![template.name(), names, images, labels(template.map("template.metadata.labels"))]
}

fn replication_controller(controller: &Value, now: Timestamp) -> Vec<Value> {
    replicated(controller, labels(controller.map("spec.selector")), now)
}

fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    replicated(set, selector_or_none(set, "spec.selector"), now)
}

fn replicated(set: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(set, POD_CONTAINERS);
    row![
        set.name(),
        set.number("spec.replicas"),
        set.number("status.replicas"),
        set.number("status.readyReplicas"),
        age_of(set, now),
        names,
        images,
        selector,
    ]
}

/// How many pods are ready, of those wanted.
fn ready(set: &Value) -> String {
    format!("{}/{}", set.number("status.readyReplicas"), set.number("spec.replicas"))
}

fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(deployment, POD_CONTAINERS);
    row![
        deployment.name(),
        ready(deployment),
        deployment.number("status.updatedReplicas"),
        deployment.number("status.availableReplicas"),
        age_of(deployment, now),
        names,
        images,
        selector(deployment, "spec.selector"),
    ]
}

fn stateful_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(set, POD_CONTAINERS);
    row![set.name(), ready(set), age_of(set, now), names, images]
}

fn daemon_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(set, POD_CONTAINERS);
    row![
        set.name(),
        set.number("status.desiredNumberScheduled"),
        set.number("status.currentNumberScheduled"),
        set.number("status.numberReady"),
        set.number("status.updatedNumberScheduled"),
        set.number("status.numberAvailable"),
        labels(set.map("spec.template.spec.nodeSelector")),
        age_of(set, now),
        names,
        images,
        selector_or_none(set, "spec.selector"),
    ]
}

fn controller_revision(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owners = revision.list("metadata.ownerReferences");
    let controller = owners.iter().find(|owner| owner.flag("controller")).map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = owner.text("kind");
            let group = owner.text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}/{}", format!("{kind}{dot}{group}").to_lowercase(), owner.text("name"))
        },
    );
    row![revision.name(), controller, revision.number("revision"), age_of(revision, now)]
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
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

fn job_status(job: &Value) -> &'static str {
    let first = |words: &[&'static str]| words.iter().copied().find(|word| job.is(word));
    first(&["Complete", "Failed"])
        .or(job.deleting().then_some("Terminating"))
        .or_else(|| first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}

fn job_completions(job: &Value) -> String {
    let succeeded = job.number("status.succeeded");
    let parallelism = job.number("spec.parallelism");
    match job.set("spec.completions").and_then(Value::as_i64) {
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

fn cron_job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(job, "spec.jobTemplate.spec.template.spec.containers");
    let suspend = job.set("spec.suspend").and_then(Value::as_bool);
    let last = job.time("status.lastScheduleTime");
    row![
        job.name(),
        job.text("spec.schedule"),
        job.set("spec.timeZone").and_then(Value::as_str).unwrap_or(NONE),
        suspend.map_or(UNSET, |suspend| if suspend { "True" } else { "False" }),
        job.length("status.active"),
        last.map_or_else(|| NONE.to_owned(), |last| age(Some(last), now)),
        age_of(job, now),
        names,
        images,
        selector_or_none(job, "spec.jobTemplate.spec.selector"),
    ]
}

fn pod_disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let amount = |path| match budget.set(path) {
        Some(Value::String(share)) => share.clone(),
        Some(Value::Number(count)) => count.to_string(),
        _ => "N/A".to_owned(),
    };
    row![
        budget.name(),
        amount("spec.minAvailable"),
        amount("spec.maxUnavailable"),
        budget.number("status.disruptionsAllowed"),
        age_of(budget, now),
    ]
}
