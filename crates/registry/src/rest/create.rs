//! Create: POST, and a PUT that may create.

use super::{
    ObjectView, Registry, ResourceStore, Target, attempts::RACES_LOST_MAX, refuse_invalid,
    stored::refuse_large,
};
use super::{WriteError, Written};
use crate::{
    codec::Decoded,
    document::{Edit, Fields},
    error::Error,
    options::WriteOptions,
    schema::Timestamp,
    strategy::{self, Repeated, Requester},
    validation,
};
use bytes::Bytes;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{Object, StorageError, Unchanged};
use serde_json::Value;

/// The largest number of names that are generated before the request fails because all are taken.
const NAMES_TRIED_MAX: usize = 8;

impl Registry {
    /// Creates an object.
    pub async fn create(
        &self,
        target: Target<'_>,
        decoded: Decoded,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<Written, WriteError> {
        let Decoded { document, mut warnings } = decoded;
        match self.create_warned(target, document, options, who, &mut warnings).await {
            Ok(object) => Ok(Written { object, created: true, warnings }),
            Err(error) => Err(WriteError { error, warnings }),
        }
    }

    async fn create_warned(
        &self,
        target: Target<'_>,
        mut document: Value,
        options: &WriteOptions,
        who: &Requester,
        warnings: &mut Vec<String>,
    ) -> Result<ObjectView, Error> {
        target.must_match(&mut document)?;
        warnings.extend(strategy::drop_repeated_owners(&mut document, Repeated::InRequest));
        let unchanged = match target.kind.namespaced {
            true => self.must_take_new_content(target, document.name(), Position::Any).await?,
            false => None,
        };
        let refused_if_valid = target.kind.strategy.admit(self, target, &mut document).await?;
        match document.text("metadata.resourceVersion").parse::<u64>() {
            // Zero counts as not set, and so does a value that cannot be parsed.
            Ok(0) | Err(_) => drop(document.object_or_new("metadata").remove("resourceVersion")),
            // Storage refuses it, but a dry run does not write.
            Ok(_) if options.dry_run => drop(document.object_or_new("metadata").remove("resourceVersion")),
            Ok(_) => {
                return Err(Error::unexplained("resourceVersion should not be set on objects to be created"));
            }
        }
        let kind = target.kind;
        strategy::prepare_create(kind, &mut document, target.namespace, Timestamp::now(), who);
        let prefix = document.text("metadata.generateName").to_owned();
        let generated = document.name().is_empty() && !prefix.is_empty();
        let unnamed = (generated && kind.depends_on_name).then(|| document.clone());
        let before = warnings.len();
        for tried in 1.. {
            if let Some(unnamed) = unnamed.as_ref().filter(|_| tried > 1) {
                document = unnamed.clone();
            }
            if generated {
                let own = strategy::generate_name(&prefix);
                document.object_or_new("metadata").insert("name".to_owned(), own.into());
                kind.strategy.name_is_generated(&mut document);
            }
            let mut causes = validation::create(kind, &document);
            validation::rules(kind, &document, None, options, &mut causes)?;
            refuse_invalid(kind, &document, causes)?;
            if let Some(status) = refused_if_valid {
                return Err(status);
            }
            options.must_be_in_time()?;
            warnings.truncate(before);
            warnings.extend(validation::warnings(kind, &document, None));
            kind.strategy.finish(&mut document);
            let own = document.name().to_owned();
            let target = Target { name: &own, ..target };
            match self.store_new(target, &mut document, unchanged.clone(), options.dry_run).await {
                Ok(shown) => return Ok(shown),
                // A name of the request is not generated again, but the error is the same.
                Err(error) if error.is_conflict() && !prefix.is_empty() => {
                    if !generated || tried == NAMES_TRIED_MAX {
                        return Err(Error::no_free_name(target.qualified(), &own));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop above ends by returning")
    }

    async fn store_new(
        &self,
        target: Target<'_>,
        document: &mut Value,
        unchanged: Option<Unchanged>,
        dry_run: bool,
    ) -> Result<ObjectView, Error> {
        let store = self.store(target.kind)?;
        let key = target.key();
        if dry_run {
            let there = store.storage().get(&key, Position::MostRecent).await;
            if let Some(object) = there.map_err(|error| target.failed("create", error))? {
                return Err(target.exists(&object));
            }
            target.kind.strategy.reserve_dry_run(self, document, None)?;
            return Ok(store.unstored(target.kind, document, None));
        }
        let reserved = target.kind.strategy.reserve(self, target, document, None).await?;
        let value = match self.stored_value(target.kind, document).await {
            Ok(value) => value,
            Err(error) => {
                self.release_reserved(reserved).await;
                return Err(error);
            }
        };
        if let Err(status) = refuse_large(&value, 0) {
            self.release_reserved(reserved).await;
            return Err(status);
        }
        match self.write_new(target, &store, value, unchanged).await {
            Ok(object) => {
                self.commit_reserved(reserved).await;
                target.kind.mark_written(&object);
                self.shown(target.kind, &object).await
            }
            Err(CreateError::Refused(status)) => {
                self.release_reserved(reserved).await;
                Err(status)
            }
            Err(CreateError::Storage(error)) => {
                self.release_reserved_after(target, reserved, &error).await;
                if matches!(error, StorageError::KeyExists { .. }) {
                    let there = store.storage().get(&key, Position::MostRecent).await;
                    return Err(match there {
                        Ok(Some(object)) => target.exists(&object),
                        _ => Error::already_exists(target.qualified(), target.name, false),
                    });
                }
                Err(target.failed("create", error))
            }
        }
    }

    /// Writes a new object as long as its namespace takes it.
    async fn write_new(
        &self,
        target: Target<'_>,
        store: &ResourceStore,
        value: Bytes,
        mut unchanged: Option<Unchanged>,
    ) -> Result<Object, CreateError> {
        let (key, ttl) = (target.key(), self.ttl(target.kind));
        for _ in 0..RACES_LOST_MAX {
            match store.storage().create_while(&key, value.clone(), ttl, unchanged.as_ref()).await {
                Err(StorageError::OtherChanged { .. }) => {
                    let taken = self.must_take_new_content(target, target.name, Position::MostRecent).await;
                    unchanged = taken.map_err(CreateError::Refused)?;
                }
                written => return written.map_err(CreateError::Storage),
            }
        }
        let status = Error::conflict(target.qualified(), target.name, "its namespace changes all the time");
        Err(CreateError::Refused(status))
    }
}

/// The reason why a new object was not written.
enum CreateError {
    /// Its namespace does not take it.
    Refused(Error),
    /// Storage failed.
    Storage(StorageError),
}
