//! Maps and objects: objects of a document, and maps that expressions make.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::{Fields, List, Opaque, Text, Value, equal, json};
use crate::declarations::{Failure, Outcome};
use crate::schema::{Declared, Kind, escape, unescape};

/// A map with more entries than this has an index.
const ENTRIES_WITHOUT_INDEX_MAX: usize = 8;

/// A map. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// An object of a document whose keys are data.
    Json {
        /// The entries.
        entries: &'a JsonMap<String, Json>,
        /// The schema of the map; `None`: there is none.
        declared: Option<&'a Declared>,
    },
    /// A map that an expression made.
    Values(Arc<MapValues<'a>>),
}

/// The entries of a map that an expression made, in the order in which they were inserted.
#[derive(Clone, Debug, Default)]
pub struct MapValues<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// The position of the entry of each key; empty as long as the map is small.
    index: HashMap<IndexKey, usize>,
}

/// A key of an index: numbers of different types are different keys, as in Go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum IndexKey {
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits; both zeros have the same.
    Double(u64),
    Text(Box<str>),
}

impl IndexKey {
    /// `None`: keys of this type are compared one by one.
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) => Self::Double(if *value == 0.0 { 0 } else { value.to_bits() }),
            Value::String(text) => Self::Text(Box::from(&**text)),
            _ => return None,
        })
    }
}

/// The same number in the other types that a lookup tries: doubles as integers, and integers of either kind.
fn other_numbers(key: &Value<'_>) -> Vec<Value<'static>> {
    /// The end of the range of integers that doubles are compared with.
    const INT_END: f64 = 9_223_372_036_854_775_808.0;
    let ints = match key {
        Value::Double(number) if number.trunc() == *number => {
            let int = (number.abs() < INT_END).then_some(Value::Int(*number as i64));
            let uint = (*number >= 0.0 && *number < 2.0 * INT_END).then_some(Value::Uint(*number as u64));
            [int, uint]
        }
        Value::Int(number) => [u64::try_from(*number).ok().map(Value::Uint), None],
        Value::Uint(number) => [i64::try_from(*number).ok().map(Value::Int), None],
        _ => [None, None],
    };
    ints.into_iter().flatten().collect()
}

/// Whether two keys are the same in Go. Lists, maps and some values of libraries are pointers there: the same only if they
/// are one value in memory. So are times with an offset, unless it is one of the common whole hours: Go has those once.
fn is_same_key(known: &Value<'_>, key: &Value<'_>) -> bool {
    match (known, key) {
        (Value::Double(known), Value::Double(key)) => known == key,
        (Value::List(List::Values(known)), Value::List(List::Values(key))) => Arc::ptr_eq(known, key),
        (Value::Map(Map::Values(known)), Value::Map(Map::Values(key))) => Arc::ptr_eq(known, key),
        (Value::Optional(Some(known)), Value::Optional(Some(key))) => Arc::ptr_eq(known, key),
        (
            _,
            Value::List(_)
            | Value::Map(_)
            | Value::Object(_)
            | Value::Optional(Some(_))
            | Value::Opaque(Opaque::Url(_) | Opaque::Quantity(_)),
        ) => false,
        (Value::Timestamp(known), Value::Timestamp(time)) => {
            let hour = time.offset_seconds / 3600;
            let is_shared = (-12..=14).contains(&hour) && hour * 3600 == time.offset_seconds;
            is_shared && known == time
        }
        (known, key) => known.type_name() == key.type_name() && matches!(equal(known, key), Ok(true)),
    }
}

impl<'a> MapValues<'a> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The keys and values.
    pub fn entries(&self) -> &[(Value<'a>, Value<'a>)] {
        &self.entries
    }

    /// The position of the entry of exactly this key.
    fn position(&self, key: &Value<'_>) -> Option<usize> {
        match IndexKey::of(key) {
            // Nothing equals NaN.
            Some(_) if matches!(key, Value::Double(number) if number.is_nan()) => None,
            Some(key) if !self.index.is_empty() => self.index.get(&key).copied(),
            _ => self.entries.iter().position(|(known, _)| is_same_key(known, key)),
        }
    }

    /// The position of the entry that a lookup of the key finds.
    fn find(&self, key: &Value<'_>) -> Option<usize> {
        self.position(key).or_else(|| other_numbers(key).iter().find_map(|other| self.position(other)))
    }

    /// The value of a key.
    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        self.find(key).map(|position| &self.entries[position].1)
    }

    /// Puts an entry; replaces that of an equal key.
    pub(crate) fn put(&mut self, key: Value<'a>, value: Value<'a>) {
        match self.position(&key) {
            Some(position) => self.entries[position] = (key, value),
            None => self.push(key, value),
        }
    }

    /// Puts an entry of a new key. False: there is one already.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> bool {
        if self.find(&key).is_some() {
            return false;
        }
        self.push(key, value);
        true
    }

    /// Removes the entry of a key.
    pub(crate) fn remove(&mut self, key: &Value<'a>) {
        if let Some(position) = self.position(key) {
            self.entries.remove(position);
            self.index.clear();
            self.index_all();
        }
    }

    fn push(&mut self, key: Value<'a>, value: Value<'a>) {
        self.entries.push((key, value));
        if self.entries.len() == ENTRIES_WITHOUT_INDEX_MAX + 1 {
            self.index_all();
        } else if self.entries.len() > ENTRIES_WITHOUT_INDEX_MAX {
            self.index_entry(self.entries.len() - 1);
        }
    }

    fn index_all(&mut self) {
        if self.entries.len() > ENTRIES_WITHOUT_INDEX_MAX {
            (0..self.entries.len()).for_each(|position| self.index_entry(position));
        }
    }

    fn index_entry(&mut self, position: usize) {
        if let Some(key) = IndexKey::of(&self.entries[position].0) {
            self.index.insert(key, position);
        }
    }
}

