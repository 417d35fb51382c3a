//! Discovery, which clients ask for first: the groups, versions and resources, and their verbs.
//!
//! The documents say nothing but what the kinds say that they are made of, built-in and custom alike. They are made once
//! and then only handed out; when a kind comes or goes, all of them are made again.
//!
//! The same facts come in two forms: one document per group and version, and all in one (aggregated discovery), which
//! new clients prefer and which carries a tag to ask whether it has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use keepwatch_registry::kind::{Kind, Subresource, by_preference, group_version};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

/// The media type of aggregated discovery. The only version: the server whose answers are the measure no longer has
/// `v2beta1`, and who asks for that gets the documents one by one.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A document with the tag by which a client asks whether it has changed.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// The JSON.
    pub bytes: Bytes,
    /// As the header `Etag` has it, quotes and all.
    pub etag: String,
}

impl Tagged {
    fn new(document: &Value) -> Self {
        let bytes = bytes_of(document);
        let etag = format!("\"{:032X}\"", xxh3_128(&bytes));
        Self { bytes, etag }
    }
}

/// The documents of one set of resources, ready to be sent.
#[derive(Clone, Debug)]
pub struct Documents {
    by_path: BTreeMap<String, Bytes>,
    aggregated: BTreeMap<&'static str, Tagged>,
}

impl Documents {
    /// Makes them all. Groups stand in the order in which they first come, the versions of a group and the resources of
    /// a version in the order in which Kubernetes has them. `server_address` is where clients reach the server: `host:port`.
    pub fn new(kinds: &[Arc<Kind>], server_address: &str) -> Self {
        let groups = grouped(kinds);
        let (core, named): (Vec<&Group<'_>>, Vec<&Group<'_>>) =
            groups.iter().partition(|group| group.name.is_empty());
        let mut by_path = BTreeMap::from([
            ("/api".to_owned(), bytes_of(&api_versions(&core, server_address))),
            ("/apis".to_owned(), bytes_of(&api_group_list(&named))),
        ]);
        for group in &groups {
            let root =
                if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
            for (version, kinds) in &group.versions {
                by_path.insert(
                    format!("{root}/{version}"),
                    bytes_of(&api_resource_list(group.name, version, kinds)),
                );
            }
            if !group.name.is_empty() {
                by_path.insert(root, bytes_of(&typed("APIGroup", Some("v1"), api_group(group))));
            }
        }
        let aggregated = [("/api", core), ("/apis", named)]
            .map(|(path, groups)| (path, Tagged::new(&all_in_one(&groups))))
            .into();
        Self { by_path, aggregated }
    }

    /// The document at a path without a slash at its end: `/api`, `/api/v1`, `/apis`, `/apis/apps`, `/apis/apps/v1`.
    pub fn get(&self, path: &str) -> Option<&Bytes> {
        self.by_path.get(path)
    }

    /// Everything at once, for clients that accept [`AGGREGATED`]; there is such a document at `/api` and at `/apis`.
    pub fn aggregated(&self, path: &str) -> Option<&Tagged> {
        self.aggregated.get(path)
    }
}

struct Group<'a> {
    name: &'a str,
    /// The preferred one first.
    versions: Vec<(&'a str, Vec<&'a Kind>)>,
}

