//! Custom resources between the version in which they are stored and the one in which they are shown.
//!
//! Kept true: objects are stored in the current storage version of the definition, and are shown with the form and the
//! defaults that the definition gives them now, even if it has changed since they were stored. An object that is stored
//! as it is shown is recognised once, is marked, and is never decoded again.
//!
//! If only the name of the version differs, the conversion is done here. Else a webhook converts: [`Converter`] sends
//! it the objects, and each call sends many, because calls are expensive.

use super::{Definition, Served, definition::Webhook, schema::Source};
use crate::{
    document::{Edit, FieldErrors, Fields, Node},
    error::Error,
    kind::Kind,
    rest::{ObjectView, Registry, document_of, encode},
    validation::metadata,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use keepwatch_apimachinery::meta::Peek;
use keepwatch_storage::{Attributes, Object, StorageError, Version, Watch, WatchEvent, WeakObject};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt, sync::Arc};

/// The largest number of objects in one call of a webhook, and about the largest number of bytes.
const CONVERTED_AT_ONCE_MAX: usize = 200;
const CONVERTED_BYTES_MAX: usize = 1 << 20;
/// The largest number of bytes of converted objects that are cached for each definition, for later reads and watches of
/// the same objects.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// The delay after which a client may retry a watch that a webhook could not convert.
const RETRY_SECONDS: u32 = 1;

/// Sends objects to webhooks that convert them.
#[async_trait]
pub trait Converter: Send + Sync {
    /// Sends a `ConversionReview` as JSON and returns the body of the response.
    async fn send(&self, webhook: &Webhook, review: Bytes) -> Result<Bytes, ConversionError>;
}

/// The reason why a call of a webhook failed, in the words that clients receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionError(pub String);

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConversionError {}

/// The objects that a webhook converted recently.
#[derive(Debug, Default)]
pub(super) struct Converted(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The key is the address of the stored object in memory, and the version.
    objects: HashMap<(usize, usize), (WeakObject, Object)>,
    bytes: usize,
}

impl Converted {
    fn get(&self, stored: &Object, version: usize) -> Option<Object> {
        let kept = self.0.lock();
        let (own, converted) = kept.objects.get(&(stored.address(), version))?;
        own.upgrade().is_some_and(|own| own.is(stored)).then(|| converted.clone())
    }

    fn keep(&self, stored: &Object, version: usize, converted: &Object) {
        let mut kept = self.0.lock();
        let bytes = converted.value.len();
        if kept.bytes + bytes > KEPT_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        kept.objects.insert((stored.address(), version), (stored.downgrade(), converted.clone()));
    }
}

impl Definition {
    /// A stored document with the form and the defaults that its own version has now, and the number of that version.
    pub(super) fn stored_document(&self, value: &[u8]) -> (Value, usize) {
        let mut document: Value = serde_json::from_slice(value).unwrap_or_default();
        let version = self.version_of(document.text("apiVersion"));
        // Never fails for a document of storage: values without a meaning are dropped.
        let _ = self.form(version, &mut document, Source::Storage);
        // Nor does this, unless the definition was changed so that its objects no longer fit. They are shown as they are.
        let _ = self.fill_defaults(version, &mut document);
        (document, version)
    }

    /// Gives a converted document the form that it has in a version.
    fn formed(&self, document: &mut Value, version: usize) {
        document.make_object().insert("apiVersion".to_owned(), self.api_version(version).into());
        // As above.
        let _ = self.form(version, document, Source::Storage);
    }
}

impl Served {
    /// Whether an object is stored as it is shown.
    fn is_as_shown(&self, object: &Object) -> bool {
        object.attributes.marks.is_set(self.version)
    }

    /// A stored object as it is shown.
    fn shown(&self, object: &Object) -> ObjectView {
        if self.is_as_shown(object) {
            return ObjectView::from(object);
        }
        let (mut document, _) = self.definition.stored_document(&object.value);
        // Its version may be one that the definition no longer has.
        if document.text("apiVersion") != self.definition.api_version(self.version) {
            self.definition.formed(&mut document, self.version);
        }
        let value = crate::rest::write(&document);
        if value == object.value {
            object.attributes.marks.set(self.version);
            return ObjectView::from(object);
        }
        let version_at = Peek::at(&value).ok().and_then(|peek| peek.version_at);
        ObjectView { value, version_at, revision: Some(object.revision) }
    }

