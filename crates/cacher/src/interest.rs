//! Who wants to know of what: watchers filed so that an event meets only those that may care.
//!
//! A watcher stands in one place: under its scope and, there, under one of the exact values that its selectors ask
//! for, if they ask for any. An event looks into the places of its key's scopes, with the values that the object has
//! before and after it. So what an event costs does not grow with the watchers of other keys and other values.
//!
//! Kept true by [`Interest::add`] and [`Interest::remove`]: a watcher stands in exactly one place and knows where in
//! it; a place that nobody stands in is gone. Meeting an event does not mean that the watcher sees it: its predicate
//! decides.

use keepwatch_apimachinery::selector::{Comparison, FieldTerm};
use keepwatch_storage::{Attributes, Object, Predicate, Scope};
use std::{
    collections::{BTreeMap, HashMap},
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
    /// In order, as they are walked through.
    fields: BTreeMap<Box<str>, HashMap<Box<str>, Place<W>>>,
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
    /// The exact value that a predicate asks for, preferring one that few objects are likely to have: a name, another
    /// field, a label, and the namespace last.
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
            .unwrap_or(Self::Anything)
    }
}

impl<W> Default for ByValue<W> {
    fn default() -> Self {
        Self { anything: Vec::new(), labels: HashMap::new(), fields: BTreeMap::new() }
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
        let place = match Term::of(watcher.predicate()) {
            Term::Anything => &mut by_value.anything,
            Term::Label(name, value) => {
                by_value.labels.entry(name.into()).or_default().entry(value.into()).or_default()
            }
            Term::Field(name, value) => {
                by_value.fields.entry(name.into()).or_default().entry(value.into()).or_default()
            }
        };
        push(place, watcher.clone());
        self.len += 1;
    }

