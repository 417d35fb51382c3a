//! The stored form of an object: from a document to bytes and back.

use super::ResourceStore;
use crate::{
    convert,
    document::Edit,
    error::Error,
    kind::Kind,
    schema::{self, EmptyLists},
};
use bytes::Bytes;
use keepwatch_apimachinery::{
    ResourceVersion,
    meta::{Peek, write_versioned},
};
use keepwatch_storage::Object;
use serde_json::Value;
use std::cell::RefCell;

/// An object as it is encoded for a client. A custom resource is in the requested version.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// Its JSON, without a version.
    pub value: Bytes,
    /// The offset at which the resource version is inserted.
    pub version_at: Option<u32>,
    /// The resource version; absent if nothing was stored.
    pub revision: Option<ResourceVersion>,
}

impl ObjectView {
    /// Appends its JSON, with the version.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self.revision {
            Some(revision) => write_versioned(out, &self.value, self.version_at, revision),
            None => out.extend_from_slice(&self.value),
        }
    }

    /// The document, with the version.
    pub fn document(&self) -> Value {
        document_of(&self.value, self.revision)
    }
}

impl From<&Object> for ObjectView {
    fn from(object: &Object) -> ObjectView {
        ObjectView {
            value: object.value.clone(),
            version_at: object.attributes.version_at,
            revision: Some(object.revision),
        }
    }
}

impl ResourceStore {
    /// A document as if it were stored: the result of a dry run.
    pub(super) fn unstored(
        &self,
        kind: &Kind,
        document: &Value,
        revision: Option<ResourceVersion>,
    ) -> ObjectView {
        let value = encode(kind, document);
        let version_at = Peek::at(&value).ok().and_then(|peek| peek.version_at);
        ObjectView { value, version_at, revision }
    }
}

/// The stored document of an object, with its resource version.
pub(crate) fn document_of(value: &[u8], revision: Option<ResourceVersion>) -> Value {
    let mut document: Value = serde_json::from_slice(value).unwrap_or_default();
    if let Some(revision) = revision {
        document.object_or_new("metadata").insert("resourceVersion".to_owned(), revision.to_string().into());
    }
    document
}

pub(crate) fn convert_from_stored(kind: &Kind, document: Value) -> Value {
    if kind.stored_as.is_some() { convert::from_stored(kind, document) } else { document }
}

pub(super) fn without_version(mut document: Value) -> Value {
    document.object_or_new("metadata").remove("resourceVersion");
    document
}

thread_local! {
    /// A buffer in which documents are encoded first, as their length is not known: stored bytes have no spare
    /// capacity.
    static WRITING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The largest capacity of that buffer that is kept for the next document.
const WRITING_BYTES_MAX: usize = 64 << 10;

/// The bytes that are stored for a document.
pub(crate) fn encode(kind: &Kind, document: &Value) -> Bytes {
    WRITING.with_borrow_mut(|out| {
        out.clear();
        let empty_lists = if kind.stored_as_json { EmptyLists::Kept } else { EmptyLists::Null };
        if kind.stored_as.is_some() {
            let stored = convert::to_stored(kind, document.clone());
            schema::write_stored(out, &stored, kind.stored().ty, empty_lists);
        } else {
            schema::write_stored(out, document, kind.ty, empty_lists);
        }
        let encoded = Bytes::copy_from_slice(out);
        out.shrink_to(WRITING_BYTES_MAX);
        encoded
    })
}

/// The bytes of a document of a custom resource.
pub(crate) fn write(document: &Value) -> Bytes {
    WRITING.with_borrow_mut(|out| {
        out.clear();
        schema::write_any(out, document);
        let encoded = Bytes::copy_from_slice(out);
        out.shrink_to(WRITING_BYTES_MAX);
        encoded
    })
}

/// The largest size of an object: no larger than a request, so that a client can send back what it received.
pub const OBJECT_BYTES_MAX: usize = 3 << 20;

/// Refuses an object that is too large. One that was too large before may still be changed, as long as it does not grow.
pub(super) fn refuse_large(value: &Bytes, bytes_before: usize) -> Result<(), Error> {
    if value.len() <= OBJECT_BYTES_MAX.max(bytes_before) {
        return Ok(());
    }
    let why = format!("the object would have more than {OBJECT_BYTES_MAX} bytes");
    Err(Error::TooLarge(why))
}
