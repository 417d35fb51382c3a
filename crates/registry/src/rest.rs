//! What can be done with objects: the one road that every request takes from its body to storage.
//!
//! Kept true: nothing is stored that was not normalised, defaulted, prepared and validated; a refused request changes
//! nothing; a write that lost a race is made anew from what won it, unless the client said which version it meant.
//!
//! A change begins with the object that is known here, which may be out of date. That is found out when it is written,
//! as the write names the version that it is based on; what is refused without a write is looked at again with the newest.

pub use crate::target::{Target, is_path_segment};
use crate::{
    catalog::Catalog,
    codec::{self, Decoded, Expected},
    convert,
    deletion::{Deletion, must_meet},
    error::Error,
    inspect::ResourceInspector,
    kind::{Kind, UnknownField},
    kinds::{self, Addresses, built_in},
    options::{DeleteOptions, FieldValidation, WriteOptions},
    patch::{self, PatchError},
    schema::{self, Problems, Timestamp},
    strategy::{self, Part, Repeated, Requester},
    target::{Lost, Unwritten},
    validation,
    value::{fields, name, text},
};
use bytes::Bytes;
use keepwatch_apimachinery::{
    Quoted, ResourceVersion,
    list_options::{Position, ValidListOptions},
    meta::{Peek, Qualified, write_versioned},
    status::Cause,
};
use keepwatch_storage::{
    Existing, List, ListRequest, Object, Preconditions, Predicate, Storage, StorageError, Unchanged, Update,
    UpdateOptions, Watch, WatchRequest,
};
use parking_lot::RwLock;
use serde_json::{Value, json};
use std::{
    cell::RefCell, collections::HashMap, fmt, net::Ipv4Addr, ops::RangeInclusive, sync::Arc, time::Duration,
};

/// How a registry behaves.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// How long events are kept.
    pub event_ttl: Duration,
    /// From which addresses services get theirs: the first one and how many bits are fixed.
    pub service_range: (Ipv4Addr, u8),
    /// From which ports services get those that every node has for them.
    pub node_ports: RangeInclusive<u16>,
    /// Whether deleted namespaces are emptied by the server itself.
    pub empties_namespaces: bool,
    /// Whether no other server can use the same storage while this one does. Then nobody else is in the middle of
    /// anything when it starts.
    pub owns_storage: bool,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
            service_range: (Ipv4Addr::new(10, 0, 0, 0), 24),
            node_ports: 30000..=32767,
            empties_namespaces: true,
            owns_storage: false,
        }
    }
}

/// All resources and what can be done with them.
pub struct Registry {
    catalog: Catalog,
    /// By the prefix under which the objects are kept, which all versions of a resource share.
    stores: RwLock<HashMap<String, Arc<ResourceStore>>>,
    open: OpenStorage,
    pub(crate) options: RegistryOptions,
    pub(crate) addresses: Addresses,
}

/// Opens the storage of a resource.
type OpenStorage = Box<dyn Fn(&Arc<Kind>, Arc<ResourceInspector>) -> Arc<dyn Storage> + Send + Sync>;

/// The objects of one resource, in whatever version they are asked for.
struct ResourceStore {
    storage: Arc<dyn Storage>,
    /// The kind in the version in which they are stored.
    kind: Arc<Kind>,
}

/// An object as it is to be shown: in the version in which it is stored.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its JSON, without a version.
    pub value: Bytes,
    /// Where the version belongs.
    pub version_at: Option<u32>,
    /// The version; absent if nothing was stored.
    pub revision: Option<ResourceVersion>,
}

impl Shown {
    /// Appends its JSON, with the version.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self.revision {
            Some(revision) => write_versioned(out, &self.value, self.version_at, revision),
            None => out.extend_from_slice(&self.value),
        }
    }

    /// The document, with the version.
    pub fn document(&self) -> Value {
        document_of(&self.value, self.revision)
    }
}

impl From<&Object> for Shown {
    fn from(object: &Object) -> Shown {
        Shown {
            value: object.value.clone(),
            version_at: object.attributes.version_at,
            revision: Some(object.revision),
        }
    }
}

/// A change of an object, before it is known what the object is.
pub enum Change<'a> {
    /// To exactly this.
    Replace(Value),
    /// By a patch.
    Patch {
        /// The patch.
        patch: &'a Patch,
        /// What to do about unknown fields.
        strictness: FieldValidation,
    },
}

/// A patch in one of its forms.
pub enum Patch {
    /// Operations (RFC 6902).
    Json(patch::json::Patch),
    /// A merge patch (RFC 7386).
    Merge(Value),
    /// A strategic merge patch, which knows how lists merge.
    Strategic(Value),
}

