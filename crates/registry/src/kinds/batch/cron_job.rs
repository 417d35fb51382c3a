//! CronJob.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::{
        batch::job::{default_job_spec, job_spec},
        core::pod_template::drop_disabled_template_fields,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, boolean, integer, row, text,
        words::{NONE, UNSET, age, age_of, containers, selector_or_none},
    },
    validation::{
        SPEC, Step, cron,
        warnings::{self, Warnings, same_generation},
    },
};
use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("batch", "batch.v1.CronJob", "cronjobs")
        .short_names(&["cj"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .generation(Generation::Spec)
        .strategy(CronJobStrategy)
}

const COLUMNS: &[Column] = &[
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
];

struct CronJobStrategy;

impl Strategy for CronJobStrategy {
    /// A cron job. Its jobs get their defaults when they are created.
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_zero("concurrencyPolicy", "Allow");
        spec.set_default("suspend", false);
        spec.set_default("successfulJobsHistoryLimit", 3);
        spec.set_default("failedJobsHistoryLimit", 1);
        if let Some(job) = spec.object_mut("jobTemplate").and_then(|template| template.object_mut("spec")) {
            default_job_spec(job);
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/jobTemplate/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, cron: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = cron.at("spec");
        schedule(&spec, old, errors);
        errors.not_negative(&spec.at("startingDeadlineSeconds"));
        let zone = spec.at("timeZone");
        let is_new = old.is_none_or(|old| old.at("spec.timeZone").value != zone.value);
        if let Some(wrong) = cron::time_zone(zone.as_text()).filter(|_| is_new && zone.exists()) {
            errors.invalid(&zone, zone.as_text(), &wrong);
        }
        errors.one_of(&spec.at("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
        let job = spec.at("jobTemplate.spec");
        job_spec(&job, errors);
        if job.has("selector") {
            let selector = job.at("selector");
            errors.invalid(&selector, selector.value.clone(), "`selector` will be auto-generated");
        }
        if job.flag("manualSelector") {
            errors.0.push(Cause::new(
                "FieldValueNotSupported",
                "Unsupported value: true: supported values: \"nil\", \"false\"",
                "spec.jobTemplate.spec.manualSelector",
            ));
        }
        errors.not_negative(&spec.at("successfulJobsHistoryLimit"));
        errors.not_negative(&spec.at("failedJobsHistoryLimit"));
        let name = cron.at("metadata.name");
        if old.is_none() && name.as_text().len() > JOB_NAME_BYTES_MAX {
            errors.invalid(
                &name,
                name.as_text(),
                &format!("must be no more than {JOB_NAME_BYTES_MAX} characters"),
            );
        }
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        if !same_generation(object, old) {
            warnings::template(&object.at("spec.jobTemplate.spec.template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, job: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(job, "spec.jobTemplate.spec.template.spec.containers");
        let suspend = job.field("spec.suspend").and_then(Value::as_bool);
        let last = job.time("status.lastScheduleTime");
        row![
            job.name(),
            job.text("spec.schedule"),
            job.field("spec.timeZone").and_then(Value::as_str).unwrap_or(NONE),
            suspend.map_or(UNSET, |suspend| if suspend { "True" } else { "False" }),
            job.length("status.active"),
            last.map_or_else(|| NONE.to_owned(), |last| age(Some(last), now)),
            age_of(job, now),
            names,
            images,
            selector_or_none(job, "spec.jobTemplate.spec.selector"),
        ]
    }
}

const JOB_NAME_BYTES_MAX: usize = 52;

fn schedule(spec: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let schedule = spec.at("schedule");
    let text = schedule.as_text();
    if text.is_empty() {
        errors.required(&schedule, "");
        return;
    }
    if text.contains("TZ") {
        if spec.has("timeZone") {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errors.invalid(&schedule, text, detail);
        }
        if old.is_none_or(|old| !old.at("spec").text("schedule").contains("TZ")) {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(&schedule, text, detail);
        }
        return;
    }
    if let Some(wrong) = cron::schedule(text) {
        errors.invalid(&schedule, text, &wrong);
    }
}
