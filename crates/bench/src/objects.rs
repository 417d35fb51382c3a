//! The objects that a server is loaded with.
//!
//! They are ConfigMaps, in namespaces of their own, because nothing in a cluster acts on them: pods would be started. Each
//! has a label that finds all of a run, one that finds it alone, and an annotation that says when it was last written.

use std::time::Instant;

/// What stands before the time at which an object was last written.
pub(crate) const SENT: &[u8] = br#""keepwatch.dev/sent":""#;

/// The label that all objects of a run have.
const RUN: &str = "keepwatch-bench";
/// The label that finds an object alone.
const SLOT: &str = "keepwatch-slot";

/// The objects of one run.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    /// Tells runs apart.
    run: String,
    namespaces: usize,
    padding: String,
    began: Instant,
}

impl Objects {
    /// Each as large as asked for when it is sent; no server adds much to that.
    pub(crate) fn new(run: String, namespaces: usize, bytes: usize, began: Instant) -> Self {
        let mut objects = Objects { run, namespaces: namespaces.max(1), padding: String::new(), began };
        let line = "All work and no play makes for a dull object; this one has something to carry. ";
        let missing = bytes.saturating_sub(objects.json(0, 0).len());
        objects.padding = line.chars().cycle().take(missing).collect();
        objects
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = String> + use<> {
        let run = self.run.clone();
        (0..self.namespaces).map(move |number| namespace(&run, number))
    }

    /// Finds all objects of the run.
    pub(crate) fn label(&self) -> String {
        format!("{RUN}%3D{}", self.run)
    }

    /// The same, as clients write it that encode it themselves.
    pub(crate) fn plain_label(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    /// Finds the object of this number alone.
    pub(crate) fn slot(&self, number: usize) -> String {
        format!("{}%2C{SLOT}%3D{number}", self.label())
    }

    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}{number}", self.prefix())
    }

    /// What all names begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("{}-", self.run)
    }

    /// What stands once in a list for each of them.
    pub(crate) fn needle(&self) -> Vec<u8> {
        format!(r#""name":"{}"#, self.prefix()).into_bytes()
    }

    /// Where such objects are created.
    pub(crate) fn collection(&self, number: usize) -> String {
        format!("/api/v1/namespaces/{}/configmaps", namespace(&self.run, number % self.namespaces))
    }

    pub(crate) fn path(&self, number: usize) -> String {
        format!("{}/{}", self.collection(number), self.name(number))
    }

    /// The object, as written at this time.
    pub(crate) fn json(&self, number: usize, sent: u64) -> String {
        let (name, run) = (self.name(number), &self.run);
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"{RUN}":"{run}","{SLOT}":"{number}"}},"annotations":{{"keepwatch.dev/sent":"{sent}"}}}},"data":{{"payload":"{}"}}}}"#,
            self.padding
        )
    }

    /// How large an object is, about.
    pub(crate) fn bytes(&self) -> usize {
        self.json(0, 0).len()
    }

    /// A merge patch that only says when it was written.
    pub(crate) fn touch(&self, sent: u64) -> String {
        format!(r#"{{"metadata":{{"annotations":{{"keepwatch.dev/sent":"{sent}"}}}}}}"#)
    }

    /// Where the leases of nodes are.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::text_after;

    fn objects(bytes: usize) -> Objects {
        Objects::new("kwb-1".to_owned(), 3, bytes, Instant::now())
    }

    #[test]
    fn an_object_is_about_as_large_as_one_asks() {
        for bytes in [1000, 4000, 100_000] {
            let sent = objects(bytes).json(7, 1_000_000).len();
            assert!(sent.abs_diff(bytes) < 10, "{sent} for {bytes}");
        }
        assert!(objects(0).json(7, 0).len() < 400, "there is a smallest one");
    }

    #[test]
    fn it_says_who_it_is_and_when_it_was_sent() {
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
