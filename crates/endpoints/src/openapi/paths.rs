//! The operations of a document: for each resource its paths, and for each path what can be done there.
//!
//! An operation says by extensions what it does (`x-kubernetes-action`) and to which kind; that is how clients find it.

use keepwatch_registry::kind::{GroupVersionKind, Kind, Subresource};
use serde_json::{Map, Value, json};

use super::dialect::{ANY_TYPE, CUSTOM_TYPES, Dialect, LIST_TYPES, MEDIA_TYPES};
use super::parameters::{self, Parameter};
use super::schemas;

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// The media types that a client may ask a log for; it is text in any case.
const LOG_TYPES: &[&str] =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// A verb of the API over HTTP.
struct Verb {
    /// As discovery has it.
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// The first word of the operation's name, and of its description.
    word: &'static str,
    parameters: &'static [&'static [Parameter]],
    body: Body,
    answer: Answer,
    codes: &'static [(&'static str, &'static str)],
}

enum Body {
    Nothing,
    Object,
    Patch,
    DeleteOptions,
}

enum Answer {
    Object,
    List,
    /// The object or a Status.
    Deleted,
    Status,
}

const LIST: Verb = Verb {
    verb: "list",
    method: "get",
    action: "list",
    word: "list",
    parameters: parameters::LIST,
    body: Body::Nothing,
    answer: Answer::List,
    codes: &[OK],
};

const CREATE: Verb = Verb {
    verb: "create",
    method: "post",
    action: "post",
    word: "create",
    parameters: parameters::WRITE,
    body: Body::Object,
    answer: Answer::Object,
    codes: &[OK, CREATED, ACCEPTED],
};

const DELETE_COLLECTION: Verb = Verb {
    verb: "deletecollection",
    method: "delete",
    action: "deletecollection",
    word: "delete",
    parameters: parameters::DELETE_COLLECTION,
    body: Body::DeleteOptions,
    answer: Answer::Status,
    codes: &[OK],
};

const GET: Verb = Verb {
    verb: "get",
    method: "get",
    action: "get",
    word: "read",
    parameters: parameters::NONE,
    body: Body::Nothing,
    answer: Answer::Object,
    codes: &[OK],
};

const UPDATE: Verb = Verb {
    verb: "update",
    method: "put",
    action: "put",
    word: "replace",
    parameters: parameters::WRITE,
    body: Body::Object,
    answer: Answer::Object,
    codes: &[OK, CREATED],
};

const PATCH: Verb = Verb {
    verb: "patch",
    method: "patch",
    action: "patch",
    word: "patch",
    parameters: parameters::PATCH,
    body: Body::Patch,
    answer: Answer::Object,
    codes: &[OK, CREATED],
};

const DELETE: Verb = Verb {
    verb: "delete",
    method: "delete",
    action: "delete",
    word: "delete",
    parameters: parameters::DELETE,
    body: Body::DeleteOptions,
    answer: Answer::Deleted,
    codes: &[OK, ACCEPTED],
};

/// Upstream describes custom resources in another place, and not in all like the others.
const CUSTOM_GET: Verb = Verb { parameters: parameters::CUSTOM_GET, ..GET };
const CUSTOM_PATCH: Verb = Verb { codes: &[OK], ..PATCH };
const CUSTOM_DELETE_COLLECTION: Verb =
    Verb { parameters: parameters::LIST, body: Body::Nothing, ..DELETE_COLLECTION };
const CUSTOM_PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// The path of a version of a group.
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// Adds the paths of a resource.
pub(super) fn add(paths: &mut Map<String, Value>, dialect: Dialect, kind: &Kind) {
    let mut all = Paths { paths, dialect, kind };
    let root = root(&kind.group, &kind.version);
    let place = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let plural = &kind.plural;

    let collection = format!("{place}/{plural}");
    let item = format!("{collection}/{{name}}");
    if kind.is_custom() {
        all.add(&format!("{root}{collection}"), &[LIST, CREATE, CUSTOM_DELETE_COLLECTION]);
        all.add(&format!("{root}{item}"), &[CUSTOM_GET, UPDATE, CUSTOM_PATCH, DELETE]);
    } else {
        all.add(&format!("{root}{collection}"), &[LIST, CREATE, DELETE_COLLECTION]);
        all.add(&format!("{root}{item}"), &[GET, UPDATE, PATCH, DELETE]);
    }
    if kind.namespaced {
        all.add(&format!("{root}/{plural}"), &[LIST]);
    }
    for sub in &kind.subresources {
        all.add_subresource(&format!("{root}{item}/{}", sub.name), sub);
    }
    if kind.allows("watch") && !kind.is_custom() {
        all.add_watch(&format!("{root}/watch{collection}"), "watchlist");
        all.add_watch(&format!("{root}/watch{item}"), "watch");
        if kind.namespaced {
            all.add_watch(&format!("{root}/watch/{plural}"), "watchlist");
        }
    }
}

