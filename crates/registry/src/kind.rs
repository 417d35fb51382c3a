//! A kind: all that is known about one resource in one version of its group.
//!
//! Built-in kinds are values of [`Kind`] like any other; `kinds` has a file for each. Every step of a request reads from the
//! kind what is special about it, so that kinds can come and go while the server runs.

use crate::{
    schema::{self, TypeRef},
    strategy::{Plain, Strategy},
};
use keepwatch_apimachinery::meta::Qualified;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
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
    /// The type of its objects in this version.
    pub ty: TypeRef,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Short names for people.
    pub short_names: Vec<String>,
    /// Groups of resources that people can ask for at once.
    pub categories: Vec<String>,
    /// What can be done with it, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// What else there is under the name of an object, in alphabetical order.
    pub subresources: Vec<Subresource>,
    /// What a creation does of something that is not stored.
    pub question: Option<Question>,
    /// Where objects are kept, below the store's own prefix; absent if none are.
    pub storage: Option<String>,
    /// The version in which they are kept; absent if it is this one.
    pub stored_as: Option<StoredAs>,
    /// The fields that selectors may name besides `metadata.name`.
    pub fields: Vec<SelectableField>,
    /// Those of them by whose value lists find objects without looking at the others. Each costs memory for every object,
    /// so they are few: fields that are asked for all the time, with few objects for each value.
    pub indexed_fields: Vec<String>,
    /// How an unknown field in a selector is refused.
    pub unknown_field: UnknownField,
    /// When the generation of an object goes up.
    pub generation: Generation,
    /// Which names its objects may have.
    pub names: NameRule,
    /// Whether an update may leave out the version that it is based on.
    pub unconditional_update: bool,
    /// Whether an update of an object that is not there creates it.
    pub create_on_update: bool,
    /// Whether a deletion is answered with the object, rather than with a Status.
    pub returns_deleted: bool,
    /// Whether objects that belong to a deleted one stay if nobody says otherwise.
    pub orphans_by_default: bool,
    /// Whether a new object keeps the status that it comes with.
    pub keeps_status: bool,
    /// Whether a write of the status leaves labels, annotations, owners and finalizers as they are.
    pub status_keeps_metadata: bool,
    /// Whether objects are deleted by themselves when they are old enough.
    pub expires: bool,
    /// Whether the server puts the name of an object, or what it keeps for it, into the object itself.
    pub(crate) depends_on_name: bool,
    /// Whether a namespace need not be there for what is created in it.
    pub(crate) takes_any_namespace: bool,
    /// What to tell whoever uses it.
    pub deprecation: Option<&'static str>,
    /// What to tell whoever deletes objects and does not say what becomes of those that belong to them.
    pub deletion_warning: Option<&'static str>,
    /// What to tell whoever writes an object that asks for something this server does not do yet.
    pub(crate) not_enforced: Option<&'static str>,
    /// Whether a watch cache is worth its memory.
    pub is_cached: bool,
    /// Which names validation accepts; the same as `names` but for kinds of which more was allowed in the past.
    pub(crate) validated_names: NameRule,
    /// Whether finalizers without a slash must be of Kubernetes' own.
    pub(crate) known_finalizers: bool,
    /// What is special about its objects.
    pub(crate) strategy: Arc<dyn Strategy>,
}

/// How the objects of a resource are stored whose stored form is another than the one that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAs {
    /// The group of the stored version.
    pub group: String,
    /// The version.
    pub version: String,
    /// The type.
    pub ty: TypeRef,
}

/// Something under the name of an object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name: `status`.
    pub name: String,
    /// What can be done with it, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// What is sent and received, if it is not an object of the resource.
    pub kind: Option<GroupVersionKind>,
}

/// Something that is answered and forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// On which node a pod is to be.
    Binding,
    /// Who one is.
    SelfReview,
    /// Whose a token is.
    TokenReview,
    /// What one may do.
    SelfRules,
    /// Whether one may do something.
    SelfAccess,
    /// Whether somebody may do something.
    Access,
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
    /// What it is called in the index, which all versions of a resource share.
    pub indexed: String,
    /// Where its value is.
    pub at: At,
}

/// The names of the fields that lead to a value.
pub type FieldPath = Vec<String>;

