//! An index of the watchers, so that an event is dispatched only to watchers that may want it.
//!
//! A watcher is in one list: under its scope and, there, under one of the exact values that its selectors require, if
//! they require any. An event is looked up under the scopes of its key, with the values that the object has before and
//! after it. So the cost of an event does not grow with the watchers of other keys and other values.
//!
//! Kept true by [`WatcherIndex::add`] and [`WatcherIndex::remove`]: a watcher is in exactly one list and knows its
//! position in it; an empty list is removed. An event may be dispatched to a watcher that does not want it: the
//! watcher's predicate decides.

use keepwatch_apimachinery::selector::{Comparison, FieldTerm};
use keepwatch_storage::{Attributes, Object, Predicate, Scope};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A watcher in the index. It stores its position in its list.
pub(crate) trait IndexedWatcher {
    fn scope(&self) -> &Scope;
    fn predicate(&self) -> &Predicate;
    /// Written by [`WatcherIndex`] alone.
    fn index_position(&self) -> &AtomicUsize;
}

pub(crate) struct WatcherIndex<W> {
    /// By the key or the prefix of the scope. A prefix ends with a slash, and a key does not.
    scopes: HashMap<Box<str>, ScopeIndex<W>>,
    len: usize,
}

/// The watchers of one scope.
struct ScopeIndex<W> {
    unselective: WatcherList<W>,
    labels: HashMap<Box<str>, HashMap<Box<str>, WatcherList<W>>>,
    /// Ordered, because all of them are iterated for each event.
    fields: BTreeMap<Box<str>, HashMap<Box<str>, WatcherList<W>>>,
}

type WatcherList<W> = Vec<Arc<W>>;

/// The value under which a watcher is indexed.
enum IndexTerm<'a> {
    Unselective,
    Label(&'a str, &'a str),
    Field(&'a str, &'a str),
}

/// A field that is not selective: all objects of a scope, or very many, have the same value.
const NAMESPACE_FIELD: &str = "metadata.namespace";

impl<'a> IndexTerm<'a> {
    /// Chooses an exact value of the predicate that few objects are likely to have: a name first, then another field,
    /// then a label, and the namespace last.
    fn of(predicate: &'a Predicate) -> Self {
        let exact = |term: &&FieldTerm| term.comparison == Comparison::Equal;
        let fields = || predicate.fields.terms().iter().filter(exact);
        let field = |term: &'a FieldTerm| Self::Field(&term.field, &term.value);
        let is_name = |term: &&FieldTerm| term.field.ends_with("name") || term.field.ends_with("Name");
        let label = predicate.labels.requirements().iter().find_map(|requirement| {
            requirement.exact_value().map(|value| Self::Label(requirement.key(), value))
        });
        let name = fields().find(is_name).map(field);
        name.or_else(|| fields().find(|term| term.field != NAMESPACE_FIELD).map(field))
            .or(label)
            .or_else(|| fields().next().map(field))
            .unwrap_or(Self::Unselective)
    }
}

impl<W> Default for ScopeIndex<W> {
    fn default() -> Self {
        Self { unselective: Vec::new(), labels: HashMap::new(), fields: BTreeMap::new() }
    }
}

impl<W> Default for WatcherIndex<W> {
    fn default() -> Self {
        Self { scopes: HashMap::new(), len: 0 }
    }
}

