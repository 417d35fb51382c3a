//! Delete, of one object or of a collection.

use super::{
    ObjectView, Registry, ResourceStore, Target,
    attempts::{AttemptError, Attempts},
    read::namespace_and_name,
    stored::{document_of, encode, without_version},
};
use crate::{
    deletion::{Deletion, check_preconditions},
    error::Error,
    options::DeleteOptions,
    schema::Timestamp,
};
use keepwatch_apimachinery::list_options::ValidListOptions;
use keepwatch_storage::{Existing, List, Object, Preconditions, StorageError, Update, UpdateOptions};

/// The result of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// The object was removed; this was its last state.
    Gone(ObjectView),
    /// The object is marked for deletion, and stays until its finalizers are removed or its grace period is over.
    Held(ObjectView),
}

impl Registry {
    /// Deletes an object, or marks it for deletion if it has finalizers or a grace period.
    pub async fn delete(&self, target: Target<'_>, options: &DeleteOptions) -> Result<Deleted, Error> {
        target.kind.strategy.may_be_deleted(target)?;
        let store = self.store(target.kind)?;
        let key = target.key();
        let mut attempts = Attempts::new(options.dry_run);
        while let Some(existing) = attempts.next(store.storage().as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failed("get", error))?;
            let current = object.ok_or_else(|| target.not_found())?;
            // An object that cannot be shown is not deleted either, as upstream.
            let shown = ObjectView::of(target.kind, &self.converted_one(target.kind, current.clone()).await?);
            let document = document_of(&current.value, Some(current.revision));
            let deleted = match check_preconditions(target, options, &document) {
                Ok(()) => {
                    let plan =
                        store.kind.strategy.plan_deletion(&store.kind, options, &document, Timestamp::now());
                    if !plan.writes() && !is_current {
                        continue;
                    }
                    self.execute(target, &store, &key, plan, (current, shown), options.dry_run).await
                }
                Err(error) => Err(error.into()),
            };
            match deleted {
                Err(AttemptError::Conflict) => continue,
                Err(AttemptError::Refused(_)) if !is_current => continue,
                Err(AttemptError::Refused(status) | AttemptError::Storage(status)) => return Err(status),
                Ok(deleted) => return Ok(deleted),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }

    async fn execute(
        &self,
        target: Target<'_>,
        store: &ResourceStore,
        key: &str,
        plan: Deletion,
        (mut current, shown): (Object, ObjectView),
        dry_run: bool,
    ) -> Result<Deleted, AttemptError> {
        let Deletion { marked, removes } = plan;
        // After a write there are no more errors: if a webhook does not convert the object again, it is shown as
        // before.
        let shown_at = |revision| ObjectView { revision: Some(revision), ..shown.clone() };
        let is_marked = marked.is_some();
        if let Some(marked) = marked {
            let marked = without_version(marked);
            if dry_run {
                let shown = store.unstored(&store.kind, &marked, Some(current.revision));
                return Ok(if removes { Deleted::Gone(shown) } else { Deleted::Held(shown) });
            }
            let update = Update { value: encode(&store.kind, &marked), ttl: self.ttl(&store.kind) };
            let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
            let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current) };
            let stored = store.storage().guaranteed_update(key, options, &mut |_| Ok(update.clone())).await;
            current = stored.map_err(|error| AttemptError::of_write(target, "delete", error))?;
        }
        let shown = match is_marked {
            true => self.shown(target.kind, &current).await.unwrap_or_else(|_| shown_at(current.revision)),
            false => shown_at(current.revision),
        };
        if !removes {
            return Ok(Deleted::Held(shown));
        }
        if dry_run {
            return Ok(Deleted::Gone(shown));
        }
        let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
        let options = keepwatch_storage::DeleteOptions { preconditions, hint: Some(current.clone()) };
        let gone = match store.storage().delete(key, options, &mut |_| Ok(())).await {
            // Once it was marked without finalizers, any other write could remove it. The request has succeeded then.
            Err(StorageError::NotFound { .. }) if is_marked => {
                return Ok(Deleted::Gone(shown));
            }
            gone => gone.map_err(|error| AttemptError::of_write(target, "delete", error))?,
        };
        store.kind.strategy.after_deletion(self, target, &current).await;
        Ok(Deleted::Gone(ObjectView { revision: Some(gone.revision), ..shown }))
    }

    /// Deletes the objects of a list, and returns the list. Calls `may_go_on` before each object.
    pub async fn delete_collection(
        &self,
        target: Target<'_>,
        list_options: ValidListOptions,
        options: &DeleteOptions,
        may_go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<List, Error> {
        let list = self.list(target, list_options).await?;
        for object in &list.items {
            if !may_go_on() {
                return Err(Error::Stopping);
            }
            let (namespace, name) = namespace_and_name(target.kind, object);
            let one = Target { namespace, name, ..target };
            match self.delete(one, options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(list)
    }
}
