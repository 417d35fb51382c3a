use std::collections::{BTreeMap, BTreeSet};

use keepwatch_registry::{catalog::Catalog, kinds::built_in};
use std::sync::LazyLock;

static OPEN_API: LazyLock<OpenApi> = LazyLock::new(|| {
    OpenApi::new(Catalog::new(built_in().iter().cloned()).snapshot(), Arc::new(|_| described()))
});
use keepwatch_registry::schema;
use serde_json::{Value, json};

use super::schemas::published;
use super::*;

/// Schemas that describe every type of the table and each of its fields.
fn described() -> Map<String, Value> {
    let schema = |ty: &schema::Type| {
        let names = ty.json_fields().iter().map(|field| field.name).chain(["apiVersion", "kind"]);
        let about = |field: &str| json!({ "description": format!("About {} {field}.", ty.short_name()) });
        let properties: Map<String, Value> = names.map(|name| (name.to_owned(), about(name))).collect();
        json!({ "description": format!("About {}.", ty.short_name()), "properties": properties })
    };
    schema::all().map(|ty| (published(ty.name), schema(&ty))).collect()
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.bytes()).unwrap()
}

fn v3_of(path: &str) -> Value {
    parsed(&OPEN_API.v3_document(path).unwrap())
}

/// Every document by its path.
fn all() -> Vec<(String, Value)> {
    let mut all: Vec<_> = OPEN_API.documents().into_keys().map(|path| (path.clone(), v3_of(&path))).collect();
    all.push(("v2".to_owned(), parsed(&OPEN_API.v2())));
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
        assert!(!found.is_empty(), "{path}");
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
            assert_eq!(operation["x-kubernetes-action"].is_null(), path.ends_with('/'), "{path} {method}");
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
fn the_document_has_paths_for_every_resource_of_discovery() {
    for kind in built_in() {
        let root = paths::root(&kind.group, &kind.version);
        let document = v3_of(&root[1..]);
        let place = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{place}/{}", kind.plural);
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
            assert_eq!(operation.is_some(), kind.allows(verb), "{verb} {path}");
        }
        for sub in &kind.subresources {
            let operations = document["paths"][format!("{item}/{}", sub.name)].as_object().unwrap();
            // A proxy takes two methods that no verb is for.
            let methods = if sub.name == "proxy" { 7 } else { sub.verbs.len() };
            assert_eq!(operations.len(), methods + 1, "{item}/{}", sub.name);
        }
    }
}

#[test]
fn every_schema_of_a_kind_says_so_and_is_described() {
    let v2 = parsed(&OPEN_API.v2());
    for kind in built_in() {
        let name = published(kind.ty.name);
        let path = paths::root(&kind.group, &kind.version);
        let v3 = v3_of(&path[1..]);
        let said = json!([{ "group": kind.group, "version": kind.version, "kind": kind.name }]);
        for schema in [&v3["components"]["schemas"][&name], &v2["definitions"][&name]] {
            assert_eq!(schema["x-kubernetes-group-version-kind"], said, "{name}");
            assert!(schema["description"].is_string(), "{name} has no words");
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.contains_key("kind") && properties.contains_key("apiVersion"), "{name}");
        }
        if kind.allows("list") {
            let list = &v3["components"]["schemas"][format!("{name}List")];
            assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], kind.list_name);
        }
    }
    let scale = &v3_of("apis/apps/v1")["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"];
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!([{ "group": "autoscaling", "version": "v1", "kind": "Scale" }])
    );
}

#[test]
fn without_descriptions_a_document_has_everything_else() {
    let plain = OpenApi::new(OPEN_API.catalog.clone(), Arc::new(|_| Map::new()));
    let mut expected = parsed(&OPEN_API.v2());
    remove_given_descriptions(&mut expected);
    assert_eq!(parsed(&plain.v2()), expected);
    for path in OPEN_API.documents().keys() {
        let mut expected = v3_of(path);
        remove_given_descriptions(&mut expected);
        assert_eq!(parsed(&plain.v3_document(path).unwrap()), expected, "{path}");
    }
}