impl Patch {
    /// Whether it may change a field at the top of a document.
    fn may_change(&self, field: &str) -> bool {
        match self {
            Patch::Json(_) => true,
            Patch::Merge(patch) | Patch::Strategic(patch) => patch.as_object().is_none_or(|fields| {
                // Directives can be about any field.
                fields.contains_key(field) || fields.keys().any(|name| name.starts_with('$'))
            }),
        }
    }
}

/// What a write led to: the object, whether it is new, and what the client is to be told.
#[derive(Debug)]
pub struct Written {
    /// What is stored, or would be.
    pub shown: Shown,
    /// Whether it was created.
    pub created: bool,
    /// What was odd about the request.
    pub warnings: Vec<String>,
}

/// Why a write was refused, and what was odd about the request besides.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub error: Error,
    /// As in [`Written`]; they are found before what refuses the request, or with it.
    pub warnings: Vec<String>,
}

/// What a deletion led to.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Shown),
    /// The object stays until what holds it lets go.
    Held(Shown),
}

/// What an update led to.
enum Updated {
    Stored(Shown),
    /// There was nothing to update, which some kinds allow.
    Created(Written),
}

/// How often a name is generated before the client is told that none is free.
const NAMES_TRIED_MAX: usize = 8;
/// How often a write is made anew because another one came first. Each time somebody else got through.
const RACES_LOST_MAX: usize = 100;

