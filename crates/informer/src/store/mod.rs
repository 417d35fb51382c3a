//! The objects of an informer, by key and by index.
//!
//! Invariants: every read sees one state of the store; the indexes are those of that state and hold no value without
//! an object; locks are taken in the order store, index, and none is held while user code runs, except for index
//! functions and [`Store::for_each`].
//!
//! Objects are stored by namespace, then by name, so that listing a namespace needs no index.

mod select;

pub use select::Select;

use crate::object::{Object, ObjectKey, compare_versions, oldest_version};
use parking_lot::RwLock;
use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    fmt,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::watch;

/// The objects of an informer. Clones share it. Only the informer writes to it.
pub struct Store<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    cache: RwLock<Cache<O>>,
    /// The resource version up to which each scope is complete; empty before its first list.
    versions: watch::Sender<Vec<String>>,
    /// The resource, such as `deployments.apps`, for errors.
    resource: String,
}

type Names<O> = HashMap<Arc<str>, Arc<O>>;

struct Cache<O> {
    namespaces: HashMap<Arc<str>, Names<O>>,
    /// The indexes that are still in use.
    indexes: Vec<Weak<dyn IndexUpdate<O>>>,
}

/// One change of the store. Several are made in one step.
pub(crate) enum Write<O> {
    Put(ObjectKey, Arc<O>),
    Remove(ObjectKey),
}

/// The objects that a list replaced.
pub(crate) struct Replaced<O> {
    /// Objects that are not in the list.
    pub(crate) gone: Vec<Arc<O>>,
    /// The previous state of each object of the list.
    pub(crate) before: Vec<Option<Arc<O>>>,
}

impl<O> Clone for Store<O> {
    fn clone(&self) -> Self {
        Store { shared: Arc::clone(&self.shared) }
    }
}

impl<O> fmt::Debug for Store<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<O> Store<O> {
    /// An empty store with this number of scopes.
    pub(crate) fn new(resource: String, scopes: usize) -> Self {
        let cache = RwLock::new(Cache { namespaces: HashMap::new(), indexes: Vec::new() });
        let versions = watch::Sender::new(vec![String::new(); scopes]);
        Store { shared: Arc::new(Shared { cache, versions, resource }) }
    }

    /// The object with this key, written as `"name"`, `"namespace/name"` or `("namespace", "name")`.
    pub fn get(&self, key: impl Into<ObjectKey>) -> Option<Arc<O>> {
        let key = key.into();
        self.find(key.namespace(), &key.name)
    }

    /// The object with this key. If it is missing, the error has the text of an API server.
    pub fn try_get(&self, key: impl Into<ObjectKey>) -> Result<Arc<O>, NotFound> {
        let key = key.into();
        let found = self.find(key.namespace(), &key.name);
        found.ok_or_else(|| NotFound { resource: self.shared.resource.clone(), name: key.name.to_string() })
    }

    fn find(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
        self.shared.cache.read().find(namespace, name).cloned()
    }

    /// The objects of one namespace. The empty name means all.
    pub fn in_namespace(&self, namespace: &str) -> NamespacedStore<O> {
        NamespacedStore { store: self.clone(), namespace: namespace.into() }
    }

    /// All objects, in no particular order.
    pub fn all(&self) -> Vec<Arc<O>> {
        self.shared.cache.read().objects().cloned().collect()
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let cache = self.shared.cache.read();
        let keys = cache.namespaces.iter().flat_map(|(namespace, names)| {
            let namespace = (!namespace.is_empty()).then_some(namespace);
            names.keys().map(move |name| ObjectKey { namespace: namespace.cloned(), name: Arc::clone(name) })
        });
        keys.collect()
    }