/// The type of the version of the server, and what it is written in.
const VERSION: &str = "version.Info";
const VERSION_TYPES: &[&str] = &["application/json"];

/// The discovery document of a path, which lists groups, versions or resources.
pub(super) struct Discovery {
    /// The path without slashes at its ends, which is also the name of its document: `apis/apps/v1`.
    path: String,
    tag: String,
    id: String,
    what: &'static str,
    /// The type of the answer.
    pub(super) ty: &'static str,
    media_types: &'static [&'static str],
}

impl Discovery {
    /// The discovery document of the path with this name: `api`, `apis`, `version`, or the path of a group or of a
    /// version of one.
    pub(super) fn at(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').collect();
        let (tag, id, what, ty) = match *parts {
            ["version"] => {
                ("version".to_owned(), "getCodeVersion".to_owned(), "get the version of the server", VERSION)
            }
            ["api"] => {
                let id = "getCoreAPIVersions".to_owned();
                (group_name(""), id, "get the versions of the core group", "meta.v1.APIVersions")
            }
            ["apis"] => {
                let id = "getAPIVersions".to_owned();
                ("apis".to_owned(), id, "get the groups and their versions", "meta.v1.APIGroupList")
            }
            ["apis", group] => {
                let group = group_name(group);
                let id = format!("get{}APIGroup", capitalized(&group));
                (group, id, "get the versions of a group", "meta.v1.APIGroup")
            }
            _ => {
                let (group, version) = if let ["apis", group, version] = *parts {
                    (group_name(group), version)
                } else {
                    (group_name(""), parts.last().copied().unwrap_or_default())
                };
                let id = format!("get{}{}APIResources", capitalized(&group), capitalized(version));
                let tag = format!("{group}_{version}");
                (tag, id, "get the resources of a version of a group", "meta.v1.APIResourceList")
            }
        };
        let media_types = if ty == VERSION { VERSION_TYPES } else { MEDIA_TYPES };
        Self { path: path.to_owned(), tag, id, what, ty, media_types }
    }

    pub(super) fn add(&self, paths: &mut Map<String, Value>, dialect: Dialect) {
        let mut operation = operation(dialect, &self.tag, &self.id, self.what, self.media_types);
        dialect.put_answers(&mut operation, Some(&schemas::published(self.ty)), self.media_types, &[OK]);
        paths.insert(format!("/{}/", self.path), json!({ "get": operation }));
    }
}

struct Paths<'a> {
    paths: &'a mut Map<String, Value>,
    dialect: Dialect,
    kind: &'a Kind,
}

