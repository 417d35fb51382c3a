//! Documents: JSON as clients send it, as the server works on it, and as it is stored.
//!
//! Kept true by [`normalize`]: what it returns has only fields of its type, none that Kubernetes would not write and all
//! that it always writes; so a field that may be missing is absent or, if it is always written, null.

use super::{Field, Kind, Presence, Quantity, Shape, TypeRef, time};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::{Map, Number, Value};
use std::{fmt, io, ops::Range};

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
/// and the number of values to [`VALUES_MAX`].
pub fn read(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    read_some(text, problems, &mut { VALUES_MAX })
}

/// Reads JSON that is a part of a document, which may have this many more values.
pub(crate) fn read_some(
    text: &[u8],
    problems: &mut Problems,
    values: &mut usize,
) -> Result<Value, ReadError> {
    let (mut path, levels) = (Path::default(), LEVELS_MAX);
    let mut room = Room { values, bytes: usize::MAX, is_full: false };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Reading { path: &mut path, problems, room: &mut room, levels }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| room.fault(error.to_string()))
}

/// How many bytes the values of a YAML document may have. Without aliases, which let a little text stand for much, no
/// request comes near it.
const YAML_BYTES_MAX: usize = 8 << 20;

/// How deep objects and lists may lie in each other in YAML, whose parser needs more of the stack for each.
const YAML_LEVELS_MAX: usize = 64;
/// How many values may come from aliases.
const ALIASED_MAX: usize = 20_000;

/// Reads YAML, as [`read`] does JSON.
pub fn read_yaml(text: &str, problems: &mut Problems) -> Result<Value, ReadError> {
    let options = serde_saphyr::options! {
        // The last counts, and is told to whoever reads.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_depth: YAML_LEVELS_MAX,
            flow_nesting_limit: YAML_LEVELS_MAX,
            max_events: YAML_BYTES_MAX,
            max_nodes: YAML_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
        with_snippet: false,
    };
    let (mut path, levels) = (Path::default(), YAML_LEVELS_MAX);
    let mut room = Room { values: &mut { VALUES_MAX }, bytes: YAML_BYTES_MAX, is_full: false };
    let reading = Reading { path: &mut path, problems, room: &mut room, levels };
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        reading.deserialize(yaml)
    });
    read.map_err(|error| room.fault(error.to_string().replace('\n', " ")))
}

/// Where in a document something is: `spec.containers[0].name`.
#[derive(Default)]
struct Path(String);

impl Path {
    fn within<T>(&mut self, step: fmt::Arguments<'_>, dot: bool, inside: impl FnOnce(&mut Path) -> T) -> T {
        let length = self.0.len();
        if dot && length > 0 {
            self.0.push('.');
        }
        fmt::Write::write_fmt(&mut self.0, step).expect("writing to a string does not fail");
        let result = inside(self);
        self.0.truncate(length);
        result
    }

    fn in_field<T>(&mut self, name: &str, inside: impl FnOnce(&mut Path) -> T) -> T {
        self.within(format_args!("{name}"), true, inside)
    }

    fn in_item<T>(&mut self, at: usize, inside: impl FnOnce(&mut Path) -> T) -> T {
        self.within(format_args!("[{at}]"), false, inside)
    }
}

/// How much more there may be.
struct Room<'a> {
    values: &'a mut usize,
    bytes: usize,
    /// Whether there were more values.
    is_full: bool,
}

impl Room<'_> {
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

    /// Why a text was not read, of which its reader says this.
    fn fault(&self, why: String) -> ReadError {
        if self.is_full { ReadError::TooManyValues } else { ReadError::Malformed(why) }
    }
}

struct Reading<'a, 'r> {
    path: &'a mut Path,
    problems: &'a mut Problems,
    room: &'a mut Room<'r>,
    /// How many more levels there may be.
    levels: usize,
}

