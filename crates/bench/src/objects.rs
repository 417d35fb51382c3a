//! The objects that a server is loaded with.
//!
//! They are in namespaces of their own, and nothing in a cluster acts on them: they are ConfigMaps, pods of a scheduler
//! that does not exist, so that none of them is started, or custom objects of a kind that is defined for them. Each has
//! a label that selects all of a run, one that selects it alone, and an annotation with the time of its last write.

use crate::custom;
use std::{fmt, fmt::Write, time::Instant};

/// The text before the time at which an object was last written.
pub(crate) const SENT: &[u8] = br#""keepwatch.dev/sent":""#;

/// The label that all objects of a run have.
const RUN: &str = "keepwatch-bench";
/// The label that finds an object alone.
const SLOT: &str = "keepwatch-slot";

/// The kind of the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectKind {
    /// Config maps, which have hardly any rules.
    #[default]
    ConfigMaps,
    /// Pods, which have the most rules: defaults and validation show in every write.
    Pods,
    /// Objects of a custom kind that is defined for them, with a hundred fields and five rules.
    Custom,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::ConfigMaps => "configmaps",
            ObjectKind::Pods => "pods",
            ObjectKind::Custom => custom::RECORDS,
        })
    }
}

/// The objects of one run.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    kind: ObjectKind,
    /// The name of the run, which differs for each.
    run: String,
    namespaces: usize,
    /// The padding that makes an object as large as it should be: a text, or a pod's environment.
    padding: String,
    began: Instant,
}

impl Objects {
    /// Each has the requested size when it is sent; no server adds much to that.
    pub(crate) fn new(
        kind: ObjectKind,
        run: String,
        namespaces: usize,
        bytes: usize,
        began: Instant,
    ) -> Self {
        let mut objects = Objects { kind, run, namespaces: namespaces.max(1), padding: String::new(), began };
        let missing = bytes.saturating_sub(objects.json(0, 0).len());
        objects.padding = match kind {
            ObjectKind::ConfigMaps | ObjectKind::Custom => text(missing),
            ObjectKind::Pods => environment(missing),
        };
        objects
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = String> + use<> {
        let run = self.run.clone();
        (0..self.namespaces).map(move |number| namespace(&run, number))
    }

    /// The label selector of all objects of the run.
    pub(crate) fn label(&self) -> String {
        format!("{RUN}%3D{}", self.run)
    }

    /// The same, as clients write it that encode it themselves.
    pub(crate) fn plain_label(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    /// The label selector of the object of this number.
    pub(crate) fn slot(&self, number: usize) -> String {
        format!("{}%2C{SLOT}%3D{number}", self.label())
    }

    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}{number}", self.prefix())
    }

    /// The prefix of all names.
    pub(crate) fn prefix(&self) -> String {
        format!("{}-", self.run)
    }

    /// A text that a list contains once for each of them.
    pub(crate) fn needle(&self) -> Vec<u8> {
        format!(r#""name":"{}"#, self.prefix()).into_bytes()
    }

    /// The path of all objects of the kind.
    pub(crate) fn all(&self) -> String {
        format!("{}/{}", self.api(), self.kind)
    }

    /// The path of the API that serves them.
    fn api(&self) -> String {
        match self.kind {
            ObjectKind::ConfigMaps | ObjectKind::Pods => "/api/v1".to_owned(),
            ObjectKind::Custom => format!("/apis/{}/v1", self.group()),
        }
    }

    /// The group of the kinds that are defined for the run.
    pub(crate) fn group(&self) -> String {
        custom::group(&self.run)
    }

    /// The name of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// The labels of what is created for the run and is no object of it.
    pub(crate) fn labels(&self) -> serde_json::Value {
        serde_json::json!({ RUN: self.run })
    }

    /// The resource, as in paths and metrics.
    pub(crate) fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// The path of the collection in which such objects are created.
    pub(crate) fn collection(&self, number: usize) -> String {
        self.collection_in(&namespace(&self.run, number % self.namespaces))
    }

    pub(crate) fn collection_in(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.api(), self.kind)
    }

    pub(crate) fn path(&self, number: usize) -> String {
        format!("{}/{}", self.collection(number), self.name(number))
    }