impl Paths<'_> {
    /// Adds a path with those of the operations that the resource allows.
    fn add(&mut self, path: &str, verbs: &[Verb]) {
        let operations = verbs.iter().filter(|verb| self.kind.allows(verb.verb));
        let operations = operations.map(|verb| (verb.method, self.operation(path, verb))).collect();
        let at = parameters::at(self.dialect, path, &self.kind.name, false);
        self.put(path, at, operations);
    }

    fn put(&mut self, path: &str, mut at: Vec<Value>, mut operations: Vec<(&str, Value)>) {
        if operations.is_empty() {
            return;
        }
        parameters::share(&mut at, operations.iter_mut().map(|(_, operation)| operation).collect());
        let mut operations: Map<String, Value> =
            operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
        operations.insert("parameters".to_owned(), at.into());
        self.paths.insert(path.to_owned(), operations.into());
    }

    fn operation(&self, path: &str, verb: &Verb) -> Value {
        let kind = self.kind;
        let what = match verb.action {
            "list" => format!("list or watch objects of kind {}", kind.name),
            "deletecollection" => format!("delete a collection of {}", kind.name),
            _ => format!("{} a {}", verb.word, kind.name),
        };
        let collection = if verb.action == "deletecollection" { "Collection" } else { "" };
        let id = self.id(verb.word, path, collection, "");
        let mut operation = self.blank(&id, &what, verb.action, self.own_kind());
        self.fill(&mut operation, verb, &schemas::published_kind(kind));
        operation
    }

    fn fill(&self, operation: &mut Value, verb: &Verb, schema: &str) {
        let dialect = self.dialect;
        operation["parameters"] = parameters::of(dialect, verb.parameters).into();
        match verb.body {
            Body::Nothing => {}
            Body::Object => dialect.put_body(operation, schema, true, self.media_types(ANY_TYPE)),
            Body::Patch if self.kind.is_custom() => {
                dialect.put_body(operation, schemas::PATCH, true, CUSTOM_PATCH_TYPES);
            }
            Body::Patch => dialect.put_body(operation, schemas::PATCH, true, PATCH_TYPES),
            Body::DeleteOptions => {
                dialect.put_body(operation, schemas::DELETE_OPTIONS, false, self.media_types(ANY_TYPE));
            }
        }
        let answer = match verb.answer {
            Answer::Object => schema,
            Answer::List => &format!("{schema}List"),
            Answer::Deleted if self.kind.returns_deleted && !self.is_finalized() => schema,
            Answer::Deleted | Answer::Status => schemas::STATUS,
        };
        let media_types = if let Answer::List = verb.answer { LIST_TYPES } else { MEDIA_TYPES };
        dialect.put_answers(operation, Some(answer), self.media_types(media_types), verb.codes);
    }

    /// In what something is written, which is in most cases this.
    fn media_types(&self, usual: &'static [&'static str]) -> &'static [&'static str] {
        if self.kind.is_custom() { CUSTOM_TYPES } else { usual }
    }

    /// Whether objects go once they are finalized. Kubernetes says of them that a deletion is answered with a Status, though
    /// it is answered with the object.
    fn is_finalized(&self) -> bool {
        self.kind.subresources.iter().any(|sub| sub.name == "finalize")
    }

    fn add_subresource(&mut self, path: &str, sub: &Subresource) {
        if is_connection(sub) {
            return self.add_connections(path, sub);
        }
        let operations = if sub.name == "log" {
            vec![("get", self.log(path))]
        } else {
            let verbs = match self.kind.is_custom() {
                true => [CREATE, CUSTOM_GET, UPDATE, CUSTOM_PATCH],
                false => [CREATE, GET, UPDATE, PATCH],
            };
            let verbs = verbs.iter().filter(|verb| sub.verbs.contains(&verb.verb));
            verbs.map(|verb| (verb.method, self.on_subresource(path, sub, verb))).collect()
        };
        let at = parameters::at(self.dialect, path, &self.kind.name, false);
        self.put(path, at, operations);
    }

    /// Adds the paths at which requests become connections. What takes every verb is a proxy: it takes every method, and
    /// passes on what follows in the path.
    fn add_connections(&mut self, path: &str, sub: &Subresource) {
        let mut methods: Vec<&str> = sub.verbs.iter().filter_map(|verb| method(verb)).collect();
        let is_proxy = methods.len() == CONNECTION_VERBS.len();
        let mut paths = vec![(path.to_owned(), "")];
        if is_proxy {
            methods.extend(["head", "options"]);
            paths.push((format!("{path}/{{path}}"), "WithPath"));
        }
        for (path, suffix) in paths {
            let operations =
                methods.iter().map(|method| (*method, self.connection(&path, sub, method, suffix))).collect();
            let at = parameters::at(self.dialect, &path, &self.kind.name, true);
            self.put(&path, at, operations);
        }
    }

    fn on_subresource(&self, path: &str, sub: &Subresource, verb: &Verb) -> Value {
        let kind = self.kind;
        let what = format!("{} {} of a {}", verb.word, sub.name, kind.name);
        let id = self.id(verb.word, path, "", &capitalized(&sub.name));
        let sent =
            sub.kind.clone().filter(|_| !kind.is_custom()).unwrap_or_else(|| kind.group_version_kind());
        let mut operation = self.blank(&id, &what, verb.action, said(&sent));
        let own = || schemas::published_kind(kind);
        let schema = sub.kind.as_ref().map_or_else(own, |sent| schemas::published(&schemas::type_name(sent)));
        self.fill(&mut operation, verb, &schema);
        operation
    }

    fn connection(&self, path: &str, sub: &Subresource, method: &str, suffix: &str) -> Value {
        let sent = sub.kind.clone().unwrap_or_default();
        let what =
            format!("connect {} requests to {} of {}", method.to_uppercase(), sub.name, self.kind.name);
        let id =
            self.id("connect", path, &capitalized(method), &format!("{}{suffix}", capitalized(&sub.name)));
        let mut operation = self.blank(&id, &what, "connect", said(&sent));
        let options = schemas::type_name(&sent);
        operation["parameters"] = parameters::fields(self.dialect, &options).into();
        self.dialect.put_answers(&mut operation, None, ANY_TYPE, &[OK]);
        operation
    }

    fn log(&self, path: &str) -> Value {
        let id = self.id("read", path, "", "Log");
        let mut operation =
            self.blank(&id, &format!("read the log of a {}", self.kind.name), "get", self.own_kind());
        operation["parameters"] = parameters::fields(self.dialect, "core.v1.PodLogOptions").into();
        self.dialect.put_answers(&mut operation, None, LOG_TYPES, &[OK]);
        operation
    }

    fn add_watch(&mut self, path: &str, action: &str) {
        let kind = &self.kind.name;
        let (what, list) = match action {
            "watchlist" => (format!("watch changes of objects of kind {kind}"), "List"),
            _ => (format!("watch changes of one {kind}"), ""),
        };
        let what = format!("{what}. Deprecated: use the 'watch' parameter of the list instead");
        let id = self.id("watch", path, "", list);
        let mut operation = self.blank(&id, &what, action, self.own_kind());
        operation["parameters"] = parameters::of(self.dialect, parameters::LIST).into();
        self.dialect.put_answers(&mut operation, Some(schemas::WATCH_EVENT), LIST_TYPES, &[OK]);
        let at = parameters::at(self.dialect, path, kind, false);
        self.put(path, at, vec![("get", operation)]);
    }

    fn own_kind(&self) -> Value {
        said(&self.kind.group_version_kind())
    }

    /// An operation of which parameters, body and answers are still to be said.
    fn blank(&self, id: &str, what: &str, action: &str, kind: Value) -> Value {
        let tag = format!("{}_{}", group_name(&self.kind.group), self.kind.version);
        let mut operation = operation(self.dialect, &tag, id, what, ANY_TYPE);
        operation["x-kubernetes-action"] = action.into();
        operation["x-kubernetes-group-version-kind"] = kind;
        operation
    }

    /// The name of an operation: `readCoreV1NamespacedPodStatus`, `connectCoreV1GetNamespacedPodExec`. Code generators
    /// make method names of it.
    fn id(&self, word: &str, path: &str, how: &str, what: &str) -> String {
        let Kind { group, version, name: kind, namespaced, .. } = self.kind;
        let (scope, everywhere) = match (namespaced, path.contains("{namespace}")) {
            (true, true) => ("Namespaced", ""),
            (true, false) => ("", "ForAllNamespaces"),
            (false, _) => ("", ""),
        };
        let group = capitalized(&group_name(group));
        let version = capitalized(version);
        format!("{word}{group}{version}{how}{scope}{kind}{what}{everywhere}")
    }
}

