//! Documents of any type as clients might send them, made from the table of types.
//!
//! They have nothing that Protobuf cannot express: no list or map that is set but empty.

use crate::schema::{Field, Shape, Timestamp, TypeRef, ValueKind, json_schema};
use base64::{Engine, prelude::BASE64_STANDARD};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

/// Schemas contain schemas; somewhere they end.
const DEPTH_MAX: u32 = 8;

pub(super) struct Sampler<'a> {
    pub(super) rng: StdRng,
    /// Whether a document may have the field.
    pub(super) known: &'a dyn Fn(TypeRef, &Field) -> bool,
}

impl Sampler<'_> {
    /// A document in which the deeper fields are the rarer.
    pub(super) fn document(&mut self, ty: TypeRef) -> Value {
        let mut own = Map::new();
        self.fill(&mut own, ty, 0);
        Value::Object(own)
    }

    fn fill(&mut self, own: &mut Map<String, Value>, ty: TypeRef, depth: u32) {
        for field in ty.get().fields {
            match field.kind {
                ValueKind::Message(inline) if field.name.is_empty() => self.fill(own, inline, depth),
                _ => {
                    if depth < DEPTH_MAX && (self.known)(ty, field) && self.rng.random_ratio(1, 1 + depth) {
                        let value = self.field(field, depth + 1);
                        own.insert(field.name.to_owned(), value);
                    }
                }
            }
        }
    }

    fn field(&mut self, field: &Field, depth: u32) -> Value {
        let count = self.rng.random_range(1..4);
        match field.shape {
            Shape::One => self.value(field.kind, depth),
            Shape::List => (0..count).map(|_| self.value(field.kind, depth)).collect(),
            Shape::Map => (0..count).map(|_| (self.text(), self.value(field.kind, depth))).collect(),
        }
    }

    fn value(&mut self, kind: ValueKind, depth: u32) -> Value {
        let count = self.rng.random_range(1..4);
        match kind {
            ValueKind::String => self.text().into(),
            ValueKind::Bool => self.rng.random::<bool>().into(),
            ValueKind::Int32 => (self.integer() as i32).into(),
            ValueKind::Int64 => self.integer().into(),
            ValueKind::Double => {
                self.one_of(&[json!(0), json!(1.0), json!(-0.5), json!(1e300), json!(i64::MAX), json!(0.1)])
            }
            ValueKind::Bytes => {
                let bytes: Vec<u8> = (0..self.rng.random_range(0..200)).map(|_| self.rng.random()).collect();
                BASE64_STANDARD.encode(bytes).into()
            }
            ValueKind::Time => self.time(),
            ValueKind::MicroTime => self.micro_time(),
            ValueKind::Quantity => self.one_of(&[
                json!("0"),
                json!(3),
                json!("0.5"),
                json!("1024Mi"),
                json!("1e3"),
                json!("-7n"),
                json!("100m"),
            ]),
            ValueKind::IntOrString if self.rng.random() => self.text().into(),
            ValueKind::IntOrString => (self.integer() as i32).into(),
            ValueKind::Raw | ValueKind::Fields => json!({ self.text(): self.json(), "f:a": {".": {}} }),
            ValueKind::Json => self.json(),
            ValueKind::Strings => (0..count).map(|_| self.text()).collect(),
            ValueKind::SchemaOrBool if self.rng.random() => self.rng.random::<bool>().into(),
            ValueKind::SchemaOrStrings if self.rng.random() => (0..count).map(|_| self.text()).collect(),
            ValueKind::SchemaOrArray if self.rng.random() => {
                (0..count).map(|_| self.value(ValueKind::Message(json_schema()), depth)).collect()
            }
            ValueKind::SchemaOrArray | ValueKind::SchemaOrBool | ValueKind::SchemaOrStrings => {
                self.value(ValueKind::Message(json_schema()), depth)
            }
            ValueKind::Message(ty) => {
                let mut own = Map::new();
                self.fill(&mut own, ty, depth);
                Value::Object(own)
            }
        }
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices.choose(&mut self.rng).expect("there is a choice").clone()
    }

    fn text(&mut self) -> String {
        let text = self.one_of(&["", "a", "web-0", "zwölf Boxkämpfer", "\u{1f980}\n\"<", "k8s\0"]);
        if self.rng.random() { text.to_owned() } else { format!("{text}{}", self.rng.random::<u16>()) }
    }

    fn integer(&mut self) -> i64 {
        let any = self.rng.random();
        self.one_of(&[0, 1, -1, 127, 128, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN, any])
    }

    fn time(&mut self) -> Value {
        let micros = self.rng.random_range(-62_000_000_000_000_000..250_000_000_000_000_000);
        let at = Timestamp::from_microsecond(micros).expect("the years are from 5 to 9892");
        match self.rng.random_range(0..5) {
            0 => Value::Null,
            1 => "1970-01-01T00:00:00Z".into(),
            2 => at.strftime("%Y-%m-%dT%H:%M:%S+02:00").to_string().into(),
            _ => at.strftime("%Y-%m-%dT%H:%M:%S.%fZ").to_string().into(),
        }
    }

    /// A time with six decimals.
    fn micro_time(&mut self) -> Value {
        let micros = self.rng.random_range(-62_000_000_000_000_000..250_000_000_000_000_000);
        let at = Timestamp::from_microsecond(micros).expect("the years are from 5 to 9892");
        match self.rng.random_range(0..5) {
            0 => Value::Null,
            1 => "1970-01-01T00:00:00.000000Z".into(),
            2 => at.strftime("%Y-%m-%dT%H:%M:%S.%6f+02:00").to_string().into(),
            _ => at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into(),
        }
    }

    fn json(&mut self) -> Value {
        let text = self.text();
        self.one_of(&[
            json!(null),
            json!(true),
            json!(-1.5),
            json!(""),
            json!([[], {"a": text}]),
            json!({text: 1}),
        ])
    }
}
