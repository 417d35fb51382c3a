//! The query parameters of operations.

use keepwatch_registry::schema::{self, ValueKind};
use serde_json::{Map, Value, json};

use super::dialect::Dialect;

/// Name, type and description.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

const PRETTY: Parameter = ("pretty", "string", "If 'true', the answer is indented for people.");
const DRY_RUN: Parameter = (
    "dryRun",
    "string",
    "If 'All', the request is checked and answered as usual but nothing is stored. No other value is valid.",
);
const FIELD_MANAGER: Parameter = (
    "fieldManager",
    "string",
    "Who makes the change, for the record of who manages which field: up to 128 printable characters. Required to \
     apply.",
);
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What happens to fields that are unknown or given twice: 'Ignore' drops them, 'Warn' drops them with a warning and \
     is the default, 'Strict' refuses the request.",
);
const FORCE: Parameter =
    ("force", "boolean", "Whether apply takes over fields that others manage. Only valid for apply patches.");

const RESOURCE_VERSION: Parameter = (
    "resourceVersion",
    "string",
    "How recent the answer must be; for a watch, after which version changes are wanted.",
);
const SELECTION: &[Parameter] = &[
    ("continue", "string", "The token from the page before, to get the next page of a list."),
    ("fieldSelector", "string", "Restricts the objects by their fields. By default there is no restriction."),
    ("labelSelector", "string", "Restricts the objects by their labels. By default there is no restriction."),
    (
        "limit",
        "integer",
        "How many objects a page of the list may have at most. By default there is one page.",
    ),
    RESOURCE_VERSION,
    (
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant: 'Exact' or 'NotOlderThan'. Only valid together with it.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Whether a watch begins with the objects that exist, followed by a bookmark. Needs resourceVersionMatch \
         'NotOlderThan'.",
    ),
    (
        "shardSelector",
        "string",
        "Restricts the objects to those whose hash lies in a range. Belongs to the feature ShardedListAndWatch, which is \
         off: it has no effect.",
    ),
    ("timeoutSeconds", "integer", "After how many seconds a list or watch ends, whatever has happened."),
];
const WATCH: &[Parameter] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch may send bookmarks, which carry a version and no change.",
    ),
    ("watch", "boolean", "Whether changes are sent as they happen, rather than a list."),
];
const DELETION: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How many seconds the object may take to end; 0 means at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read is removed without regard to finalizers and dependents.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated in favour of propagationPolicy. Whether dependents are kept.",
    ),
    (
        "propagationPolicy",
        "string",
        "What happens to dependents: 'Orphan' keeps them, 'Background' deletes them afterwards, 'Foreground' before.",
    ),
];

/// Of custom resources, whose descriptions upstream makes elsewhere.
pub(super) const CUSTOM_GET: &[&[Parameter]] = &[&[RESOURCE_VERSION]];

pub(super) const NONE: &[&[Parameter]] = &[];
pub(super) const LIST: &[&[Parameter]] = &[SELECTION, WATCH];
pub(super) const WRITE: &[&[Parameter]] = &[&[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]];
pub(super) const PATCH: &[&[Parameter]] = &[&[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE]];
pub(super) const DELETE: &[&[Parameter]] = &[DELETION];
pub(super) const DELETE_COLLECTION: &[&[Parameter]] = &[SELECTION, DELETION];

/// Parameters of operations. OpenAPI 2 keeps them in one place and refers to them; in a document of OpenAPI 3, kubectl
/// looks for them in the operation itself.
pub(super) fn of(dialect: Dialect, groups: &[&[Parameter]]) -> Vec<Value> {
    groups
        .concat()
        .into_iter()
        .map(|(name, ty, says)| match dialect {
            Dialect::V2 => json!({ "$ref": format!("#/parameters/{name}") }),
            Dialect::V3 => dialect.parameter("query", name, ty, says),
        })
        .collect()
}

/// The parameters that a document of OpenAPI 2 refers to.
pub(super) fn shared() -> Map<String, Value> {
    [SELECTION, WATCH, DELETION, &[PRETTY, FIELD_MANAGER, FIELD_VALIDATION, FORCE]]
        .concat()
        .into_iter()
        .map(|(name, ty, says)| (name.to_owned(), Dialect::V2.parameter("query", name, ty, says)))
        .collect()
}