    /// The object, as written at this time.
    pub(crate) fn json(&self, number: usize, sent: u64) -> String {
        let (name, run, padding) = (self.name(number), &self.run, &self.padding);
        let metadata = format!(
            r#"{{"name":"{name}","labels":{{"{RUN}":"{run}","{SLOT}":"{number}"}},"annotations":{{"keepwatch.dev/sent":"{sent}"}}}}"#
        );
        match self.kind {
            ObjectKind::ConfigMaps => format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"payload":"{padding}"}}}}"#
            ),
            ObjectKind::Custom => format!(
                r#"{{"apiVersion":"{}/v1","kind":"Record","metadata":{metadata},"spec":{}}}"#,
                self.group(),
                custom::spec_of_record(number, padding)
            ),
            ObjectKind::Pods => format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{{"schedulerName":"{RUN}","serviceAccountName":"default","automountServiceAccountToken":false,"volumes":[{{"name":"config","configMap":{{"name":"app-config"}}}}],"containers":[{{"name":"main","image":"registry.example.com/team/app:v1","ports":[{{"containerPort":8080}}],"resources":{{"limits":{{"cpu":"1","memory":"512Mi"}},"requests":{{"cpu":"250m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080}},"initialDelaySeconds":10}},"env":[{padding}]}}]}}}}"#
            ),
        }
    }

    /// The approximate size of an object.
    pub(crate) fn bytes(&self) -> usize {
        self.json(0, 0).len()
    }

    /// A merge patch that only changes the time of the write.
    pub(crate) fn touch(&self, sent: u64) -> String {
        format!(r#"{{"metadata":{{"annotations":{{"keepwatch.dev/sent":"{sent}"}}}}}}"#)
    }

    /// The path of the leases of nodes.
    pub(crate) fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", namespace(&self.run, 0))
    }

    /// The lease of a node.
    pub(crate) fn lease(&self, node: usize) -> String {
        let (name, run) = (self.name(node), &self.run);
        format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{name}","labels":{{"{RUN}":"{run}"}}}},"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40}}}}"#
        )
    }

    /// A merge patch that renews a lease.
    pub(crate) fn renewal(&self) -> String {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        format!(r#"{{"spec":{{"renewTime":"{now}"}}}}"#)
    }

    /// Microseconds since the run began.
    pub(crate) fn at(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.began).as_micros() as u64
    }
}

fn namespace(run: &str, number: usize) -> String {
    format!("{run}-{number}")
}

/// So many bytes of text.
fn text(bytes: usize) -> String {
    let line = "All work and no play makes for a dull object; this one has something to carry. ";
    line.chars().cycle().take(bytes).collect()
}

/// Environment variables of so many bytes; the last has the length that remains.
fn environment(bytes: usize) -> String {
    const EMPTY: usize = r#"{"name":"SETTING_0000","value":""},"#.len();
    const VALUE: usize = 32;
    let mut json = String::new();
    for number in 0.. {
        // Behind the last there is no comma.
        let missing = (bytes + 1).saturating_sub(json.len());
        if missing < EMPTY {
            break;
        }
        let is_last = missing < 2 * EMPTY + VALUE;
        let value = text(if is_last { missing - EMPTY } else { VALUE });
        // Writing to memory does not fail.
        let _ = write!(json, r#"{{"name":"SETTING_{number:04}","value":"{value}"}},"#);
    }
    json.pop();
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::text_after;

    fn objects_of(kind: ObjectKind, bytes: usize) -> Objects {
        Objects::new(kind, "kwb-1".to_owned(), 3, bytes, Instant::now())
    }

    fn objects(bytes: usize) -> Objects {
        objects_of(ObjectKind::ConfigMaps, bytes)
    }

    #[test]
    fn an_object_has_about_the_requested_size() {
        for kind in [ObjectKind::ConfigMaps, ObjectKind::Pods] {
            for bytes in [1000, 4000, 100_000] {
                let sent = objects_of(kind, bytes).json(7, 1_000_000).len();
                assert!(sent.abs_diff(bytes) < 10, "{kind}: {sent} for {bytes}");
            }
            assert!(objects_of(kind, 0).json(7, 0).len() < 1000, "there is a smallest one");
        }
    }

    #[test]
    fn a_pod_is_json_and_no_scheduler_takes_it() {
        for bytes in [0, 900, 4400] {
            let json = objects_of(ObjectKind::Pods, bytes).json(12, 77);
            let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_str(&json).unwrap();
            assert_eq!(pod.spec.unwrap().scheduler_name.as_deref(), Some("keepwatch-bench"), "{json}");
        }
        assert_eq!(objects_of(ObjectKind::Pods, 0).path(4), "/api/v1/namespaces/kwb-1-1/pods/kwb-1-4");
    }

    #[test]
    fn an_object_has_its_name_its_labels_and_the_time_of_its_write() {
        let json = objects(1000).json(12, 77);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["metadata"]["name"], "kwb-1-12");
        assert_eq!(value["metadata"]["labels"]["keepwatch-slot"], "12");
        assert_eq!(text_after(json.as_bytes(), SENT), Some("77"));
        assert_eq!(memchr::memmem::find_iter(json.as_bytes(), &objects(0).needle()).count(), 1);
        assert_eq!(objects(0).path(4), "/api/v1/namespaces/kwb-1-1/configmaps/kwb-1-4");
        assert!(serde_json::from_str::<serde_json::Value>(&objects(0).touch(7)).is_ok());
    }
}