    /// Calls a function with every object, without cloning any. The store is locked meanwhile, so the function must
    /// not use the store or its informer.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<O>)) {
        self.shared.cache.read().objects().for_each(&mut visit);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.shared.cache.read().namespaces.values().map(HashMap::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource, such as `deployments.apps`.
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// The resource version up to which the store is complete; empty before the first list. If several namespaces are
    /// watched, it is the oldest of theirs.
    pub fn resource_version(&self) -> String {
        oldest_version(self.shared.versions.borrow().iter().map(String::as_str)).to_owned()
    }

    /// Waits until the store is complete up to a version, for example that of your own write. A version that is not a
    /// number is not waited for.
    pub async fn wait_for(&self, version: &str, timeout: Duration) -> Result<(), NotReached> {
        let mut known = self.shared.versions.subscribe();
        let is_reached = |known: &Vec<String>| known.iter().all(|known| has_reached(known, version));
        match tokio::time::timeout(timeout, known.wait_for(is_reached)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(NotReached { wanted: version.to_owned(), known: self.resource_version() }),
        }
    }

    /// Adds an index of the objects by the values that `values` returns for each. It has no name and cannot conflict
    /// with another index. `values` runs while the store is locked, so it must not use the store.
    pub fn index<V, I>(&self, values: impl Fn(&O) -> I + Send + Sync + 'static) -> Index<O, V>
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
        O: Object,
    {
        let values_of = move |object: &O| values(object).into_iter().collect();
        let table = Arc::new(Table { values_of: Box::new(values_of), keys: RwLock::default() });
        let mut cache = self.shared.cache.write();
        for object in cache.objects() {
            table.update(&object.key(), None, Some(object));
        }
        cache.indexes.retain(|index| index.strong_count() > 0);
        let weak: Weak<Table<O, V>> = Arc::downgrade(&table);
        cache.indexes.push(weak);
        Index { store: self.clone(), table }
    }

    /// Makes changes in one step, sets the version of the scope if there is one, and returns the previous state of
    /// each object.
    pub(crate) fn write(
        &self,
        scope: usize,
        writes: impl IntoIterator<Item = Write<O>>,
        version: Option<String>,
    ) -> Vec<Option<Arc<O>>> {
        let before = {
            let cache = &mut *self.shared.cache.write();
            writes.into_iter().map(|write| cache.write(write)).collect()
        };
        self.set_version(scope, version);
        before
    }

    /// Replaces all objects, or all of a namespace.
    pub(crate) fn replace(
        &self,
        scope: usize,
        namespace: Option<&str>,
        objects: impl IntoIterator<Item = (ObjectKey, Arc<O>)>,
        version: String,
    ) -> Replaced<O> {
        let replaced = self.shared.cache.write().replace(namespace, objects);
        self.set_version(scope, Some(version));
        replaced
    }

    /// Sets the version up to which a scope is complete.
    pub(crate) fn set_version(&self, scope: usize, version: Option<String>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.shared.versions.send_modify(|versions| versions[scope] = version);
        }
    }
}

/// Whether version `known` includes version `wanted`.
fn has_reached(known: &str, wanted: &str) -> bool {
    match compare_versions(known, wanted) {
        Some(order) => order != Ordering::Less,
        None => !known.is_empty() || compare_versions(wanted, wanted).is_none(),
    }
}

impl<O: Object> Store<O> {
    /// The objects that match a label selector, in no particular order.
    pub fn list(&self, select: impl Into<Select>) -> Vec<Arc<O>> {
        self.in_namespace("").list(select)
    }
}

/// The objects of one namespace.
pub struct NamespacedStore<O> {
    store: Store<O>,
    namespace: Arc<str>,
}

impl<O> fmt::Debug for NamespacedStore<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespacedStore").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl<O: Object> NamespacedStore<O> {
    /// The object with this name.
    pub fn get(&self, name: &str) -> Option<Arc<O>> {
        self.store.find(&self.namespace, name)
    }

    /// The object with this name. If it is missing, the error has the text of an API server.
    pub fn try_get(&self, name: &str) -> Result<Arc<O>, NotFound> {
        self.store.try_get((&*self.namespace, name))
    }

