//! Get, list and watch.

use super::{Registry, Target, document_of, is_path_segment};
use crate::{
    error::Error,
    kind::{Kind, UnknownField},
};
use futures::StreamExt;
use keepwatch_apimachinery::{
    Quoted,
    list_options::{Position, ValidListOptions},
};
use keepwatch_storage::{List, ListRequest, Object, Predicate, Watch, WatchRequest, WatchTurns};
use std::{sync::Arc, time::Duration};

impl Registry {
    /// Reads an object.
    pub async fn get(&self, target: Target<'_>, position: Position) -> Result<Object, Error> {
        let key = target.key();
        let found = self.store(target.kind)?.storage().get(&key, position).await;
        let found = found.map_err(|error| target.failed("get", error))?.ok_or_else(|| target.not_found())?;
        self.converted_one(target.kind, found).await
    }

    /// Refuses a connection to an object behind which nothing can be reached.
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
        let store = self.store(target.kind)?;
        if target.kind.is_custom() {
            store.storage().until_ready().await;
        }
        let list = store.storage().get_list(&scope.key, request).await;
        let mut list = list.map_err(|error| target.failed("list", error))?;
        list.items = self.converted(target.kind, list.items).await?;
        Ok(list)
    }

    /// The size of an object in the watch cache, in bytes; 0 if the cache does not have it. Objects that expire are not
    /// cached.
    pub async fn stored_bytes(&self, target: Target<'_>) -> usize {
        if self.ttl(target.kind).is_some() {
            return 0;
        }
        let found = self.get(target, Position::Any).await;
        found.map_or(0, |object| object.value.len())
    }

    /// Watches objects.
    pub async fn watch(
        &self,
        target: Target<'_>,
        options: ValidListOptions,
        timeout: Duration,
        turns: Option<Arc<dyn WatchTurns>>,
    ) -> Result<Watch, Error> {
        let scope = Scope::of(target, options)?;
        let start = scope.options.watch_start().map_err(|status| Error::Unexplained(status.message))?;
        let request = WatchRequest {
            recursive: scope.recursive,
            start,
            progress: scope.options.options().allow_watch_bookmarks,
            predicate: scope.predicate,
            timeout: Some(timeout),
            turns,
        };
        let store = self.store(target.kind)?;
        if !target.kind.is_custom() {
            let watch = store.storage().watch(&scope.key, request).await;
            return watch.map_err(|error| target.failed("watch", error));
        }
        let mut current = store.current.subscribe();
        store.storage().until_ready().await;
        let watch = store.storage().watch(&scope.key, request).await;
        let watch = watch.map_err(|error| target.failed("watch", error))?;
        let replaced = async move { while current.changed().await.is_ok() {} };
        Ok(self.converted_watch(target.kind, watch.take_until(Box::pin(replaced)).boxed()))
    }
}

/// The namespace and name in an object's key.
pub(crate) fn namespace_and_name<'a>(kind: &Kind, object: &'a Object) -> (&'a str, &'a str) {
    let mut parts = object.key.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let namespace = if kind.namespaced { parts.next().unwrap_or_default() } else { "" };
    (namespace, name)
}

/// The objects that a list or watch covers.
struct Scope {
    key: String,
    recursive: bool,
    predicate: Predicate,
    options: ValidListOptions,
}

impl Scope {
    fn of(target: Target<'_>, options: ValidListOptions) -> Result<Scope, Error> {
        let kind = target.kind;
        // A key without the namespace would mean all namespaces.
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
        let target =
            Target { kind, namespace: if usable { namespace } else { "" }, name: name.unwrap_or_default() };
        let predicate =
            Predicate { labels: options.options().label_selector.clone(), fields: selector.clone() };
        Ok(Scope { key: target.key(), recursive: name.is_none(), predicate, options })
    }
}

/// The options with the names that the selected fields have in the index; an error if a field is unknown.
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
