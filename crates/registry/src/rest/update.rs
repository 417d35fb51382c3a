//! Update: a PUT or a patch of an object, or of a part of it.
//!
//! [`Registry::update`] tries until a write succeeds or is refused. Each attempt prepares the new document from the object
//! that is there ([`Registry::updated_document`]) and stores it.

use super::{
    ObjectView, Patch, Registry, ResourceStore, Target, WriteError, Written,
    attempts::{AttemptError, Attempts},
    patch::apply_patch,
    refuse_invalid,
    stored::{document_of, encode, refuse_large, without_version},
};
use crate::{
    codec::{Decoded, Expected},
    document::{Edit, Fields},
    error::Error,
    options::{FieldValidation, WriteOptions},
    schema::Timestamp,
    strategy::{self, Part, Repeated, Requester},
    validation,
};
use keepwatch_apimachinery::{ResourceVersion, status::Cause};
use keepwatch_storage::{
    DeleteOptions, Existing, Object, Preconditions, StorageError, Update, UpdateOptions,
};
use serde_json::{Value, json};

/// A change of an object, before the current object is known.
pub enum Change<'a> {
    /// A replacement (PUT).
    Replace(Value),
    /// A patch.
    Patch {
        /// The patch.
        patch: &'a Patch,
        /// The handling of unknown fields.
        strictness: FieldValidation,
    },
}

/// The result of an update.
enum Updated {
    Stored(ObjectView),
    /// The object did not exist, and its kind allows to create it by an update.
    Created(Written),
}