/// Removes the descriptions that [`described`] gives, and what holds a reference that has nothing beside it then.
fn remove_given_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_given = |words: &Value| words.as_str().is_some_and(|words| words.starts_with("About "));
            fields.retain(|name, value| name != "description" || !is_given(value));
            fields.values_mut().for_each(remove_given_descriptions);
            if let (1, Some([reference])) =
                (fields.len(), fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice))
            {
                *value = reference.clone();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(remove_given_descriptions),
        _ => {}
    }
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
    assert_eq!(containers["description"], "About PodSpec containers.");
    assert_eq!(property("core.v1.PodSpec", "volumes")["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(property("apps.v1.DeploymentSpec", "strategy")["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(property("core.v1.PodSpec", "nodeSelector")["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
    assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"].get("required"), None);
}

#[test]
fn schemas_say_which_values_a_text_may_have() {
    let (v3, v2) = (v3_of("api/v1"), parsed(&OPEN_API.v2()));
    for schemas in [&v3["components"]["schemas"], &v2["definitions"]] {
        let property = |ty: &str, field: &str| &schemas[format!("io.k8s.api.{ty}")]["properties"][field];
        let policy = property("core.v1.PodSpec", "restartPolicy");
        assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
        let words = policy["description"].as_str().unwrap();
        let values = "\n\nPossible enum values:\n - `\"Always\"`\n - `\"Never\"`\n - `\"OnFailure\"`";
        assert_eq!(words, format!("About PodSpec restartPolicy.{values}"));
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
    let (v3, v2) = (v3_of("api/v1"), parsed(&OPEN_API.v2()));
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
    assert_eq!(in_v2["description"], "About Pod spec.");
    assert_eq!((&v2["swagger"], &v3["openapi"]), (&"2.0".into(), &"3.0.0".into()));
}

#[test]
fn the_index_names_every_document_by_its_hash() {
    let index: Value = serde_json::from_slice(&OPEN_API.v3_index()).unwrap();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), OPEN_API.documents().len());
    for path in ["api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/apiextensions.k8s.io/v1"] {
        let hash = OPEN_API.v3_document(path).unwrap().hash().to_owned();
        assert_eq!(paths[path]["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    assert!(OPEN_API.v3_document("apis/apps/v9").is_none() && OPEN_API.v3_document("").is_none());
}

#[test]
fn the_protobuf_form_has_a_place_for_everything() {
    // Whatever has none fails an assertion on the way.
    let bytes = OPEN_API.v2_protobuf().bytes();
    assert!(bytes.len() > OPEN_API.v2().bytes().len() / 4, "{} bytes", bytes.len());
    assert_ne!(OPEN_API.v2_protobuf().hash(), OPEN_API.v2().hash());
    for path in OPEN_API.documents().keys() {
        let (protobuf, json) = (OPEN_API.v3_protobuf(path).unwrap(), OPEN_API.v3_document(path).unwrap());
        assert!(protobuf.bytes().len() > json.bytes().len() / 4, "{path}");
        // The index names one hash for both.
        assert_eq!(protobuf.hash(), json.hash());
    }
    assert!(OPEN_API.v3_protobuf("apis/apps/v9").is_none());
}

#[test]
fn every_path_of_discovery_has_a_document_that_says_what_it_answers() {
    let v2 = parsed(&OPEN_API.v2());
    for (document, path, id, tag, answer) in [
        ("api", "/api/", "getCoreAPIVersions", "core", "APIVersions"),
        ("api/v1", "/api/v1/", "getCoreV1APIResources", "core_v1", "APIResourceList"),
        ("apis", "/apis/", "getAPIVersions", "apis", "APIGroupList"),
        ("apis/apps", "/apis/apps/", "getAppsAPIGroup", "apps", "APIGroup"),
        (
            "apis/rbac.authorization.k8s.io/v1",
            "/apis/rbac.authorization.k8s.io/v1/",
            "getRbacAuthorizationV1APIResources",
            "rbacAuthorization_v1",
            "APIResourceList",
        ),
    ] {
        let v3 = v3_of(document);
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{answer}");
        for operation in [&v3["paths"][path]["get"], &v2["paths"][path]["get"]] {
            assert_eq!(
                (&operation["operationId"], &operation["tags"]),
                (&id.into(), &json!([tag])),
                "{path}"
            );
        }
        let content = &v3["paths"][path]["get"]["responses"]["200"]["content"];
        assert_eq!(content["application/yaml"]["schema"]["$ref"], format!("#/components/schemas/{name}"));
        let kind = json!([{ "group": "", "version": "v1", "kind": answer }]);
        for schema in [&v3["components"]["schemas"][&name], &v2["definitions"][&name]] {
            assert_eq!(schema["x-kubernetes-group-version-kind"], kind);
            assert_eq!(schema["properties"]["kind"]["type"], "string");
        }
    }
    let resource = v3_of("apis/apps/v1");
    let resource = &resource["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.APIResource"];
    assert_eq!(resource["properties"]["namespaced"]["default"], false);
    assert_eq!(resource["properties"]["verbs"]["items"], json!({ "type": "string", "default": "" }));
    assert_eq!(resource["properties"]["verbs"].get("x-kubernetes-list-type"), None);
    assert_eq!(resource["properties"]["shortNames"]["x-kubernetes-list-type"], "atomic");
    let version = v3_of("version");
    assert_eq!(version["components"]["schemas"].as_object().unwrap().len(), 1);
    let content = &version["paths"]["/version/"]["get"]["responses"]["200"]["content"];
    assert_eq!(content.as_object().unwrap().keys().collect::<Vec<_>>(), ["application/json"]);
}

#[test]
fn a_document_has_the_schemas_of_its_operations_and_no_others() {
    for (path, document) in all() {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        let schemas = document.pointer("/components/schemas").unwrap_or(&document["definitions"]);
        for name in schemas.as_object().unwrap().keys() {
            let place = if path == "v2" { "definitions" } else { "components/schemas" };
            assert!(found.contains(format!("#/{place}/{name}").as_str()), "{path}: {name}");
        }
    }
}

#[test]
fn a_proxy_takes_every_method_and_any_path() {
    let core = v3_of("api/v1");
    let proxy = &core["paths"]["/api/v1/namespaces/{namespace}/services/{name}/proxy/{path}"];
    for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
        let id = format!("connectCoreV1{}NamespacedServiceProxyWithPath", paths::capitalized(method));
        assert_eq!(proxy[method]["operationId"], id);
        assert_eq!(
            proxy[method]["responses"]["200"]["content"]["*/*"]["schema"],
            json!({ "type": "string" })
        );
    }
    let names: Vec<(&str, &str)> = proxy["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("path", "name"), ("path", "namespace"), ("path", "path"), ("query", "path")]);
    assert_eq!(core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/exec/{path}"], Value::Null);
}

#[test]
fn schemas_say_defaults_unions_and_what_is_required_where_it_follows_from_no_type() {
    let core = v3_of("api/v1");
    let schema = |name: &str| core["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")].clone();
    assert_eq!(schema("ContainerPort")["properties"]["protocol"]["default"], "TCP");
    assert_eq!(schema("LocalObjectReference")["properties"]["name"]["default"], "");
    assert_eq!(schema("ReplicationControllerSpec")["properties"]["replicas"]["default"], 1);
    assert_eq!(schema("AzureDiskVolumeSource")["properties"]["readOnly"]["default"], false);
    assert_eq!(
        schema("SeccompProfile")["x-kubernetes-unions"],
        json!([{ "discriminator": "type", "fields-to-discriminateBy": { "localhostProfile": "LocalhostProfile" } }])
    );
    assert_eq!(
        schema("PodSchedulingGroup")["x-kubernetes-unions"],
        json!([{ "fields-to-discriminateBy": { "podGroupName": "PodGroupName" } }])
    );
    assert_eq!(schema("Event")["required"], json!(["metadata", "involvedObject"]));
    assert_eq!(schema("PersistentVolumeSpec")["properties"]["claimRef"]["x-kubernetes-map-type"], "granular");
    let deletion = &core["paths"]["/api/v1/namespaces/{name}"]["delete"]["responses"]["200"]["content"];
    let status = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
    assert_eq!(deletion["application/json"]["schema"]["$ref"], status);
}

#[test]
fn openapi_2_says_what_each_operation_reads_and_writes() {
    let v2 = parsed(&OPEN_API.v2());
    for (path, method, operation) in operations(&v2) {
        assert_eq!(operation["schemes"], json!(["https"]), "{path} {method}");
        assert!(operation["consumes"].is_array() && operation["produces"].is_array(), "{path} {method}");
    }
    let pods = &v2["paths"]["/api/v1/namespaces/{namespace}/pods"];
    assert_eq!(pods["get"]["produces"][3], "application/json;stream=watch");
    assert_eq!(pods["post"]["consumes"], json!(["*/*"]));
    let log = &v2["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"];
    assert_eq!(log["produces"][0], "text/plain");
    assert_eq!(v2["paths"]["/api/v1/"]["get"]["consumes"][1], "application/yaml");
    let review = &v2["paths"]["/apis/authorization.k8s.io/v1/subjectaccessreviews"]["post"];
    assert_eq!(review["parameters"][0]["in"], "body");
    // What all operations of a path share is said once.
    let shared = json!([{ "$ref": "#/parameters/pretty" }]);
    assert_eq!(v2["paths"]["/api/v1/nodes"]["parameters"], shared);
}

#[test]
fn every_parameter_is_described() {
    for (document_path, document) in all() {
        for (path, item) in document["paths"].as_object().unwrap() {
            let parts = item.as_object().unwrap().values();
            let own = parts.filter_map(|operation| operation.get("parameters")).chain(item.get("parameters"));
            for parameter in own.filter_map(Value::as_array).flatten() {
                let is_said_elsewhere = parameter.get("$ref").is_some() || parameter["in"] == "body";
                assert!(
                    is_said_elsewhere || parameter["description"].is_string(),
                    "{document_path} {path} {parameter}"
                );
            }
        }
    }
}

/// The keys that a part of a document may have. Whatever is not named here, Kubernetes' own types for OpenAPI drop when
/// they read a document, so what they write again is another one.
enum Part {
    Text,
    Flag,
    Texts,
    /// Anything, such as a default.
    Any,
    /// An object with some of these fields.
    Fields(&'static [(&'static str, &'static Part)]),
    /// A list of the same.
    Each(&'static Part),
    /// A map to the same.
    Named(&'static Part),
    /// Whichever of them fits the type of the value.
    Either(&'static Part, &'static Part),
}

use Part::{Any, Each, Either, Fields, Flag, Named, Text, Texts};

static V3: Part = Fields(&[
    ("openapi", &Text),
    ("info", &INFO),
    ("paths", &Named(&PATH)),
    ("components", &Fields(&[("schemas", &Named(&SCHEMA)), ("securitySchemes", &Named(&SECURITY_SCHEME))])),
]);
static INFO: Part = Fields(&[("title", &Text), ("version", &Text), ("description", &Text)]);
static SECURITY_SCHEME: Part =
    Fields(&[("type", &Text), ("in", &Text), ("name", &Text), ("description", &Text)]);
static PATH: Part = Fields(&[
    ("get", &OPERATION),
    ("put", &OPERATION),
    ("post", &OPERATION),
    ("delete", &OPERATION),
    ("options", &OPERATION),
    ("head", &OPERATION),
    ("patch", &OPERATION),
    ("parameters", &Each(&PARAMETER)),
]);
static OPERATION: Part = Fields(&[
    ("tags", &Texts),
    ("summary", &Text),
    ("description", &Text),
    ("operationId", &Text),
    ("parameters", &Each(&PARAMETER)),
    ("requestBody", &Fields(&[("description", &Text), ("content", &CONTENT), ("required", &Flag)])),
    ("responses", &Named(&Fields(&[("description", &Text), ("content", &CONTENT)]))),
    ("deprecated", &Flag),
    ("x-kubernetes-action", &Text),
    ("x-kubernetes-group-version-kind", &KIND),
]);
static PARAMETER: Part = Fields(&[
    ("name", &Text),
    ("in", &Text),
    ("description", &Text),
    ("required", &Flag),
    ("schema", &SCHEMA),
]);
static CONTENT: Part = Named(&Fields(&[("schema", &SCHEMA)]));
static KIND: Part = Fields(&[("group", &Text), ("version", &Text), ("kind", &Text)]);
static SCHEMA: Part = Fields(&[
    ("$ref", &Text),
    ("description", &Text),
    ("type", &Text),
    ("format", &Text),
    ("default", &Any),
    ("enum", &Texts),
    ("items", &SCHEMA),
    ("required", &Texts),
    ("allOf", &Each(&SCHEMA)),
    ("oneOf", &Each(&SCHEMA)),
    ("properties", &Named(&SCHEMA)),
    ("additionalProperties", &Either(&SCHEMA, &Flag)),
    ("uniqueItems", &Flag),
    ("x-kubernetes-group-version-kind", &Each(&KIND)),
    ("x-kubernetes-list-map-keys", &Texts),
    ("x-kubernetes-list-type", &Text),
    ("x-kubernetes-map-type", &Text),
    ("x-kubernetes-patch-merge-key", &Text),
    ("x-kubernetes-patch-strategy", &Text),
    (
        "x-kubernetes-unions",
        &Each(&Fields(&[("discriminator", &Text), ("fields-to-discriminateBy", &Named(&Text))])),
    ),
]);
static V2: Part = Fields(&[
    ("swagger", &Text),
    ("info", &INFO),
    ("paths", &Named(&V2_PATH)),
    ("definitions", &Named(&SCHEMA)),
    ("parameters", &Named(&V2_PARAMETER)),
    ("security", &Each(&Named(&Texts))),
    ("securityDefinitions", &Named(&SECURITY_SCHEME)),
]);
static V2_PATH: Part = Fields(&[
    ("get", &V2_OPERATION),
    ("put", &V2_OPERATION),
    ("post", &V2_OPERATION),
    ("delete", &V2_OPERATION),
    ("options", &V2_OPERATION),
    ("head", &V2_OPERATION),
    ("patch", &V2_OPERATION),
    ("parameters", &Each(&V2_PARAMETER)),
]);
static V2_OPERATION: Part = Fields(&[
    ("tags", &Texts),
    ("summary", &Text),
    ("description", &Text),
    ("operationId", &Text),
    ("schemes", &Texts),
    ("consumes", &Texts),
    ("produces", &Texts),
    ("parameters", &Each(&V2_PARAMETER)),
    ("responses", &Named(&Fields(&[("description", &Text), ("schema", &SCHEMA)]))),
    ("deprecated", &Flag),
    ("x-kubernetes-action", &Text),
    ("x-kubernetes-group-version-kind", &KIND),
]);
static V2_PARAMETER: Part = Fields(&[
    ("$ref", &Text),
    ("name", &Text),
    ("in", &Text),
    ("description", &Text),
    ("required", &Flag),
    ("type", &Text),
    ("schema", &SCHEMA),
    ("uniqueItems", &Flag),
]);

/// The places where a part of a document is not what it may be.
fn misfits(value: &Value, part: &Part, at: &str, found: &mut Vec<String>) {
    let fits = match (part, value) {
        (Any, _) | (Text, Value::String(_)) | (Flag, Value::Bool(_)) => true,
        (Texts, Value::Array(items)) => items.iter().all(Value::is_string),
        (Each(part), Value::Array(items)) => {
            items.iter().enumerate().for_each(|(n, item)| misfits(item, part, &format!("{at}/{n}"), found));
            true
        }
        (Named(part), Value::Object(entries)) => {
            entries.iter().for_each(|(name, entry)| misfits(entry, part, &format!("{at}/{name}"), found));
            true
        }
        (Fields(known), Value::Object(fields)) => {
            for (name, field) in fields {
                let at = format!("{at}/{name}");
                match known.iter().find(|(known, _)| known == name) {
                    Some((_, part)) => misfits(field, part, &at, found),
                    None => found.push(at),
                }
            }
            true
        }
        (Either(first, second), value) => {
            misfits(value, if value.is_object() { first } else { second }, at, found);
            true
        }
        _ => false,
    };
    if !fits {
        found.push(at.to_owned());
    }
}

#[test]
fn documents_have_only_fields_that_survive_a_round_trip_through_the_types_of_kubernetes() {
    for (path, document) in all() {
        let mut found = Vec::new();
        misfits(&document, if path == "v2" { &V2 } else { &V3 }, &path, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
    let mut found = Vec::new();
    let odd =
        json!({ "openapi": 3, "info": { "title": "t", "contact": "c" }, "paths": { "/": { "get": [] } } });
    misfits(&odd, &V3, "", &mut found);
    found.sort();
    assert_eq!(found, ["/info/contact", "/openapi", "/paths///get"]);
}