impl<'a> Map<'a> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Json { entries, .. } => entries.len(),
            Self::Values(values) => values.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: &Value<'_>) -> Option<Outcome<'a>> {
        match (self, key) {
            (Self::Json { .. }, Value::String(key)) => self.find_text(key),
            // A typed map does not take other keys.
            (Self::Json { declared: Some(_), .. }, _) => Some(Err(Failure::NoSuchOverload)),
            (Self::Json { .. }, _) => None,
            (Self::Values(values), key) => values.get(key).cloned().map(Ok),
        }
    }

    /// The value of a key that is text.
    pub(crate) fn find_text(&self, key: &str) -> Option<Outcome<'a>> {
        match self {
            Self::Json { entries, declared } => {
                let value = entries.get(key)?;
                Some(json::read(value, declared.and_then(Declared::values)))
            }
            Self::Values(values) => values.get(&Value::String(Text::from(key))).cloned().map(Ok),
        }
    }

    /// The keys.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json { entries, .. } => {
                entries.keys().map(|key| Value::String(Text::Borrowed(key))).collect()
            }
            Self::Values(values) => values.entries().iter().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// An object with declared fields. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Object<'a> {
    /// An object of a document.
    Json {
        /// The properties.
        properties: &'a JsonMap<String, Json>,
        /// The schema of the object.
        declared: &'a Declared,
    },
    /// Fields that are found when they are read.
    Lazy(&'a (dyn Fields + 'a)),
}

impl<'a> Object<'a> {
    /// The number of properties, declared or not.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { properties, .. } => properties.len(),
            Self::Lazy(_) => 1,
        }
    }

    /// The value of a field by the name that expressions have for it. A property that is `null` is absent.
    pub(crate) fn find(&self, name: &str) -> Option<Outcome<'a>> {
        let Self::Json { properties, declared } = self else { return None };
        let property = unescape(name)?;
        let value = properties.get(&property).filter(|value| !value.is_null())?;
        let field = declared.property(&property)?;
        Some(json::read(value, Some(&field.declared)))
    }

    /// The names of the declared fields that there are.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        let Self::Json { properties, declared } = self else { return Vec::new() };
        let Kind::Object { fields } = &declared.kind else { return Vec::new() };
        let names = properties.keys().filter_map(|property| escape(property));
        names.filter(|name| fields.contains_key(name.as_str())).map(Value::text).collect()
    }
}