impl Registry {
    /// The built-in kinds; `open` gives the storage of a resource, for the kind of the version in which it is stored.
    pub fn new(
        options: RegistryOptions,
        open: impl Fn(&Arc<Kind>, Arc<ResourceInspector>) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> Registry {
        let addresses = Addresses::new(options.service_range, options.node_ports.clone());
        let registry = Registry {
            catalog: Catalog::new([]),
            stores: RwLock::default(),
            open: Box::new(open),
            options,
            addresses,
        };
        registry.open_stores(&[Arc::clone(&kinds::NODE_PORTS), Arc::clone(&kinds::SERVERS)]);
        registry.serve(built_in().to_vec());
        registry
    }

    /// The kinds that are served.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Serves these kinds too, all at the same moment.
    pub fn serve(&self, kinds: Vec<Arc<Kind>>) {
        self.open_stores(&kinds);
        self.catalog.add(kinds);
    }

    /// Serves no kind any more for which this is true. Requests that have begun go on; their objects stay in storage.
    pub fn withdraw(&self, goes: impl Fn(&Kind) -> bool) {
        let before = self.catalog.snapshot();
        self.catalog.remove(goes);
        let after = self.catalog.snapshot();
        let is_served =
            |prefix: &String| after.kinds().iter().any(|kind| kind.storage.as_ref() == Some(prefix));
        let withdrawn = before.kinds().iter().filter_map(|kind| kind.storage.as_ref());
        let mut stores = self.stores.write();
        for prefix in withdrawn.filter(|prefix| !is_served(prefix)) {
            stores.remove(prefix);
        }
    }

    fn open_stores(&self, kinds: &[Arc<Kind>]) {
        let mut stores = self.stores.write();
        for kind in kinds.iter().filter(|kind| kind.stored_as.is_none()) {
            let Some(prefix) = &kind.storage else { continue };
            let open = || {
                let storage = (self.open)(kind, Arc::new(ResourceInspector::new(kind)));
                Arc::new(ResourceStore { storage, kind: Arc::clone(kind) })
            };
            stores.entry(prefix.clone()).or_insert_with(open);
        }
    }

    fn store(&self, kind: &Kind) -> Result<Arc<ResourceStore>, Error> {
        let prefix = kind.storage.as_ref().ok_or(Error::MethodNotAllowed)?;
        // A resource that was withdrawn while the request was on its way.
        self.stores.read().get(prefix).cloned().ok_or(Error::UnknownPath)
    }

    /// The storage of a resource.
    pub fn storage(&self, kind: &Kind) -> Option<Arc<dyn Storage>> {
        self.store(kind).ok().map(|store| Arc::clone(&store.storage))
    }

    /// Reads an object.
    pub async fn get(&self, target: Target<'_>, position: Position) -> Result<Object, Error> {
        let key = target.key();
        let found = self.store(target.kind)?.storage.get(&key, position).await;
        found.map_err(|error| target.failed("get", error))?.ok_or_else(|| target.not_found())
    }

    /// Refuses a connection to what an object stands for, if there is nothing to connect to.
    pub async fn must_be_reachable(&self, target: Target<'_>) -> Result<(), Error> {
        let object = self.get(target, Position::MostRecent).await?;
        target.kind.strategy.must_be_reachable(&document_of(&object.value, None))
    }

    /// Lists objects.
    pub async fn list(&self, target: Target<'_>, options: ValidListOptions) -> Result<List, Error> {
        let scope = Scope::of(target, options)?;
        let at = if scope.recursive { scope.options.list_at() } else { scope.options.list_one_at() };
        let at = at.map_err(|status| Error::BadRequest(status.message))?;
        let limit = scope.options.limit().map(|limit| usize::try_from(limit.get()).unwrap_or(usize::MAX));
        let request = ListRequest { recursive: scope.recursive, at, limit, predicate: scope.predicate };
        let list = self.store(target.kind)?.storage.get_list(&scope.key, request).await;
        list.map_err(|error| target.failed("list", error))
    }

    /// How many bytes an object has, as far as the watch cache knows; 0 if there is none. Those that expire are not cached.
    pub async fn stored_bytes(&self, target: Target<'_>) -> usize {
        if self.ttl(target.kind).is_some() {
            return 0;
        }
        let found = self.get(target, Position::Any).await;
        found.map_or(0, |object| object.value.len())
    }

    /// Follows objects.
    pub async fn watch(
        &self,
        target: Target<'_>,
        options: ValidListOptions,
        timeout: Duration,
    ) -> Result<Watch, Error> {
        let scope = Scope::of(target, options)?;
        let start = scope.options.watch_start().map_err(|status| Error::Unexplained(status.message))?;
        let request = WatchRequest {
            recursive: scope.recursive,
            start,
            progress: scope.options.options().allow_watch_bookmarks,
            predicate: scope.predicate,
            timeout: Some(timeout),
        };
        let watch = self.store(target.kind)?.storage.watch(&scope.key, request).await;
        watch.map_err(|error| target.failed("watch", error))
    }

    /// Creates an object.
    pub async fn create(
        &self,
        target: Target<'_>,
        decoded: Decoded,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<Written, Refusal> {
        let Decoded { document, mut warnings } = decoded;
        match self.create_warned(target, document, options, who, &mut warnings).await {
            Ok(shown) => Ok(Written { shown, created: true, warnings }),
            Err(error) => Err(Refusal { error, warnings }),
        }
    }

    async fn create_warned(
        &self,
        target: Target<'_>,
        mut document: Value,
        options: &WriteOptions,
        who: &Requester,
        warnings: &mut Vec<String>,
    ) -> Result<Shown, Error> {
        target.must_match(&mut document)?;
        warnings.extend(strategy::drop_repeated_owners(&mut document, Repeated::InRequest));
        let unchanged = match target.kind.namespaced {
            true => self.must_take_new_content(target, name(&document), Position::Any).await?,
            false => None,
        };
        let refused_if_valid = target.kind.strategy.admit(self, target, &mut document).await?;
        match text(&document, &["metadata", "resourceVersion"]).parse::<u64>() {
            // Zero, and what is no version at all, count as none.
            Ok(0) | Err(_) => drop(fields(&mut document, &["metadata"]).remove("resourceVersion")),
            // Storage would refuse it, and a dry run does not get that far.
            Ok(_) if options.dry_run => drop(fields(&mut document, &["metadata"]).remove("resourceVersion")),
            Ok(_) => {
                return Err(Error::unexplained("resourceVersion should not be set on objects to be created"));
            }
        }
        let kind = target.kind;
        strategy::prepare_create(kind, &mut document, target.namespace, Timestamp::now(), who);
        let prefix = text(&document, &["metadata", "generateName"]).to_owned();
        let generated = name(&document).is_empty() && !prefix.is_empty();
        let unnamed = (generated && kind.depends_on_name).then(|| document.clone());
        let before = warnings.len();
        for tried in 1.. {
            if let Some(unnamed) = unnamed.as_ref().filter(|_| tried > 1) {
                document = unnamed.clone();
            }
            if generated {
                let own = strategy::generate_name(&prefix);
                fields(&mut document, &["metadata"]).insert("name".to_owned(), own.into());
                kind.strategy.name_is_generated(&mut document);
            }
            refuse_invalid(kind, &document, validation::create(kind, &document))?;
            if let Some(status) = refused_if_valid {
                return Err(status);
            }
            options.must_be_in_time()?;
            warnings.truncate(before);
            warnings.extend(validation::warnings(kind, &document, None));
            let own = name(&document).to_owned();
            let target = Target { name: &own, ..target };
            match self.store_new(target, &mut document, unchanged.clone(), options.dry_run).await {
                Ok(shown) => return Ok(shown),
                // A name that was given is not made anew, but the answer is the same.
                Err(error) if error.is_conflict() && !prefix.is_empty() => {
                    if !generated || tried == NAMES_TRIED_MAX {
                        return Err(Error::no_free_name(target.qualified(), &own));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop above ends by returning")
    }

    async fn store_new(
        &self,
        target: Target<'_>,
        document: &mut Value,
        unchanged: Option<Unchanged>,
        dry_run: bool,
    ) -> Result<Shown, Error> {
        let store = self.store(target.kind)?;
        let key = target.key();
        if dry_run {
            let there = store.storage.get(&key, Position::MostRecent).await;
            if let Some(object) = there.map_err(|error| target.failed("create", error))? {
                return Err(target.exists(&object));
            }
            target.kind.strategy.pretend(self, document, None)?;
            return Ok(store.unstored(target.kind, document, None));
        }
        let reserved = target.kind.strategy.reserve(self, target, document, None).await?;
        let value = encode(target.kind, document);
        if let Err(status) = refuse_large(&value, 0) {
            self.return_addresses(reserved).await;
            return Err(status);
        }
        match self.write_new(target, &store, value, unchanged).await {
            Ok(object) => {
                self.keep_addresses(reserved).await;
                Ok(Shown::from(&object))
            }
            Err(Unwritten::Refused(status)) => {
                self.return_addresses(reserved).await;
                Err(status)
            }
            Err(Unwritten::Failed(error)) => {
                self.return_addresses_after(target, reserved, &error).await;
                if matches!(error, StorageError::KeyExists { .. }) {
                    let there = store.storage.get(&key, Position::MostRecent).await;
                    return Err(match there {
                        Ok(Some(object)) => target.exists(&object),
                        _ => Error::already_exists(target.qualified(), target.name, false),
                    });
                }
                Err(target.failed("create", error))
            }
        }
    }

    /// Writes a new object while its namespace takes it.
    async fn write_new(
        &self,
        target: Target<'_>,
        store: &ResourceStore,
        value: Bytes,
        mut unchanged: Option<Unchanged>,
    ) -> Result<Object, Unwritten> {
        let (key, ttl) = (target.key(), self.ttl(target.kind));
        for _ in 0..RACES_LOST_MAX {
            match store.storage.create_while(&key, value.clone(), ttl, unchanged.as_ref()).await {
                Err(StorageError::OtherChanged { .. }) => {
                    let taken = self.must_take_new_content(target, target.name, Position::MostRecent).await;
                    unchanged = taken.map_err(Unwritten::Refused)?;
                }
                written => return written.map_err(Unwritten::Failed),
            }
        }
        let status = Error::conflict(target.qualified(), target.name, "its namespace changes all the time");
        Err(Unwritten::Refused(status))
    }

    fn ttl(&self, kind: &Kind) -> Option<Duration> {
        kind.expires.then_some(self.options.event_ttl)
    }

    /// Changes an object, or a part of it.
    pub async fn update(
        &self,
        target: Target<'_>,
        part: Part,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<Written, Refusal> {
        let mut warnings = Vec::new();
        match self.update_warned(target, part, change, options, who, &mut warnings).await {
            Ok(Updated::Stored(shown)) => Ok(Written { shown, created: false, warnings }),
            Ok(Updated::Created(written)) => Ok(written),
            Err(error) => Err(Refusal { error, warnings }),
        }
    }

    async fn update_warned(
        &self,
        target: Target<'_>,
        part: Part,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
        warnings: &mut Vec<String>,
    ) -> Result<Updated, Error> {
        if let Change::Replace(document) = &change {
            target.must_be_named(document)?;
            target.must_be_of(document)?;
        }
        self.must_have_namespace(target).await?;
        let store = self.store(target.kind)?;
        let key = target.key();
        let creates =
            target.kind.create_on_update && part == Part::Main && matches!(change, Change::Replace(_));
        let mut attempts = Attempts::new(options.dry_run);
        while let Some(existing) = attempts.next(store.storage.as_ref(), &key).await {
            let existing = existing.map_err(|error| target.failed("update", error))?;
            let Some(current) = existing.object else {
                let Change::Replace(document) = &change else { return Err(target.not_found()) };
                let document = document.clone();
                if !creates {
                    return Err(target.not_found());
                }
                let uid = text(&document, &["metadata", "uid"]);
                if !uid.is_empty() {
                    let Some(status) = self.is_gone(target, &store, uid).await else { continue };
                    return Err(status);
                }
                // Where nothing is stored, no version is at odds with it.
                let decoded = Decoded { document: without_version(document), warnings: Vec::new() };
                let created = self.create(target, decoded, options, who).await;
                return created.map(Updated::Created).map_err(|refusal| {
                    *warnings = refusal.warnings;
                    refusal.error
                });
            };
            let revised = self.revise(target, part, &change, &current, warnings);
            options.must_be_in_time()?;
            let stored = match revised {
                Ok(revised) => self.store_revised(target, revised, &current, options.dry_run).await,
                Err(refusal) => Err(refusal.into()),
            };
            match stored {
                Err(Lost::Race) => continue,
                Err(Lost::Refused(_)) if !existing.is_current => continue,
                Err(Lost::Refused(status) | Lost::Failed(status)) => return Err(status),
                Ok(shown) => return Ok(Updated::Stored(shown)),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }

    /// That an object of this uid, for which a replacement was meant, is not there; none if it is after all.
    async fn is_gone(&self, target: Target<'_>, store: &ResourceStore, uid: &str) -> Option<Error> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), revision: None };
        let options = UpdateOptions { ignore_not_found: true, preconditions, hint: None };
        let checked = store
            .storage
            .guaranteed_update(&target.key(), options, &mut |_| Err("only its uid was asked for".into()))
            .await;
        match checked {
            Ok(_) | Err(StorageError::Rejected(_)) => None,
            Err(error) => Some(target.failed("update", error)),
        }
    }

    /// The document that a change makes of an object, checked.
    fn revise(
        &self,
        target: Target<'_>,
        part: Part,
        change: &Change<'_>,
        current: &Object,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Error> {
        warnings.clear();
        let kind = target.kind;
        let old = convert_from_stored(kind, document_of(&current.value, Some(current.revision)));
        let mut new = match change {
            Change::Replace(document) => document.clone(),
            Change::Patch { patch, strictness } => {
                apply_patch(Expected::of(kind), patch, *strictness, &old, warnings)?
            }
        };
        match change {
            Change::Replace(_) => must_have_uid(target, &new, current)?,
            Change::Patch { .. } => target.must_be_named(&new)?,
        }
        target.must_match(&mut new)?;
        let repeated = match change {
            Change::Replace(_) => Repeated::InRequest,
            Change::Patch { .. } => Repeated::AfterAdmission,
        };
        warnings.extend(strategy::drop_repeated_owners(&mut new, repeated));
        must_be_based_on(target, &new, current)?;
        strategy::prepare_update(kind, part, &mut new, &old, Timestamp::now());
        fields(&mut new, &["metadata"]).remove("resourceVersion");
        let causes = match part {
            Part::Status | Part::Approval => validation::update_status(kind, &new, &old),
            Part::EphemeralContainers => validation::add_containers(kind, &new, &old),
            Part::Resize => validation::resize_containers(kind, &new, &old),
            Part::Finalize => Vec::new(),
            _ => validation::update(kind, &new, &old),
        };
        refuse_invalid(kind, &new, causes)?;
        if part == Part::Main {
            warnings.extend(validation::warnings(kind, &new, Some(&old)));
        }
        Ok(new)
    }

    async fn store_revised(
        &self,
        target: Target<'_>,
        mut new: Value,
        current: &Object,
        dry_run: bool,
    ) -> Result<Shown, Lost> {
        let store = self.store(target.kind)?;
        let finished = strategy::is_finished(target.kind, &new);
        if dry_run {
            if !finished {
                target.kind.strategy.pretend(self, &mut new, Some(current))?;
            }
            return Ok(store.unstored(target.kind, &new, Some(current.revision)));
        }
        let key = target.key();
        let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
        if finished {
            let options = keepwatch_storage::DeleteOptions { preconditions, hint: Some(current.clone()) };
            let gone = store.storage.delete(&key, options, &mut |_| Ok(())).await;
            gone.map_err(|error| target.lost("update", error))?;
            store.kind.strategy.after_deletion(self, target, current).await;
            return Ok(store.unstored(target.kind, &new, Some(current.revision)));
        }
        let reserved = target.kind.strategy.reserve(self, target, &mut new, Some(current)).await?;
        let value = encode(target.kind, &new);
        if let Err(status) = refuse_large(&value, current.value.len()) {
            self.return_addresses(reserved).await;
            return Err(status.into());
        }
        let update = Update { value, ttl: self.ttl(target.kind) };
        let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current.clone()) };
        match store.storage.guaranteed_update(&key, options, &mut |_| Ok(update.clone())).await {
            Ok(object) => {
                self.keep_addresses(reserved).await;
                Ok(Shown::from(&object))
            }
            Err(error) => {
                self.return_addresses_after(target, reserved, &error).await;
                Err(target.lost("update", error))
            }
        }
    }

    /// Changes what is stored, by the server itself, outside the rules that clients are held to.
    pub(crate) async fn change_stored(
        &self,
        target: Target<'_>,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), Error>,
    ) -> Result<Object, Error> {
        let storage = self.storage(target.kind).ok_or_else(|| target.not_found())?;
        let (key, mut attempts) = (target.key(), Attempts::new(dry_run));
        while let Some(existing) = attempts.next(storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failed("get", error))?;
            let current = object.ok_or_else(|| target.not_found())?;
            let mut document = document_of(&current.value, Some(current.revision));
            match change(&mut document) {
                Err(_) if !is_current => continue,
                changed => changed?,
            }
            if dry_run {
                return Ok(current);
            }
            fields(&mut document, &["metadata"]).remove("resourceVersion");
            let update = Update::new(encode(target.kind, &document));
            let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
            let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current) };
            match storage.guaranteed_update(&key, options, &mut |_| Ok(update.clone())).await {
                Err(StorageError::InvalidObject { .. }) => continue,
                other => return other.map_err(|error| target.failed("update", error)),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }

    /// Deletes an object, or marks it if something holds it.
    pub async fn delete(&self, target: Target<'_>, options: &DeleteOptions) -> Result<Deleted, Error> {
        target.kind.strategy.may_be_deleted(target)?;
        let store = self.store(target.kind)?;
        let key = target.key();
        let mut attempts = Attempts::new(options.dry_run);
        while let Some(existing) = attempts.next(store.storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failed("get", error))?;
            let current = object.ok_or_else(|| target.not_found())?;
            let document = document_of(&current.value, Some(current.revision));
            let deleted = match must_meet(target, options, &document) {
                Ok(()) => {
                    let plan =
                        store.kind.strategy.plan_deletion(&store.kind, options, &document, Timestamp::now());
                    if !plan.writes() && !is_current {
                        continue;
                    }
                    self.carry_out(target, &store, &key, plan, current, options.dry_run).await
                }
                Err(refusal) => Err(refusal.into()),
            };
            match deleted {
                Err(Lost::Race) => continue,
                Err(Lost::Refused(_)) if !is_current => continue,
                Err(Lost::Refused(status) | Lost::Failed(status)) => return Err(status),
                Ok(deleted) => return Ok(deleted),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }

    async fn carry_out(
        &self,
        target: Target<'_>,
        store: &ResourceStore,
        key: &str,
        plan: Deletion,
        current: Object,
        dry_run: bool,
    ) -> Result<Deleted, Lost> {
        let Deletion { marked, removes } = plan;
        let mut current = current;
        let is_marked = marked.is_some();
        if let Some(marked) = marked {
            let marked = without_version(marked);
            if dry_run {
                let shown = store.unstored(&store.kind, &marked, Some(current.revision));
                return Ok(if removes { Deleted::Gone(shown) } else { Deleted::Held(shown) });
            }
            let update = Update { value: encode(&store.kind, &marked), ttl: self.ttl(&store.kind) };
            let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
            let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current) };
            let stored = store.storage.guaranteed_update(key, options, &mut |_| Ok(update.clone())).await;
            current = stored.map_err(|error| target.lost("delete", error))?;
        }
        if !removes {
            return Ok(Deleted::Held(Shown::from(&current)));
        }
        if dry_run {
            return Ok(Deleted::Gone(Shown::from(&current)));
        }
        let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
        let options = keepwatch_storage::DeleteOptions { preconditions, hint: Some(current.clone()) };
        let gone = match store.storage.delete(key, options, &mut |_| Ok(())).await {
            // Once it was marked and nothing held it, any other write could remove it. That is what was asked for.
            Err(StorageError::NotFound { .. }) if is_marked => {
                return Ok(Deleted::Gone(Shown::from(&current)));
            }
            gone => gone.map_err(|error| target.lost("delete", error))?,
        };
        store.kind.strategy.after_deletion(self, target, &current).await;
        Ok(Deleted::Gone(Shown::from(&gone)))
    }

    /// Deletes what a list shows, and returns the list. Asks before each object whether it may go on.
    pub async fn delete_collection(
        &self,
        target: Target<'_>,
        list_options: ValidListOptions,
        options: &DeleteOptions,
        may_go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<List, Error> {
        let list = self.list(target, list_options).await?;
        for object in &list.items {
            if !may_go_on() {
                return Err(Error::Stopping);
            }
            let (namespace, name) = place(target.kind, object);
            let one = Target { namespace, name, ..target };
            match self.delete(one, options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(list)
    }
}

/// The objects that one change begins with, one after the other: the first may be out of date, so that most changes read
/// nothing, and those after it are the newest. There is an end to them: each time somebody else got through.
pub(crate) struct Attempts {
    left: usize,
    must_be_current: bool,
}

impl Attempts {
    /// Nothing is written in a dry run, so nothing would tell that an object is out of date.
    pub(crate) fn new(dry_run: bool) -> Attempts {
        Attempts { left: RACES_LOST_MAX, must_be_current: dry_run }
    }

    pub(crate) async fn next(
        &mut self,
        storage: &dyn Storage,
        key: &str,
    ) -> Option<Result<Existing, StorageError>> {
        self.left = self.left.checked_sub(1)?;
        if !std::mem::replace(&mut self.must_be_current, true) {
            return Some(storage.get_existing(key).await);
        }
        let object = storage.get(key, Position::MostRecent).await;
        Some(object.map(|object| Existing { object, is_current: true }))
    }
}

/// The namespace and name in an object's key.
pub(crate) fn place<'a>(kind: &Kind, object: &'a Object) -> (&'a str, &'a str) {
    let mut parts = object.key.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let namespace = if kind.namespaced { parts.next().unwrap_or_default() } else { "" };
    (namespace, name)
}

impl ResourceStore {
    /// What would be shown of a document if it were stored.
    fn unstored(&self, kind: &Kind, document: &Value, revision: Option<ResourceVersion>) -> Shown {
        let value = encode(kind, document);
        let version_at = Peek::at(&value).ok().and_then(|peek| peek.version_at);
        Shown { value, version_at, revision }
    }
}

impl fmt::Debug for ResourceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceStore").field("resource", &self.kind.plural).finish_non_exhaustive()
    }
}

/// What a list or watch covers.
struct Scope {
    key: String,
    recursive: bool,
    predicate: Predicate,
    options: ValidListOptions,
}

impl Scope {
    fn of(target: Target<'_>, options: ValidListOptions) -> Result<Scope, Error> {
        let kind = target.kind;
        // Left out of the key, it would make of a namespace all of them.
        if !target.namespace.is_empty() && !is_path_segment(target.namespace) {
            let message = format!("there can be no namespace {}", Quoted(target.namespace));
            return Err(Error::bad_request(message));
        }
        let options = known_fields(kind, options)?;
        let selector = &options.options().field_selector;
        let namespace = match target.namespace {
            "" if kind.namespaced => selector.exact_match("metadata.namespace").unwrap_or_default(),
            namespace => namespace,
        };
        let name = selector.exact_match("metadata.name").filter(|name| is_path_segment(name));
        let name = name.filter(|_| !kind.namespaced || !namespace.is_empty());
        let usable = is_path_segment(namespace) || namespace.is_empty();
        let place =
            Target { kind, namespace: if usable { namespace } else { "" }, name: name.unwrap_or_default() };
        let predicate =
            Predicate { labels: options.options().label_selector.clone(), fields: selector.clone() };
        Ok(Scope { key: place.key(), recursive: name.is_none(), predicate, options })
    }
}

/// The options with the fields that they select by as they are indexed, or that one of them is not known.
pub fn known_fields(kind: &Kind, options: ValidListOptions) -> Result<ValidListOptions, Error> {
    options.try_map_fields(|field| field_of(kind, field))
}

fn field_of(kind: &Kind, field: String) -> Result<String, Error> {
    if field == "metadata.name" {
        return Ok(field);
    }
    if let Some(known) = kind.fields.iter().find(|known| known.name == field) {
        return Ok(known.indexed.to_owned());
    }
    use UnknownField;
    Err(Error::bad_request(match kind.unknown_field {
        UnknownField::OnlyMetadata => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
        UnknownField::NotSupported => format!("field label not supported: {field}"),
        UnknownField::NotSupportedFor(kind) => format!("field label \"{field}\" not supported for {kind}"),
        UnknownField::NotSupportedForKind => {
            format!("field label not supported for {}, Kind={}: {field}", kind.api_version(), kind.name)
        }
    }))
}

/// The stored document of an object, with its version.
pub(crate) fn document_of(value: &[u8], revision: Option<ResourceVersion>) -> Value {
    let mut document: Value = serde_json::from_slice(value).unwrap_or_default();
    if let Some(revision) = revision {
        fields(&mut document, &["metadata"])
            .insert("resourceVersion".to_owned(), revision.to_string().into());
    }
    document
}

pub(crate) fn convert_from_stored(kind: &Kind, document: Value) -> Value {
    if kind.stored_as.is_some() { convert::from_stored(kind, document) } else { document }
}

fn without_version(mut document: Value) -> Value {
    fields(&mut document, &["metadata"]).remove("resourceVersion");
    document
}

thread_local! {
    /// Where documents are written before it is known how long they are: what is kept must not have room to spare.
    static WRITING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How much room is kept for the next document.
const WRITING_BYTES_MAX: usize = 64 << 10;

/// The bytes that are stored for a document.
pub(crate) fn encode(kind: &Kind, document: &Value) -> Bytes {
    WRITING.with_borrow_mut(|out| {
        out.clear();
        if kind.stored_as.is_some() {
            let stored = convert::to_stored(kind, document.clone());
            schema::write_stored(out, &stored, kind.stored().ty);
        } else {
            schema::write_stored(out, document, kind.ty);
        }
        let encoded = Bytes::copy_from_slice(out);
        out.shrink_to(WRITING_BYTES_MAX);
        encoded
    })
}

/// How large an object may get: no larger than a request, so that a client can send back what it was shown.
pub const OBJECT_BYTES_MAX: usize = 3 << 20;

/// One that was too large all along may still be changed, as long as it does not grow.
fn refuse_large(value: &Bytes, bytes_before: usize) -> Result<(), Error> {
    if value.len() <= OBJECT_BYTES_MAX.max(bytes_before) {
        return Ok(());
    }
    let why = format!("the object would have more than {OBJECT_BYTES_MAX} bytes");
    Err(Error::TooLarge(why))
}

fn refuse_invalid(kind: &Kind, document: &Value, causes: Vec<Cause>) -> Result<(), Error> {
    if causes.is_empty() {
        return Ok(());
    }
    // Named by the stored kind: an event is one thing, whichever group it is sent to.
    Err(Error::invalid(Qualified::new(&kind.stored().group, &kind.name), name(document), causes))
}

/// What a patch makes of a document.
pub(crate) fn apply_patch(
    expected: Expected,
    patch: &Patch,
    strictness: FieldValidation,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Error> {
    let patched = || {
        let patched = match patch {
            Patch::Json(patch) => patch.apply(old.clone()),
            Patch::Merge(patch) => Ok(patch::merge::apply(old.clone(), patch.clone())),
            Patch::Strategic(patch) => patch::strategic::apply(old.clone(), patch.clone(), expected.ty),
        };
        patched.map_err(|error: PatchError| Error::from(error))
    };
    let document = patched()?;
    // The original shows the patched object or the patch here. Few patches come to this, so it is encoded again.
    let undecodable = |why: &str| {
        let shown = match patch {
            Patch::Strategic(patch) => patch::Shown(patch).to_string(),
            _ => patched().map(|document| document.to_string()).unwrap_or_default(),
        };
        Error::invalid(Qualified::core(""), "", vec![Cause::invalid("patch", &shown.into(), why)])
    };
    let kind = text(&document, &["kind"]);
    // A strategic patch is applied to fields, so what it says of the kind is not read.
    if !matches!(patch, Patch::Strategic(_)) && !kind.is_empty() && kind != text(old, &["kind"]) {
        return Err(undecodable(&codec::not_registered(kind, text(&document, &["apiVersion"]))));
    }
    let count = schema::count_values(&document);
    // One that had more all along may still be changed, as long as it does not get yet more.
    if count > schema::VALUES_MAX && count > schema::count_values(old) {
        return Err(codec::too_many_values());
    }
    let mut problems = Problems::default();
    let decoder = match patch {
        Patch::Strategic(_) => schema::Decoder::Untyped,
        _ => schema::Decoder::Text,
    };
    let may_change = |field: &str| patch.may_change(field);
    let result = schema::normalize_some(document, expected.ty, decoder, &mut problems, may_change);
    let mut document = result.map_err(|error| undecodable(&error.to_string()))?;
    match strictness {
        FieldValidation::Strict if !problems.0.is_empty() => {
            return Err(undecodable(&format!("strict decoding error: {}", problems.0.join(", "))));
        }
        FieldValidation::Warn => warnings.extend(problems.0),
        _ => {}
    }
    codec::finish(&mut document, &expected);
    Ok(document)
}

/// A replacement that names another uid is meant for another object.
pub(crate) fn must_have_uid(target: Target<'_>, new: &Value, current: &Object) -> Result<(), Error> {
    let uid = text(new, &["metadata", "uid"]);
    if uid.is_empty() {
        return Ok(());
    }
    let preconditions = Preconditions { uid: Some(uid.to_owned()), revision: None };
    preconditions.check(&current.key, Some(current)).map_err(|error| target.failed("update", error))
}

/// A write that says which version it is based on must be based on the stored one.
pub(crate) fn must_be_based_on(target: Target<'_>, new: &Value, current: &Object) -> Result<(), Error> {
    let given = text(new, &["metadata", "resourceVersion"]);
    let version = if given.is_empty() {
        None
    } else {
        ResourceVersion::parse(given).map_err(|error| Error::unexplained(error.reason()))?
    };
    match version {
        Some(version) if version == current.revision => Ok(()),
        Some(_) => Err(Error::modified(target.qualified(), target.name)),
        None if target.kind.unconditional_update => Ok(()),
        None => {
            let cause =
                Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            Err(Error::invalid(target.qualified(), target.name, vec![cause]))
        }
    }
}