    /// Removes a watcher that was added.
    pub(crate) fn remove(&mut self, watcher: &Arc<W>) {
        let scope = watcher.scope().key().as_str();
        let Some(by_value) = self.scopes.get_mut(scope) else { return };
        let removed = match Term::of(watcher.predicate()) {
            Term::Anything => swap_remove(&mut by_value.anything, watcher),
            Term::Label(name, value) => {
                let Some(values) = by_value.labels.get_mut(name) else { return };
                let removed = remove_under(values, value, watcher);
                if values.is_empty() {
                    by_value.labels.remove(name);
                }
                removed
            }
            Term::Field(name, value) => {
                let Some(values) = by_value.fields.get_mut(name) else { return };
                let removed = remove_under(values, value, watcher);
                if values.is_empty() {
                    by_value.fields.remove(name);
                }
                removed
            }
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

    /// Everyone, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<W>> {
        self.scopes.values().flat_map(|by_value| {
            let named = by_value.labels.values().chain(by_value.fields.values()).flat_map(HashMap::values);
            [&by_value.anything].into_iter().chain(named).flatten()
        })
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
    values: &mut HashMap<Box<str>, Place<W>>,
    value: &str,
    watcher: &Arc<W>,
) -> bool {
    let Some(place) = values.get_mut(value) else { return false };
    let removed = swap_remove(place, watcher);
    if place.is_empty() {
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
    struct Wants {
        scope: Scope,
        predicate: Predicate,
        place: AtomicUsize,
    }

    impl Interested for Wants {
        fn scope(&self) -> &Scope {
            &self.scope
        }

        fn predicate(&self) -> &Predicate {
            &self.predicate
        }

        fn place(&self) -> &AtomicUsize {
            &self.place
        }
    }

    fn wants(scope: &str, labels: &str, fields: &str) -> Arc<Wants> {
        let key = Key::from_backend(scope);
        Arc::new(Wants {
            scope: if scope.ends_with('/') { Scope::Children(key) } else { Scope::Object(key) },
            predicate: Predicate {
                labels: LabelSelector::parse(labels).unwrap(),
                fields: FieldSelector::parse(fields).unwrap(),
            },
            place: AtomicUsize::new(usize::MAX),
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
        Version { key: Key::from_backend(key), value: "{}".into(), revision, attributes }.into()
    }

    fn met(interest: &Interest<Wants>, old: Option<&Object>, new: Option<&Object>) -> Vec<Arc<Wants>> {
        let mut met = Vec::new();
        interest.meet(old, new, |watcher| met.push(watcher.clone()));
        met
    }

    const KEYS: [&str; 4] = ["/r/pods/n/a", "/r/pods/n/b", "/r/pods/m/a", "/r/pods/nn/a"];

    fn any_watcher() -> impl Strategy<Value = Arc<Wants>> {
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
            .prop_map(|(scope, labels, fields)| wants(scope, labels, fields))
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

    /// What became of an object at revision 9.
    fn event(old: Option<&Object>, new: Option<&Object>) -> Arc<Event> {
        let version = |number| ResourceVersion::new(number).unwrap();
        let limits = Limits::new(std::time::Duration::ZERO, usize::MAX);
        let mut history = History::new(version(1), limits);
        history.record(version(9), old.cloned(), new.cloned(), Instant::now()).0
    }

    proptest! {
        /// With any selectors and events, every watcher sees exactly what a look at all watchers would give it.
        #[test]
        fn the_index_leaves_nobody_out_and_nobody_is_met_twice(
            watchers in vec(any_watcher(), 0..24),
            leaving in vec(any::<prop::sample::Index>(), 0..12),
            events in vec(select(&KEYS).prop_flat_map(|key| (any_object(key), any_object(key))), 1..24),
        ) {
            let mut interest = Interest::default();
            for watcher in &watchers {
                interest.add(watcher.clone());
            }
            let mut here = watchers;
            for at in leaving {
                if !here.is_empty() {
                    let gone = here.swap_remove(at.index(here.len()));
                    interest.remove(&gone);
                    interest.remove(&gone);
                }
            }
            prop_assert_eq!(interest.len(), here.len());
            for (old, new) in events {
                if old.is_none() && new.is_none() {
                    continue;
                }
                let event = event(old.as_ref(), new.as_ref());
                let met = met(&interest, old.as_ref(), new.as_ref());
                let sees = |watcher: &Arc<Wants>| event.seen_through(&watcher.predicate);
                for watcher in &here {
                    let times = met.iter().filter(|other| Arc::ptr_eq(other, watcher)).count();
                    prop_assert!(times <= 1, "met {} times", times);
                    let naive = sees(watcher).filter(|_| watcher.scope.contains(event.key()));
                    let found = if times == 1 { sees(watcher) } else { None };
                    prop_assert_eq!(found, naive);
                }
                prop_assert!(met.iter().all(|met| here.iter().any(|here| Arc::ptr_eq(here, met))));
            }
            here.iter().for_each(|watcher| interest.remove(watcher));
            prop_assert!(interest.scopes.is_empty());
        }
    }

    #[test]
    fn an_event_meets_only_watchers_of_its_values() {
        let mut interest = Interest::default();
        for node in 0..1000 {
            interest.add(wants("/r/pods/", "", &format!("spec.nodeName=node-{node}")));
            interest.add(wants("/r/pods/", &format!("app=app-{node}"), ""));
            interest.add(wants(&format!("/r/pods/namespace-{node}/"), "", ""));
            interest.add(wants(&format!("/r/pods/n/pod-{node}"), "", ""));
        }
        let old = object("/r/pods/n/pod-5", &[("app", "app-1")], Some("node-1"));
        let new = object("/r/pods/n/pod-5", &[("app", "app-2")], Some("node-2"));
        // Those of two nodes, of two apps, and of the object.
        assert_eq!(met(&interest, Some(&old), Some(&new)).len(), 5);
        assert_eq!(met(&interest, Some(&old), None).len(), 3);
    }

    #[test]
    fn an_object_that_leaves_a_value_is_told_to_those_who_had_it() {
        let mut interest = Interest::default();
        interest.add(wants("/r/pods/", "app=web", ""));
        let old = object("/r/pods/n/a", &[("app", "web")], None);
        let new = object("/r/pods/n/a", &[("app", "db")], None);
        let event = event(Some(&old), Some(&new));
        let [watcher] = &met(&interest, Some(&old), Some(&new))[..] else { panic!("one is met") };
        let Some(WatchEvent::Deleted(gone)) = event.seen_through(&watcher.predicate) else {
            panic!("it is gone")
        };
        assert_eq!((gone.revision.get(), gone.attributes.labels.get("app")), (9, Some("web")));
    }
}
