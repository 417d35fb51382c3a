//! A kind: the description of one resource in one version of its group.
//!
//! Built-in kinds are values of [`Kind`] like any other; `kinds` has a file for each. Every step of a request reads the
//! rules of a kind from it, so kinds can be added and withdrawn while the server runs.

use crate::{
    custom,
    schema::{self, TypeRef},
    strategy::{Plain, Strategy},
};
use keepwatch_apimachinery::meta::Qualified;
use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt,
    sync::{
        Arc,
        atomic::{self, AtomicU32},
    },
};

/// A resource in one version of its group.
#[derive(Clone)]
pub struct Kind {
    id: u32,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in paths: `pods`.
    pub plural: String,
    /// The name of one object: `pod`.
    pub singular: String,
    /// The name in objects: `Pod`.
    pub name: String,
    /// The name of its lists in objects: `PodList`.
    pub list_name: String,
    /// The type of its objects in this version.
    pub ty: TypeRef,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Short names for users.
    pub short_names: Vec<String>,
    /// The groups of resources, such as `all`, that `kubectl get` lists at once.
    pub categories: Vec<String>,
    /// The verbs that discovery lists, in its order.
    pub verbs: &'static [&'static str],
    /// Its subresources, in alphabetical order.
    pub subresources: Vec<Subresource>,
    /// The action of a create request, for a resource whose objects are not stored.
    pub create_only: Option<CreateOnly>,
    /// The key prefix of the objects, below the store's own prefix; absent if they are not stored.
    pub storage: Option<String>,
    /// The version in which they are stored; absent if it is this one.
    pub stored_as: Option<StoredAs>,
    /// Whether Kubernetes stores its objects as JSON rather than as Protobuf, in which an empty list is null.
    pub(crate) stored_as_json: bool,
    /// The fields besides `metadata.name` that selectors can use.
    pub fields: Vec<SelectableField>,
    /// The selectable fields for which the cache has an index. Each costs memory for every object, so they are few: fields
    /// that clients select by all the time, with few objects for each value.
    pub indexed_fields: Vec<String>,
    /// The error for an unknown field in a field selector.
    pub unknown_field: UnknownField,
    /// The changes that increment the generation of an object.
    pub generation: Generation,
    /// The rule for the names of its objects.
    pub names: NameRule,
    /// Whether an update may come without a resource version.
    pub unconditional_update: bool,
    /// Whether an update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// Whether a deletion is answered with the object, rather than with a Status.
    pub returns_deleted: bool,
    /// Whether the dependents of a deleted object are orphaned by default.
    pub orphans_by_default: bool,
    /// Whether a new object keeps the status of the request.
    pub keeps_status: bool,
    /// Whether a write of the status leaves labels, annotations, owners and finalizers as they are.
    pub status_keeps_metadata: bool,
    /// Whether objects expire.
    pub expires: bool,
    /// Whether a new object contains its name, or what the server reserves by its name, in other fields too.
    pub(crate) depends_on_name: bool,
    /// Whether it can take long to check an object, however small it is.
    pub is_costly_to_check: bool,
    /// Whether objects can be created in namespaces that do not exist.
    pub(crate) takes_any_namespace: bool,
    /// The warning of every request, if the kind is deprecated.
    pub deprecation: Option<Cow<'static, str>>,
    /// The warning for a deletion without a propagation policy.
    pub deletion_warning: Option<&'static str>,
    /// The warning for every write, if the server does not act on the objects yet.
    pub(crate) not_enforced: Option<&'static str>,
    /// The paths of the scale's numbers, if they are not the usual ones.
    pub scale_paths: Option<custom::ScalePaths>,
    /// Whether a watch cache is worth its memory.
    pub is_cached: bool,
    /// The rule that validation applies to names; the same as `names`, except for kinds that allowed more in the past.
    pub(crate) validated_names: NameRule,
    /// Whether finalizers without a slash must be of Kubernetes' own.
    pub(crate) known_finalizers: bool,
    /// The rules of this kind alone.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// The definition that it comes from, if it is a custom resource.
    pub(crate) custom: Option<custom::Served>,
}

/// The stored version of a resource, if it is another than the version of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAs {
    /// The group of the stored version.
    pub group: String,
    /// The version.
    pub version: String,
    /// The type.
    pub ty: TypeRef,
}

/// A subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name: `status`.
    pub name: String,
    /// The verbs that it allows, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// The kind of its request and response, if that is not the kind of the resource.
    pub kind: Option<GroupVersionKind>,
}

