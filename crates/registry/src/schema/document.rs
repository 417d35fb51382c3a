//! Documents: JSON as clients send it, and as the server works on it.
//!
//! Kept true by [`normalize`]: what it leaves has only fields of its type, none that Kubernetes would not write and all
//! that it always writes; so a field that may be missing is absent or, if it is always written, null.

use super::{Field, Presence, Quantity, Shape, TypeRef, ValueKind, lenient, time, types::Places};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, map::Entry};
use std::{fmt, ops::RangeInclusive};

/// What was wrong with a document but did not prevent reading it. Told to the client if it asked for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

/// How many problems of one document are told; Kubernetes has the same limit.
const PROBLEMS_MAX: usize = 100;

impl Problems {
    pub(crate) fn tell(&mut self, text: String) {
        if self.0.len() < PROBLEMS_MAX && !self.0.contains(&text) {
            self.0.push(text);
        }
    }
}

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is no document. The client mends it.
    Malformed(String),
    /// It has more values than [`VALUES_MAX`]. The client sends less.
    TooManyValues,
}

impl ReadError {
    /// The same, told in the words that it is told in where it happened.
    pub(crate) fn told(self, tell: impl FnOnce(String) -> String) -> ReadError {
        match self {
            ReadError::Malformed(why) => ReadError::Malformed(tell(why)),
            ReadError::TooManyValues => self,
        }
    }
}

/// A field has a value of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError(pub String);

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

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}
impl std::error::Error for TypeError {}

/// How deep objects and lists may lie in each other. The library that reads stored values goes no deeper.
const LEVELS_MAX: usize = 127;

/// How many values a document may have, the names of fields among them. A value can be two bytes of text and takes some 64
/// bytes of memory, several times over while a request is answered; so many make 40 MB. What people and controllers write
/// has as many at 1.5 MB at the earliest, which is more than etcd takes unless told otherwise.
pub const VALUES_MAX: usize = 600_000;
/// How many values an object counts for: the memory that its fields are put into is taken at once.
pub(crate) const OBJECT_VALUES: usize = 10;
/// How many values a list counts for.
const LIST_VALUES: usize = 2;

/// How many values there are in a value, as they count against [`VALUES_MAX`].
pub(crate) fn count_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => LIST_VALUES + items.iter().map(count_values).sum::<usize>(),
        Value::Object(fields) => {
            OBJECT_VALUES + fields.values().map(|value| 1 + count_values(value)).sum::<usize>()
        }
        _ => 1,
    }
}

/// Reads JSON. Of two fields with one name both count, the last more, and that is told. Nesting is limited to 127 levels,
/// and the number of values to [`VALUES_MAX`]. Text in strings that is not UTF-8, or half of a surrogate pair, becomes
/// U+FFFD, as Go reads it.
pub fn read(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    read_some(text, problems, &mut { VALUES_MAX })
}

/// Reads JSON that is a part of a document, which may have this many more values.
pub(crate) fn read_some(
    text: &[u8],
    problems: &mut Problems,
    values: &mut usize,
) -> Result<Value, ReadError> {
    let (told, left) = (problems.0.len(), *values);
    let mut room = Room::new(values, usize::MAX);
    let read = read_once(text, problems, &mut room);
    // Hardly any text needs it, so it is made only when something was amiss.
    if read.is_ok() && !room.has_negative_zero {
        return read;
    }
    let Some(text) = lenient::rewritten(text) else { return read };
    problems.0.truncate(told);
    *values = left;
    read_once(&text, problems, &mut Room::new(values, usize::MAX))
}

fn read_once(text: &[u8], problems: &mut Problems, room: &mut Room<'_>) -> Result<Value, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Reading { path: &Path::Top, problems, room: &mut *room, levels: LEVELS_MAX }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        room.fault(|too_deep| match too_deep.or_else(|| parser_limit(text, &error)) {
            Some(opened) => format!("invalid character '{opened}' exceeded max depth"),
            None => error.to_string(),
        })
    })
}