impl Registry {
    /// Changes an object, or a part of it.
    pub async fn update(
        &self,
        target: Target<'_>,
        part: Part,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<Written, WriteError> {
        let mut warnings = Vec::new();
        match self.update_warned(target, part, change, options, who, &mut warnings).await {
            Ok(Updated::Stored(object)) => Ok(Written { object, created: false, warnings }),
            Ok(Updated::Created(written)) => Ok(written),
            Err(error) => Err(WriteError { error, warnings }),
        }
    }

    async fn update_warned(
        &self,
        target: Target<'_>,
        part: Part,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
        warnings: &mut Vec<String>,
    ) -> Result<Updated, Error> {
        if let Change::Replace(document) = &change {
            target.must_be_named(document)?;
            target.must_be_of(document)?;
        }
        self.must_have_namespace(target).await?;
        let store = self.store(target.kind)?;
        let key = target.key();
        let creates =
            target.kind.create_on_update && part == Part::Main && matches!(change, Change::Replace(_));
        let mut attempts = Attempts::new(options.dry_run);
        while let Some(existing) = attempts.next(store.storage().as_ref(), &key).await {
            let existing = existing.map_err(|error| target.failed("update", error))?;
            let Some(current) = existing.object else {
                let Change::Replace(document) = &change else { return Err(target.not_found()) };
                let document = document.clone();
                if !creates {
                    return Err(target.not_found());
                }
                let uid = document.text("metadata.uid");
                if !uid.is_empty() {
                    let Some(status) = self.is_gone(target, &store, uid).await else { continue };
                    return Err(status);
                }
                // There is no stored version that could conflict.
                let decoded = Decoded { document: without_version(document), warnings: Vec::new() };
                let created = self.create(target, decoded, options, who).await;
                return created.map(Updated::Created).map_err(|failed| {
                    *warnings = failed.warnings;
                    failed.error
                });
            };
            let old = self.current_document(target.kind, &current).await?;
            let revised = self.updated_document(target, part, &change, (&current, &old), options, warnings);
            options.must_be_in_time()?;
            let stored = match revised {
                Ok(revised) => self.store_updated(target, revised, &current, options.dry_run).await,
                Err(error) => Err(error.into()),
            };
            match stored {
                Err(AttemptError::Conflict) => continue,
                Err(AttemptError::Refused(_)) if !existing.is_current => continue,
                Err(AttemptError::Refused(status) | AttemptError::Storage(status)) => return Err(status),
                Ok(shown) => return Ok(Updated::Stored(shown)),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }

    /// The error for a replacement with a uid if no object exists; none if one exists after all.
    async fn is_gone(&self, target: Target<'_>, store: &ResourceStore, uid: &str) -> Option<Error> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), revision: None };
        let options = UpdateOptions { ignore_not_found: true, preconditions, hint: None };
        let checked = store
            .storage()
            .guaranteed_update(&target.key(), options, &mut |_| Err("only its uid was asked for".into()))
            .await;
        match checked {
            Ok(_) | Err(StorageError::Rejected(_)) => None,
            Err(error) => Some(target.failed("update", error)),
        }
    }

    /// The new document of an object: changed, prepared and validated.
    fn updated_document(
        &self,
        target: Target<'_>,
        part: Part,
        change: &Change<'_>,
        (current, old): (&Object, &Value),
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Error> {
        warnings.clear();
        let kind = target.kind;
        let mut new = match change {
            Change::Replace(document) => document.clone(),
            Change::Patch { patch, strictness } => {
                apply_patch(Expected::of(kind), patch, *strictness, old, warnings)?
            }
        };
        match change {
            Change::Replace(_) => must_have_uid(target, &new, current)?,
            Change::Patch { .. } => target.must_be_named(&new)?,
        }
        target.must_match(&mut new)?;
        let repeated = match change {
            Change::Replace(_) => Repeated::InRequest,
            Change::Patch { .. } => Repeated::AfterAdmission,
        };
        warnings.extend(strategy::drop_repeated_owners(&mut new, repeated));
        must_be_based_on(target, &new, current)?;
        strategy::prepare_update(kind, part, &mut new, old, Timestamp::now());
        new.object_or_new("metadata").remove("resourceVersion");
        let mut causes = validation::update_part(kind, part, &new, old);
        let still_broken = validation::rules(kind, &new, Some(old), options, &mut causes)?;
        warnings.extend(still_broken);
        refuse_invalid(kind, &new, causes)?;
        if part == Part::Main {
            warnings.extend(validation::warnings(kind, &new, Some(old)));
        }
        kind.strategy.finish(&mut new);
        Ok(new)
    }

    async fn store_updated(
        &self,
        target: Target<'_>,
        mut new: Value,
        current: &Object,
        dry_run: bool,
    ) -> Result<ObjectView, AttemptError> {
        let store = self.store(target.kind)?;
        let finished = strategy::is_finished(target.kind, &new);
        if dry_run {
            if !finished {
                target.kind.strategy.reserve_dry_run(self, &mut new, Some(current))?;
            }
            return Ok(store.unstored(target.kind, &new, Some(current.revision)));
        }
        let key = target.key();
        let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
        if finished {
            let options = DeleteOptions { preconditions, hint: Some(current.clone()) };
            let gone = store.storage().delete(&key, options, &mut |_| Ok(())).await;
            gone.map_err(|error| AttemptError::of_write(target, "update", error))?;
            store.kind.strategy.after_deletion(self, target, current).await;
            return Ok(store.unstored(target.kind, &new, Some(current.revision)));
        }
        let reserved = target.kind.strategy.reserve(self, target, &mut new, Some(current)).await?;
        let value = match self.stored_value(target.kind, &new).await {
            Ok(value) => value,
            Err(error) => {
                self.release_reserved(reserved).await;
                return Err(error.into());
            }
        };
        if let Err(status) = refuse_large(&value, current.value.len()) {
            self.release_reserved(reserved).await;
            return Err(status.into());
        }
        let update = Update { value, ttl: self.ttl(target.kind) };
        let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current.clone()) };
        match store.storage().guaranteed_update(&key, options, &mut |_| Ok(update.clone())).await {
            Ok(object) => {
                self.commit_reserved(reserved).await;
                target.kind.mark_written(&object);
                Ok(self.shown(target.kind, &object).await?)
            }
            Err(error) => {
                self.release_reserved_after(target, reserved, &error).await;
                Err(AttemptError::of_write(target, "update", error))
            }
        }
    }

    /// Removes an object of this version, by the server itself.
    pub(crate) async fn remove_stored(&self, target: Target<'_>, current: &Object) -> Result<(), Error> {
        let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
        let options = DeleteOptions { preconditions, hint: Some(current.clone()) };
        let store = self.store(target.kind)?;
        let gone = store.storage().delete(&target.key(), options, &mut |_| Ok(())).await;
        gone.map(drop).map_err(|error| target.failed("delete", error))
    }

    /// Changes a stored object for the server itself, without the rules for clients.
    pub(crate) async fn change_stored(
        &self,
        target: Target<'_>,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), Error>,
    ) -> Result<Object, Error> {
        let storage = self.storage(target.kind).ok_or_else(|| target.not_found())?;
        let (key, mut attempts) = (target.key(), Attempts::new(dry_run));
        while let Some(existing) = attempts.next(storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failed("get", error))?;
            let current = object.ok_or_else(|| target.not_found())?;
            let mut document = document_of(&current.value, Some(current.revision));
            match change(&mut document) {
                Err(_) if !is_current => continue,
                changed => changed?,
            }
            if dry_run {
                return Ok(current);
            }
            document.object_or_new("metadata").remove("resourceVersion");
            let update = Update::new(encode(target.kind, &document));
            let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
            let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current) };
            match storage.guaranteed_update(&key, options, &mut |_| Ok(update.clone())).await {
                Err(StorageError::InvalidObject { .. }) => continue,
                other => return other.map_err(|error| target.failed("update", error)),
            }
        }
        Err(Error::modified(target.qualified(), target.name))
    }
}

/// Refuses a replacement with another uid: it is meant for another object.
pub(crate) fn must_have_uid(target: Target<'_>, new: &Value, current: &Object) -> Result<(), Error> {
    let uid = new.text("metadata.uid");
    if uid.is_empty() {
        return Ok(());
    }
    let preconditions = Preconditions { uid: Some(uid.to_owned()), revision: None };
    preconditions.check(&current.key, Some(current)).map_err(|error| target.failed("update", error))
}

/// Checks the resource version of a write: it must be the stored one.
pub(crate) fn must_be_based_on(target: Target<'_>, new: &Value, current: &Object) -> Result<(), Error> {
    let given = new.text("metadata.resourceVersion");
    let version = if given.is_empty() {
        None
    } else {
        ResourceVersion::parse(given).map_err(|error| Error::unexplained(error.reason()))?
    };
    match version {
        Some(version) if version == current.revision => Ok(()),
        Some(_) => Err(Error::modified(target.qualified(), target.name)),
        None if target.kind.unconditional_update => Ok(()),
        None => {
            let cause =
                Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            Err(Error::invalid(target.qualified(), target.name, vec![cause]))
        }
    }
}