impl<W: IndexedWatcher> WatcherIndex<W> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn add(&mut self, watcher: Arc<W>) {
        let scope_index = match self.scopes.get_mut(watcher.scope().key().as_str()) {
            Some(scope_index) => scope_index,
            None => self.scopes.entry(watcher.scope().key().as_str().into()).or_default(),
        };
        let list = match IndexTerm::of(watcher.predicate()) {
            IndexTerm::Unselective => &mut scope_index.unselective,
            IndexTerm::Label(name, value) => {
                scope_index.labels.entry(name.into()).or_default().entry(value.into()).or_default()
            }
            IndexTerm::Field(name, value) => {
                scope_index.fields.entry(name.into()).or_default().entry(value.into()).or_default()
            }
        };
        push(list, watcher.clone());
        self.len += 1;
    }

    /// Removes a watcher that was added.
    pub(crate) fn remove(&mut self, watcher: &Arc<W>) {
        let scope = watcher.scope().key().as_str();
        let Some(scope_index) = self.scopes.get_mut(scope) else { return };
        let removed = match IndexTerm::of(watcher.predicate()) {
            IndexTerm::Unselective => swap_remove(&mut scope_index.unselective, watcher),
            IndexTerm::Label(name, value) => {
                let Some(values) = scope_index.labels.get_mut(name) else { return };
                let removed = remove_from_value(values, value, watcher);
                if values.is_empty() {
                    scope_index.labels.remove(name);
                }
                removed
            }
            IndexTerm::Field(name, value) => {
                let Some(values) = scope_index.fields.get_mut(name) else { return };
                let removed = remove_from_value(values, value, watcher);
                if values.is_empty() {
                    scope_index.fields.remove(name);
                }
                removed
            }
        };
        if scope_index.unselective.is_empty()
            && scope_index.labels.is_empty()
            && scope_index.fields.is_empty()
        {
            self.scopes.remove(scope);
        }
        self.len -= usize::from(removed);
    }

    /// Calls `dispatch` once for each watcher that may want a change of an object from `old` to `new`.
    pub(crate) fn dispatch(
        &self,
        old: Option<&Object>,
        new: Option<&Object>,
        mut dispatch: impl FnMut(&Arc<W>),
    ) {
        let Some(object) = new.or(old).filter(|_| self.len > 0) else { return };
        let key = object.key.as_str();
        let before = old.map(|object| &*object.attributes);
        let after = new.map(|object| &*object.attributes);
        let prefixes = key.match_indices('/').map(|(slash, _)| &key[..=slash]);
        for scope in prefixes.chain([key]) {
            if let Some(scope_index) = self.scopes.get(scope) {
                scope_index.dispatch(before, after, &mut dispatch);
            }
        }
    }

    /// All watchers, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<W>> {
        self.scopes.values().flat_map(|scope_index| {
            let named =
                scope_index.labels.values().chain(scope_index.fields.values()).flat_map(HashMap::values);
            [&scope_index.unselective].into_iter().chain(named).flatten()
        })
    }
}

impl<W> ScopeIndex<W> {
    fn dispatch(
        &self,
        before: Option<&Attributes>,
        after: Option<&Attributes>,
        dispatch: &mut impl FnMut(&Arc<W>),
    ) {
        self.unselective.iter().for_each(&mut *dispatch);
        if !self.labels.is_empty() {
            self.dispatch_by_labels(after, None, dispatch);
            self.dispatch_by_labels(before, after, dispatch);
        }
        for (name, values) in &self.fields {
            // A field that is absent has the value "".
            let old = before.map(|before| before.fields.get(name).unwrap_or_default());
            let new = after.map(|after| after.fields.get(name).unwrap_or_default());
            for value in new.into_iter().chain(old.filter(|_| old != new)) {
                values.get(value).into_iter().flatten().for_each(&mut *dispatch);
            }
        }
    }

    /// Dispatches to the watchers of every label of the object that `dispatched` does not have.
    fn dispatch_by_labels(
        &self,
        object: Option<&Attributes>,
        dispatched: Option<&Attributes>,
        dispatch: &mut impl FnMut(&Arc<W>),
    ) {
        for (name, value) in object.iter().flat_map(|object| object.labels.iter()) {
            if dispatched.is_none_or(|dispatched| dispatched.labels.get(name) != Some(value))
                && let Some(list) = self.labels.get(name).and_then(|values| values.get(value))
            {
                list.iter().for_each(&mut *dispatch);
            }
        }
    }
}

fn push<W: IndexedWatcher>(list: &mut WatcherList<W>, watcher: Arc<W>) {
    watcher.index_position().store(list.len(), Ordering::Relaxed);
    list.push(watcher);
}

/// Returns whether the watcher was in the list.
fn swap_remove<W: IndexedWatcher>(list: &mut WatcherList<W>, watcher: &Arc<W>) -> bool {
    let at = watcher.index_position().load(Ordering::Relaxed);
    if !list.get(at).is_some_and(|found| Arc::ptr_eq(found, watcher)) {
        return false;
    }
    list.swap_remove(at);
    if let Some(moved) = list.get(at) {
        moved.index_position().store(at, Ordering::Relaxed);
    }
    if list.len() < list.capacity() / 4 {
        list.shrink_to(list.len() * 2);
    }
    true
}

