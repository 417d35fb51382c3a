//! The operations on objects: the steps of every request from its document to storage.
//!
//! Kept true: nothing is stored that was not normalised, defaulted, prepared and validated; a refused request changes
//! nothing; a write that lost a race is tried again with the object that won it, unless the client named a version.
//!
//! One file for each operation (`create`, `update`, `delete`, `read`); these share `target` (the object in question),
//! `stored` (from documents to bytes and back), `attempts` (retries).

mod target;
mod stored;
mod attempts;
mod read;
mod create;
mod update;
mod patch;
mod delete;

pub(crate) use self::{
    attempts::Attempts,
    patch::apply_patch,
    read::namespace_and_name,
    stored::{convert_from_stored, document_of, encode, write},
    update::{must_be_based_on, must_have_uid},
};
pub use self::{
    delete::Deleted,
    patch::Patch,
    read::known_fields,
    stored::{OBJECT_BYTES_MAX, ObjectView},
    target::{Target, is_path_segment},
    update::Change,
};

use crate::{
    catalog::Catalog,
    custom::{self, Converter, Definition},
    document::Fields,
    error::Error,
    inspect::ResourceInspector,
    kind::Kind,
    kinds::{self, Addresses, built_in},
};
use keepwatch_apimachinery::{ResourceVersion, meta::Qualified, status::Cause};
use keepwatch_storage::Storage;
use parking_lot::RwLock;
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt,
    net::Ipv4Addr,
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::watch;

/// The options of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The time after which events expire.
    pub event_ttl: Duration,
    /// The range of cluster IPs of services: its first address and the length of its prefix.
    pub service_range: (Ipv4Addr, u8),
    /// The range of node ports.
    pub node_ports: RangeInclusive<u16>,
    /// Whether the server itself deletes the contents of deleted namespaces.
    pub empties_namespaces: bool,
    /// Whether no other server can use the same storage while this one does. Then no other server has unfinished work when
    /// this one starts.
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

/// All resources, and the operations on their objects.
pub struct Registry {
    catalog: Catalog,
    /// The key is the prefix of their keys in storage, which all versions of a resource share.
    stores: RwLock<HashMap<String, Arc<ResourceStore>>>,
    open: Arc<OpenStorage>,
    pub(crate) options: RegistryOptions,
    pub(crate) addresses: Addresses,
    pub(crate) converter: OnceLock<Arc<dyn Converter>>,
}

/// Opens the storage of a resource.
type OpenStorage = dyn Fn(&Arc<Kind>, Arc<ResourceInspector>) -> Arc<dyn Storage> + Send + Sync;

/// The stored objects of one resource, which all its versions share.
struct ResourceStore {
    /// Opened when it is first used: most custom resources are defined and hardly used.
    storage: OnceLock<Arc<dyn Storage>>,
    open: Arc<OpenStorage>,
    /// The kind in the stored version.
    kind: Arc<Kind>,
    /// Closed when something else takes its place. Watches of custom resources end with it.
    current: watch::Sender<()>,
}

impl ResourceStore {
    fn new(kind: Arc<Kind>, open: &Arc<OpenStorage>) -> Arc<ResourceStore> {
        let (current, _) = watch::channel(());
        Arc::new(ResourceStore { storage: OnceLock::new(), open: Arc::clone(open), kind, current })
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        self.storage.get_or_init(|| (self.open)(&self.kind, Arc::new(ResourceInspector::new(&self.kind))))
    }
}

/// The result of a write: the object, whether it is new, and the warnings for the client.
#[derive(Debug)]
pub struct Written {
    /// The object as it is stored, or would be in a dry run.
    pub object: ObjectView,
    /// Whether it was created.
    pub created: bool,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// The error of a write, and the warnings about the request.
#[derive(Debug)]
pub struct WriteError {
    /// The error.
    pub error: Error,
    /// The warnings that were found before the error.
    pub warnings: Vec<String>,
}

impl Registry {
    /// A registry of the built-in kinds; `open` opens the storage of a resource, for the kind in the stored version.
    pub fn new(
        options: RegistryOptions,
        open: impl Fn(&Arc<Kind>, Arc<ResourceInspector>) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> Registry {
        let addresses = Addresses::new(options.service_range, options.node_ports.clone());
        let registry = Registry {
            catalog: Catalog::new([]),
            stores: RwLock::default(),
            open: Arc::new(open),
            options,
            addresses,
            converter: OnceLock::new(),
        };
        registry.open_stores(&[Arc::clone(&kinds::NODE_PORTS), Arc::clone(&kinds::SERVERS)]);
        registry.serve(built_in().to_vec());
        registry
    }

    /// The kinds that are served.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Serves more kinds, all from the same moment on.
    pub fn serve(&self, kinds: Vec<Arc<Kind>>) {
        self.open_stores(&kinds);
        self.catalog.add(kinds);
    }

    /// Stops to serve the kinds for which this is true. Requests in flight go on; objects stay in storage.
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
            let store = stores.entry(prefix.clone());
            store.or_insert_with(|| ResourceStore::new(Arc::clone(kind), &self.open)).storage();
        }
    }

