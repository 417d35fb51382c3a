//! Who wants to know of what: watchers filed so that an event meets only those that may care.
//!
//! A watcher stands in one place: under its scope and, there, under one of the exact values that its selectors ask
//! for, if they ask for any. An event looks into the places of its key's scopes, with the values that the object has
//! before and after it. So what an event costs does not grow with the watchers of other keys and other values.
//!
//! Kept true by [`Interest::add`] and [`Interest::remove`]: a watcher stands in exactly one place and knows where in
//! it; a place that nobody stands in is gone. Meeting an event does not mean that the watcher sees it: its predicate
//! decides.

use keepwatch_storage::{Attributes, Object, Predicate, Scope};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What is filed: it says what it wants, and remembers where in its place it stands.
pub(crate) trait Interested {
    fn scope(&self) -> &Scope;
    fn predicate(&self) -> &Predicate;
    /// Written by [`Interest`] alone.
    fn place(&self) -> &AtomicUsize;
}

pub(crate) struct Interest<W> {
    /// By the key or the prefix of the scope: no key ends like a prefix.
    scopes: HashMap<Box<str>, ByValue<W>>,
    len: usize,
}

/// The watchers of one scope.
struct ByValue<W> {
    anything: Place<W>,
    labels: HashMap<Box<str>, HashMap<Box<str>, Place<W>>>,
    fields: HashMap<Box<str>, HashMap<Box<str>, Place<W>>>,
}

type Place<W> = Vec<Arc<W>>;

/// Under which value of a scope a watcher is filed.
enum Term<'a> {
    Anything,
    Label(&'a str, &'a str),
    Field(&'a str, &'a str),
}

/// A field that says little: it is the same for all objects of a scope, or for very many.
const NAMESPACE_FIELD: &str = "metadata.namespace";

impl<'a> Term<'a> {
    /// The exact value that a predicate asks for, preferring one that few objects have.
    fn of(predicate: &'a Predicate) -> Self {
        let mut namespace = None;
        for term in predicate.fields.terms() {
            let Some(value) = predicate.fields.exact_match(&term.field) else { continue };
            if term.field != NAMESPACE_FIELD {
                return Self::Field(&term.field, value);
            }
            namespace = Some(Self::Field(&term.field, value));
        }
        let label = predicate.labels.requirements().iter().find_map(|requirement| {
            requirement.exact_value().map(|value| Self::Label(requirement.key(), value))
        });
        label.or(namespace).unwrap_or(Self::Anything)
    }
}

impl<W> Default for ByValue<W> {
    fn default() -> Self {
        Self { anything: Vec::new(), labels: HashMap::new(), fields: HashMap::new() }
    }
}

impl<W> Default for Interest<W> {
    fn default() -> Self {
        Self { scopes: HashMap::new(), len: 0 }
    }
}