    /// Whether only a webhook can show an object.
    fn needs_webhook(&self, object: &Object) -> bool {
        !self.is_as_shown(object) && self.definition.version_of(api_version(&object.value)) != self.version
    }
}

impl Kind {
    /// Whether an object of a custom resource is known to be stored as this kind shows it. Found out when it is first
    /// shown.
    pub fn shows_as_stored(&self, object: &Object) -> bool {
        self.custom.as_ref().is_some_and(|served| served.is_as_shown(object))
    }

    /// Notes that an object was written just now as this kind shows it.
    pub(crate) fn mark_written(&self, object: &Object) {
        if let Some(served) =
            self.custom.as_ref().filter(|served| served.version == served.definition.storage)
        {
            object.attributes.marks.set(served.version);
        }
    }
}

impl ObjectView {
    /// A stored object as a kind shows it. Those that a webhook has to convert come from the registry converted.
    pub fn of(kind: &Kind, object: &Object) -> ObjectView {
        match &kind.custom {
            None => ObjectView::from(object),
            Some(served) => served.shown(object),
        }
    }
}

/// The apiVersion in a stored value.
fn api_version(value: &[u8]) -> &str {
    // Fields are sorted, and hardly any name comes before this one.
    let begins = value.strip_prefix(br#"{"apiVersion":""#);
    let quick = begins.and_then(|rest| Some(&rest[..memchr::memchr(b'"', rest)?]));
    quick.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
}

/// An object in which only the value is another.
fn replaced(object: &Object, value: Bytes, mark: usize) -> Object {
    let old = &object.attributes;
    let version_at = Peek::at(&value).ok().and_then(|peek| peek.version_at);
    let attributes = Attributes {
        uid: old.uid.clone(),
        labels: old.labels.clone(),
        fields: old.fields.clone(),
        version_at,
        has_version: false,
        found_by: old.found_by,
        marks: Default::default(),
    };
    attributes.marks.set(mark);
    let (key, revision) = (object.key.clone(), object.revision);
    Version { key, value, revision, attributes: Arc::new(attributes) }.into()
}

/// Has the objects of a definition converted by its webhook.
#[derive(Clone)]
struct ByWebhook {
    served: Served,
    /// None if no webhooks are called here.
    converter: Option<Arc<dyn Converter>>,
}

impl ByWebhook {
    /// Stored objects in the version that is served; those that are in it already stay as they are.
    async fn convert_objects(&self, mut objects: Vec<Object>) -> Result<Vec<Object>, Error> {
        let Served { definition, version } = &self.served;
        let mut needed = Vec::new();
        for (at, object) in objects.iter_mut().enumerate() {
            if self.served.needs_webhook(object) {
                match definition.converted.get(object, *version) {
                    Some(converted) => *object = converted,
                    None => needed.push(at),
                }
            }
        }
        for batch in batches(&needed, &objects) {
            let documents = batch.iter().map(|at| definition.stored_document(&objects[*at].value).0);
            let converted = self.convert(documents.collect(), *version).await?;
            for (at, document) in batch.iter().zip(converted) {
                let converted = replaced(&objects[*at], crate::rest::write(&document), *version);
                definition.converted.keep(&objects[*at], *version, &converted);
                objects[*at] = converted;
            }
        }
        Ok(objects)
    }

    /// Events with their objects in the version that is served. An error is the last of them.
    async fn convert_events(
        &self,
        mut events: Vec<Result<WatchEvent, StorageError>>,
    ) -> Vec<Result<WatchEvent, StorageError>> {
        let objects = events.iter_mut().flatten().filter_map(object_in).map(|object| object.clone());
        let objects = objects.collect();
        match self.convert_objects(objects).await {
            Ok(converted) => {
                let places = events.iter_mut().flatten().filter_map(object_in);
                places.zip(converted).for_each(|(place, object)| *place = object);
                events
            }
            Err(error) => {
                let message = error.to_string();
                vec![Err(StorageError::Unready { message, retry_after_seconds: RETRY_SECONDS })]
            }
        }
    }

    /// Documents in another version of their definition.
    async fn convert(&self, documents: Vec<Value>, to: usize) -> Result<Vec<Value>, Error> {
        let definition = &self.served.definition;
        let what = documents.first().map_or_else(String::new, |document| {
            format!("{}, Kind={}", document.text("apiVersion"), document.text("kind"))
        });
        let error = |why: String| Error::Unexplained(format!("conversion webhook for {what} {why}"));
        let failed = |why: String| error(format!("failed: {why}"));
        let (Some(webhook), Some(converter)) = (&definition.webhook, &self.converter) else {
            return Err(failed("no webhooks are called here".to_owned()));
        };
        let (uid, wanted) = (crate::new_uid(), definition.api_version(to));
        let answer = converter.send(webhook, review(webhook, &uid, &wanted, &documents)).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let converted = converted_objects(&answer, webhook, &uid).map_err(failed)?;
        if converted.len() != documents.len() {
            return Err(error(format!("returned {} objects, expected {}", converted.len(), documents.len())));
        }
        let accepted =
            converted.into_iter().zip(&documents).enumerate().map(|(at, (mut document, original))| {
                accept(&mut document, original, &wanted, at)
                    .map_err(|why| error(format!("returned invalid {why}")))?;
                definition.formed(&mut document, to);
                Ok(document)
            });
        accepted.collect()
    }
}

impl Registry {
    fn by_webhook(&self, kind: &Kind) -> Option<ByWebhook> {
        let served = kind.custom.as_ref().filter(|served| served.definition.webhook.is_some())?;
        Some(ByWebhook { served: served.clone(), converter: self.converter.get().cloned() })
    }

    /// Objects that a webhook has to convert, converted for a kind; all others as they are.
    pub(crate) async fn converted(&self, kind: &Kind, objects: Vec<Object>) -> Result<Vec<Object>, Error> {
        match self.by_webhook(kind) {
            None => Ok(objects),
            Some(by_webhook) => by_webhook.convert_objects(objects).await,
        }
    }

    /// One object that a webhook may have to convert.
    pub(crate) async fn converted_one(&self, kind: &Kind, object: Object) -> Result<Object, Error> {
        let Some(by_webhook) = self.by_webhook(kind) else { return Ok(object) };
        let mut converted = by_webhook.convert_objects(vec![object]).await?;
        converted.pop().ok_or_else(|| Error::Internal("a conversion lost an object".to_owned()))
    }

    /// The events of a watch in the version of a kind. Objects that a webhook converts are sent many at a time.
    pub(crate) fn converted_watch(&self, kind: &Kind, watch: Watch) -> Watch {
        let Some(by_webhook) = self.by_webhook(kind) else { return watch };
        let converted = watch.ready_chunks(CONVERTED_AT_ONCE_MAX).then(move |events| {
            let by_webhook = by_webhook.clone();
            async move { stream::iter(by_webhook.convert_events(events).await) }
        });
        let mut has_failed = false;
        let until_error = move |event: &Result<WatchEvent, StorageError>| {
            let goes_on = !has_failed;
            has_failed |= event.is_err();
            futures::future::ready(goes_on)
        };
        converted.flatten().take_while(until_error).boxed()
    }

    /// A stored object as a kind shows it.
    pub(crate) async fn shown(&self, kind: &Kind, object: &Object) -> Result<ObjectView, Error> {
        match self.by_webhook(kind) {
            None => Ok(ObjectView::of(kind, object)),
            Some(_) => Ok(ObjectView::of(kind, &self.converted_one(kind, object.clone()).await?)),
        }
    }

    /// The document of a stored object in the version of a kind, with its resource version.
    pub(crate) async fn current_document(&self, kind: &Kind, object: &Object) -> Result<Value, Error> {
        if kind.custom.is_some() {
            return Ok(self.shown(kind, object).await?.document());
        }
        let document = document_of(&object.value, Some(object.revision));
        Ok(crate::rest::convert_from_stored(kind, document))
    }

    /// The bytes that are stored for a document of a kind.
    pub(crate) async fn stored_value(&self, kind: &Kind, document: &Value) -> Result<Bytes, Error> {
        let Some(served) = &kind.custom else { return Ok(encode(kind, document)) };
        let definition = &served.definition;
        if served.version == definition.storage {
            return Ok(crate::rest::write(document));
        }
        let document = match self.by_webhook(kind) {
            Some(by_webhook) => {
                let converted = by_webhook.convert(vec![document.clone()], definition.storage).await?;
                converted.into_iter().next().unwrap_or_default()
            }
            None => {
                let mut document = document.clone();
                definition.formed(&mut document, definition.storage);
                document
            }
        };
        Ok(crate::rest::write(&document))
    }
}

fn object_in(event: &mut WatchEvent) -> Option<&mut Object> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Some(object)
        }
        WatchEvent::Bookmark { .. } => None,
    }
}