/// Where the value of a selectable field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The metadata's, which every object has.
    Metadata,
    /// A text or a number at this path; empty if it is not there.
    Path(FieldPath),
    /// A yes or no at this path; no if it is not there.
    Flag(FieldPath),
    /// A number at this path; zero if it is not there.
    Number(FieldPath),
    /// The first of the paths that leads to something.
    Either(Vec<FieldPath>),
    /// Always empty.
    Nowhere,
}

/// How an unknown field in a selector is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// Naming the two that there are.
    OnlyMetadata,
    /// Naming the field.
    NotSupported,
    /// Naming the field and the kind.
    NotSupportedFor(&'static str),
    /// Naming the full kind, then the field.
    NotSupportedForKind,
}

/// When the generation of an object goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The server leaves it alone.
    Unmanaged,
    /// It is 1 for ever.
    Once,
    /// When the spec changes.
    Spec,
    /// When the spec changes; what a new object says is kept.
    SpecOnceCreated,
    /// When the spec or an annotation changes.
    SpecOrAnnotations,
    /// When anything but metadata and status changes.
    Content,
    /// When anything but metadata changes, or the labels do.
    ContentOrLabels,
}

/// Which names objects may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A lower-case DNS name.
    Subdomain,
    /// One part of a DNS name.
    Label,
    /// Whatever can stand in a path.
    PathSegment,
    /// An IP address in its usual form.
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
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            singular: name.to_ascii_lowercase(),
            name: name.to_owned(),
            ty,
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: ALL_VERBS,
            subresources: Vec::new(),
            question: None,
            storage: Some(plural.to_owned()),
            stored_as: None,
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
            takes_any_namespace: false,
            deprecation: None,
            deletion_warning: None,
            not_enforced: None,
            is_cached: true,
            validated_names: NameRule::Subdomain,
            known_finalizers: true,
            strategy: Arc::new(Plain),
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
        self
    }

    /// Its objects lie in no namespace.
    pub fn cluster_scoped(mut self) -> Kind {
        self.namespaced = false;
        self
    }

    /// Sets the names that people type.
    pub fn short_names(mut self, names: &[&str]) -> Kind {
        self.short_names = owned(names);
        self
    }

    /// Sets the categories.
    pub fn categories(mut self, names: &[&str]) -> Kind {
        self.categories = owned(names);
        self
    }

    /// Sets what can be done with it.
    pub fn verbs(mut self, verbs: &'static [&'static str]) -> Kind {
        self.verbs = verbs;
        self
    }

    /// Sets what there is under the names of its objects.
    pub fn subresources(mut self, subresources: impl IntoIterator<Item = Subresource>) -> Kind {
        self.subresources = subresources.into_iter().collect();
        self
    }

    /// Sets where objects are kept.
    pub fn stored_at(mut self, prefix: &str) -> Kind {
        self.storage = Some(prefix.to_owned());
        self
    }

    /// Sets the version in which objects are kept, by the type that they have there.
    pub fn stored_as(mut self, group: &str, version: &str, ty: &str) -> Kind {
        let ty = schema::lookup(ty).expect("the table of types has every built-in type; a test looks");
        self.stored_as = Some(StoredAs { group: group.to_owned(), version: version.to_owned(), ty });
        self
    }

    /// Nothing is stored: the server says what there is when it is asked.
    pub fn not_stored(mut self, verbs: &'static [&'static str]) -> Kind {
        self.verbs = verbs;
        self.storage = None;
        self
    }

    /// Nothing is stored: what is created is answered and forgotten.
    pub fn question(mut self, question: Question) -> Kind {
        self.question = Some(question);
        self.not_stored(CREATE)
    }

    /// Sets which fields selectors may name, and how they are refused that name others.
    pub fn selectable(
        mut self,
        fields: impl IntoIterator<Item = SelectableField>,
        unknown: UnknownField,
    ) -> Kind {
        self.fields = fields.into_iter().collect();
        self.unknown_field = unknown;
        self
    }

    /// Sets by which selectable fields objects are found without looking at the others.
    pub fn indexed_by(mut self, fields: &[&str]) -> Kind {
        self.indexed_fields = owned(fields);
        self
    }

    /// Sets when the generation goes up.
    pub fn generation(mut self, generation: Generation) -> Kind {
        self.generation = generation;
        self
    }

    /// Sets which names objects may have.
    pub fn names(mut self, names: NameRule) -> Kind {
        self.names = names;
        self.validated_names = names;
        self
    }

    /// Validation accepts every name that can stand in a path.
    pub fn validates_path_segments(mut self) -> Kind {
        self.validated_names = NameRule::PathSegment;
        self
    }

    /// Finalizers without a slash may be any.
    pub fn takes_any_finalizer(mut self) -> Kind {
        self.known_finalizers = false;
        self
    }

    /// Sets what is special about its objects.
    pub(crate) fn strategy(mut self, strategy: impl Strategy + 'static) -> Kind {
        self.strategy = Arc::new(strategy);
        self
    }

    /// An update must say which version it is based on.
    pub fn requires_version(mut self) -> Kind {
        self.unconditional_update = false;
        self
    }

    /// An update of an object that is not there creates it.
    pub fn creates_on_update(mut self) -> Kind {
        self.create_on_update = true;
        self
    }

    /// A deletion is answered with the object.
    pub fn returns_deleted(mut self) -> Kind {
        self.returns_deleted = true;
        self
    }

    /// Objects that belong to a deleted one stay if nobody says otherwise.
    pub fn orphans_dependents(mut self) -> Kind {
        self.orphans_by_default = true;
        self
    }

    /// A new object keeps the status that it comes with.
    pub fn keeps_status(mut self) -> Kind {
        self.keeps_status = true;
        self
    }

    /// A write of the status leaves labels, annotations, owners and finalizers as they are.
    pub fn status_keeps_metadata(mut self) -> Kind {
        self.status_keeps_metadata = true;
        self
    }

    /// Objects are deleted by themselves when they are old enough.
    pub fn expires(mut self) -> Kind {
        self.expires = true;
        self
    }

    /// The server puts the name of an object, or what it keeps for it, into the object itself.
    pub(crate) fn depends_on_name(mut self) -> Kind {
        self.depends_on_name = true;
        self
    }

    /// Whoever uses it is told this.
    pub fn deprecated(mut self, warning: &'static str) -> Kind {
        self.deprecation = Some(warning);
        self
    }

    /// Whoever deletes its objects and does not say what becomes of those that belong to them is told this.
    pub fn warns_of_deletion(mut self, warning: &'static str) -> Kind {
        self.deletion_warning = Some(warning);
        self
    }

    /// It can be created in namespaces that are not there.
    pub(crate) fn takes_any_namespace(mut self) -> Kind {
        self.takes_any_namespace = true;
        self
    }

    /// What its objects ask for is not done yet; whoever writes one is told this.
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

    /// The group and version as objects say them: `apps/v1`, and `v1` in the core group.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.name)
    }

    /// The type, group and version in which its objects are stored.
    pub fn stored(&self) -> StoredAs {
        self.stored_as.clone().unwrap_or_else(|| StoredAs {
            group: self.group.clone(),
            version: self.version.clone(),
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

    /// Whether it can be done.
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

    /// How many of something there are to be.
    pub fn scale() -> Subresource {
        Subresource::new("scale", GET_PATCH_UPDATE).of("autoscaling", "v1", "Scale")
    }

    /// Sets what is sent and received, if that is not an object of the resource.
    pub fn of(mut self, group: &str, version: &str, kind: &str) -> Subresource {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        self.kind = Some(GroupVersionKind { group, version, kind });
        self
    }
}

impl SelectableField {
    /// A text or a number at the path that its name says.
    pub fn new(name: &str) -> SelectableField {
        SelectableField { name: name.to_owned(), indexed: name.to_owned(), at: At::Path(path(name)) }
    }

    /// The namespace of an object.
    pub fn namespace() -> SelectableField {
        SelectableField::new("metadata.namespace").at(At::Metadata)
    }

    /// Sets where the value is.
    pub fn at(mut self, at: At) -> SelectableField {
        self.at = at;
        self
    }

    /// Sets what it is called in the index.
    pub fn indexed_as(mut self, name: &str) -> SelectableField {
        self.indexed = name.to_owned();
        self
    }
}

/// The path that is written with dots: `spec.nodeName`.
pub fn path(text: &str) -> FieldPath {
    text.split('.').map(str::to_owned).collect()
}

/// The group and version as objects say them.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