    /// The objects that match a label selector, in no particular order.
    pub fn list(&self, select: impl Into<Select>) -> Vec<Arc<O>> {
        let select = select.into();
        if matches!(select, Select::Nothing) {
            return Vec::new();
        }
        let cache = self.store.shared.cache.read();
        let matching = |object: &&Arc<O>| select.takes(&***object);
        match &*self.namespace {
            "" => cache.objects().filter(matching).cloned().collect(),
            namespace => {
                let names = cache.namespaces.get(namespace).into_iter().flat_map(HashMap::values);
                names.filter(matching).cloned().collect()
            }
        }
    }
}

impl<O> Cache<O> {
    fn objects(&self) -> impl Iterator<Item = &Arc<O>> {
        self.namespaces.values().flat_map(HashMap::values)
    }

    fn find(&self, namespace: &str, name: &str) -> Option<&Arc<O>> {
        self.namespaces.get(namespace)?.get(name)
    }

    fn write(&mut self, write: Write<O>) -> Option<Arc<O>> {
        match write {
            Write::Put(key, object) => {
                let before = self.put(&key, Arc::clone(&object));
                self.reindex(&key, before.as_deref(), Some(&object));
                before
            }
            Write::Remove(key) => {
                let before = self.remove(&key);
                self.reindex(&key, before.as_deref(), None);
                before
            }
        }
    }

    /// The name is shared with the previous state, and the namespace with all objects in it.
    fn put(&mut self, key: &ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        let names = match self.namespaces.get_mut(key.namespace()) {
            Some(names) => names,
            None => {
                let namespace = key.namespace.clone().unwrap_or_else(|| "".into());
                self.namespaces.entry(namespace).or_default()
            }
        };
        match names.get_mut(&*key.name) {
            Some(place) => Some(std::mem::replace(place, object)),
            None => names.insert(Arc::clone(&key.name), object),
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<O>> {
        let names = self.namespaces.get_mut(key.namespace())?;
        let before = names.remove(&*key.name);
        if names.is_empty() {
            self.namespaces.remove(key.namespace());
        }
        before
    }

    fn replace(
        &mut self,
        namespace: Option<&str>,
        objects: impl IntoIterator<Item = (ObjectKey, Arc<O>)>,
    ) -> Replaced<O> {
        let mut left = match namespace {
            None => std::mem::take(&mut self.namespaces),
            Some(namespace) => self.namespaces.remove_entry(namespace).into_iter().collect(),
        };
        let mut before = Vec::new();
        for (key, object) in objects {
            let old = left.get_mut(key.namespace()).and_then(|names| names.remove(&*key.name));
            // If a list holds a key twice, the last object counts.
            let old = self.put(&key, Arc::clone(&object)).or(old);
            self.reindex(&key, old.as_deref(), Some(&object));
            before.push(old);
        }
        let mut gone = Vec::new();
        for (namespace, names) in left {
            for (name, object) in names {
                let namespace = (!namespace.is_empty()).then(|| Arc::clone(&namespace));
                self.reindex(&ObjectKey { namespace, name }, Some(&object), None);
                gone.push(object);
            }
        }
        Replaced { gone, before }
    }

    fn reindex(&self, key: &ObjectKey, before: Option<&O>, now: Option<&O>) {
        self.indexes.iter().filter_map(Weak::upgrade).for_each(|index| index.update(key, before, now));
    }
}

/// An object is not in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// The resource, such as `deployments.apps`.
    pub resource: String,
    /// The requested name.
    pub name: String,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} not found", self.resource, self.name)
    }
}

impl std::error::Error for NotFound {}

/// The store did not reach a version in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReached {
    /// The requested version.
    pub wanted: String,
    /// The version that was reached; empty if there is none.
    pub known: String,
}

impl fmt::Display for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotReached { wanted, known } = self;
        write!(f, "version {wanted} was not reached in time; the store is at {known:?}")
    }
}

impl std::error::Error for NotReached {}

/// An index, independent of the type of its values.
trait IndexUpdate<O>: Send + Sync {
    fn update(&self, key: &ObjectKey, before: Option<&O>, now: Option<&O>);
}

struct Table<O, V> {
    values_of: ValuesOf<O, V>,
    keys: RwLock<HashMap<V, BTreeSet<ObjectKey>>>,
}

