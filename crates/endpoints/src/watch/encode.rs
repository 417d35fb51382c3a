//! Encoded watch events, each encoded once for all watchers that want it in the same format.
//!
//! Kept true: as long as there is room in the cache, one event of one object is encoded once per format, even if many
//! watchers ask at the same time, and all of them get the same bytes, whether they watch live, resume or start with the
//! state. When the cached bytes reach the limit, the least recently used encodings are removed. JSON is cheap to encode, so
//! only the JSON of the latest events is cached, for the watchers that are live.
//!
//! Not here: formats other than JSON (tables, Protobuf). Their encoder chooses a [`Format`] and passes the function that
//! encodes.

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

/// The format of an encoded event. Each format has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format(pub u64);

impl Format {
    /// One JSON object on one line.
    pub const JSON: Self = Self(0);
}

/// A cache of encoded events. One cache serves all resources of a server.
pub struct Encodings {
    cache: EncodingCache,
    /// JSON lines of objects that are not large.
    json_lines: EncodingCache,
    encoded: AtomicU64,
}

type EncodingCache = Cache<EncodingKey, Bytes, WeighBytes>;

/// The key of an encoding. It holds the object, so that no other object can have the same address meanwhile.
#[derive(Clone)]
struct EncodingKey {
    object: Object,
    event: EventType,
    format: Format,
}

impl PartialEq for EncodingKey {
    fn eq(&self, other: &Self) -> bool {
        self.object.is(&other.object) && self.event == other.event && self.format == other.format
    }
}

impl Eq for EncodingKey {}

impl std::hash::Hash for EncodingKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.object.address().hash(state);
        self.event.hash(state);
        self.format.hash(state);
    }
}

#[derive(Clone)]
struct WeighBytes;

impl Weighter<EncodingKey, Bytes> for WeighBytes {
    fn weight(&self, key: &EncodingKey, bytes: &Bytes) -> u64 {
        (bytes.len() + key.object.value.len() + ENTRY_BYTES) as u64
    }
}

/// The size that each shard of the cache has at least: enough for an event of the largest possible object (1.5 MB), with
/// its value.
const SHARD_BYTES_MIN: usize = 8 << 20;
/// The size of the JSON lines that are cached.
const JSON_LINES_BYTES_MAX: usize = 2 << 20;
/// A JSON line of at least this many bytes goes to the general cache.
const LARGE_BYTES: usize = 64 << 10;
/// The size of a cache entry without its bytes and its object's value.
const ENTRY_BYTES: usize = 128;
/// The size of a usual encoded event, which gives an estimate of the number of entries.
const USUAL_EVENT_BYTES: usize = 4096;

impl Encodings {
    /// A cache of up to `bytes_max` bytes, including the values of the objects, and of 2 MiB of JSON lines in addition. The
    /// cache has shards of at least 8 MiB, or a single smaller one. An event that does not fit into a shard is encoded again
    /// for each watcher.
    pub fn new(bytes_max: usize) -> Self {
        let json_lines = encoding_cache(bytes_max.min(JSON_LINES_BYTES_MAX));
        Self { cache: encoding_cache(bytes_max), json_lines, encoded: AtomicU64::new(0) }
    }

    /// An event of an object in some format. Calls `encode` if the encoding is not cached. If `encode` fails, the next caller
    /// tries again.
    pub fn get<E>(
        &self,
        object: &Object,
        event: EventType,
        format: Format,
        encode: impl FnOnce(&Object) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let key = EncodingKey { object: object.clone(), event, format };
        let is_json_line = format == Format::JSON && object.value.len() < LARGE_BYTES;
        let cache = if is_json_line { &self.json_lines } else { &self.cache };
        cache.get_or_insert_with(&key, || {
            self.encoded.fetch_add(1, Ordering::Relaxed);
            encode(object)
        })
    }

    /// An event of an object as a line of JSON.
    pub fn json(&self, object: &Object, event: EventType) -> Bytes {
        let encoded =
            self.get(object, event, Format::JSON, |object| Ok::<_, Infallible>(json_line(object, event)));
        match encoded {
            Ok(bytes) => bytes,
            Err(never) => match never {},
        }
    }

    /// The number of times that an event was encoded so far.
    pub fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }
}

fn encoding_cache(bytes_max: usize) -> EncodingCache {
    let options = OptionsBuilder::new()
        .estimated_items_capacity((bytes_max / USUAL_EVENT_BYTES).max(1))
        .weight_capacity(bytes_max as u64)
        .shards(1 << (bytes_max / SHARD_BYTES_MIN).max(1).ilog2())
        .build()
        .expect("every required option is set");
    Cache::with_options(options, WeighBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

fn json_line(object: &Object, event: EventType) -> Bytes {
    let mut line = Vec::with_capacity(FRAME_BYTES_MAX + object.value.len() + VERSION_BYTES_MAX);
    frame_with(&mut line, event, |line| {
        write_versioned(line, &object.value, object.attributes.version_at, object.revision);
    });
    line.into()
}