fn grouped(kinds: &[Arc<Kind>]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for kind in kinds {
        let at = groups.iter().position(|group| group.name == kind.group).unwrap_or_else(|| {
            groups.push(Group { name: &kind.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        match versions.iter_mut().find(|(version, _)| *version == kind.version) {
            Some((_, kinds)) => kinds.push(kind),
            None => versions.push((&kind.version, vec![kind])),
        }
    }
    // Definitions come in no order that means anything.
    let is_custom =
        |group: &Group<'_>| group.versions.iter().flat_map(|(_, kinds)| kinds).all(|kind| kind.is_custom());
    groups.sort_by(|a, b| match (is_custom(a), is_custom(b)) {
        (true, true) => a.name.cmp(b.name),
        (a, b) => a.cmp(&b),
    });
    for group in &mut groups {
        group.versions.sort_by(|(a, _), (b, _)| by_preference(a, b));
        for (_, kinds) in &mut group.versions {
            kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    groups
}

fn bytes_of(document: &Value) -> Bytes {
    document.to_string().into()
}

/// The document with its kind; what is about the core group alone says no apiVersion, as its documents are the oldest.
fn typed(kind: &str, api_version: Option<&str>, mut document: Value) -> Value {
    document["kind"] = kind.into();
    if let Some(api_version) = api_version {
        document["apiVersion"] = api_version.into();
    }
    document
}

fn api_versions(core: &[&Group<'_>], server_address: &str) -> Value {
    let versions: Vec<&str> =
        core.iter().flat_map(|group| group.versions.iter().map(|(version, _)| *version)).collect();
    let address = json!({ "clientCIDR": "0.0.0.0/0", "serverAddress": server_address });
    typed("APIVersions", None, json!({ "versions": versions, "serverAddressByClientCIDRs": [address] }))
}

fn api_group_list(groups: &[&Group<'_>]) -> Value {
    let groups: Vec<Value> = groups.iter().map(|group| api_group(group)).collect();
    typed("APIGroupList", Some("v1"), json!({ "groups": groups }))
}

fn api_group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({ "groupVersion": group_version(group.name, version), "version": version }))
        .collect();
    json!({ "name": group.name, "preferredVersion": versions.first(), "versions": versions })
}

fn api_resource_list(group: &str, version: &str, kinds: &[&Kind]) -> Value {
    let mut entries = Vec::new();
    for kind in kinds {
        entries.push(api_resource(kind));
        entries.extend(subresources(kind).map(|sub| api_subresource(kind, sub)));
    }
    let api_version = (!group.is_empty()).then_some("v1");
    let list = json!({ "groupVersion": group_version(group, version), "resources": entries });
    typed("APIResourceList", api_version, list)
}

fn api_resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": kind.discovery_verbs(),
    });
    put_names(&mut entry, kind);
    if kind.storage.is_some() {
        let stored = kind.stored();
        entry["storageVersionHash"] = storage_version_hash(&stored.group, &stored.version, &kind.name).into();
    }
    entry
}

/// The subresources in the order in which Kubernetes lists them: by name, but of custom resources the status comes first.
fn subresources(kind: &Kind) -> impl Iterator<Item = &Subresource> {
    let comes_first = |sub: &&Subresource| kind.is_custom() && sub.name == "status";
    let (first, rest): (Vec<_>, Vec<_>) = kind.subresources.iter().partition(comes_first);
    first.into_iter().chain(rest)
}

fn api_subresource(kind: &Kind, sub: &Subresource) -> Value {
    let (group, version, name) = response_kind(kind, sub);
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, sub.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": name,
        "verbs": sub.verbs,
    });
    if !version.is_empty() {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}

fn put_names(entry: &mut Value, kind: &Kind) {
    for (field, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

/// Group, version and kind of what a subresource is about; group and version only if they are not the resource's own.
fn response_kind<'a>(kind: &'a Kind, sub: &'a Subresource) -> (&'a str, &'a str, &'a str) {
    match &sub.kind {
        None => ("", "", &kind.name),
        Some(own) if (&own.group, &own.version) == (&kind.group, &kind.version) => ("", "", &own.kind),
        Some(own) => (&own.group, &own.version, &own.kind),
    }
}

/// Lets tools that migrate stored objects find out whether there is another version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let name = format!("{group}/{version}/{kind}");
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    BASE64_STANDARD.encode(&hash.as_ref()[..8])
}

fn all_in_one(groups: &[&Group<'_>]) -> Value {
    let items: Vec<Value> = groups.iter().map(|group| aggregated_group(group)).collect();
    typed("APIGroupDiscoveryList", Some("apidiscovery.k8s.io/v2"), json!({ "metadata": {}, "items": items }))
}

fn aggregated_group(group: &Group<'_>) -> Value {
    let mut metadata = Map::new();
    if !group.name.is_empty() {
        metadata.insert("name".to_owned(), group.name.into());
    }
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, kinds)| {
            let resources: Vec<Value> = kinds.iter().map(|kind| aggregated_resource(kind)).collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(kind: &Kind) -> Value {
    // Only custom resources say their own group and version.
    let own = if kind.is_custom() { (&*kind.group, &*kind.version) } else { ("", "") };
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": { "group": own.0, "version": own.1, "kind": kind.name },
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.discovery_verbs(),
    });
    put_names(&mut entry, kind);
    let subresource = |sub: &Subresource| {
        let (group, version, name) = response_kind(kind, sub);
        let (group, version) = if version.is_empty() { own } else { (group, version) };
        json!({
            "subresource": sub.name,
            "responseKind": { "group": group, "version": version, "kind": name },
            "verbs": sub.verbs,
        })
    };
    if !kind.subresources.is_empty() {
        entry["subresources"] = subresources(kind).map(subresource).collect();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_registry::{catalog::Catalog, kinds};

    const ALL: &str = "create,delete,deletecollection,get,list,patch,update,watch";
    const GPU: &str = "get,patch,update";

    fn documents() -> Documents {
        Documents::new(kinds::built_in(), "10.0.0.1:6443")
    }

    fn parsed(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    fn get(path: &str) -> Value {
        parsed(documents().get(path).unwrap())
    }

    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }

    fn joined(value: &Value) -> String {
        value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",")
    }

    /// A resource of a list in one line: name, name of one, scope, kind, verbs; then what only some have.
    fn line(resource: &Value) -> String {
        let scope = if resource["namespaced"] == true { "N" } else { "C" };
        let mut line = format!(
            "{} '{}' {scope} {} [{}]",
            text(&resource["name"]),
            text(&resource["singularName"]),
            text(&resource["kind"]),
            match joined(&resource["verbs"]).as_str() {
                ALL => "*",
                GPU => "gpu",
                verbs => verbs,
            },
        );
        for field in ["shortNames", "categories"] {
            if resource.get(field).is_some() {
                line += &format!(" {field}={}", joined(&resource[field]));
            }
        }
        if resource.get("group").is_some() {
            line += &format!(" in {}/{}", text(&resource["group"]), text(&resource["version"]));
        }
        line
    }

    /// Looks for the lines in the list at a path, in their order; others may stand between.
    fn check(path: &str, expected: &str) {
        let list = get(path);
        let lines: Vec<String> = list["resources"].as_array().unwrap().iter().map(line).collect();
        let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let found: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| expected.contains(line)).collect();
        assert_eq!(found, expected, "{path} has:\n{}", lines.join("\n"));
    }

    #[test]
    fn the_core_group_is_listed_with_the_address_of_the_server() {
        assert_eq!(
            get("/api"),
            json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    { "clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443" }
                ],
            })
        );
    }

    #[test]
    fn groups_are_listed_with_their_versions_in_the_order_of_display() {
        let groups = get("/apis");
        assert_eq!((text(&groups["kind"]), text(&groups["apiVersion"])), ("APIGroupList", "v1"));
        let names: Vec<&str> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| text(&g["name"]).split('.').next().unwrap())
            .collect();
        assert_eq!(
            names.join(" "),
            "apiregistration apps events authentication authorization autoscaling batch certificates networking \
             policy rbac storage admissionregistration apiextensions scheduling coordination node discovery resource \
             flowcontrol"
        );
        assert_eq!(
            groups["groups"][5],
            json!({
                "name": "autoscaling",
                "versions": [
                    { "groupVersion": "autoscaling/v2", "version": "v2" },
                    { "groupVersion": "autoscaling/v1", "version": "v1" },
                ],
                "preferredVersion": { "groupVersion": "autoscaling/v2", "version": "v2" },
            })
        );
    }

    #[test]
    fn a_single_group_is_described() {
        assert_eq!(
            get("/apis/apps"),
            json!({
                "kind": "APIGroup",
                "apiVersion": "v1",
                "name": "apps",
                "versions": [{ "groupVersion": "apps/v1", "version": "v1" }],
                "preferredVersion": { "groupVersion": "apps/v1", "version": "v1" },
            })
        );
        assert!(documents().get("/apis/nowhere").is_none() && documents().get("/apis/apps/v2").is_none());
    }

    #[test]
    fn resources_of_the_core_group_are_listed_as_kubernetes_does() {
        let list = get("/api/v1");
        assert_eq!((&list["kind"], &list["groupVersion"]), (&"APIResourceList".into(), &"v1".into()));
        assert!(list.get("apiVersion").is_none());
        check(
            "/api/v1",
            "bindings 'binding' N Binding [create]
             configmaps 'configmap' N ConfigMap [*] shortNames=cm
             endpoints 'endpoints' N Endpoints [*] shortNames=ep
             events 'event' N Event [*] shortNames=ev
             namespaces 'namespace' C Namespace [create,delete,get,list,patch,update,watch] shortNames=ns
             namespaces/finalize '' C Namespace [update]
             namespaces/status '' C Namespace [gpu]
             nodes 'node' C Node [*] shortNames=no
             nodes/proxy '' C NodeProxyOptions [create,delete,get,patch,update]
             nodes/status '' C Node [gpu]
             pods 'pod' N Pod [*] shortNames=po categories=all
             pods/binding '' N Binding [create]
             pods/eviction '' N Eviction [create] in policy/v1
             pods/exec '' N PodExecOptions [create,get]
             pods/log '' N Pod [get]
             pods/status '' N Pod [gpu]
             secrets 'secret' N Secret [*]
             serviceaccounts 'serviceaccount' N ServiceAccount [*] shortNames=sa
             serviceaccounts/token '' N TokenRequest [create] in authentication.k8s.io/v1
             services 'service' N Service [*] shortNames=svc categories=all
             services/status '' N Service [gpu]",
        );
    }

    #[test]
    fn resources_of_other_groups_are_listed_as_kubernetes_does() {
        assert_eq!(get("/apis/apps/v1")["apiVersion"], "v1");
        assert_eq!(get("/apis/apps/v1")["groupVersion"], "apps/v1");
        check(
            "/apis/apps/v1",
            "daemonsets 'daemonset' N DaemonSet [*] shortNames=ds categories=all
             daemonsets/status '' N DaemonSet [gpu]
             deployments 'deployment' N Deployment [*] shortNames=deploy categories=all
             deployments/scale '' N Scale [gpu] in autoscaling/v1
             deployments/status '' N Deployment [gpu]
             replicasets 'replicaset' N ReplicaSet [*] shortNames=rs categories=all
             replicasets/scale '' N Scale [gpu] in autoscaling/v1
             replicasets/status '' N ReplicaSet [gpu]
             statefulsets 'statefulset' N StatefulSet [*] shortNames=sts categories=all
             statefulsets/scale '' N Scale [gpu] in autoscaling/v1
             statefulsets/status '' N StatefulSet [gpu]",
        );
        check("/apis/coordination.k8s.io/v1", "leases 'lease' N Lease [*]");
        check("/apis/discovery.k8s.io/v1", "endpointslices 'endpointslice' N EndpointSlice [*]");
        check("/apis/events.k8s.io/v1", "events 'event' N Event [*] shortNames=ev");
        check(
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions 'customresourcedefinition' C CustomResourceDefinition [*] shortNames=crd,crds categories=api-extensions
             customresourcedefinitions/status '' C CustomResourceDefinition [gpu]",
        );
        check(
            "/apis/batch/v1",
            "cronjobs 'cronjob' N CronJob [*] shortNames=cj categories=all
             jobs 'job' N Job [*] categories=all
             jobs/status '' N Job [gpu]",
        );
    }

    #[test]
    fn resources_stand_in_the_order_of_their_names() {
        let built_in = Catalog::new(kinds::built_in().iter().cloned()).snapshot();
        for (group, versions) in built_in.groups().into_iter().skip(1) {
            for version in versions {
                let list = get(&format!("/apis/{group}/{version}"));
                assert!(
                    list["resources"].as_array().unwrap().is_sorted_by_key(|r| text(&r["name"])),
                    "{group}"
                );
            }
        }
    }

    #[test]
    fn the_stored_version_is_listed_as_a_hash() {
        for (path, name, hash) in [
            ("/api/v1", "configmaps", Some("qFsyl6wFWjQ=")),
            ("/apis/apps/v1", "deployments", Some("8aSe+NMegvE=")),
            ("/apis/autoscaling/v1", "horizontalpodautoscalers", Some("qwQve8ut294=")),
            ("/apis/autoscaling/v2", "horizontalpodautoscalers", Some("qwQve8ut294=")),
            ("/api/v1", "events", Some("r2yiGXH7wu8=")),
            ("/apis/events.k8s.io/v1", "events", Some("r2yiGXH7wu8=")),
            ("/api/v1", "bindings", None),
            ("/api/v1", "pods/status", None),
        ] {
            let list = get(path);
            let resource = list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap();
            assert_eq!(resource.get("storageVersionHash").and_then(Value::as_str), hash, "{path} {name}");
        }
    }

    #[test]
    fn aggregated_discovery_has_all_groups_in_one_document() {
        let documents = documents();
        let core = parsed(&documents.aggregated("/api").unwrap().bytes);
        assert_eq!((text(&core["kind"]), &core["metadata"]), ("APIGroupDiscoveryList", &json!({})));
        assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let version = &core["items"][0]["versions"][0];
        assert_eq!((text(&version["version"]), text(&version["freshness"])), ("v1", "Current"));
        let resource = |name: &str| {
            version["resources"].as_array().unwrap().iter().find(|r| r["resource"] == name).unwrap().clone()
        };
        assert_eq!(
            resource("secrets"),
            json!({
                "resource": "secrets",
                "responseKind": { "group": "", "version": "", "kind": "Secret" },
                "scope": "Namespaced",
                "singularResource": "secret",
                "verbs": ALL.split(',').collect::<Vec<_>>(),
            })
        );
        let pods = resource("pods");
        assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
        for expected in [
            json!({
                "subresource": "binding",
                "responseKind": { "group": "", "version": "", "kind": "Binding" },
                "verbs": ["create"],
            }),
            json!({
                "subresource": "eviction",
                "responseKind": { "group": "policy", "version": "v1", "kind": "Eviction" },
                "verbs": ["create"],
            }),
            json!({
                "subresource": "status",
                "responseKind": { "group": "", "version": "", "kind": "Pod" },
                "verbs": ["get", "patch", "update"],
            }),
        ] {
            assert!(pods["subresources"].as_array().unwrap().contains(&expected), "{expected}");
        }
        assert_eq!(resource("nodes")["scope"], "Cluster");

        let named = parsed(&documents.aggregated("/apis").unwrap().bytes);
        assert_eq!(named["items"][1]["metadata"], json!({ "name": "apps" }));
        assert!(documents.aggregated("/apis/apps").is_none());
    }

    fn widgets(version: &str) -> Arc<Kind> {
        let kind = Kind::of_type("example.com", "core.v1.ConfigMap", "widgets");
        Arc::new(kind.version(version).named("widget", "Widget"))
    }

    #[test]
    fn a_custom_resource_appears_everywhere_and_changes_the_tag() {
        let without = documents();
        let with = Documents::new(
            &[kinds::built_in(), &[widgets("v1beta1"), widgets("v1")]].concat(),
            "10.0.0.1:6443",
        );
        let group = parsed(with.get("/apis/example.com").unwrap());
        assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v1");
        let list = parsed(with.get("/apis/example.com/v1").unwrap());
        assert_eq!(line(&list["resources"][0]), "widgets 'widget' N Widget [*]");
        let groups = parsed(with.get("/apis").unwrap());
        assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], "example.com");

        let tag = |documents: &Documents, path| documents.aggregated(path).unwrap().etag.clone();
        assert_ne!(tag(&without, "/apis"), tag(&with, "/apis"));
        assert_eq!(tag(&without, "/api"), tag(&with, "/api"));
        assert!(tag(&with, "/api").starts_with('"') && tag(&with, "/api").ends_with('"'));
    }

    #[test]
    fn stable_versions_come_first_and_higher_ones_before_lower() {
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "foo", "v", "v1rc1"];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by(|a, b| by_preference(a, b));
        assert_eq!(versions, expected);
    }
}