impl Reading<'_, '_> {
    /// Makes room for a list or an object and says how many levels there may be in it.
    fn enter<E: de::Error>(&mut self, values: usize) -> Result<usize, E> {
        self.room.take(values, 0)?;
        self.levels.checked_sub(1).ok_or_else(|| E::custom("exceeded max depth"))
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
        let levels = self.enter(LIST_VALUES)?;
        let mut list = Vec::new();
        let Reading { path, problems, room, .. } = self;
        while let Some(item) = path.in_item(list.len(), |path| {
            items.next_element_seed(Reading { path, problems: &mut *problems, room: &mut *room, levels })
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let levels = self.enter(OBJECT_VALUES)?;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.room.take(1, name.len())?;
            let (problems, room) = (&mut *self.problems, &mut *self.room);
            let value = self.path.in_field(&name, |path| {
                if map.contains_key(&name) {
                    problems.tell(format!("duplicate field \"{}\"", path.0));
                }
                fields.next_value_seed(Reading { path, problems, room, levels })
            })?;
            match (map.get_mut(&name), value) {
                (Some(Value::Object(first)), Value::Object(second)) => merge(first, second),
                (_, value) => {
                    map.insert(name, value);
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
    let mut normalizing = Normalizing { owner: ty, path: Path::default(), keys: Vec::new(), problems };
    match document {
        Value::Object(mut fields) => {
            normalizing.message(&mut fields, ty)?;
            Ok(Value::Object(fields))
        }
        other => Err(normalizing.mismatch(&other, Shape::One, Kind::Message(ty))),
    }
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
        Presence::Always if field.shape != Shape::One || field.kind == Kind::Bytes => Some(Value::Null),
        Presence::Always => Some(zero_value(field.kind)),
    }
}

/// What a value is that nobody gave.
pub(crate) fn zero_value(kind: Kind) -> Value {
    match kind {
        Kind::String | Kind::Bytes => Value::String(String::new()),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => 0.into(),
        Kind::Quantity => "0".into(),
        Kind::Message(ty) => zero(ty),
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

struct Normalizing<'a> {
    /// The type whose fields are looked at.
    owner: TypeRef,
    path: Path,
    /// Where in the path the keys of maps stand.
    keys: Vec<Range<usize>>,
    problems: &'a mut Problems,
}

type Normalized = Result<Value, TypeError>;

impl Normalizing<'_> {
    /// In place: most fields are as they should be, and making the map anew would take most of the time.
    fn message(&mut self, fields: &mut Map<String, Value>, ty: TypeRef) -> Result<(), TypeError> {
        let mut known = 0;
        if ty.typed {
            for name in ["kind", "apiVersion"] {
                match fields.get(name) {
                    None => {}
                    Some(Value::String(text)) if !text.is_empty() => known += 1,
                    Some(Value::Null | Value::String(_)) => drop(fields.remove(name)),
                    Some(other) => return Err(self.path_mismatch(name, other, Kind::String)),
                }
            }
        }
        let given = ty.places(fields.keys());
        for field in given.map(|place| ty.json_fields()[place]) {
            let Some(slot) = fields.get_mut(field.name) else { continue };
            let value = match slot.take() {
                Value::Null => None,
                value => self.in_field(field.name, |this| this.field(value, field))?,
            };
            match value.or_else(|| absent(field)) {
                Some(value) => {
                    *slot = value;
                    known += 1;
                }
                None => drop(fields.remove(field.name)),
            }
        }
        for field in ty.always().without(given).map(|place| ty.json_fields()[place]) {
            fields.extend(absent(field).map(|value| (field.name.to_owned(), value)));
            known += 1;
        }
        if known < fields.len() {
            fields.retain(|name, _| self.knows(ty, name));
        }
        Ok(())
    }

    /// Whether a type has a field of that name; if not, that is told.
    fn knows(&mut self, ty: TypeRef, name: &str) -> bool {
        let is_known = ty.json_field(name).is_some() || (ty.typed && matches!(name, "kind" | "apiVersion"));
        if !is_known {
            self.path.in_field(name, |path| self.problems.tell(format!("unknown field \"{}\"", path.0)));
        }
        is_known
    }

    fn in_field<T>(&mut self, name: &str, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.0.len();
        if length > 0 {
            self.path.0.push('.');
        }
        self.path.0.push_str(name);
        let result = inside(self);
        self.path.0.truncate(length);
        result
    }

    fn in_entry<T>(&mut self, key: &str, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.0.len();
        self.in_field(key, |this| {
            this.keys.push(length..this.path.0.len());
            let result = inside(this);
            this.keys.pop();
            result
        })
    }

    fn in_item<T>(&mut self, at: usize, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.0.len();
        fmt::Write::write_fmt(&mut self.path.0, format_args!("[{at}]"))
            .expect("writing to a string does not fail");
        let result = inside(self);
        self.path.0.truncate(length);
        result
    }

    /// The value of a field as it is written; absent if it is not written at all.
    fn field(&mut self, value: Value, field: &Field) -> Result<Option<Value>, TypeError> {
        let value = match (field.shape, value) {
            (Shape::One, value) => self.value(value, field.kind)?,
            (Shape::List, Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(at, item)| self.in_item(at, |this| this.item(item, field.kind)));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            (Shape::Map, Value::Object(mut entries)) => {
                for (name, slot) in &mut entries {
                    let value = slot.take();
                    *slot = self.in_entry(name, |this| this.item(value, field.kind))?;
                }
                Value::Object(entries)
            }
            (shape, other) => return Err(self.mismatch(&other, shape, field.kind)),
        };
        Ok(Some(value).filter(|value| !is_unwritten(value, field.presence)))
    }

    /// A value in a list or map, where null stands for zero.
    fn item(&mut self, value: Value, kind: Kind) -> Normalized {
        if value.is_null() { Ok(zero_value(kind)) } else { self.value(value, kind) }
    }

    fn value(&mut self, value: Value, kind: Kind) -> Normalized {
        match (kind, value) {
            (Kind::String, value @ Value::String(_)) | (Kind::Bool, value @ Value::Bool(_)) => Ok(value),
            (Kind::Int32, value) => self.integer(value, i64::from(i32::MIN), i64::from(i32::MAX), kind),
            (Kind::Int64, value) => self.integer(value, i64::MIN, i64::MAX, kind),
            (Kind::Double, Value::Number(number)) => {
                Ok(number.as_f64().and_then(double).unwrap_or(Value::Number(number)))
            }
            (Kind::Bytes, Value::String(text)) => {
                let text = text.replace(['\r', '\n'], "");
                match BASE64_STANDARD.decode(&text) {
                    Ok(_) => Ok(Value::String(text)),
                    Err(_) => Err(TypeError("illegal base64 data at input byte 0".to_owned())),
                }
            }
            (Kind::Time, Value::String(text)) => self.time(text, time::time),
            (Kind::MicroTime, Value::String(text)) => self.time(text, time::micro_time),
            (Kind::Quantity, Value::String(text)) => quantity(&text),
            (Kind::Quantity, Value::Number(number)) => quantity(&number.to_string()),
            (Kind::IntOrString, value @ Value::String(_)) => Ok(value),
            (Kind::IntOrString, value) => self.integer(value, i64::from(i32::MIN), i64::from(i32::MAX), kind),
            (Kind::Raw | Kind::Fields, value @ Value::Object(_)) | (Kind::Json, value) => Ok(value),
            (Kind::Strings, Value::Array(items)) => items
                .into_iter()
                .map(|item| self.item(item, Kind::String))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            (Kind::SchemaOrBool, value @ Value::Bool(_)) => Ok(value),
            (Kind::SchemaOrStrings, Value::Array(items)) => self.value(Value::Array(items), Kind::Strings),
            (Kind::SchemaOrArray, Value::Array(items)) => {
                let schemas = items.into_iter().map(|item| self.value(item, Kind::Message(json_schema())));
                schemas.collect::<Result<_, _>>().map(Value::Array)
            }
            (Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings, value @ Value::Object(_)) => {
                self.value(value, Kind::Message(json_schema()))
            }
            (Kind::Message(ty), Value::Object(mut fields)) => {
                let owner = std::mem::replace(&mut self.owner, ty);
                self.message(&mut fields, ty)?;
                self.owner = owner;
                Ok(Value::Object(fields))
            }
            (kind, other) => Err(self.mismatch(&other, Shape::One, kind)),
        }
    }

    fn integer(&self, value: Value, least: i64, most: i64, kind: Kind) -> Normalized {
        let Value::Number(number) = &value else { return Err(self.mismatch(&value, Shape::One, kind)) };
        match number.as_i64() {
            Some(whole) if (least..=most).contains(&whole) => Ok(value),
            _ => Err(self.cannot_unmarshal(&format!("number {number}"), Shape::One, kind)),
        }
    }

    fn time(&self, text: String, spell: fn(time::Timestamp) -> String) -> Normalized {
        if text.is_empty() {
            return Ok(Value::Null);
        }
        let at = time::parse_time(&text);
        at.map(|at| Value::String(spell(at))).ok_or_else(|| {
            TypeError(format!(
                "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
            ))
        })
    }

    fn mismatch(&self, found: &Value, shape: Shape, kind: Kind) -> TypeError {
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
    fn cannot_unmarshal(&self, found: &str, shape: Shape, kind: Kind) -> TypeError {
        let wanted = match shape {
            Shape::One => name_of(kind),
            Shape::List => format!("[]{}", name_of(kind)),
            Shape::Map => format!("map[string]{}", name_of(kind)),
        };
        let mut path = String::new();
        let mut begin = 0;
        for key in &self.keys {
            path.push_str(&self.path.0[begin..key.start]);
            begin = key.end;
        }
        path.push_str(&self.path.0[begin..]);
        let mut is_index = false;
        path.retain(|c| {
            let was_index = is_index;
            is_index = c == '[' || (is_index && c != ']');
            !is_index && !was_index
        });
        let into = match path.as_str() {
            "" => format!("Go value of type {wanted}"),
            path => format!("Go struct field {}.{path} of type {wanted}", self.owner.short_name()),
        };
        TypeError(format!("json: cannot unmarshal {found} into {into}"))
    }

    fn path_mismatch(&mut self, name: &str, found: &Value, kind: Kind) -> TypeError {
        self.in_field(name, |this| this.mismatch(found, Shape::One, kind))
    }
}

/// The type of JSON schemas, which some values are besides something else.
pub(crate) fn json_schema() -> TypeRef {
    super::lookup("apiextensions.v1.JSONSchemaProps").expect("the table has the type of JSON schemas")
}

fn quantity(text: &str) -> Normalized {
    let quantity: Quantity = text.parse().map_err(|error| TypeError(format!("{error}")))?;
    Ok(Value::String(quantity.to_string()))
}

/// What Go calls it.
fn name_of(kind: Kind) -> String {
    let name = match kind {
        Kind::String | Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Quantity => "string",
        Kind::Bool => "bool",
        Kind::Int32 | Kind::IntOrString => "int32",
        Kind::Int64 => "int64",
        Kind::Double => "float64",
        Kind::Strings => "[]string",
        // Without the group of `core.v1.Pod`.
        Kind::Message(ty) => ty.get().name.split_once('.').map_or("object", |(_, name)| name),
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

/// Appends a document as Kubernetes writes it: fields in the order of its type, without blanks.
pub fn write(out: &mut Vec<u8>, document: &Value, ty: TypeRef) {
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping);
    Written { value: document, kind: Kind::Message(ty) }
        .serialize(&mut serializer)
        .expect("writing to memory does not fail, and the keys of a document are text");
}

/// A value as a type has it, to be written with its fields in the order of the type.
pub(crate) fn ordered<'a>(value: &'a Value, ty: &str) -> impl Serialize + use<'a> {
    let ty = super::lookup(ty).expect("whoever asks for a type knows that it is in the table");
    Written { value, kind: Kind::Message(ty) }
}

/// A value as JSON, as Go writes it.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut out, Escaping))
        .expect("writing to memory does not fail, and the keys of a document are text");
    String::from_utf8(out).expect("JSON is text")
}

/// Writes what could end a script in a page as Go does, so that the bytes are the same.
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Hardly any text has one of these; a look at every byte is cheaper than one at every character.
        let may_be_special = |any, byte: &u8| any | matches!(byte, b'<' | b'>' | b'&' | 0xe2);
        if !fragment.as_bytes().iter().fold(false, may_be_special) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            let special = special.chars().next().unwrap_or_default();
            writer.write_all(plain.as_bytes())?;
            write!(writer, "\\u{:04x}", u32::from(special))?;
            rest = &rest[at + special.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// A value on its way out.
struct Written<'a> {
    value: &'a Value,
    kind: Kind,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.kind) {
            (Value::Object(fields), Kind::Message(ty)) => {
                let mut map = serializer.serialize_map(None)?;
                if ty.typed {
                    for name in ["kind", "apiVersion"] {
                        if let Some(value) = fields.get(name) {
                            map.serialize_entry(name, value)?;
                        }
                    }
                }
                for field in ty.places(fields.keys()).map(|place| ty.json_fields()[place]) {
                    if let Some(value) = fields.get(field.name) {
                        map.serialize_entry(field.name, &WrittenField { value, field })?;
                    }
                }
                map.end()
            }
            (value, _) => value.serialize(serializer),
        }
    }
}

struct WrittenField<'a> {
    value: &'a Value,
    field: &'a Field,
}

impl Serialize for WrittenField<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.field.kind;
        match (self.field.shape, self.value, kind) {
            (Shape::List, Value::Array(items), Kind::Message(_)) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    list.serialize_element(&Written { value, kind })?;
                }
                list.end()
            }
            (Shape::Map, Value::Object(entries), Kind::Message(_)) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    map.serialize_entry(name, &Written { value, kind })?;
                }
                map.end()
            }
            (_, value, kind) => Written { value, kind }.serialize(serializer),
        }
    }
}