fn remove_from_value<W: IndexedWatcher>(
    values: &mut HashMap<Box<str>, WatcherList<W>>,
    value: &str,
    watcher: &Arc<W>,
) -> bool {
    let Some(list) = values.get_mut(value) else { return false };
    let removed = swap_remove(list, watcher);
    if list.is_empty() {
        values.remove(value);
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Event, History, Limits};
    use keepwatch_apimachinery::{
        ResourceVersion,
        selector::{FieldSelector, LabelSelector},
    };
    use keepwatch_storage::{Key, Version, WatchEvent};
    use proptest::{collection::vec, option, prelude::*, sample::select};
    use tokio::time::Instant;

    #[derive(Debug)]
    struct TestWatcher {
        scope: Scope,
        predicate: Predicate,
        index_position: AtomicUsize,
    }

    impl IndexedWatcher for TestWatcher {
        fn scope(&self) -> &Scope {
            &self.scope
        }

        fn predicate(&self) -> &Predicate {
            &self.predicate
        }

        fn index_position(&self) -> &AtomicUsize {
            &self.index_position
        }
    }

    fn watcher(scope: &str, labels: &str, fields: &str) -> Arc<TestWatcher> {
        let key = Key::from_backend(scope);
        Arc::new(TestWatcher {
            scope: if scope.ends_with('/') { Scope::Children(key) } else { Scope::Object(key) },
            predicate: Predicate {
                labels: LabelSelector::parse(labels).unwrap(),
                fields: FieldSelector::parse(fields).unwrap(),
            },
            index_position: AtomicUsize::new(usize::MAX),
        })
    }

    fn object(key: &str, labels: &[(&str, &str)], node: Option<&str>) -> Object {
        let [.., namespace, name] = key.split('/').collect::<Vec<_>>()[..] else { panic!("{key}") };
        let fields = [("metadata.name", name), ("metadata.namespace", namespace)];
        let fields = fields.into_iter().chain(node.map(|node| ("spec.nodeName", node)));
        let attributes = Attributes {
            labels: labels.iter().copied().collect(),
            fields: fields.collect(),
            ..Attributes::default()
        };
        let revision = ResourceVersion::new(7).unwrap();
        Version { key: Key::from_backend(key), value: "{}".into(), revision, attributes: attributes.into() }
            .into()
    }

    fn dispatch_to(
        index: &WatcherIndex<TestWatcher>,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Vec<Arc<TestWatcher>> {
        let mut dispatched = Vec::new();
        index.dispatch(old, new, |watcher| dispatched.push(watcher.clone()));
        dispatched
    }

    const KEYS: [&str; 4] = ["/r/pods/n/a", "/r/pods/n/b", "/r/pods/m/a", "/r/pods/nn/a"];

    fn any_watcher() -> impl Strategy<Value = Arc<TestWatcher>> {
        let scopes = ["/r/pods/", "/r/pods/n/", "/r/pods/m/", "/r/pods/n/a", "/r/pods/m/a"];
        let labels = [
            "",
            "app=web",
            "app=db",
            "app=",
            "app in (web)",
            "app in (web,db)",
            "app!=web",
            "app",
            "!app",
            "app=web,tier=x",
            "tier=x",
            "tier notin (x)",
            "app=web,app=db",
            "rank>1",
        ];
        let fields = [
            "",
            "spec.nodeName=n1",
            "spec.nodeName=",
            "spec.nodeName!=n1",
            "metadata.name=a",
            "metadata.namespace=n",
            "metadata.name=a,spec.nodeName=n2",
            "metadata.namespace=m,spec.nodeName!=n1",
        ];
        (select(scopes.to_vec()), select(labels.to_vec()), select(fields.to_vec()))
            .prop_map(|(scope, labels, fields)| watcher(scope, labels, fields))
    }

    fn any_object(key: &'static str) -> impl Strategy<Value = Option<Object>> {
        let app = option::of(select(&["web", "db", ""]));
        let tier = option::of(select(&["x", "y"]));
        let rank = option::of(select(&["1", "2"]));
        let node = option::of(select(&["n1", "n2", ""]));
        option::of((app, tier, rank, node).prop_map(move |(app, tier, rank, node)| {
            let labels = [("app", app), ("tier", tier), ("rank", rank)];
            let labels: Vec<_> = labels.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            object(key, &labels, node)
        }))
    }

    /// A change of an object at revision 9.
    fn event(old: Option<&Object>, new: Option<&Object>) -> Arc<Event> {
        let version = |number| ResourceVersion::new(number).unwrap();
        let limits = Limits::new(std::time::Duration::ZERO, usize::MAX);
        let mut history = History::new(version(1), limits);
        history.record(version(9), old.cloned(), new.cloned(), Instant::now()).0
    }

    proptest! {
        /// With any selectors and events, every watcher receives exactly the events that a scan of all watchers would
        /// give it.
        #[test]
        fn the_index_dispatches_to_every_matching_watcher_exactly_once(
            watchers in vec(any_watcher(), 0..24),
            removals in vec(any::<prop::sample::Index>(), 0..12),
            events in vec(select(&KEYS).prop_flat_map(|key| (any_object(key), any_object(key))), 1..24),
        ) {
            let mut index = WatcherIndex::default();
            for watcher in &watchers {
                index.add(watcher.clone());
            }
            let mut present = watchers;
            for at in removals {
                if !present.is_empty() {
                    let removed = present.swap_remove(at.index(present.len()));
                    index.remove(&removed);
                    index.remove(&removed);
                }
            }
            prop_assert_eq!(index.len(), present.len());
            for (old, new) in events {
                if old.is_none() && new.is_none() {
                    continue;
                }
                let event = event(old.as_ref(), new.as_ref());
                let dispatched = dispatch_to(&index, old.as_ref(), new.as_ref());
                let sees = |watcher: &Arc<TestWatcher>| event.watch_event(&watcher.predicate);
                for watcher in &present {
                    let times = dispatched.iter().filter(|other| Arc::ptr_eq(other, watcher)).count();
                    prop_assert!(times <= 1, "dispatched {} times", times);
                    let expected = sees(watcher).filter(|_| watcher.scope.contains(event.key()));
                    let found = if times == 1 { sees(watcher) } else { None };
                    prop_assert_eq!(found, expected);
                }
                prop_assert!(dispatched.iter().all(|dispatched| present.iter().any(|present| Arc::ptr_eq(present, dispatched))));
            }
            present.iter().for_each(|watcher| index.remove(watcher));
            prop_assert!(index.scopes.is_empty());
        }
    }

    #[test]
    fn an_event_is_dispatched_only_to_watchers_of_its_values() {
        let mut index = WatcherIndex::default();
        for node in 0..1000 {
            index.add(watcher("/r/pods/", "", &format!("spec.nodeName=node-{node}")));
            index.add(watcher("/r/pods/", &format!("app=app-{node}"), ""));
            index.add(watcher(&format!("/r/pods/namespace-{node}/"), "", ""));
            index.add(watcher(&format!("/r/pods/n/pod-{node}"), "", ""));
        }
        let old = object("/r/pods/n/pod-5", &[("app", "app-1")], Some("node-1"));
        let new = object("/r/pods/n/pod-5", &[("app", "app-2")], Some("node-2"));
        // The watchers of two nodes, of two apps, and of the object.
        assert_eq!(dispatch_to(&index, Some(&old), Some(&new)).len(), 5);
        assert_eq!(dispatch_to(&index, Some(&old), None).len(), 3);
    }

    #[test]
    fn an_object_that_leaves_a_selector_is_delivered_as_deleted() {
        let mut index = WatcherIndex::default();
        index.add(watcher("/r/pods/", "app=web", ""));
        let old = object("/r/pods/n/a", &[("app", "web")], None);
        let new = object("/r/pods/n/a", &[("app", "db")], None);
        let event = event(Some(&old), Some(&new));
        let [watcher] = &dispatch_to(&index, Some(&old), Some(&new))[..] else {
            panic!("one watcher is dispatched to")
        };
        let Some(WatchEvent::Deleted(deleted)) = event.watch_event(&watcher.predicate) else {
            panic!("the object is deleted")
        };
        assert_eq!((deleted.revision.get(), deleted.attributes.labels.get("app")), (9, Some("web")));
    }
}