impl<W: Interested> Interest<W> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn add(&mut self, watcher: Arc<W>) {
        let by_value = match self.scopes.get_mut(watcher.scope().key().as_str()) {
            Some(by_value) => by_value,
            None => self.scopes.entry(watcher.scope().key().as_str().into()).or_default(),
        };
        let under = |names: &mut HashMap<Box<str>, HashMap<Box<str>, Place<W>>>, name: &str, value: &str| {
            let place = names.entry(name.into()).or_default().entry(value.into()).or_default();
            push(place, watcher.clone());
        };
        match Term::of(watcher.predicate()) {
            Term::Anything => push(&mut by_value.anything, watcher.clone()),
            Term::Label(name, value) => under(&mut by_value.labels, name, value),
            Term::Field(name, value) => under(&mut by_value.fields, name, value),
        }
        self.len += 1;
    }

    /// Removes a watcher that was added.
    pub(crate) fn remove(&mut self, watcher: &Arc<W>) {
        let scope = watcher.scope().key().as_str();
        let Some(by_value) = self.scopes.get_mut(scope) else { return };
        let removed = match Term::of(watcher.predicate()) {
            Term::Anything => swap_remove(&mut by_value.anything, watcher),
            Term::Label(name, value) => remove_under(&mut by_value.labels, name, value, watcher),
            Term::Field(name, value) => remove_under(&mut by_value.fields, name, value, watcher),
        };
        if by_value.anything.is_empty() && by_value.labels.is_empty() && by_value.fields.is_empty() {
            self.scopes.remove(scope);
        }
        self.len -= usize::from(removed);
    }

    /// Calls `meet` once for each watcher that may care for a change of an object from `old` to `new`.
    pub(crate) fn meet(&self, old: Option<&Object>, new: Option<&Object>, mut meet: impl FnMut(&Arc<W>)) {
        let Some(object) = new.or(old).filter(|_| self.len > 0) else { return };
        let key = object.key.as_str();
        let before = old.map(|object| &object.attributes);
        let after = new.map(|object| &object.attributes);
        let prefixes = key.match_indices('/').map(|(slash, _)| &key[..=slash]);
        for scope in prefixes.chain([key]) {
            if let Some(by_value) = self.scopes.get(scope) {
                by_value.meet(before, after, &mut meet);
            }
        }
    }

    /// Everyone.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<W>)) {
        for by_value in self.scopes.values() {
            let named = by_value.labels.values().chain(by_value.fields.values()).flat_map(HashMap::values);
            for watcher in [&by_value.anything].into_iter().chain(named).flatten() {
                visit(watcher);
            }
        }
    }
}

impl<W> ByValue<W> {
    fn meet(&self, before: Option<&Attributes>, after: Option<&Attributes>, meet: &mut impl FnMut(&Arc<W>)) {
        self.anything.iter().for_each(&mut *meet);
        if !self.labels.is_empty() {
            self.meet_labels(after, None, meet);
            self.meet_labels(before, after, meet);
        }
        for (name, values) in &self.fields {
            // A field that the object lacks has the value "".
            let old = before.map(|before| before.fields.get(name).unwrap_or_default());
            let new = after.map(|after| after.fields.get(name).unwrap_or_default());
            for value in new.into_iter().chain(old.filter(|_| old != new)) {
                values.get(value).into_iter().flatten().for_each(&mut *meet);
            }
        }
    }

    /// Meets the watchers of every label that the object has and that it does not have in `met`.
    fn meet_labels(
        &self,
        object: Option<&Attributes>,
        met: Option<&Attributes>,
        meet: &mut impl FnMut(&Arc<W>),
    ) {
        for (name, value) in object.iter().flat_map(|object| object.labels.iter()) {
            if met.is_none_or(|met| met.labels.get(name) != Some(value))
                && let Some(place) = self.labels.get(name).and_then(|values| values.get(value))
            {
                place.iter().for_each(&mut *meet);
            }
        }
    }
}

fn push<W: Interested>(place: &mut Place<W>, watcher: Arc<W>) {
    watcher.place().store(place.len(), Ordering::Relaxed);
    place.push(watcher);
}

/// Whether it was there.
fn swap_remove<W: Interested>(place: &mut Place<W>, watcher: &Arc<W>) -> bool {
    let at = watcher.place().load(Ordering::Relaxed);
    if !place.get(at).is_some_and(|found| Arc::ptr_eq(found, watcher)) {
        return false;
    }
    place.swap_remove(at);
    if let Some(moved) = place.get(at) {
        moved.place().store(at, Ordering::Relaxed);
    }
    if place.len() < place.capacity() / 4 {
        place.shrink_to(place.len() * 2);
    }
    true
}

fn remove_under<W: Interested>(
    names: &mut HashMap<Box<str>, HashMap<Box<str>, Place<W>>>,
    name: &str,
    value: &str,
    watcher: &Arc<W>,
) -> bool {
    let Some(values) = names.get_mut(name) else { return false };
    let Some(place) = values.get_mut(value) else { return false };
    let removed = swap_remove(place, watcher);
    if place.is_empty() {
        values.remove(value);
    }
    if values.is_empty() {
        names.remove(name);
    }
    removed
}
