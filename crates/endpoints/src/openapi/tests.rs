use std::collections::{BTreeMap, BTreeSet};

use keepwatch_registry::kinds::RESOURCES;
use keepwatch_registry::schema;
use serde_json::{Value, json};

use super::schemas::published;
use super::*;

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.bytes()).unwrap()
}

fn v3_of(path: &str) -> Value {
    parsed(&v3_document(path).unwrap())
}

/// Every document by its path.
fn all() -> Vec<(String, Value)> {
    let mut all: Vec<_> = GROUP_VERSIONS.keys().map(|path| (path.clone(), v3_of(path))).collect();
    all.push(("v2".to_owned(), parsed(&v2())));
    all
}

/// The operations of a document: path, method, operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    methods.filter(|(_, method, _)| *method != "parameters").collect()
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn parameter_names(document: &Value, operation: &Value) -> Vec<String> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|parameter| match parameter.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => parameter,
    });
    parameters.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_reference_leads_to_something_in_the_same_document() {
    for (path, document) in all() {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 3, "{path}");
        for reference in &found {
            assert!(document.pointer(&reference[1..]).is_some(), "{path}: {reference}");
        }
    }
}

#[test]
fn every_patch_says_its_kind_and_that_the_server_checks_fields() {
    let mut count = 0;
    for (document_path, document) in all() {
        for (path, _, patch) in operations(&document).into_iter().filter(|(_, method, _)| *method == "patch")
        {
            let kind = &patch["x-kubernetes-group-version-kind"];
            assert!(["group", "version", "kind"].iter().all(|part| kind[part].is_string()), "{path}");
            if patch["x-kubernetes-action"] == "connect" {
                continue;
            }
            count += 1;
            let names = parameter_names(&document, patch);
            for expected in ["fieldValidation", "fieldManager", "dryRun", "force"] {
                assert!(names.iter().any(|name| name == expected), "{document_path}: {path} {expected}");
            }
        }
    }
    assert!(count > 150, "{count}");
}

#[test]
fn operations_have_names_of_their_own_and_say_what_they_do() {
    for (document_path, document) in all() {
        let mut names = BTreeMap::new();
        for (path, method, operation) in operations(&document) {
            let name = operation["operationId"].as_str().unwrap();
            assert_eq!(names.insert(name, (path, method)), None, "{document_path}: {name}");
            assert!(operation["x-kubernetes-action"].is_string(), "{path} {method}");
        }
    }
    let core = v3_of("api/v1");
    let names: Vec<&str> = operations(&core)
        .into_iter()
        .filter_map(|(_, _, operation)| operation["operationId"].as_str())
        .collect();
    for expected in [
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "createCoreV1NamespacedPod",
        "readCoreV1NamespacedPod",
        "replaceCoreV1NamespacedPod",
        "patchCoreV1NamespacedPod",
        "deleteCoreV1NamespacedPod",
        "deleteCoreV1CollectionNamespacedPod",
        "watchCoreV1NamespacedPod",
        "watchCoreV1NamespacedPodList",
        "watchCoreV1PodListForAllNamespaces",
        "readCoreV1NamespacedPodLog",
        "replaceCoreV1NamespacedPodStatus",
        "createCoreV1NamespacedPodEviction",
        "connectCoreV1GetNamespacedPodExec",
        "replaceCoreV1NamespaceFinalize",
    ] {
        assert!(names.contains(&expected), "{expected}");
    }
    assert_eq!(core["paths"]["/api/v1/namespaces/{name}/status"]["patch"]["tags"], json!(["core_v1"]));
    let roles = v3_of("apis/rbac.authorization.k8s.io/v1");
    assert!(roles.to_string().contains("\"listRbacAuthorizationV1ClusterRole\""));
}

#[test]
fn what_discovery_tells_is_what_the_document_has_paths_for() {
    for resource in RESOURCES {
        let root = paths::root(resource.group, resource.version);
        let document = v3_of(&root[1..]);
        let place = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{place}/{}", resource.plural);
        let item = format!("{collection}/{{name}}");
        for (verb, path, method) in [
            ("create", &collection, "post"),
            ("deletecollection", &collection, "delete"),
            ("list", &collection, "get"),
            ("get", &item, "get"),
            ("update", &item, "put"),
            ("patch", &item, "patch"),
            ("delete", &item, "delete"),
        ] {
            let operation = document["paths"].get(path).and_then(|operations| operations.get(method));
            assert_eq!(operation.is_some(), resource.allows(verb), "{verb} {path}");
        }
        for sub in resource.subresources {
            let operations = document["paths"][format!("{item}/{}", sub.name)].as_object().unwrap();
            assert_eq!(operations.len(), sub.verbs.len() + 1, "{item}/{}", sub.name);
        }
    }
}

#[test]
fn every_schema_of_a_kind_says_so_and_is_described() {
    let v2 = parsed(&v2());
    for resource in RESOURCES {
        let name = published(resource.ty);
        let path = paths::root(resource.group, resource.version);
        let v3 = v3_of(&path[1..]);
        let kind = json!([{ "group": resource.group, "version": resource.version, "kind": resource.kind }]);
        for schema in [&v3["components"]["schemas"][&name], &v2["definitions"][&name]] {
            assert_eq!(schema["x-kubernetes-group-version-kind"], kind, "{name}");
            assert!(schema["description"].is_string(), "{name} has no words");
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.contains_key("kind") && properties.contains_key("apiVersion"), "{name}");
        }
        if resource.allows("list") {
            let list = &v3["components"]["schemas"][format!("{name}List")];
            assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], resource.list_kind());
        }
    }
    let scale = &v3_of("apis/apps/v1")["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"];
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!([{ "group": "autoscaling", "version": "v1", "kind": "Scale" }])
    );
}