/// The action of a create request, for a resource whose objects are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOnly {
    /// Binds a pod to a node.
    Binding,
    /// Returns the user.
    SelfSubjectReview,
    /// Returns the user of a token.
    TokenReview,
    /// Answers what the user may do.
    SelfSubjectRulesReview,
    /// Answers whether the user may do something.
    SelfSubjectAccessReview,
    /// Answers whether a user may do something.
    SubjectAccessReview,
}

/// The full name of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind's name.
    pub kind: String,
}

/// A field that selectors may name.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// Its name in selectors.
    pub name: String,
    /// Its name in the index, which all versions of a resource share.
    pub indexed: String,
    /// The source of its value.
    pub at: At,
}

/// The names of the fields that lead to a value.
pub type FieldPath = Vec<String>;

/// The source of the value of a selectable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The metadata's, which every object has.
    Metadata,
    /// A text or a number at this path; empty if it is not set.
    Path(FieldPath),
    /// A boolean at this path; false if it is not set.
    Flag(FieldPath),
    /// A number at this path; zero if it is not set.
    Number(FieldPath),
    /// The first of these paths that is set.
    Either(Vec<FieldPath>),
    /// Always empty.
    Nowhere,
}

/// The error for an unknown field in a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// The message names the two known fields.
    OnlyMetadata,
    /// The message names the field.
    NotSupported,
    /// The message names the field and the kind.
    NotSupportedFor(&'static str),
    /// The message names the full kind, then the field.
    NotSupportedForKind,
}

/// The changes that increment the generation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The server does not manage it.
    Unmanaged,
    /// It is always 1.
    Once,
    /// Changes of the spec.
    Spec,
    /// Changes of the spec; a new object keeps the generation of the request.
    SpecOnceCreated,
    /// Changes of the spec or of an annotation.
    SpecOrAnnotations,
    /// Changes of anything except metadata and status.
    Content,
    /// Changes of anything except metadata.
    ContentOrStatus,
    /// Changes of anything except metadata, and changes of the labels.
    ContentOrLabels,
}

/// The rule for the names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A lower-case DNS name.
    Subdomain,
    /// One part of a DNS name.
    Label,
    /// Any text that can be a path segment.
    PathSegment,
    /// An IP address in its canonical form.
    Ip,
}

/// The verbs of a resource that is stored.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const GET_PATCH_UPDATE: &[&str] = &["get", "patch", "update"];

impl Kind {
    /// A kind whose objects lie in namespaces and are of this built-in type, such as `core.v1.Pod`. The type gives the kind
    /// its name and version.
    pub fn of_type(group: &str, ty: &str, plural: &str) -> Kind {
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        let ty = schema::lookup(ty).expect("the table of types has every built-in type; a test looks");
        let name = ty.short_name();
        let version = ty.name.split('.').nth(1).unwrap_or_default();
        Kind {
            id: NEXT_ID.fetch_add(1, atomic::Ordering::Relaxed),
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            singular: name.to_ascii_lowercase(),
            name: name.to_owned(),
            list_name: format!("{name}List"),
            ty,
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: ALL_VERBS,
            subresources: Vec::new(),
            create_only: None,
            storage: Some(plural.to_owned()),
            stored_as: None,
            stored_as_json: ty.open,
            fields: vec![SelectableField::namespace()],
            indexed_fields: Vec::new(),
            unknown_field: UnknownField::OnlyMetadata,
            generation: Generation::Unmanaged,
            names: NameRule::Subdomain,
            unconditional_update: true,
            create_on_update: false,
            returns_deleted: false,
            orphans_by_default: false,
            keeps_status: false,
            status_keeps_metadata: false,
            expires: false,
            depends_on_name: false,
            is_costly_to_check: false,
            takes_any_namespace: false,
            deprecation: None,
            deletion_warning: None,
            not_enforced: None,
            scale_paths: None,
            is_cached: true,
            validated_names: NameRule::Subdomain,
            known_finalizers: true,
            strategy: Arc::new(Plain),
            custom: None,
        }
    }

    /// Sets its version.
    pub fn version(mut self, version: &str) -> Kind {
        self.version = version.to_owned();
        self
    }

    /// Sets the name of one object in paths and the name in objects: `pod` and `Pod`.
    pub fn named(mut self, singular: &str, name: &str) -> Kind {
        self.singular = singular.to_owned();
        self.name = name.to_owned();
        self.list_name = format!("{name}List");
        self
    }

    /// Its objects lie in no namespace.
    pub fn cluster_scoped(mut self) -> Kind {
        self.namespaced = false;
        self
    }