    /// Has objects of custom resources converted between versions by webhooks that this calls. The first one counts.
    pub fn convert_by(&self, converter: Arc<dyn Converter>) {
        let _ = self.converter.set(converter);
    }

    /// Serves the kinds of these definitions, all at the same moment, in place of their earlier kinds. If `is_changed`,
    /// this returns the storage that was used before, whose watches have to end: clients watch again and receive the
    /// objects as they are now.
    pub(crate) fn serve_definitions(
        &self,
        definitions: &[Arc<Definition>],
        is_changed: bool,
    ) -> Vec<Replaced> {
        let (mut served, mut replaced) = (Vec::new(), Vec::new());
        let mut stores = self.stores.write();
        for definition in definitions.iter().filter(|definition| !is_built_in(definition)) {
            let kinds = custom::kinds(definition);
            let prefix = kinds.stored.storage.clone().unwrap_or_default();
            if is_changed || !stores.contains_key(&prefix) {
                let store = ResourceStore::new(kinds.stored, &self.open);
                replaced.extend(stores.insert(prefix, store).map(Replaced));
            }
            served.extend(kinds.served);
        }
        drop(stores);
        let is_of = |kind: &Kind, definition: &Definition| {
            kind.is_custom() && kind.plural == definition.names.plural && kind.group == definition.group
        };
        match definitions {
            [] => {}
            [definition] => self.catalog.replace(|kind| is_of(kind, definition), served),
            // Only at the start, when there is nothing to replace.
            _ => self.catalog.add(served),
        }
        replaced
    }

    /// Stops serving the kinds of a definition, and returns its storage, whose watches have to end.
    pub(crate) fn withdraw_definition(&self, definition: &Definition) -> Option<Replaced> {
        if is_built_in(definition) {
            return None;
        }
        let (group, plural) = (&definition.group, &definition.names.plural);
        let store = self.stores.write().remove(&format!("{group}/{plural}"));
        self.withdraw(|kind| kind.is_custom() && kind.plural == *plural && kind.group == *group);
        store.map(Replaced)
    }

    /// The storage of a resource without a watch cache, for resources that are hardly ever requested.
    pub(crate) fn storage_without_cache(&self, kind: &Kind) -> Arc<dyn Storage> {
        let kind = Arc::new(kind.clone().uncached());
        (self.open)(&kind, Arc::new(ResourceInspector::new(&kind)))
    }

    /// The storage of a resource for one list: the one that is open, or one without a cache.
    pub(crate) fn storage_to_list(&self, kind: &Kind) -> Option<Arc<dyn Storage>> {
        let store = self.store(kind).ok()?;
        Some(store.storage.get().cloned().unwrap_or_else(|| self.storage_without_cache(&store.kind)))
    }

    fn store(&self, kind: &Kind) -> Result<Arc<ResourceStore>, Error> {
        let prefix = kind.storage.as_ref().ok_or(Error::MethodNotAllowed)?;
        // The resource was withdrawn while the request was in flight.
        self.stores.read().get(prefix).cloned().ok_or(Error::UnknownPath)
    }

    /// The storage of a resource.
    pub fn storage(&self, kind: &Kind) -> Option<Arc<dyn Storage>> {
        self.store(kind).ok().map(|store| Arc::clone(store.storage()))
    }

    fn ttl(&self, kind: &Kind) -> Option<Duration> {
        kind.expires.then_some(self.options.event_ttl)
    }
}

/// The storage of a definition that is gone or has changed. Its watches end when this is dropped.
pub(crate) struct Replaced(Arc<ResourceStore>);

impl Replaced {
    /// Ends the watches once they have delivered the events up to this version.
    pub(crate) async fn finish(self, through: ResourceVersion) {
        if let Some(storage) = self.0.storage.get() {
            storage.finish_watches(through).await;
        }
    }
}

impl fmt::Debug for ResourceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceStore").field("resource", &self.kind.plural).finish_non_exhaustive()
    }
}

/// Whether a resource of that name and group is built in, which a definition does not replace.
fn is_built_in(definition: &Definition) -> bool {
    built_in().iter().any(|kind| kind.plural == definition.names.plural && kind.group == definition.group)
}

fn refuse_invalid(kind: &Kind, document: &Value, causes: Vec<Cause>) -> Result<(), Error> {
    if causes.is_empty() {
        return Ok(());
    }
    // Named by the stored kind: an event is one thing, whichever group it is sent to.
    // A custom resource is named by the kind in its document, which may be the error itself.
    let own = if kind.is_custom() { document.text("kind") } else { &kind.name };
    Err(Error::invalid(Qualified::new(&kind.stored().group, own), document.name(), causes))
}