/// Both come from the same release; where they do not agree, one of them was made wrongly.
#[test]
fn the_table_and_the_descriptions_know_the_same_fields() {
    let roots: Vec<&str> = schema::all().map(|ty| ty.get().name).collect();
    let described = described::schemas(roots.iter().copied());
    let mut compared = 0;
    for ty in schema::all() {
        let Some(schema) = described.get(&published(ty.name)) else { continue };
        let properties =
            schema["properties"].as_object().map(|p| p.keys().map(String::as_str)).into_iter().flatten();
        let theirs: BTreeSet<&str> = properties.collect();
        let type_meta = ["apiVersion", "kind"].into_iter().filter(|_| ty.typed);
        let ours: BTreeSet<&str> = ty.json_fields().iter().map(|field| field.name).chain(type_meta).collect();
        assert_eq!(ours, theirs, "{}", ty.name);
        compared += 1;
    }
    assert!(compared > 400, "{compared}");
}

#[test]
fn schemas_say_how_fields_merge() {
    let document = v3_of("apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let property = |ty: &str, field: &str| schemas[format!("io.k8s.api.{ty}")]["properties"][field].clone();
    let containers = property("core.v1.PodSpec", "containers");
    assert_eq!(containers["type"], "array");
    let container = json!({ "$ref": "#/components/schemas/io.k8s.api.core.v1.Container" });
    assert_eq!(containers["items"], json!({ "allOf": [container], "default": {} }));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert!(containers["description"].as_str().unwrap().starts_with("List of containers"));
    assert_eq!(property("core.v1.PodSpec", "volumes")["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(property("apps.v1.DeploymentSpec", "strategy")["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(property("core.v1.PodSpec", "nodeSelector")["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
    assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"].get("required"), None);
}

#[test]
fn schemas_say_which_values_a_text_may_have() {
    let (v3, v2) = (v3_of("api/v1"), parsed(&v2()));
    for schemas in [&v3["components"]["schemas"], &v2["definitions"]] {
        let property = |ty: &str, field: &str| &schemas[format!("io.k8s.api.{ty}")]["properties"][field];
        let policy = property("core.v1.PodSpec", "restartPolicy");
        assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
        let words = policy["description"].as_str().unwrap();
        assert!(
            words.ends_with("\n\nPossible enum values:\n - `\"Always\"`\n - `\"Never\"`\n - `\"OnFailure\"`")
        );
        let families = property("core.v1.ServiceSpec", "ipFamilies");
        assert_eq!(families["items"]["enum"], json!(["", "IPv4", "IPv6"]));
        assert_eq!(families.get("enum"), None);
        let statuses = property("core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses");
        assert_eq!(statuses["additionalProperties"]["enum"][0], "ControllerResizeInProgress");
        assert_eq!(property("core.v1.PodSpec", "nodeName").get("enum"), None);
    }
    let strategy = &v2["definitions"]["io.k8s.api.apps.v1.DeploymentStrategy"]["properties"]["type"];
    assert_eq!(strategy["enum"], json!(["Recreate", "RollingUpdate"]));
}

#[test]
fn each_version_of_openapi_says_special_types_in_its_own_way() {
    let (v3, v2) = (v3_of("api/v1"), parsed(&v2()));
    let name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    assert_eq!(
        v3["components"]["schemas"][name]["oneOf"],
        json!([{ "type": "integer" }, { "type": "string" }])
    );
    assert_eq!(v2["definitions"][name]["type"], "string");
    assert_eq!(v2["definitions"][name]["format"], "int-or-string");
    let spec = "io.k8s.api.core.v1.PodSpec";
    assert_eq!(
        v3["components"]["schemas"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["allOf"],
        json!([{ "$ref": format!("#/components/schemas/{spec}") }])
    );
    let in_v2 = &v2["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(in_v2["$ref"], format!("#/definitions/{spec}"));
    assert!(in_v2["description"].is_string());
    assert_eq!((&v2["swagger"], &v3["openapi"]), (&"2.0".into(), &"3.0.0".into()));
}

#[test]
fn the_index_names_every_document_by_its_hash() {
    let index: Value = serde_json::from_slice(&v3_index()).unwrap();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), GROUP_VERSIONS.len());
    for path in ["api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/apiextensions.k8s.io/v1"] {
        let hash = v3_document(path).unwrap().hash().to_owned();
        assert_eq!(paths[path]["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    assert!(v3_document("apis/apps/v9").is_none() && v3_document("").is_none());
}

#[test]
fn the_protobuf_form_has_a_place_for_everything() {
    // Whatever has none fails an assertion on the way.
    let bytes = v2_protobuf().bytes();
    assert!(bytes.len() > v2().bytes().len() / 4, "{} bytes", bytes.len());
    assert_ne!(v2_protobuf().hash(), v2().hash());
}