/// What was opened where the parser itself found that there are too many levels, which it does not tell apart from other
/// errors but by its words.
fn parser_limit(text: &[u8], error: &serde_json::Error) -> Option<char> {
    if !error.to_string().starts_with("recursion limit exceeded") {
        return None;
    }
    let before = text.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let end: usize = before.map(|line| line.len() + 1).sum();
    let read = text.get(..end + error.column()).unwrap_or(text);
    read.iter().rev().find(|byte| matches!(byte, b'[' | b'{')).map(|byte| char::from(*byte))
}

/// How many bytes the values of a YAML document may have. Without aliases, which let a little text stand for much, no
/// request comes near it.
const YAML_BYTES_MAX: usize = 8 << 20;

/// How deep objects and lists may lie in each other in YAML, whose parser needs more of the stack for each.
const YAML_LEVELS_MAX: usize = 64;
/// How many values may come from aliases.
const ALIASED_MAX: usize = 20_000;

/// Reads YAML, as [`read`] does JSON.
/// Of two fields with one name only the last counts.
pub fn read_yaml(text: &str, problems: &mut Problems) -> Result<Value, ReadError> {
    let mut values = VALUES_MAX;
    let mut room = Room::new(&mut values, YAML_BYTES_MAX);
    room.last_counts = true;
    let reading = Reading { path: &Path::Top, problems, room: &mut room, levels: YAML_LEVELS_MAX };
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| {
        reading.deserialize(yaml)
    });
    read.map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        let why = error.to_string().replace('\n', " ");
        // The parser reads ahead, and tells its own limit by its words alone.
        let is_limit = why.starts_with("recursion limit exceeded");
        room.fault(|too_deep| match too_deep {
            None if !is_limit => why,
            _ => format!("line {line}: exceeded max depth of {YAML_LEVELS_MAX}"),
        })
    })
}

/// How the YAML parser is held to the limits.
pub(super) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // The last counts, and is told to whoever reads.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            // One more, so that it is the reader here that says where there are too many.
            max_depth: YAML_LEVELS_MAX + 1,
            flow_nesting_limit: YAML_LEVELS_MAX + 1,
            max_events: YAML_BYTES_MAX,
            max_nodes: YAML_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
        with_snippet: false,
    }
}

