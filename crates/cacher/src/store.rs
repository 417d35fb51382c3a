//! The objects of one resource at one revision, ordered by key. Cloning is free and shares what stays the same.
//!
//! Kept true by [`Store::put`] and [`Store::remove`]: every object stands under its own key, and in each index under
//! the value that its declared field has.
//!
//! Not here: which revision that is (`state`), what was before (`history`).

use imbl::OrdMap;
use keepwatch_storage::{Key, Object, Predicate, Scope};
use std::{ops::Bound, sync::Arc};

/// All objects. A copy of it is a snapshot.
#[derive(Clone)]
pub(crate) struct Store {
    objects: OrdMap<Key, Object>,
    indexes: Vec<Index>,
}

/// The objects once more, by the value of one field and then by key.
#[derive(Clone)]
struct Index {
    field: &'static str,
    objects: OrdMap<(Arc<str>, Key), Object>,
}

/// Objects that a list or watch may want, in order of their keys.
pub(crate) struct Found<'a> {
    /// The field by which they were found; if absent, everything in scope has to be looked at.
    pub(crate) index: Option<&'static str>,
    pub(crate) objects: Box<dyn Iterator<Item = &'a Object> + Send + 'a>,
}

impl Store {
    /// An empty one with an index for each of these fields.
    pub(crate) fn new(indexed_fields: &[&'static str]) -> Self {
        let index = |field: &&'static str| Index { field, objects: OrdMap::new() };
        Self { objects: OrdMap::new(), indexes: indexed_fields.iter().map(index).collect() }
    }

    /// An empty one with the same indexes.
    pub(crate) fn emptied(&self) -> Self {
        let index = |index: &Index| Index { field: index.field, objects: OrdMap::new() };
        Self { objects: OrdMap::new(), indexes: self.indexes.iter().map(index).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Object> {
        self.objects.get(key)
    }

    /// Puts an object in and returns the one that it takes the place of.
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        let old = self.objects.insert(object.key.clone(), object.clone());
        for index in &mut self.indexes {
            index.replace(old.as_ref(), Some(&object));
        }
        old
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Object> {
        let old = self.objects.remove(key);
        for index in &mut self.indexes {
            index.replace(old.as_ref(), None);
        }
        old
    }

    /// Every object in order of its key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// The objects of a scope from the key `from` on (the scope's beginning if absent) that the predicate may let
    /// pass: it has yet to be asked.
    pub(crate) fn find(&self, scope: &Scope, from: Option<&str>, predicate: &Predicate) -> Found<'_> {
        let (own, end) = (scope.key(), scope.end());
        if let Scope::Object(key) = scope {
            let object = self.objects.get(key).filter(|_| from.is_none_or(|from| *from <= **key));
            return Found { index: None, objects: Box::new(object.into_iter()) };
        }
        let begin = match from.filter(|from| *from > own.as_str()) {
            Some(from) if from >= end.as_str() => {
                return Found { index: None, objects: Box::new(std::iter::empty()) };
            }
            Some(from) => Bound::Included(from),
            // The prefix itself is not below itself.
            None => Bound::Excluded(own.as_str()),
        };
        let exact = |index: &'_ Index| predicate.fields.exact_match(index.field).map(Arc::from);
        match self.indexes.iter().find_map(|index| Some((index, exact(index)?))) {
            Some((index, value)) => {
                let at = |key: &str| (Arc::clone(&value), Key::from_backend(key));
                let range = index.objects.range((begin.map(at), Bound::Excluded(at(&end))));
                Found { index: Some(index.field), objects: Box::new(range.map(|(_, object)| object)) }
            }
            None => {
                let range = self.objects.range::<_, str>((begin, Bound::Excluded(end.as_str())));
                Found { index: None, objects: Box::new(range.map(|(_, object)| object)) }
            }
        }
    }
}

impl Index {
    fn replace(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let field = self.field;
        let value_of = |object: &Object| object.attributes.fields.get(field).unwrap_or_default().to_owned();
        let (old_value, new_value) = (old.map(value_of), new.map(value_of));
        if let (Some(old), Some(value)) = (old, &old_value)
            && old_value != new_value
        {
            self.objects.remove(&(value.as_str().into(), old.key.clone()));
        }
        if let (Some(new), Some(value)) = (new, new_value) {
            let value = self.shared(value);
            self.objects.insert((value, new.key.clone()), new.clone());
        }
    }

    /// The text as another object in the index has it: most values are those of many objects.
    fn shared(&self, value: String) -> Arc<str> {
        let value: Arc<str> = value.into();
        let first = (Bound::Included((value.clone(), Key::from_backend(""))), Bound::Unbounded);
        match self.objects.range(first).next() {
            Some(((same, _), _)) if *same == value => same.clone(),
            _ => value,
        }
    }
}