    /// Sets the short names.
    pub fn short_names(mut self, names: &[&str]) -> Kind {
        self.short_names = owned(names);
        self
    }

    /// Sets the categories.
    pub fn categories(mut self, names: &[&str]) -> Kind {
        self.categories = owned(names);
        self
    }

    /// Sets the verbs that it allows.
    pub fn verbs(mut self, verbs: &'static [&'static str]) -> Kind {
        self.verbs = verbs;
        self
    }

    /// Sets its subresources.
    pub fn subresources(mut self, subresources: impl IntoIterator<Item = Subresource>) -> Kind {
        self.subresources = subresources.into_iter().collect();
        self
    }

    /// Sets the key prefix of the objects.
    pub fn stored_at(mut self, prefix: &str) -> Kind {
        self.storage = Some(prefix.to_owned());
        self
    }

    /// Sets the version in which objects are stored, by their type in that version.
    pub fn stored_as(mut self, group: &str, version: &str, ty: &str) -> Kind {
        let ty = schema::lookup(ty).expect("the table of types has every built-in type; a test looks");
        self.stored_as = Some(StoredAs { group: group.to_owned(), version: version.to_owned(), ty });
        self
    }

    /// Nothing is stored: the server computes the objects for each request.
    pub fn not_stored(mut self, verbs: &'static [&'static str]) -> Kind {
        self.verbs = verbs;
        self.storage = None;
        self
    }

    /// Nothing is stored: a create request is answered, and the object is dropped.
    pub fn create_only(mut self, of: CreateOnly) -> Kind {
        self.create_only = Some(of);
        self.not_stored(CREATE)
    }

    /// Sets the fields that selectors can use, and the error for any other.
    pub fn selectable(
        mut self,
        fields: impl IntoIterator<Item = SelectableField>,
        unknown: UnknownField,
    ) -> Kind {
        self.fields = fields.into_iter().collect();
        self.unknown_field = unknown;
        self
    }

    /// Sets the selectable fields for which the cache has an index.
    pub fn indexed_by(mut self, fields: &[&str]) -> Kind {
        self.indexed_fields = owned(fields);
        self
    }

    /// Sets the changes that increment the generation.
    pub fn generation(mut self, generation: Generation) -> Kind {
        self.generation = generation;
        self
    }

    /// Sets the rule for the names of its objects.
    pub fn names(mut self, names: NameRule) -> Kind {
        self.names = names;
        self.validated_names = names;
        self
    }

    /// Validation accepts every name that can be a path segment.
    pub fn validates_path_segments(mut self) -> Kind {
        self.validated_names = NameRule::PathSegment;
        self
    }

    /// Finalizers without a slash may be any.
    pub fn takes_any_finalizer(mut self) -> Kind {
        self.known_finalizers = false;
        self
    }

    /// Sets the rules of this kind alone.
    pub(crate) fn strategy(mut self, strategy: impl Strategy + 'static) -> Kind {
        self.strategy = Arc::new(strategy);
        self
    }

    /// An update must come with a resource version.
    pub fn requires_version(mut self) -> Kind {
        self.unconditional_update = false;
        self
    }

    /// An update of an object that does not exist creates it.
    pub fn creates_on_update(mut self) -> Kind {
        self.create_on_update = true;
        self
    }

    /// A deletion is answered with the object.
    pub fn returns_deleted(mut self) -> Kind {
        self.returns_deleted = true;
        self
    }

    /// The dependents of a deleted object are orphaned by default.
    pub fn orphans_dependents(mut self) -> Kind {
        self.orphans_by_default = true;
        self
    }

    /// A new object keeps the status of the request.
    pub fn keeps_status(mut self) -> Kind {
        self.keeps_status = true;
        self
    }

    /// A write of the status leaves labels, annotations, owners and finalizers as they are.
    pub fn status_keeps_metadata(mut self) -> Kind {
        self.status_keeps_metadata = true;
        self
    }

    /// Objects expire.
    pub fn expires(mut self) -> Kind {
        self.expires = true;
        self
    }

    /// Kubernetes stores its objects as JSON.
    pub(crate) fn stored_as_json(mut self) -> Kind {
        self.stored_as_json = true;
        self
    }

    /// A new object contains its name, or what the server reserves by its name, in other fields too.
    pub(crate) fn depends_on_name(mut self) -> Kind {
        self.depends_on_name = true;
        self
    }

    /// It is deprecated: every request is answered with this warning.
    pub fn deprecated(mut self, warning: &'static str) -> Kind {
        self.deprecation = Some(Cow::Borrowed(warning));
        self
    }

    /// Sets the warning for a deletion without a propagation policy.
    pub fn warns_of_deletion(mut self, warning: &'static str) -> Kind {
        self.deletion_warning = Some(warning);
        self
    }

    /// It can take long to check an object, however small it is.
    pub(crate) fn costly_to_check(mut self) -> Kind {
        self.is_costly_to_check = true;
        self
    }

    /// Its objects can be created in namespaces that do not exist.
    pub(crate) fn takes_any_namespace(mut self) -> Kind {
        self.takes_any_namespace = true;
        self
    }

    /// Sets the warning for every write, because the server does not act on the objects yet.
    pub(crate) fn not_enforced(mut self, warning: &'static str) -> Kind {
        self.not_enforced = Some(warning);
        self
    }

    /// It has no watch cache: its objects are many, short-lived and hardly read.
    pub fn uncached(mut self) -> Kind {
        self.is_cached = false;
        self
    }

    /// A number that no other kind of this process has, not even an earlier one of the same name.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The group and version as in `apiVersion`: `apps/v1`, and `v1` in the core group.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// Whether it comes from a definition.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The verbs that discovery lists: while a definition is being deleted, its objects cannot be created.
    pub fn discovery_verbs(&self) -> &'static [&'static str] {
        if self.custom.as_ref().is_some_and(custom::Served::is_terminating) {
            return custom::TERMINATING_VERBS;
        }
        self.verbs
    }

    /// The type, group and version in which its objects are stored.
    pub fn stored(&self) -> StoredAs {
        let version = match &self.custom {
            Some(served) => served.storage_version(),
            None => &self.version,
        };
        self.stored_as.clone().unwrap_or_else(|| StoredAs {
            group: self.group.clone(),
            version: version.to_owned(),
            ty: self.ty,
        })
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// The full name of the kind.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        let (group, version, kind) = (self.group.clone(), self.version.clone(), self.name.clone());
        GroupVersionKind { group, version, kind }
    }

    /// The resource with its group.
    pub fn qualified(&self) -> Qualified<'_> {
        Qualified::new(&self.group, &self.plural)
    }

    /// Whether it allows the verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.api_version(), self.plural)
    }
}