/// Whether requests to it become a connection: then its kind is that of the options in the query.
pub(super) fn is_connection(sub: &Subresource) -> bool {
    sub.kind.as_ref().is_some_and(|sent| sent.kind.ends_with("Options"))
}

fn said(kind: &GroupVersionKind) -> Value {
    schemas::group_version_kind(&kind.group, &kind.version, &kind.kind)
}

const CONNECTION_VERBS: [Verb; 5] = [CREATE, GET, UPDATE, PATCH, DELETE];

/// The method of HTTP that a connection is made with.
fn method(verb: &str) -> Option<&'static str> {
    CONNECTION_VERBS.iter().find(|known| known.verb == verb).map(|known| known.method)
}

/// An operation of which parameters, body and answers are still to be said. `consumes` is said in OpenAPI 2 alone, and
/// replaced where there is a body of other types.
fn operation(dialect: Dialect, tag: &str, id: &str, what: &str, consumes: &[&str]) -> Value {
    let mut operation = json!({ "operationId": id, "description": what, "tags": [tag] });
    if dialect == Dialect::V2 {
        operation["schemes"] = json!(["https"]);
        operation["consumes"] = consumes.into();
    }
    operation
}

/// The group as a name in code: `rbacAuthorization` for `rbac.authorization.k8s.io`.
fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let mut parts = group.strip_suffix(".k8s.io").unwrap_or(group).split(['.', '-']);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &capitalized(part))
}

pub(super) fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}