type ValuesOf<O, V> = Box<dyn Fn(&O) -> Vec<V> + Send + Sync>;

impl<O, V: Eq + Hash + Send + Sync> IndexUpdate<O> for Table<O, V> {
    fn update(&self, key: &ObjectKey, before: Option<&O>, now: Option<&O>) {
        let values = |object: Option<&O>| object.map(|object| self.values(key, object)).unwrap_or_default();
        let (before, now) = (values(before), values(now));
        if before == now {
            return;
        }
        let mut keys = self.keys.write();
        for value in before.into_iter().filter(|value| !now.contains(value)) {
            if let Some(own) = keys.get_mut(&value) {
                own.remove(key);
                if own.is_empty() {
                    keys.remove(&value);
                }
            }
        }
        for value in now {
            keys.entry(value).or_default().insert(key.clone());
        }
    }
}

impl<O, V> Table<O, V> {
    /// The index values of an object; none if the index function panics.
    fn values(&self, key: &ObjectKey, object: &O) -> Vec<V> {
        catch_unwind(AssertUnwindSafe(|| (self.values_of)(object))).unwrap_or_else(|_| {
            tracing::error!(%key, "an index function panicked: the object is not in its index");
            Vec::new()
        })
    }
}

/// An index of a store. Clones share it.
pub struct Index<O, V> {
    store: Store<O>,
    table: Arc<Table<O, V>>,
}

impl<O, V> Clone for Index<O, V> {
    fn clone(&self) -> Self {
        Index { store: self.store.clone(), table: Arc::clone(&self.table) }
    }
}

impl<O, V> fmt::Debug for Index<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("values", &self.table.keys.read().len()).finish_non_exhaustive()
    }
}

