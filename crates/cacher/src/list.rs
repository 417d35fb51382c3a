//! Lists of a snapshot: one page of a scope, filtered by selectors.

use crate::{bloom::PredicateFilter, metrics::Metrics, store::Store};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ContinueToken},
};
use keepwatch_storage::{InvalidKey, List, Object, Predicate, Scope, StorageError};

/// The number of objects that are examined with a short selector before other tasks have their turn.
const OBJECTS_BETWEEN_YIELDS: usize = 4096;

/// A list request for a snapshot.
pub(crate) struct SnapshotList<'a> {
    pub(crate) scope: &'a Scope,
    /// The key at which the list starts; the first of the scope if absent.
    pub(crate) from: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) predicate: &'a Predicate,
    /// The resource version of the list.
    pub(crate) revision: ResourceVersion,
}

impl SnapshotList<'_> {
    pub(crate) async fn read(self, store: &Store, metrics: &Metrics) -> Result<List, StorageError> {
        let limit = self.limit.filter(|limit| *limit > 0);
        let everything = self.predicate.is_everything();
        let filter = PredicateFilter::new(self.predicate);
        let between_yields = filter.examined_max(OBJECTS_BETWEEN_YIELDS);
        let (mut items, mut examined, mut from) = (Vec::new(), 0, self.from);
        if everything && limit.is_none() && matches!(self.scope, Scope::Children(_)) {
            items.reserve(if from.is_none() { store.len() } else { 0 });
        }
        let mut candidates = store.find(self.scope, from.as_deref(), self.predicate);
        let index = candidates.index;
        while let Some(entry) = candidates.entries.next() {
            if limit == Some(items.len()) {
                let next = Some(continue_after(self.scope, items.last(), self.revision)?);
                // The remaining objects are counted only if all of them match.
                let remaining = everything.then(|| store.count_from(self.scope, &entry.object.key));
                metrics.count_list(index, examined, items.len());
                return Ok(List { items, revision: self.revision, next, remaining, looked_at: examined });
            }
            examined += 1;
            if filter.matches(entry.bloom, &entry.object) {
                items.push(entry.object.clone());
            }
            if examined.is_multiple_of(between_yields) {
                from = Some(format!("{}\0", entry.object.key));
                drop(candidates);
                tokio::task::yield_now().await;
                candidates = store.find(self.scope, from.as_deref(), self.predicate);
            }
        }
        metrics.count_list(index, examined, items.len());
        Ok(List { items, revision: self.revision, next: None, remaining: None, looked_at: examined })
    }
}

fn continue_after(
    scope: &Scope,
    last: Option<&Object>,
    revision: ResourceVersion,
) -> Result<ContinueToken, StorageError> {
    let last = last.map_or(scope.key(), |last| &last.key);
    ContinueToken::after(last, scope.key(), ContinueAt::Exact(revision))
        .ok_or_else(|| InvalidKey::Element(last.to_string()).into())
}