/// Where in a document something is. A chain of borrowed steps, which costs nothing until it is told.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Top,
    Field(&'a Path<'a>, &'a str),
    /// What a map has under a key.
    Entry(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

/// As `spec.containers[0].name`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => Ok(()),
            Path::Field(Path::Top, name) | Path::Entry(Path::Top, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Entry(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

impl Path<'_> {
    /// Only the fields on the way, as `spec.containers.name`.
    fn fields(&self) -> String {
        match self {
            Path::Top => String::new(),
            Path::Entry(parent, _) | Path::Item(parent, _) => parent.fields(),
            Path::Field(parent, name) => match parent.fields() {
                way if way.is_empty() => (*name).to_owned(),
                way => format!("{way}.{name}"),
            },
        }
    }
}

/// How much more there may be.
struct Room<'a> {
    values: &'a mut usize,
    bytes: usize,
    /// Whether there were more values.
    is_full: bool,
    /// What was opened one level too deep.
    too_deep: Option<char>,
    /// Whether a number was `-0` or `-0.0`, which the parser does not tell apart.
    has_negative_zero: bool,
    /// Whether the last of two fields with one name replaces the first; else objects merge.
    last_counts: bool,
}

impl<'a> Room<'a> {
    fn new(values: &'a mut usize, bytes: usize) -> Room<'a> {
        Room { values, bytes, is_full: false, too_deep: None, has_negative_zero: false, last_counts: false }
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

    /// Why a text was not read. `tell` is given what was opened one level too deep, if that is why.
    fn fault(&self, tell: impl FnOnce(Option<char>) -> String) -> ReadError {
        if self.is_full { ReadError::TooManyValues } else { ReadError::Malformed(tell(self.too_deep)) }
    }
}

struct Reading<'a, 'r> {
    path: &'a Path<'a>,
    problems: &'a mut Problems,
    room: &'a mut Room<'r>,
    /// How many more levels there may be.
    levels: usize,
}

impl Reading<'_, '_> {
    /// Makes room for a list or an object and says how many levels there may be in it.
    fn enter<E: de::Error>(&mut self, values: usize, opened: char) -> Result<usize, E> {
        self.room.take(values, 0)?;
        self.levels.checked_sub(1).ok_or_else(|| {
            self.room.too_deep = Some(opened);
            E::custom("exceeded max depth")
        })
    }

    fn leaf<E: de::Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.room.take(1, 0)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_, '_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_, '_> {
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
        self.room.has_negative_zero |= value == 0.0 && value.is_sign_negative();
        self.leaf(value)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.room.take(1, value.len())?;
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        self.room.take(1, value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let levels = self.enter(LIST_VALUES, '[')?;
        let mut list = Vec::new();
        let Reading { path, problems, room, .. } = self;
        loop {
            let path = &Path::Item(path, list.len());
            let item = Reading { path, problems: &mut *problems, room: &mut *room, levels };
            match items.next_element_seed(item)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let levels = self.enter(OBJECT_VALUES, '{')?;
        let mut map = Map::new();
        let Reading { path, problems, room, .. } = self;
        while let Some(name) = fields.next_key::<String>()? {
            room.take(1, name.len())?;
            let mut read = |path: Path<'_>, problems: &mut Problems| {
                fields.next_value_seed(Reading { path: &path, problems, room: &mut *room, levels })
            };
            match map.entry(name) {
                Entry::Vacant(slot) => {
                    let value = read(Path::Field(path, slot.key()), problems)?;
                    slot.insert(value);
                }
                Entry::Occupied(mut slot) => {
                    let path = Path::Field(path, slot.key());
                    problems.tell(format!("duplicate field \"{path}\""));
                    match (read(path, problems)?, slot.get_mut()) {
                        (Value::Object(second), Value::Object(first)) if !room.last_counts => {
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

/// A field given twice: what the second says is added to what the first said, as Go does.
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

/// Gives a document the form of its type, and tells of fields that the type does not have.
pub fn normalize(document: Value, ty: TypeRef, problems: &mut Problems) -> Result<Value, TypeError> {
    normalize_some(document, ty, Decoder::Text, problems, |_| true)
}

/// By whose rules values are taken for values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// Those of Go's JSON decoder.
    Text,
    /// Those by which Kubernetes converts a document without a type, which is what a strategic merge patch makes.
    /// Numbers that are too large wrap around.
    Untyped,
}

/// The same for a document of which only these fields may have another form.
pub(crate) fn normalize_some(
    mut document: Value,
    ty: TypeRef,
    decoder: Decoder,
    problems: &mut Problems,
    may_differ: impl Fn(&str) -> bool,
) -> Result<Value, TypeError> {
    let place = Place { owner: ty, path: &Path::Top, decoder };
    match &mut document {
        Value::Object(fields) => Normalizing { problems }.message(fields, ty, place, &may_differ)?,
        other => return Err(place.mismatch(other, Shape::One, ValueKind::Message(ty))),
    }
    Ok(document)
}

/// A document of a type in which nothing is set.
pub fn zero(ty: TypeRef) -> Value {
    let fields = ty.json_fields().iter().filter_map(|field| Some((field.name.to_owned(), absent(field)?)));
    Value::Object(fields.collect())
}

/// What is written for a field that is not set, if anything is.
pub(crate) fn absent(field: &Field) -> Option<Value> {
    match field.presence {
        Presence::IfSet | Presence::UnlessZero | Presence::UnlessEmpty => None,
        Presence::OrNull => Some(Value::Null),
        // Go has no list, no map and no bytes that are merely empty unless somebody made them.
        Presence::Always if field.shape != Shape::One || field.kind == ValueKind::Bytes => Some(Value::Null),
        Presence::Always => Some(zero_value(field.kind)),
    }
}

/// What a value is that nobody gave.
pub(crate) fn zero_value(kind: ValueKind) -> Value {
    match kind {
        ValueKind::String | ValueKind::Bytes => Value::String(String::new()),
        ValueKind::Bool => Value::Bool(false),
        ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double | ValueKind::IntOrString => 0.into(),
        ValueKind::Quantity => "0".into(),
        ValueKind::Message(ty) => zero(ty),
        _ => Value::Null,
    }
}

/// Whether a value that was given is one that is not written.
pub(crate) fn is_unwritten(value: &Value, presence: Presence) -> bool {
    match presence {
        Presence::IfSet => value.is_null(),
        Presence::UnlessZero => is_zero(value),
        Presence::UnlessEmpty => value.is_null() || value.as_object().is_some_and(Map::is_empty),
        Presence::OrNull | Presence::Always => false,
    }
}

/// A number as Go writes it: without a point if it is whole. Absent if JSON cannot say it.
pub(crate) fn double(number: f64) -> Option<Value> {
    let text = number.to_string();
    let whole = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
    whole.ok().or_else(|| Number::from_f64(number).map(Value::Number))
}

/// What is looked at: the type that has the field, and the way there.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: TypeRef,
    path: &'a Path<'a>,
    decoder: Decoder,
}

/// In place: most values are as they should be, and making them anew would take most of the time.
struct Normalizing<'a> {
    problems: &'a mut Problems,
}

type Normalized = Result<(), TypeError>;

impl Normalizing<'_> {
    fn message(
        &mut self,
        fields: &mut Map<String, Value>,
        ty: TypeRef,
        place: Place<'_>,
        may_differ: &dyn Fn(&str) -> bool,
    ) -> Normalized {
        let (mut given, mut all_stay) = (Places::default(), true);
        // In the order of the document, which is that of what is told.
        for (name, slot) in fields.iter_mut() {
            let Some(number) = ty.place(name) else {
                if is_type_meta(name, ty) {
                    all_stay &= is_said(name, slot, place)?;
                } else {
                    let path = Path::Field(place.path, name);
                    self.problems.tell(format!("unknown field \"{path}\""));
                    all_stay = false;
                }
                continue;
            };
            given.insert(number);
            let field = ty.json_fields()[number];
            if !may_differ(field.name) {
                continue;
            }
            let path = &Path::Field(place.path, field.name);
            let is_written = !slot.is_null() && self.field(slot, field, Place { path, ..place })?;
            if !is_written {
                *slot = absent(field).unwrap_or_default();
                all_stay &= ty.always().contains(number);
            }
        }
        if !all_stay {
            fields.retain(|name, value| match ty.place(name) {
                Some(number) => !value.is_null() || ty.always().contains(number),
                None => is_type_meta(name, ty) && !value.is_null(),
            });
        }
        for field in ty.always().without(given).map(|number| ty.json_fields()[number]) {
            fields.extend(absent(field).map(|value| (field.name.to_owned(), value)));
        }
        Ok(())
    }

    /// The value of a field; returns whether it is written at all.
    fn field(&mut self, value: &mut Value, field: &Field, place: Place<'_>) -> Result<bool, TypeError> {
        match (field.shape, &mut *value) {
            (Shape::One, value) => self.value(value, field.kind, place)?,
            (Shape::List, Value::Array(items)) => self.items(items, field.kind, place)?,
            (Shape::Map, Value::Object(entries)) => {
                for (name, value) in entries.iter_mut() {
                    let path = &Path::Entry(place.path, name);
                    self.item(value, field.kind, Place { path, ..place })?;
                }
            }
            (shape, other) => return Err(place.mismatch(other, shape, field.kind)),
        }
        Ok(!is_unwritten(value, field.presence))
    }

    fn items(&mut self, items: &mut [Value], kind: ValueKind, place: Place<'_>) -> Normalized {
        items.iter_mut().enumerate().try_for_each(|(at, item)| {
            let path = &Path::Item(place.path, at);
            self.item(item, kind, Place { path, ..place })
        })
    }

    /// A value in a list or map, where null stands for zero.
    fn item(&mut self, value: &mut Value, kind: ValueKind, place: Place<'_>) -> Normalized {
        if value.is_null() {
            *value = zero_value(kind);
            return Ok(());
        }
        self.value(value, kind, place)
    }

    fn value(&mut self, value: &mut Value, kind: ValueKind, place: Place<'_>) -> Normalized {
        match (kind, &mut *value) {
            (ValueKind::Message(ty), Value::Object(fields)) => {
                self.message(fields, ty, Place { owner: ty, ..place }, &|_| true)
            }
            (ValueKind::String | ValueKind::IntOrString, Value::String(_))
            | (ValueKind::Bool | ValueKind::SchemaOrBool, Value::Bool(_))
            | (ValueKind::Raw | ValueKind::Fields, Value::Object(_))
            | (ValueKind::Json, _) => Ok(()),
            (ValueKind::Int32 | ValueKind::Int64, Value::Number(number))
                if place.decoder == Decoder::Untyped =>
            {
                *value = wrapped(number, kind)?.into();
                Ok(())
            }
            (ValueKind::Int32 | ValueKind::IntOrString, Value::Number(number)) => {
                place.must_be_within(number, i64::from(i32::MIN)..=i64::from(i32::MAX), kind)
            }
            (ValueKind::Int64, Value::Number(number)) => {
                place.must_be_within(number, i64::MIN..=i64::MAX, kind)
            }
            (ValueKind::Double, Value::Number(number)) => {
                if let Some(spelled) = number.as_f64().and_then(double) {
                    *value = spelled;
                }
                Ok(())
            }
            (ValueKind::Bytes, Value::String(text)) => {
                text.retain(|c| !matches!(c, '\r' | '\n'));
                match BASE64_STANDARD.decode(text) {
                    Ok(_) => Ok(()),
                    Err(_) => {
                        let from =
                            if place.decoder == Decoder::Untyped { "error decoding from json: " } else { "" };
                        Err(TypeError(format!("{from}illegal base64 data at input byte 0")))
                    }
                }
            }
            (ValueKind::Time, Value::String(text)) => spell_time(text, time::time).map(|at| *value = at),
            (ValueKind::MicroTime, Value::String(text)) => {
                must_have_micros(text)?;
                spell_time(text, time::micro_time).map(|at| *value = at)
            }
            (ValueKind::Quantity, Value::String(text)) => quantity(text).map(|amount| *value = amount),
            (ValueKind::Quantity, Value::Number(number)) => {
                quantity(&number.to_string()).map(|amount| *value = amount)
            }
            (ValueKind::Strings | ValueKind::SchemaOrStrings, Value::Array(items)) => {
                items.iter_mut().try_for_each(|item| self.item(item, ValueKind::String, place))
            }
            (ValueKind::SchemaOrArray, Value::Array(items)) => items
                .iter_mut()
                .try_for_each(|item| self.value(item, ValueKind::Message(json_schema()), place)),
            (
                ValueKind::SchemaOrArray | ValueKind::SchemaOrBool | ValueKind::SchemaOrStrings,
                Value::Object(_),
            ) => self.value(value, ValueKind::Message(json_schema()), place),
            (ValueKind::Quantity, Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                quantity("?").map(drop)
            }
            (kind, other) => Err(place.mismatch(other, Shape::One, kind)),
        }
    }
}

/// A whole number; the least one for what is beyond them, as processors have it.
fn low_bits(float: f64) -> i64 {
    if float < i64::MAX as f64 { float as i64 } else { i64::MIN }
}

/// A number as a whole number of a kind; of one that is too large, its lowest bits.
fn wrapped(number: &Number, kind: ValueKind) -> Result<i64, TypeError> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0).map(low_bits);
    let whole = number.as_i64().or_else(float);
    let whole = whole.ok_or_else(|| TypeError(format!("cannot convert float64 to {}", name_of(kind))))?;
    Ok(if kind == ValueKind::Int32 { i64::from(whole as i32) } else { whole })
}

/// Whether a name is one under which objects of a type say what they are.
pub(super) fn is_type_meta(name: &str, ty: TypeRef) -> bool {
    ty.typed && matches!(name, "kind" | "apiVersion")
}

/// Whether an object says its kind or version here; what is empty becomes null.
fn is_said(name: &str, value: &mut Value, place: Place<'_>) -> Result<bool, TypeError> {
    match value {
        Value::String(text) if !text.is_empty() => return Ok(true),
        Value::Null | Value::String(_) => *value = Value::Null,
        other => {
            let path = &Path::Field(place.path, name);
            return Err(Place { path, ..place }.mismatch(other, Shape::One, ValueKind::String));
        }
    }
    Ok(false)
}

impl Place<'_> {
    fn must_be_within(&self, number: &Number, range: RangeInclusive<i64>, kind: ValueKind) -> Normalized {
        match number.as_i64() {
            Some(whole) if range.contains(&whole) => Ok(()),
            _ => Err(self.cannot_unmarshal(&format!("number {number}"), Shape::One, kind)),
        }
    }

    fn mismatch(&self, found: &Value, shape: Shape, kind: ValueKind) -> TypeError {
        if let Some(error) =
            (self.decoder == Decoder::Untyped).then(|| not_converted(found, shape, kind)).flatten()
        {
            return error;
        }
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.cannot_unmarshal(found, shape, kind)
    }

    /// In the words of Go's decoder, which names the type that has the field, and of the way there only the fields.
    fn cannot_unmarshal(&self, found: &str, shape: Shape, kind: ValueKind) -> TypeError {
        let wanted = match shape {
            Shape::One => name_of(kind),
            Shape::List => format!("[]{}", name_of(kind)),
            Shape::Map => format!("map[string]{}", name_of(kind)),
        };
        let into = match self.path.fields().as_str() {
            "" => format!("Go value of type {wanted}"),
            way => format!("Go struct field {}.{way} of type {wanted}", self.owner.short_name()),
        };
        TypeError(format!("json: cannot unmarshal {found} into {into}"))
    }
}

/// Why a value without a type is not converted, in the words of Kubernetes; absent if a decoder of the type itself says it.
fn not_converted(found: &Value, shape: Shape, kind: ValueKind) -> Option<TypeError> {
    let given = match found {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let why = match (shape, kind) {
        (Shape::List, _) | (Shape::One, ValueKind::Bytes | ValueKind::Strings) => {
            format!("cannot restore slice from {given}")
        }
        (Shape::Map, _) => format!("cannot restore map from {given}"),
        (_, ValueKind::Message(_)) => format!("cannot restore struct from: {given}"),
        (_, ValueKind::String) if given == "int64" => "cannot convert int64 to string".to_owned(),
        (
            _,
            ValueKind::String | ValueKind::Bool | ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double,
        ) => {
            format!("unrecognized type: {}", name_of(kind))
        }
        _ => return None,
    };
    Some(TypeError(why))
}

/// Of what is a time otherwise, six decimals are asked for.
fn must_have_micros(text: &str) -> Normalized {
    let decimals = text.get(19..).unwrap_or_default();
    let digits =
        decimals.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if time::parse_time(text).is_none() || digits == 6 {
        return Ok(());
    }
    let (rest, wanted) = match digits {
        7.. => (&decimals[7..], "Z07:00"),
        _ => (decimals, ".000000"),
    };
    Err(TypeError(format!(
        "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \"{wanted}\""
    )))
}

fn spell_time(text: &str, spell: fn(time::Timestamp) -> String) -> Result<Value, TypeError> {
    let at = time::parse_time(text);
    at.map(|at| Value::String(spell(at))).ok_or_else(|| {
        TypeError(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        ))
    })
}

/// The type of JSON schemas, which some values are besides something else.
pub(crate) fn json_schema() -> TypeRef {
    super::lookup("apiextensions.v1.JSONSchemaProps").expect("the table has the type of JSON schemas")
}

fn quantity(text: &str) -> Result<Value, TypeError> {
    let quantity: Quantity = text.parse().map_err(|error| TypeError(format!("{error}")))?;
    Ok(Value::String(quantity.to_string()))
}

/// What Go calls it.
fn name_of(kind: ValueKind) -> String {
    let name = match kind {
        ValueKind::String
        | ValueKind::Bytes
        | ValueKind::Time
        | ValueKind::MicroTime
        | ValueKind::Quantity => "string",
        ValueKind::Bool => "bool",
        ValueKind::Int32 | ValueKind::IntOrString => "int32",
        ValueKind::Int64 => "int64",
        ValueKind::Double => "float64",
        ValueKind::Strings => "[]string",
        // Without the group of `core.v1.Pod`.
        ValueKind::Message(ty) => ty.get().name.split_once('.').map_or("object", |(_, name)| name),
        _ => "object",
    };
    name.to_owned()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
