//! The objects of one resource at one revision, ordered by key. A clone is cheap and shares the unchanged objects.
//!
//! Kept true by [`Store::put`] and [`Store::remove`]: every object is stored under its own key, with the Bloom bits of
//! its attributes; it is in each index under its value of the indexed field; and it is counted.
//!
//! Not here: the revision of these objects (`state`), and earlier versions of them (`history`).

use crate::{bloom::BloomBits, counts::RangeCounts};
use imbl::{OrdMap, OrdSet};
use keepwatch_storage::{Key, Object, Predicate, Scope};
use std::{ops::Bound, sync::Arc};

/// All objects. A clone of it is a snapshot.
#[derive(Clone)]
pub(crate) struct Store {
    objects: OrdMap<Key, Entry>,
    counts: RangeCounts,
    indexes: Vec<Index>,
    /// The size of all values.
    bytes: usize,
}

/// An object, with the bits that a [`crate::bloom::PredicateFilter`] needs.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) object: Object,
    pub(crate) bloom: BloomBits,
}

/// The keys of the objects, by the value of one field.
#[derive(Clone)]
struct Index {
    field: Arc<str>,
    keys: OrdSet<(Arc<str>, Key)>,
}

/// Objects that may match a list or watch, ordered by key.
pub(crate) struct Candidates<'a> {
    /// The field of the index that was used; if absent, these are all objects in scope.
    pub(crate) index: Option<&'a str>,
    pub(crate) entries: Box<dyn Iterator<Item = &'a Entry> + Send + 'a>,
}

impl Store {
    /// An empty store with an index for each of these fields.
    pub(crate) fn new(indexed_fields: &[Arc<str>]) -> Self {
        let index = |field: &Arc<str>| Index { field: Arc::clone(field), keys: OrdSet::new() };
        Self {
            objects: OrdMap::new(),
            counts: RangeCounts::new(),
            indexes: indexed_fields.iter().map(index).collect(),
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Object> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// Puts an object into the store and returns its previous version.
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        let entry = Entry { bloom: BloomBits::of(&object.attributes), object: object.clone() };
        let old = self.objects.insert(object.key.clone(), entry).map(|entry| entry.object);
        self.bytes += object.value.len();
        self.bytes -= old.as_ref().map_or(0, |old| old.value.len());
        if old.is_none() {
            self.counts.key_added(&object.key, &self.objects);
        }
        for index in &mut self.indexes {
            index.replace(old.as_ref(), Some(&object));
        }
        old
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Object> {
        let old = self.objects.remove(key).map(|entry| entry.object);
        self.bytes -= old.as_ref().map_or(0, |old| old.value.len());
        if old.is_some() {
            self.counts.key_removed(key);
        }
        for index in &mut self.indexes {
            index.replace(old.as_ref(), None);
        }
        old
    }

    /// All objects, ordered by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|entry| &entry.object)
    }

    /// The number of objects of a scope from this key on. The key must be inside the scope.
    pub(crate) fn count_from(&self, scope: &Scope, key: &str) -> usize {
        self.counts.count_between(key, &scope.end(), &self.objects)
    }

    /// The objects of a scope that may match the predicate, from the key `from` on, or from the first key of the scope.
    /// The caller evaluates the predicate.
    pub(crate) fn find(&self, scope: &Scope, from: Option<&str>, predicate: &Predicate) -> Candidates<'_> {
        let (own, end) = (scope.key(), scope.end());
        if let Scope::Object(key) = scope {
            let entry = self.objects.get(key).filter(|_| from.is_none_or(|from| *from <= **key));
            return Candidates { index: None, entries: Box::new(entry.into_iter()) };
        }
        let begin = match from.filter(|from| *from > own.as_str()) {
            Some(from) if from >= end.as_str() => {
                return Candidates { index: None, entries: Box::new(std::iter::empty()) };
            }
            Some(from) => Bound::Included(from),
            // An object whose key equals the prefix is not in the scope.
            None => Bound::Excluded(own.as_str()),
        };
        let exact = |index: &'_ Index| predicate.fields.exact_match(&index.field).map(Arc::from);
        match self.indexes.iter().find_map(|index| Some((index, exact(index)?))) {
            Some((index, value)) => {
                let at = |key: &str| (Arc::clone(&value), Key::from_backend(key));
                let keys = index.keys.range((begin.map(at), Bound::Excluded(at(&end))));
                let entries = keys.filter_map(|(_, key)| self.objects.get(key));
                Candidates { index: Some(&index.field), entries: Box::new(entries) }
            }
            None => {
                let range = self.objects.range::<_, str>((begin, Bound::Excluded(end.as_str())));
                Candidates { index: None, entries: Box::new(range.map(|(_, entry)| entry)) }
            }
        }
    }
}

