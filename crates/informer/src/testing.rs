//! Helpers for the tests of several modules.

use crate::{
    informer::Event,
    object::{Object, ObjectKey},
};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use std::{collections::BTreeMap, sync::Arc};

/// The object type of the tests.
pub(crate) type Thing = ConfigMap;

/// As `a@1`, `namespace/a@1`, or `a@1:x` with a label `l` of that value.
pub(crate) fn config_map(text: &str) -> Arc<Thing> {
    let (text, label) = text.split_once(':').map_or((text, None), |(text, label)| (text, Some(label)));
    let (key, version) = text.split_once('@').unwrap_or((text, ""));
    let key: ObjectKey = key.parse().unwrap();
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: key.namespace.map(|namespace| namespace.to_string()),
        resource_version: Some(version.to_owned()),
        uid: Some(format!("uid-{}", key.name)),
        labels: label.map(|label| BTreeMap::from([("l".to_owned(), label.to_owned())])),
        ..ObjectMeta::default()
    };
    Arc::new(Thing { metadata, ..Thing::default() })
}

pub(crate) fn name(object: &Thing) -> String {
    format!("{}@{}", object.key(), object.revision())
}

/// As `initial a@1, updated a@1 a@2, deleted a@2, missed b@3`.
pub(crate) fn describe(events: &[Event<Thing>]) -> String {
    let word = |event: &Event<Thing>| match event {
        Event::Added { obj, initial: true } => format!("initial {}", name(obj)),
        Event::Added { obj, initial: false } => format!("added {}", name(obj)),
        Event::Updated { old, new, .. } => format!("updated {} {}", name(old), name(new)),
        Event::Deleted { obj, final_state_unknown: false } => format!("deleted {}", name(obj)),
        Event::Deleted { obj, final_state_unknown: true } => format!("missed {}", name(obj)),
    };
    events.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The metrics in the text format of Prometheus, without comments.
#[cfg(feature = "metrics")]
pub(crate) fn scraped(metrics: &crate::metrics::InformerMetrics) -> String {
    let registry = prometheus::Registry::new();
    registry.register(Box::new(metrics.clone())).unwrap();
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}