/// Splits the objects to convert so that no request is large. A single object may exceed the limit.
fn batches<'a>(needed: &'a [usize], objects: &[Object]) -> Vec<&'a [usize]> {
    let (mut batches, mut rest) = (Vec::new(), needed);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |at: &&usize| {
            bytes += objects[**at].value.len();
            bytes <= CONVERTED_BYTES_MAX
        };
        let count = rest.iter().take(CONVERTED_AT_ONCE_MAX).take_while(fits).count().max(1);
        let (batch, others) = rest.split_at(count);
        batches.push(batch);
        rest = others;
    }
    batches
}

/// The version of `ConversionReview` that a webhook is sent: the first one it accepts that is known here.
fn review_version(webhook: &Webhook) -> &'static str {
    let known = ["v1", "v1beta1"];
    let wanted = webhook.review_versions.iter().find_map(|own| known.into_iter().find(|known| known == own));
    wanted.unwrap_or("v1")
}

fn review(webhook: &Webhook, uid: &str, wanted: &str, documents: &[Value]) -> Bytes {
    let version = review_version(webhook);
    let request = json!({"uid": uid, "desiredAPIVersion": wanted, "objects": documents});
    let review = json!({
        "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"), "request": request,
    });
    review.to_string().into()
}

/// The objects in a response.
fn converted_objects(answer: &[u8], webhook: &Webhook, uid: &str) -> Result<Vec<Value>, String> {
    let mut answer: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let expected = format!("apiextensions.k8s.io/{}", review_version(webhook));
    let found = (answer.text("apiVersion"), answer.text("kind"));
    if found != (expected.as_str(), "ConversionReview") {
        let (version, kind) = found;
        return Err(format!(
            "expected webhook response of {expected}, Kind=ConversionReview, got {version}, Kind={kind}"
        ));
    }
    let mut response = answer["response"].take();
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let found = response.text("uid");
    if found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (status, message) = (response.text("result.status"), response.text("result.message"));
    if status != "Success" {
        return Err(match message {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Accepts a converted object: a webhook must not change its identity. Of the metadata it may change labels and
/// annotations, and all else stays as it was.
fn accept(converted: &mut Value, original: &Value, wanted: &str, at: usize) -> Result<(), String> {
    let found = converted.text("apiVersion");
    if found != wanted {
        return Err(format!(
            "object at index {at}: invalid groupVersion (expected {wanted}, received {found})"
        ));
    }
    let (kind, found) = (original.text("kind"), converted.text("kind"));
    if found != kind {
        return Err(format!("object at index {at}: invalid kind (expected {kind}, received {found})"));
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) =
            (original.text(&format!("metadata.{field}")), converted.text(&format!("metadata.{field}")));
        if before != after {
            return Err(format!("object: must have the same {name}: {before} != {after}"));
        }
    }
    let mut metadata = original["metadata"].clone();
    for field in ["labels", "annotations"] {
        metadata.set(field, converted.field(&format!("metadata.{field}")).cloned());
    }
    converted.make_object().insert("metadata".to_owned(), metadata);
    let (object, mut errors) = (Node::root(converted), FieldErrors::default());
    metadata::labels(&object.at("metadata.labels"), &mut errors);
    metadata::annotations(&object.at("metadata.annotations"), &mut errors);
    match errors.0.as_slice() {
        [] => Ok(()),
        [one] => Err(format!("metadata: {one}")),
        several => {
            let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(format!("metadata: [{}]", texts.join(", ")))
        }
    }
}