impl Index {
    fn replace(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let field = &*self.field;
        let old = old.map(|old| (old.attributes.fields.get(field).unwrap_or_default(), &old.key));
        let new = new.map(|new| (new.attributes.fields.get(field).unwrap_or_default(), &new.key));
        if old == new {
            return;
        }
        if let Some((value, key)) = old {
            self.keys.remove(&(value.into(), key.clone()));
        }
        if let Some((value, key)) = new {
            let value = self.intern(value);
            self.keys.insert((value, key.clone()));
        }
    }

    /// The same text as an earlier key of the index has it, because many objects share a value.
    fn intern(&self, value: &str) -> Arc<str> {
        let value: Arc<str> = value.into();
        let first = (Bound::Included((value.clone(), Key::from_backend(""))), Bound::Unbounded);
        match self.keys.range(first).next() {
            Some((same, _)) if *same == value => same.clone(),
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::PredicateFilter;
    use keepwatch_apimachinery::{ResourceVersion, selector::FieldSelector};
    use keepwatch_storage::{Attributes, Version};
    use proptest::{collection::vec, option, prelude::*, sample::select};
    use std::collections::BTreeMap;

    const NODE: &str = "spec.nodeName";
    /// `/pods/n/` and `/pods/n` are not below `/pods/n/`, and `/pods/n0` sorts right after it.
    const KEYS: [&str; 6] = ["/pods/m/a", "/pods/n/a", "/pods/n/b", "/pods/n/b/c", "/pods/n0/a", "/pods/n"];

    fn object(key: &str, node: Option<&str>, revision: u64) -> Object {
        let fields = node.map(|node| (NODE, node)).into_iter().collect();
        let attributes = Attributes { fields, ..Attributes::default() };
        let (key, revision) = (Key::from_backend(key), ResourceVersion::new(revision).unwrap());
        Version { key, value: "{}".into(), revision, attributes: attributes.into() }.into()
    }

    fn field_selector(fields: &str) -> Predicate {
        Predicate { fields: FieldSelector::parse(fields).unwrap(), ..Predicate::default() }
    }

    fn children(prefix: &str) -> Scope {
        Scope::Children(Key::from_backend(prefix))
    }

    /// The objects that a list would return, and the index that it used.
    fn list<'a>(
        store: &'a Store,
        scope: &Scope,
        from: Option<&str>,
        predicate: &Predicate,
    ) -> (Option<&'a str>, Vec<Object>) {
        let found = store.find(scope, from, predicate);
        let filter = PredicateFilter::new(predicate);
        let matching = found
            .entries
            .filter(|entry| filter.matches(entry.bloom, &entry.object))
            .map(|entry| &entry.object);
        (found.index, matching.cloned().collect())
    }

    #[test]
    fn an_exact_value_of_an_indexed_field_is_found_through_the_index_alone() {
        let mut store = Store::new(&[NODE.into()]);
        for (revision, (key, node)) in
            [("/pods/n/a", "x"), ("/pods/n/b", "y"), ("/pods/n/c", "x")].into_iter().enumerate()
        {
            store.put(object(key, Some(node), revision as u64 + 1));
        }
        for (selector, index, examined) in [
            ("spec.nodeName=x", Some(NODE), 2),
            ("spec.nodeName==y", Some(NODE), 1),
            ("spec.nodeName=", Some(NODE), 0),
            ("spec.nodeName=x,metadata.name=a", Some(NODE), 2),
            ("spec.nodeName!=x", None, 3),
            ("metadata.name=a", None, 3),
            ("", None, 3),
        ] {
            let found = store.find(&children("/pods/"), None, &field_selector(selector));
            assert_eq!((found.index, found.entries.count()), (index, examined), "{selector}");
        }
    }

    #[test]
    fn a_single_object_is_found_by_its_key_alone() {
        let mut store = Store::new(&[NODE.into()]);
        store.put(object("/pods/n/a", Some("x"), 1));
        store.put(object("/pods/n/a/b", Some("x"), 2));
        let scope = Scope::Object(Key::from_backend("/pods/n/a"));
        let found = list(&store, &scope, None, &field_selector("spec.nodeName=x")).1;
        assert_eq!(found.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), ["/pods/n/a"]);
    }

