//! Reading JSON and YAML as clients send it, within limits.

use super::{lenient, path::Path};
use serde::{
    Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, map::Entry};
use std::fmt;

/// The problems that strict decoding reports: unknown and duplicate fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

/// The maximum number of problems that are reported for one document; Kubernetes has the same limit.
const PROBLEMS_MAX: usize = 100;

impl Problems {
    pub(crate) fn add(&mut self, text: String) {
        if self.0.len() < PROBLEMS_MAX && !self.0.contains(&text) {
            self.0.push(text);
        }
    }
}

/// The reason for which a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is malformed. The client corrects it.
    Malformed(String),
    /// It has more values than [`VALUES_MAX`]. The client sends less.
    TooManyValues,
}

impl ReadError {
    /// The same error with another message.
    pub(crate) fn map_message(self, message: impl FnOnce(String) -> String) -> ReadError {
        match self {
            ReadError::Malformed(why) => ReadError::Malformed(message(why)),
            ReadError::TooManyValues => self,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Malformed(why) => f.write_str(why),
            ReadError::TooManyValues => write!(
                f,
                "too many values: a document may have {VALUES_MAX}, and an object counts for {OBJECT_VALUES}, a list for {LIST_VALUES}"
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// The maximum depth of nested objects and lists. The library that reads stored values has the same limit.
const LEVELS_MAX: usize = 127;

/// The maximum number of values in a document, with the names of fields. A value can be two bytes of text and takes
/// about 64 bytes of memory, several times over while a request is answered; so this many make 40 MB. Documents of
/// users and controllers reach the limit at 1.5 MB at the earliest, which is more than etcd takes by default.
pub const VALUES_MAX: usize = 600_000;
/// The number of values that an object counts as: the memory for its fields is allocated at once.
pub(crate) const OBJECT_VALUES: usize = 10;
/// The number of values that a list counts as.
const LIST_VALUES: usize = 2;

/// The number of values in a value, as it counts against [`VALUES_MAX`].
pub(crate) fn count_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => LIST_VALUES + items.iter().map(count_values).sum::<usize>(),
        Value::Object(fields) => {
            OBJECT_VALUES + fields.values().map(|value| 1 + count_values(value)).sum::<usize>()
        }
        _ => 1,
    }
}

/// Reads JSON. Duplicate fields are merged, the last one wins, and they are reported. Nesting is limited to 127 levels,
/// and the number of values to [`VALUES_MAX`]. Text in strings that is not UTF-8, or half of a surrogate pair, becomes
/// U+FFFD, as Go reads it.
pub fn read(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    read_some(text, problems, &mut { VALUES_MAX })
}

/// The same for documents without a type: of two fields with one name only the last counts.
pub(crate) fn read_untyped(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    read_leniently(text, problems, &mut { VALUES_MAX }, true)
}

/// Reads JSON that is a part of a document, which may have this many more values.
pub(crate) fn read_some(
    text: &[u8],
    problems: &mut Problems,
    values: &mut usize,
) -> Result<Value, ReadError> {
    read_leniently(text, problems, values, false)
}

fn read_leniently(
    text: &[u8],
    problems: &mut Problems,
    values: &mut usize,
    last_counts: bool,
) -> Result<Value, ReadError> {
    let (reported, left) = (problems.0.len(), *values);
    let mut limits = Limits { last_counts, ..Limits::new(values, usize::MAX) };
    let read = read_once(text, problems, &mut limits);
    // Hardly any text needs rewriting, so it is done only after an error.
    if read.is_ok() && !limits.has_negative_zero {
        return read;
    }
    let Some(text) = lenient::rewritten(text) else { return read };
    problems.0.truncate(reported);
    *values = left;
    read_once(&text, problems, &mut Limits { last_counts, ..Limits::new(values, usize::MAX) })
}

fn read_once(text: &[u8], problems: &mut Problems, limits: &mut Limits<'_>) -> Result<Value, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = ValueReader { path: &Path::Top, problems, limits: &mut *limits, levels: LEVELS_MAX }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        limits.error(|too_deep| match too_deep.or_else(|| parser_limit(text, &error)) {
            Some(opened) => format!("invalid character '{opened}' exceeded max depth"),
            None => error.to_string(),
        })
    })
}

/// The bracket at which the parser itself found too many levels, which only the message of its error shows.
fn parser_limit(text: &[u8], error: &serde_json::Error) -> Option<char> {
    if !error.to_string().starts_with("recursion limit exceeded") {
        return None;
    }
    let before = text.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let end: usize = before.map(|line| line.len() + 1).sum();
    let read = text.get(..end + error.column()).unwrap_or(text);
    read.iter().rev().find(|byte| matches!(byte, b'[' | b'{')).map(|byte| char::from(*byte))
}

/// The maximum size of all values of a YAML document. Without aliases, with which a short text expands to a long one,
/// no request comes near it.
const YAML_BYTES_MAX: usize = 8 << 20;

/// The maximum depth of nested objects and lists in YAML, whose parser needs more stack for each.
const YAML_LEVELS_MAX: usize = 64;
/// The maximum number of values from aliases.
const ALIASED_MAX: usize = 20_000;

