//! The kinds that are served now.
//!
//! Kept true: a [`Snapshot`] never changes, so a request that holds one sees the same kinds from its beginning to its end;
//! kinds of one group, version and plural are there once.

use crate::kind::Kind;
use arc_swap::ArcSwap;
use std::{
    borrow::Borrow,
    collections::{HashMap, hash_map::Entry},
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

/// The kinds that are served, which can change while requests run.
pub struct Catalog {
    current: ArcSwap<Snapshot>,
    /// Held during a change, so that no concurrent change is lost.
    changing: Mutex<()>,
}

/// The kinds that were served at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// In the order of discovery.
    kinds: Vec<Arc<Kind>>,
    by_plural: HashMap<ByPlural, Vec<Arc<Kind>>>,
}

impl Catalog {
    /// A catalog of these kinds.
    pub fn new(kinds: impl IntoIterator<Item = Arc<Kind>>) -> Catalog {
        let snapshot = Snapshot::default().with(kinds);
        Catalog { current: ArcSwap::from_pointee(snapshot), changing: Mutex::default() }
    }

    /// The kinds that are served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The kind at that path, if it is served now.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.current.load().find(group, version, plural).cloned()
    }

    /// Serves these kinds too. One of the same group, version and plural is replaced.
    pub fn add(&self, kinds: impl IntoIterator<Item = Arc<Kind>>) {
        self.change(|snapshot| snapshot.with(kinds));
    }

    /// Removes the kinds for which this is true.
    pub fn remove(&self, goes: impl Fn(&Kind) -> bool) {
        self.change(|snapshot| {
            Snapshot::of(snapshot.kinds.iter().filter(|kind| !goes(kind)).cloned().collect())
        });
    }

    /// Serves these kinds in place of all for which this is true.
    pub fn replace(&self, goes: impl Fn(&Kind) -> bool, kinds: impl IntoIterator<Item = Arc<Kind>>) {
        self.change(|snapshot| {
            let stay = snapshot.kinds.iter().filter(|kind| !goes(kind)).cloned();
            Snapshot::of(stay.chain(kinds).collect())
        });
    }

    fn change(&self, change: impl FnOnce(&Snapshot) -> Snapshot) {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&self.current.load());
        self.current.store(Arc::new(changed));
    }
}

impl Snapshot {
    /// All kinds, in the order of discovery.
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// The kind at that path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        // Hardly any two kinds have the same plural.
        let mut alike = self.by_plural.get(plural)?.iter();
        alike.find(|kind| kind.version == version && kind.group == group)
    }

    /// Whether any kind is of this group.
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group)
    }

    /// Whether any built-in kind is of this group.
    pub fn has_built_in_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group && !kind.is_custom())
    }

    /// The groups in the order of discovery, each with its versions, the preferred one first. The core group leads.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for kind in &self.kinds {
            match groups.iter_mut().find(|(group, _)| *group == kind.group) {
                Some((_, versions)) if versions.contains(&kind.version.as_str()) => {}
                Some((_, versions)) => versions.push(&kind.version),
                None => groups.push((&kind.group, vec![&kind.version])),
            }
        }
        groups
    }

    fn with(&self, more: impl IntoIterator<Item = Arc<Kind>>) -> Snapshot {
        let mut kinds = self.kinds.clone();
        let mut places: HashMap<(String, String, String), usize> = HashMap::new();
        let place_of = |kind: &Kind| (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        for (at, kind) in kinds.iter().enumerate() {
            places.insert(place_of(kind), at);
        }
        for kind in more {
            match places.entry(place_of(&kind)) {
                Entry::Occupied(place) => kinds[*place.get()] = kind,
                Entry::Vacant(place) => {
                    place.insert(kinds.len());
                    kinds.push(kind);
                }
            }
        }
        Snapshot::of(kinds)
    }

    /// Of kinds of which no two have the same group, version and plural.
    #[expect(clippy::mutable_key_type, reason = "a kind is hashed by its plural alone")]
    fn of(kinds: Vec<Arc<Kind>>) -> Snapshot {
        let mut by_plural: HashMap<ByPlural, Vec<Arc<Kind>>> = HashMap::with_capacity(kinds.len());
        for kind in &kinds {
            by_plural.entry(ByPlural(Arc::clone(kind))).or_default().push(Arc::clone(kind));
        }
        Snapshot { kinds, by_plural }
    }
}

/// A kind that is looked up by its plural, which is not copied for that: catalogs are made anew with every change.
#[derive(Debug)]
struct ByPlural(Arc<Kind>);

impl Borrow<str> for ByPlural {
    fn borrow(&self) -> &str {
        &self.0.plural
    }
}

impl PartialEq for ByPlural {
    fn eq(&self, other: &ByPlural) -> bool {
        self.0.plural == other.0.plural
    }
}

impl Eq for ByPlural {}

impl Hash for ByPlural {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.plural.as_str().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets(version: &str) -> Arc<Kind> {
        Arc::new(Kind::of_type("example.com", "core.v1.ConfigMap", "widgets").version(version))
    }

    #[test]
    fn a_snapshot_does_not_change_with_the_catalog() {
        let catalog = Catalog::new([widgets("v1")]);
        let before = catalog.snapshot();
        catalog.add([widgets("v2")]);
        assert!(catalog.find("example.com", "v2", "widgets").is_some());
        assert!(before.find("example.com", "v2", "widgets").is_none());
        assert_eq!(catalog.snapshot().groups(), [("example.com", vec!["v1", "v2"])]);
        catalog.remove(|kind| kind.version == "v1");
        assert!(catalog.find("example.com", "v1", "widgets").is_none());
        catalog.remove(|kind| kind.group == "example.com");
        assert!(!catalog.snapshot().has_group("example.com") && before.has_group("example.com"));
    }

    #[test]
    fn a_kind_that_is_added_again_replaces_the_first() {
        let catalog = Catalog::new([widgets("v1")]);
        let (first, second) = (catalog.find("example.com", "v1", "widgets").unwrap(), widgets("v1"));
        catalog.add([Arc::clone(&second)]);
        let found = catalog.find("example.com", "v1", "widgets").unwrap();
        assert!(found.id() == second.id() && found.id() != first.id());
        assert_eq!(catalog.snapshot().kinds().len(), 1);
    }
}