    #[test]
    fn put_and_remove_return_the_previous_object() {
        let mut store = Store::new(&[]);
        let (first, second) = (object("/pods/n/a", None, 1), object("/pods/n/a", None, 2));
        assert_eq!(store.put(first.clone()), None);
        assert_eq!(store.put(second.clone()), Some(first));
        assert_eq!((store.get("/pods/n/a"), store.len()), (Some(&second), 1));
        assert_eq!(store.remove("/pods/n/a"), Some(second));
        assert_eq!((store.remove("/pods/n/a"), store.len()), (None, 0));
    }

    /// An object to put, or a key to remove.
    type Step = (&'static str, Option<Option<&'static str>>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let node = option::of(select(&["", "x", "y", "yy"]));
        vec((select(&KEYS), option::weighted(0.7, node)), 0..60)
    }

    proptest! {
        /// After any writes, an index finds the same objects as a full scan, in the same order; and a clone still has
        /// the objects of the time when it was made.
        #[test]
        fn an_index_finds_the_same_objects_as_a_full_scan_and_clones_do_not_change(
            steps in steps(),
            from in option::of(select(&KEYS)),
        ) {
            let (mut store, mut model) = (Store::new(&[NODE.into()]), BTreeMap::new());
            let mut clones = vec![(store.clone(), model.clone())];
            for (revision, (key, step)) in steps.into_iter().enumerate() {
                let key = Key::from_backend(key);
                match step {
                    Some(node) => {
                        let object = object(&key, node, revision as u64 + 1);
                        prop_assert_eq!(store.put(object.clone()), model.insert(key, object));
                    }
                    None => prop_assert_eq!(store.remove(&key), model.remove(&key)),
                }
                clones.push((store.clone(), model.clone()));
            }
            for (store, model) in clones {
                prop_assert_eq!((store.len(), store.iter().collect::<Vec<_>>()), (model.len(), model.values().collect()));
                for scope in ["/pods/", "/pods/n/", "/pods/n/b/", "/pods/none/"].map(children) {
                    for (selector, index) in [
                        ("", None),
                        ("spec.nodeName!=x", None),
                        ("spec.nodeName=x", Some(NODE)),
                        ("spec.nodeName=y", Some(NODE)),
                        ("spec.nodeName=", Some(NODE)),
                    ] {
                        let predicate = field_selector(selector);
                        let (used, found) = list(&store, &scope, from, &predicate);
                        let expected = model.values().filter(|object| {
                            scope.contains(&object.key)
                                && from.is_none_or(|from| object.key.as_str() >= from)
                                && predicate.matches(&object.attributes)
                        });
                        prop_assert_eq!(&found, &expected.cloned().collect::<Vec<_>>());
                        if let Some(first) = found.first().filter(|_| selector.is_empty()) {
                            prop_assert_eq!(store.count_from(&scope, &first.key), found.len());
                        }
                        prop_assert!(used == index || (used.is_none() && found.is_empty()), "{:?}", used);
                    }
                }
            }
        }
    }
}