/// Reads YAML, as [`read`] does JSON.
/// Of two fields with one name only the last counts.
pub fn read_yaml(text: &str, problems: &mut Problems) -> Result<Value, ReadError> {
    let mut values = VALUES_MAX;
    let mut limits = Limits::new(&mut values, YAML_BYTES_MAX);
    limits.last_counts = true;
    let reading = ValueReader { path: &Path::Top, problems, limits: &mut limits, levels: YAML_LEVELS_MAX };
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| {
        reading.deserialize(yaml)
    });
    read.map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        let why = error.to_string().replace('\n', " ");
        // The parser reads ahead; only the message of its error shows that its own limit was reached.
        let is_limit = why.starts_with("recursion limit exceeded");
        limits.error(|too_deep| match too_deep {
            None if !is_limit => why,
            _ => format!("line {line}: exceeded max depth of {YAML_LEVELS_MAX}"),
        })
    })
}

/// The options of the YAML parser, which enforce the limits.
pub(super) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // The last one wins, and the reader reports it.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            // One more, so that the reader here finds the limit first and can report the line.
            max_depth: YAML_LEVELS_MAX + 1,
            flow_nesting_limit: YAML_LEVELS_MAX + 1,
            max_events: YAML_BYTES_MAX,
            max_nodes: YAML_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
        with_snippet: false,
        // `mode: 0644` is an octal number, as in YAML 1.1.
        legacy_octal_numbers: true,
    }
}

/// The remaining limits.
struct Limits<'a> {
    values: &'a mut usize,
    bytes: usize,
    /// Whether there were too many values.
    is_full: bool,
    /// The bracket that was opened one level too deep.
    too_deep: Option<char>,
    /// Whether a number was `-0` or `-0.0`, between which the parser does not distinguish.
    has_negative_zero: bool,
    /// Whether the last of two fields with one name replaces the first; else objects merge.
    last_counts: bool,
}

impl<'a> Limits<'a> {
    fn new(values: &'a mut usize, bytes: usize) -> Limits<'a> {
        Limits { values, bytes, is_full: false, too_deep: None, has_negative_zero: false, last_counts: false }
    }

    fn take<E: de::Error>(&mut self, values: usize, bytes: usize) -> Result<(), E> {
        let Some(left) = self.values.checked_sub(values) else {
            self.is_full = true;
            return Err(E::custom(ReadError::TooManyValues));
        };
        *self.values = left;
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| E::custom("document contains excessive aliasing"))?;
        Ok(())
    }

    /// The error of a text. `message` is given the bracket that was opened one level too deep, if that is the reason.
    fn error(&self, message: impl FnOnce(Option<char>) -> String) -> ReadError {
        if self.is_full { ReadError::TooManyValues } else { ReadError::Malformed(message(self.too_deep)) }
    }
}

struct ValueReader<'a, 'r> {
    path: &'a Path<'a>,
    problems: &'a mut Problems,
    limits: &'a mut Limits<'r>,
    /// The remaining number of levels.
    levels: usize,
}

impl ValueReader<'_, '_> {
    /// Makes room for a list or an object, and returns the number of levels that remain in it.
    fn enter<E: de::Error>(&mut self, values: usize, opened: char) -> Result<usize, E> {
        self.limits.take(values, 0)?;
        self.levels.checked_sub(1).ok_or_else(|| {
            self.limits.too_deep = Some(opened);
            E::custom("exceeded max depth")
        })
    }

    fn leaf<E: de::Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.limits.take(1, 0)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_, '_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        self.leaf(Value::Null)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        self.leaf(value)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.leaf(value)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.leaf(value)
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.limits.has_negative_zero |= value == 0.0 && value.is_sign_negative();
        self.leaf(value)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.limits.take(1, value.len())?;
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        self.limits.take(1, value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let levels = self.enter(LIST_VALUES, '[')?;
        let mut list = Vec::new();
        let ValueReader { path, problems, limits, .. } = self;
        loop {
            let path = &Path::Item(path, list.len());
            let item = ValueReader { path, problems: &mut *problems, limits: &mut *limits, levels };
            match items.next_element_seed(item)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let levels = self.enter(OBJECT_VALUES, '{')?;
        let mut map = Map::new();
        let ValueReader { path, problems, limits, .. } = self;
        while let Some(name) = fields.next_key::<String>()? {
            limits.take(1, name.len())?;
            let mut read = |path: Path<'_>, problems: &mut Problems| {
                fields.next_value_seed(ValueReader { path: &path, problems, limits: &mut *limits, levels })
            };
            match map.entry(name) {
                Entry::Vacant(slot) => {
                    let value = read(Path::Field(path, slot.key()), problems)?;
                    slot.insert(value);
                }
                Entry::Occupied(mut slot) => {
                    let path = Path::Field(path, slot.key());
                    problems.add(format!("duplicate field \"{path}\""));
                    match (read(path, problems)?, slot.get_mut()) {
                        (Value::Object(second), Value::Object(first)) if !limits.last_counts => {
                            merge(first, second);
                        }
                        (value, slot) => *slot = value,
                    }
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// Merges two fields of one name as Go does: the second is added to the first.
fn merge(first: &mut Map<String, Value>, second: Map<String, Value>) {
    for (name, value) in second {
        match (first.get_mut(&name), value) {
            (Some(Value::Object(first)), Value::Object(second)) => merge(first, second),
            (_, value) => {
                first.insert(name, value);
            }
        }
    }
}
