//! A watch on its way to a client: events in the requested format, each encoded once for all watchers.
//!
//! Kept true: after an error, which is sent as an event, nothing more comes; a watch that is dropped frees all it held.

mod encode;
pub mod websocket;

pub use encode::{Encodings, Format};

use crate::{
    failure::to_status,
    metrics::WatchMetrics,
    negotiation::{MetaVersion, Representation},
    render::{IncludeObject, Renderer, wrap_status},
    shutdown_signal,
    watch_limits::WatchPermit,
};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use keepwatch_apimachinery::{
    ResourceVersion,
    status::Status,
    watch::{EventType, INITIAL_EVENTS_END, frame},
};
use keepwatch_registry::{Error, ObjectView, codec::Media, protobuf};
use keepwatch_storage::{Object, StorageError, Watch, WatchEvent};
use serde_json::json;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{SystemTime, UNIX_EPOCH},
};

/// The events of a watch, encoded.
pub struct Events {
    watch: Watch,
    encoder: Encoder,
    metrics: WatchMetrics,
    /// Ends every watch when the server stops.
    stopping: shutdown_signal::Wait,
    _permit: Option<WatchPermit>,
    ended: bool,
}

impl Events {
    /// The events of `watch`, in the form that `renderer` has.
    pub fn new(
        watch: Watch,
        renderer: Renderer,
        encodings: Arc<Encodings>,
        metrics: WatchMetrics,
        stopping: shutdown_signal::Wait,
    ) -> Events {
        let format = format_of(&renderer);
        let is_plain = renderer.is_plain() && renderer.form.representation == Representation::Itself;
        let encoder = Encoder { renderer, encodings, format, is_plain, first: true };
        Events { watch, encoder, metrics, stopping, _permit: None, ended: false }
    }

    /// The same events, which hold a permit until they are dropped.
    pub(crate) fn holding(self, permit: WatchPermit) -> Events {
        Events { _permit: Some(permit), ..self }
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let next = match this.watch.poll_next_unpin(context) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                ready!(Pin::new(&mut this.stopping).poll(context));
                None
            }
        };
        let bytes = match next {
            None => None,
            Some(Ok(event)) => {
                if let WatchEvent::Bookmark { initial_state_end: true, .. } = event {
                    this.metrics.initial_state_sent();
                }
                Some(this.encoder.event(&event))
            }
            Some(Err(error)) => {
                this.ended = true;
                Some(this.encoder.error(error))
            }
        };
        this.ended |= bytes.is_none();
        if let Some(bytes) = &bytes {
            this.metrics.event_sent(bytes.len());
        }
        Poll::Ready(bytes)
    }
}

/// Encodes events, or finds those that were encoded for another watcher.
struct Encoder {
    renderer: Renderer,
    encodings: Arc<Encodings>,
    format: Format,
    /// Whether an object that is stored as it is shown is sent as it is stored.
    is_plain: bool,
    first: bool,
}

/// The number of forms in which the events of one resource are sent.
const FORMS: u64 = 64;

/// The number of a form of events: no two that differ have the same.
fn format_of(renderer: &Renderer) -> Format {
    let form = renderer.form;
    let version = |version: MetaVersion| u64::from(version == MetaVersion::V1beta1);
    let include = match renderer.include_object {
        IncludeObject::Metadata => 0,
        IncludeObject::Object => 1,
        IncludeObject::None => 2,
    };
    let representation = match form.representation {
        Representation::Itself => 0,
        Representation::Table(meta) => 1 + version(meta) * 3 + include,
        Representation::Metadata(meta) | Representation::MetadataList(meta) => 7 + version(meta),
    };
    let media = u64::from(form.media == Media::Protobuf);
    if representation == 0 && media == 0 && renderer.kind.stored_as.is_none() && !renderer.kind.is_custom() {
        return Format::JSON;
    }
    Format(u64::from(renderer.kind.id()) * FORMS + representation * 2 + media)
}

/// A form that holds for a second only: rows say how old their objects are.
fn at_this_second(Format(number): Format) -> Format {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Format(now << 32 | number)
}

impl Encoder {
    fn event(&mut self, event: &WatchEvent) -> Bytes {
        let (object, kind) = match event {
            WatchEvent::Added(object) => (object, EventType::Added),
            WatchEvent::Modified(object) => (object, EventType::Modified),
            WatchEvent::Deleted(object) => (object, EventType::Deleted),
            WatchEvent::Bookmark { revision, initial_state_end } => {
                return self.bookmark(*revision, *initial_state_end);
            }
        };
        let first = std::mem::take(&mut self.first);
        let is_table = matches!(self.renderer.form.representation, Representation::Table(_));
        if self.format == Format::JSON || (self.is_plain && self.renderer.kind.shows_as_stored(object)) {
            return self.encodings.json(object, kind);
        }
        if first && is_table {
            return self.framed(
                kind,
                &self.renderer.event_object(&ObjectView::of(&self.renderer.kind, object), true),
            );
        }
        let format = if is_table { at_this_second(self.format) } else { self.format };
        let made = self.encodings.get(object, kind, format, |object: &Object| {
            Ok::<_, std::convert::Infallible>(self.framed(
                kind,
                &self.renderer.event_object(&ObjectView::of(&self.renderer.kind, object), false),
            ))
        });
        match made {
            Ok(bytes) => bytes,
            Err(never) => match never {},
        }
    }

    fn bookmark(&mut self, revision: ResourceVersion, initial_state_end: bool) -> Bytes {
        let first = std::mem::take(&mut self.first);
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_state_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        self.framed(EventType::Bookmark, &self.renderer.bookmark(metadata, first))
    }

    fn error(&self, error: StorageError) -> Bytes {
        let status = to_status(Error::storage(self.renderer.kind.qualified(), "", "watch", error));
        self.status(&status)
    }

    fn status(&self, status: &Status) -> Bytes {
        let mut object = Vec::new();
        match self.renderer.form.media {
            Media::Protobuf => wrap_status(&mut object, status),
            _ => object = serde_json::to_vec(status).expect("a Status is made of text and numbers"),
        }
        self.framed(EventType::Error, &object)
    }

    fn framed(&self, kind: EventType, object: &[u8]) -> Bytes {
        match self.renderer.form.media {
            Media::Protobuf => {
                let mut out = Vec::with_capacity(object.len() + 32);
                protobuf::watch_frame(&mut out, kind, object, true);
                out.into()
            }
            _ => frame(kind, object).into(),
        }
    }
}