/// The parameters of every operation at a path: those in the path itself and, unless the operations are connections, how
/// the answer is written.
pub(super) fn at(dialect: Dialect, path: &str, kind: &str, connections: bool) -> Vec<Value> {
    let mut parameters = if connections { Vec::new() } else { of(dialect, &[&[PRETTY]]) };
    if path.contains("{path}") {
        parameters.push(dialect.parameter(
            "path",
            "path",
            "string",
            "What follows in the path of the request.",
        ));
    }
    if path.contains("{namespace}") {
        parameters.push(dialect.parameter("path", "namespace", "string", "The namespace of the object."));
    }
    if path.contains("{name}") {
        parameters.push(dialect.parameter("path", "name", "string", &format!("The name of the {kind}.")));
    }
    parameters
}

/// The words for the fields of the types of options.
const OPTIONS: &[(&str, &str)] = &[
    ("command", "The program to run with its arguments, one by one. No shell reads it."),
    ("container", "The container. May be left out if the pod has one only."),
    ("follow", "Whether the log is sent on as it grows."),
    (
        "insecureSkipTLSVerifyBackend",
        "Whether the certificate of the kubelet that has the log goes unchecked: then anybody may have written the log.",
    ),
    ("limitBytes", "How many bytes of the log are sent at most."),
    ("path", "What follows in the path of the request that is passed on."),
    ("ports", "The ports to forward. Required over WebSocket."),
    ("previous", "Whether the log is that of the container that ended last."),
    ("sinceSeconds", "Restricts the log to lines of the last so many seconds."),
    ("stderr", "Whether what the program writes to its standard error is sent."),
    ("stdin", "Whether what the client sends is the program's standard input."),
    ("stdout", "Whether what the program writes to its standard output is sent."),
    ("stream", "Which of its outputs the log has: 'All', 'Stdout' or 'Stderr'."),
    ("tailLines", "Restricts the log to so many lines at its end."),
    ("timestamps", "Whether each line of the log begins with its time."),
    ("tty", "Whether the program runs in a terminal."),
];

/// Parameters that are the fields of a type. Like Kubernetes, it says nothing of those that are times.
pub(super) fn fields(dialect: Dialect, ty: &str) -> Vec<Value> {
    let fields = schema::lookup(ty).map(|ty| ty.get().json_fields()).unwrap_or_default();
    fields
        .iter()
        .filter(|field| field.kind != ValueKind::Time)
        .map(|field| {
            let ty = match field.kind {
                ValueKind::Bool => "boolean",
                ValueKind::Int32 | ValueKind::Int64 => "integer",
                _ => "string",
            };
            let words = OPTIONS.iter().find(|(name, _)| *name == field.name).map_or("", |(_, words)| words);
            dialect.parameter("query", field.name, ty, words)
        })
        .collect()
}

/// Moves the parameters that all operations of a path have to those of the path, and puts all in the order of their names,
/// as Kubernetes does.
pub(super) fn share(of_path: &mut Vec<Value>, mut operations: Vec<&mut Value>) {
    let of = |operation: &Value| operation["parameters"].as_array().cloned().unwrap_or_default();
    let mut common = operations.first().map(|first| of(first)).unwrap_or_default();
    // A body belongs to its operation, even to the only one of a path.
    common.retain(|parameter| parameter["in"] != "body");
    for operation in &operations {
        let own = of(operation);
        common.retain(|parameter| own.contains(parameter));
    }
    let by_name = |parameters: &mut Vec<Value>| {
        parameters.sort_by(|a, b| (name(a), a["in"].as_str()).cmp(&(name(b), b["in"].as_str())));
    };
    for operation in &mut operations {
        let mut own = of(operation);
        own.retain(|parameter| !common.contains(parameter));
        by_name(&mut own);
        if let Some(operation) = operation.as_object_mut() {
            operation.remove("parameters");
            if !own.is_empty() {
                operation.insert("parameters".to_owned(), own.into());
            }
        }
    }
    of_path.append(&mut common);
    by_name(of_path);
}

/// The name of a parameter, or the one that a reference ends with.
fn name(parameter: &Value) -> &str {
    let named = parameter["name"].as_str();
    let referred = || parameter["$ref"].as_str().and_then(|place| place.rsplit('/').next());
    named.or_else(referred).unwrap_or_default()
}