impl Subresource {
    /// A part of the object.
    pub fn new(name: &str, verbs: &'static [&'static str]) -> Subresource {
        Subresource { name: name.to_owned(), verbs, kind: None }
    }

    /// The status of an object.
    pub fn status() -> Subresource {
        Subresource::new("status", GET_PATCH_UPDATE)
    }

    /// The scale of an object.
    pub fn scale() -> Subresource {
        Subresource::new("scale", GET_PATCH_UPDATE).of("autoscaling", "v1", "Scale")
    }

    /// Sets the kind of its request and response, if that is not the kind of the resource.
    pub fn of(mut self, group: &str, version: &str, kind: &str) -> Subresource {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        self.kind = Some(GroupVersionKind { group, version, kind });
        self
    }
}

impl SelectableField {
    /// A text or a number at the path that is its name.
    pub fn new(name: &str) -> SelectableField {
        SelectableField { name: name.to_owned(), indexed: name.to_owned(), at: At::Path(path(name)) }
    }

    /// The namespace of an object.
    pub fn namespace() -> SelectableField {
        SelectableField::new("metadata.namespace").at(At::Metadata)
    }

    /// Sets the source of the value.
    pub fn at(mut self, at: At) -> SelectableField {
        self.at = at;
        self
    }

    /// Sets its name in the index.
    pub fn indexed_as(mut self, name: &str) -> SelectableField {
        self.indexed = name.to_owned();
        self
    }
}

/// A path from its text: `spec.nodeName`.
pub fn path(text: &str) -> FieldPath {
    text.split('.').map(str::to_owned).collect()
}

/// Orders the versions of a group, the one that clients should prefer first: stable ones before beta before alpha,
/// higher before lower; last, by name, those that are not in the form of a Kubernetes version.
pub fn by_preference(a: &str, b: &str) -> Ordering {
    match (stability(a), stability(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// The stability of a version, its major and its minor number: `v1beta2` is (1, 1, 2).
fn stability(version: &str) -> Option<(u8, u64, u64)> {
    let version = version.strip_prefix('v')?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    let (major, rest) = version.split_at(digits);
    let (level, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        _ if rest.is_empty() => (2, "0"),
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    Some((level, number(major)?, number(minor)?))
}

/// The group and version as in `apiVersion`.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
