//! What is sent of an event, made once for all who want it in the same form.
//!
//! Kept true: as long as the cache has room for it, one form of one event of one object is made once, even if many ask
//! at the same time, and all get the same bytes, whether they watch live, resume or begin with the state. What was not
//! asked for lately is forgotten when the bytes kept reach the limit. Lines of JSON are made in no time, so that only
//! those of the last events are kept, for all who watch live.
//!
//! Not here: forms other than JSON. Who knows them (tables, protobuf) names them by a [`Format`] and makes them.

use bytes::Bytes;
use keepwatch_apimachinery::{
    meta::{VERSION_BYTES_MAX, write_versioned},
    watch::{EventType, FRAME_BYTES_MAX, frame_with},
};
use keepwatch_storage::Object;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
};

/// A form in which events are sent. Who makes up a new one gives it a number that nobody else uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format(pub u64);

impl Format {
    /// One JSON object on one line.
    pub const JSON: Self = Self(0);
}

/// The forms of recent events. One serves all resources of a server.
pub struct Encodings {
    cache: Forms,
    /// Of objects that are not large.
    lines: Forms,
    made: AtomicU64,
}

type Forms = Cache<Form, Bytes, Bytewise>;

/// What was made. It holds its object, so that no other can be mistaken for it.
#[derive(Clone)]
struct Form {
    object: Object,
    event: EventType,
    format: Format,
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        self.object.is(&other.object) && self.event == other.event && self.format == other.format
    }
}

impl Eq for Form {}

impl std::hash::Hash for Form {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.object.address().hash(state);
        self.event.hash(state);
        self.format.hash(state);
    }
}

#[derive(Clone)]
struct Bytewise;

impl Weighter<Form, Bytes> for Bytewise {
    fn weight(&self, form: &Form, bytes: &Bytes) -> u64 {
        (bytes.len() + form.object.value.len() + FORM_BYTES) as u64
    }
}

/// How many bytes each part of the cache has at the least: enough for an event of the largest object there may be (1.5
/// MB), with its value.
pub(crate) const PART_BYTES_MIN: usize = 8 << 20;
/// How many bytes of lines of JSON are kept at the most.
const LINES_BYTES_MAX: usize = 2 << 20;
/// From how many bytes on a line of JSON is a form like any other.
const LARGE_BYTES: usize = 64 << 10;
/// What a form costs beside its bytes and its object's value.
const FORM_BYTES: usize = 128;
/// What an event of an ordinary object takes, to guess how many there will be.
const EVENT_BYTES_USUAL: usize = 4096;

impl Encodings {
    /// Keeps up to `bytes_max` bytes, the values of the objects included, and 2 MiB of JSON beside that. What does not fit
    /// into a part of them, of which each has 8 MiB unless all together have less, is made for each who asks.
    pub fn new(bytes_max: usize) -> Self {
        let lines = forms(bytes_max.min(LINES_BYTES_MAX));
        Self { cache: forms(bytes_max), lines, made: AtomicU64::new(0) }
    }

    /// An event of an object in some form. `make` is called if it is not at hand; if it fails, the next who asks tries
    /// again.
    pub fn get<E>(
        &self,
        object: &Object,
        event: EventType,
        format: Format,
        make: impl FnOnce(&Object) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let form = Form { object: object.clone(), event, format };
        let is_line = format == Format::JSON && object.value.len() < LARGE_BYTES;
        let cache = if is_line { &self.lines } else { &self.cache };
        cache.get_or_insert_with(&form, || {
            self.made.fetch_add(1, Ordering::Relaxed);
            make(object)
        })
    }

    /// An event of an object as a line of JSON.
    pub fn json(&self, object: &Object, event: EventType) -> Bytes {
        let made =
            self.get(object, event, Format::JSON, |object| Ok::<_, Infallible>(json_line(object, event)));
        match made {
            Ok(bytes) => bytes,
            Err(never) => match never {},
        }
    }

    /// How many forms were made so far.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

fn forms(bytes_max: usize) -> Forms {
    let options = OptionsBuilder::new()
        .estimated_items_capacity((bytes_max / EVENT_BYTES_USUAL).max(1))
        .weight_capacity(bytes_max as u64)
        .shards(1 << (bytes_max / PART_BYTES_MIN).max(1).ilog2())
        .build()
        .expect("all that is needed is set");
    Cache::with_options(options, Bytewise, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

/// Appends an object's JSON, its version in place.
pub fn write_json(out: &mut Vec<u8>, object: &Object) {
    write_versioned(out, &object.value, object.attributes.version_at, object.revision);
}

fn json_line(object: &Object, event: EventType) -> Bytes {
    let mut line = Vec::with_capacity(FRAME_BYTES_MAX + object.value.len() + VERSION_BYTES_MAX);
    frame_with(&mut line, event, |line| write_json(line, object));
    line.into()
}