impl<O, V: Clone + Eq + Hash> Index<O, V> {
    /// The objects with this value, ordered by key.
    pub fn get<Q>(&self, value: &Q) -> Vec<Arc<O>>
    where
        V: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let cache = self.store.shared.cache.read();
        let keys = self.table.keys.read();
        let own = keys.get(value).into_iter().flatten();
        own.filter_map(|key| cache.find(key.namespace(), &key.name).cloned()).collect()
    }

    /// The keys of the objects with this value, in order.
    pub fn keys<Q>(&self, value: &Q) -> Vec<ObjectKey>
    where
        V: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let _state = self.store.shared.cache.read();
        self.table.keys.read().get(value).into_iter().flatten().cloned().collect()
    }

    /// All values.
    pub fn values(&self) -> Vec<V> {
        let _state = self.store.shared.cache.read();
        self.table.keys.read().keys().cloned().collect()
    }

    /// The objects that share a value with this object, each once. client-go calls this `Index`.
    pub fn sharing_value_with(&self, object: &O) -> Vec<Arc<O>> {
        let cache = self.store.shared.cache.read();
        let keys = self.table.keys.read();
        let values = (self.table.values_of)(object);
        let shared_keys: BTreeSet<&ObjectKey> =
            values.iter().filter_map(|value| keys.get(value)).flatten().collect();
        shared_keys.into_iter().filter_map(|key| cache.find(key.namespace(), &key.name).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config_map, name};
    use kube_core::Expression;
    use proptest::{collection::vec, prelude::*};
    use std::{borrow::Cow, collections::BTreeMap};

    /// An object with a name and labels.
    #[derive(Debug, PartialEq)]
    struct Thing(&'static str, Vec<&'static str>);

    impl Object for Thing {
        fn key(&self) -> ObjectKey {
            self.0.into()
        }
        fn revision(&self) -> &str {
            ""
        }
        fn identity(&self) -> &str {
            ""
        }
        fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
            Cow::Owned(self.1.iter().map(|label| (label.to_string(), String::new())).collect())
        }
    }

    fn store() -> Store<Thing> {
        Store::new("things".to_owned(), 1)
    }

    fn put(key: &'static str, labels: &[&'static str]) -> Write<Thing> {
        Write::Put(key.into(), Arc::new(Thing(key, labels.to_vec())))
    }

    fn item(key: &'static str, labels: &[&'static str]) -> (ObjectKey, Arc<Thing>) {
        (key.into(), Arc::new(Thing(key, labels.to_vec())))
    }

    fn by_label(store: &Store<Thing>) -> Index<Thing, &'static str> {
        store.index(|thing: &Thing| thing.1.clone())
    }

    fn names(keys: Vec<ObjectKey>) -> String {
        keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Case 50.
    #[test]
    fn an_index_follows_the_store() {
        let store = store();
        store.write(0, vec![put("a", &["x", "y"]), put("b", &["y"])], None);
        let index = by_label(&store);
        assert_eq!((names(index.keys("x")), names(index.keys("y"))), ("a".to_owned(), "a b".to_owned()));
        store.write(0, vec![put("a", &["y"])], None);
        assert!(index.keys("x").is_empty() && index.get("x").is_empty());
        assert_eq!(index.values(), ["y"], "a value without objects is removed");
        assert_eq!(index.sharing_value_with(&Thing("q", vec!["y", "z"])).len(), 2);
        store.write(0, vec![Write::Remove("a".into()), Write::Remove("zzz".into())], None);
        assert_eq!(names(index.keys("y")), "b");
        let replaced = store.replace(0, None, vec![item("c", &["z"])], "7".to_owned());
        assert_eq!((replaced.gone.len(), replaced.before, index.values()), (1, vec![None], vec!["z"]));
    }

    /// Case 51.
    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_version_returns_when_the_store_reaches_it() {
        let store = store();
        let second = Duration::from_secs(1);
        assert_eq!(store.resource_version(), "");
        assert!(store.wait_for("1", second).await.is_err());
        store.replace(0, None, vec![], "10".to_owned());
        store.write(0, vec![put("a", &[])], Some("12".to_owned()));
        store.set_version(0, Some("20".to_owned()));
        store.write(0, vec![Write::Remove("a".into())], None);
        assert_eq!(store.resource_version(), "20", "a missed deletion has no version");
        assert_eq!(store.wait_for("19", second).await, Ok(()));
        assert_eq!(store.wait_for("20", second).await, Ok(()));
        assert_eq!(store.wait_for("abc", second).await, Ok(()));
        let late = store.wait_for("21", second).await.unwrap_err();
        assert_eq!(late.to_string(), "version 21 was not reached in time; the store is at \"20\"");
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.wait_for("21", Duration::from_secs(60)).await }
        });
        tokio::time::sleep(second).await;
        store.set_version(0, Some("30".to_owned()));
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[test]
    fn a_dropped_index_is_not_maintained() {
        let store = store();
        let calls = Arc::new(());
        for _ in 0..10 {
            let calls = Arc::clone(&calls);
            drop(store.index(move |_: &Thing| {
                let _ = &calls;
                None::<u8>
            }));
        }
        let _kept = by_label(&store);
        store.write(0, vec![put("a", &["x"])], None);
        assert_eq!((Arc::strong_count(&calls), store.shared.cache.read().indexes.len()), (1, 1));
    }

    #[test]
    fn an_index_function_that_panics_omits_only_its_object() {
        let store = store();
        let index = store.index(|thing: &Thing| {
            assert_ne!(thing.0, "b", "on purpose");
            thing.1.clone()
        });
        let other = by_label(&store);
        store.write(0, vec![put("a", &["x"]), put("b", &["x"]), put("c", &["x"])], None);
        assert_eq!((names(index.keys("x")), names(other.keys("x"))), ("a c".to_owned(), "a b c".to_owned()));
    }

    #[test]
    fn the_last_of_two_objects_with_the_same_key_in_a_list_counts() {
        let store = store();
        let index = by_label(&store);
        let list = vec![item("a", &["x"]), item("a", &["y"])];
        store.replace(0, None, list, "1".to_owned());
        assert_eq!((store.len(), store.get("a")), (1, Some(Arc::new(Thing("a", vec!["y"])))));
        assert_eq!(index.values(), ["y"]);
    }

    /// Case 53.
    #[test]
    fn a_lister_finds_by_name_namespace_and_labels() {
        let store = Store::new("configmaps".to_owned(), 1);
        let object = |text: &str| (config_map(text).key(), config_map(text));
        let objects = vec![object("x/a@1:v"), object("x/b@2"), object("y/a@3:v"), object("z@4")];
        store.replace(0, None, objects, "9".to_owned());
        let names = |found: Vec<Arc<_>>| {
            let mut names: Vec<_> = found.iter().map(|object| name(object)).collect();
            names.sort();
            names.join(" ")
        };
        let labelled = Expression::Equal("l".to_owned(), "v".to_owned());
        assert_eq!(names(store.list(Select::Everything)), "x/a@1 x/b@2 y/a@3 z@4");
        assert_eq!(names(store.list(Select::Nothing)), "");
        assert_eq!(names(store.list(labelled.clone())), "x/a@1 y/a@3");
        assert_eq!(names(store.in_namespace("x").list(labelled.clone())), "x/a@1");
        assert_eq!(names(store.in_namespace("x").list(Select::Everything)), "x/a@1 x/b@2");
        assert_eq!(names(store.in_namespace("").list(labelled)), "x/a@1 y/a@3");
        assert_eq!(names(store.in_namespace("none").list(Select::Everything)), "");
        assert_eq!(store.in_namespace("y").get("a").map(|object| name(&object)), Some("y/a@3".to_owned()));
        let missing = store.in_namespace("y").try_get("b").unwrap_err();
        assert_eq!(missing.to_string(), "configmaps \"b\" not found");
        assert_eq!(store.try_get(("y", "b")), Err(missing));
        assert!(store.try_get("z").is_ok());
    }

    #[test]
    fn a_relist_of_one_namespace_leaves_the_others_alone() {
        let store = Store::new("configmaps".to_owned(), 2);
        let object = |text: &str| (config_map(text).key(), config_map(text));
        store.replace(0, Some("x"), vec![object("x/a@1"), object("x/b@2")], "5".to_owned());
        assert_eq!(store.resource_version(), "", "the other namespace is not listed yet");
        store.replace(1, Some("y"), vec![object("y/a@3")], "10".to_owned());
        assert_eq!(store.resource_version(), "5");
        let replaced = store.replace(0, Some("x"), vec![object("x/a@1")], "11".to_owned());
        assert_eq!((replaced.gone.len(), store.len(), store.resource_version().as_str()), (1, 2, "10"));
    }

    proptest! {
        /// After any sequence of writes, an index returns what a scan of the store finds.
        #[test]
        fn an_index_finds_what_a_scan_finds(
            steps in vec((0_usize..4, vec(0_usize..4, 0..4), 0_u8..8), 0..60),
        ) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let store = store();
            let early = by_label(&store);
            for (name, labels, how) in steps {
                let labels: Vec<&'static str> = labels.iter().map(|label| NAMES[*label]).collect();
                match how {
                    0 => {
                        let list = labels.iter().map(|key| item(key, &[NAMES[name]]));
                        store.replace(0, None, list.collect::<Vec<_>>(), "1".to_owned());
                    }
                    1 | 2 => drop(store.write(0, vec![Write::Remove(NAMES[name].into())], None)),
                    _ => drop(store.write(0, vec![put(NAMES[name], &labels)], None)),
                }
            }
            let mut scanned: BTreeMap<&str, BTreeSet<ObjectKey>> = BTreeMap::new();
            for key in store.keys() {
                for label in &store.get(key.clone()).unwrap().1 {
                    scanned.entry(label).or_default().insert(key.clone());
                }
            }
            for index in [early, by_label(&store)] {
                let found: BTreeMap<&str, BTreeSet<ObjectKey>> =
                    index.values().into_iter().map(|label| (label, index.keys(label).into_iter().collect())).collect();
                prop_assert_eq!(&found, &scanned);
            }
        }
    }
}
