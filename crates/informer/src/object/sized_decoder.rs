//! Decodes JSON into collections with exactly the capacity they need.
//!
//! JSON does not state the length of an array, so `serde_json` grows a `Vec` by doubling it: decoded objects then
//! have up to twice the capacity they need, and the smaller buffers they outgrew fragment the heap. For objects that
//! are kept as long as an informer keeps them, both cost far more than counting the elements first. So this module
//! scans the JSON once for the lengths of arrays, and then decodes it with `serde_json` while every array reports its
//! length.
//!
//! Invariant: the result, and every error, is that of `serde_json`. Lengths are only a hint: with a wrong one a
//! collection is too large, or grows.

use crate::object::json_scanner::Scanner;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor},
};
use std::{cell::Cell, fmt};

/// Decodes this text.
pub(crate) fn from_str<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, serde_json::Error> {
    let lengths = Lengths { all: Scanner::new(json.as_bytes()).array_lengths(), next: Cell::new(0) };
    let mut decoder = serde_json::Deserializer::from_str(json);
    let decoded = T::deserialize(Counted { inner: &mut decoder, lengths: &lengths });
    match decoded.and_then(|decoded| decoder.end().map(|()| decoded)) {
        Ok(decoded) => Ok(decoded),
        // Fields that the type ignores are checked more strictly above, so `serde_json` alone decides about errors.
        Err(_) => serde_json::from_str(json),
    }
}

/// The lengths of the arrays, in the order of their opening brackets, which is the order of their visits.
struct Lengths {
    all: Vec<u32>,
    next: Cell<usize>,
}

impl Lengths {
    fn next(&self) -> Option<usize> {
        let next = self.next.get();
        self.next.set(next.saturating_add(1));
        self.all.get(next).map(|length| *length as usize)
    }

    /// Stops using lengths, because an unknown number of arrays is skipped.
    fn stop(&self) {
        self.next.set(usize::MAX);
    }
}

/// Wraps a deserializer, visitor or seed so that arrays inside it know their lengths.
struct Counted<'l, T> {
    inner: T,
    lengths: &'l Lengths,
}

impl<'l, T> Counted<'l, T> {
    fn with<U>(&self, inner: U) -> Counted<'l, U> {
        Counted { inner, lengths: self.lengths }
    }
}

/// Forwards a method with a wrapped visitor.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, Self::Error> {
            let visitor = self.with(visitor);
            self.inner.$method($($argument,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Counted<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        // Raw JSON is skipped without visiting its arrays.
        if name.starts_with("$serde_json::private") {
            self.lengths.stop();
        }
        let visitor = self.with(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    /// Ignored values are visited too, so that their arrays are counted.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {
        $(fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Counted<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.with(inner);
        self.inner.visit_some(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.with(inner);
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let elements = Array { left: self.lengths.next(), elements, lengths: self.lengths };
        self.inner.visit_seq(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let fields = self.with(fields);
        self.inner.visit_map(fields)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.with(variant);
        self.inner.visit_enum(variant)
    }
}

/// An array that knows how many elements are left, unless lengths are unknown.
struct Array<'l, A> {
    left: Option<usize>,
    elements: A,
    lengths: &'l Lengths,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Array<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.elements.next_element_seed(Counted { inner: seed, lengths: self.lengths })
    }

    fn size_hint(&self) -> Option<usize> {
        self.left
    }
}

/// Keys contain no arrays.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Counted<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Counted<'_, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        let inner = self.with(inner);
        self.inner.deserialize(inner)
    }
}

impl<'de, 'l, A: EnumAccess<'de>> EnumAccess<'de> for Counted<'l, A> {
    type Error = A::Error;
    type Variant = Counted<'l, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let Counted { inner, lengths } = self;
        let (name, variant) = inner.variant_seed(seed)?;
        Ok((name, Counted { inner: variant, lengths }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Counted<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::DynamicObject;
    use proptest::prelude::*;
    use serde_json::{Value, value::RawValue};

    #[derive(Debug, PartialEq, Deserialize)]
    enum Shape {
        Point(Vec<u64>, Vec<u64>),
        Line { ends: Vec<Vec<u64>> },
        Circle(Vec<u64>),
        Nothing,
    }

    #[derive(Deserialize)]
    struct Shapes {
        shapes: Vec<Shape>,
        raw: Option<Box<RawValue>>,
        last: Vec<u64>,
    }

    #[test]
    fn collections_have_exactly_the_capacity_they_need() {
        let env = (0..5).map(|number| format!(r#"{{"name":"{number}, [\"]","value":"x"}}"#));
        let env = env.collect::<Vec<_>>().join(" , ");
        let json = format!(
            r#"{{"metadata":{{"finalizers":[ ],"unknown":[1,[2,3],{{"a":[]}}]}},
            "spec":{{"containers":[{{"name":"a","command":["a","b","c"],"env":[{env}]}}]}}}}"#
        );
        let pod: Pod = from_str(&json).unwrap();
        assert_eq!(pod, serde_json::from_str(&json).unwrap());
        let containers = pod.spec.unwrap().containers;
        let [container] = &containers[..] else { panic!("{containers:?}") };
        let (command, env) = (container.command.as_ref().unwrap(), container.env.as_ref().unwrap());
        assert_eq!((containers.capacity(), command.capacity(), env.capacity()), (1, 3, 5));
    }

    #[test]
    fn ignored_fields_can_contain_anything_that_serde_json_ignores() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for odd in [deep.as_str(), "1e999", r#""\ud800""#] {
            let json = format!(r#"{{"metadata":{{"name":"a"}},"unknown":{odd}}}"#);
            let plain = serde_json::from_str::<Pod>(&json);
            assert_eq!(from_str::<Pod>(&json).is_ok(), plain.is_ok(), "{odd}");
        }
    }

    #[test]
    fn arrays_in_enum_variants_are_counted_and_none_after_raw_json() {
        let json = r#"{"shapes":[{"Point":[[1,2],[3]]},{"Line":{"ends":[[1],[2,3,4]]}},{"Circle":[7]},"Nothing"],"last":[1,2,3]}"#;
        let Shapes { shapes, raw, last } = from_str(json).unwrap();
        let ends = vec![vec![1], vec![2, 3, 4]];
        let expected =
            [Shape::Point(vec![1, 2], vec![3]), Shape::Line { ends }, Shape::Circle(vec![7]), Shape::Nothing];
        assert_eq!(shapes, expected);
        assert!(raw.is_none() && shapes.capacity() == 4 && last.capacity() == 3);
        let json = r#"{"raw":[[1],[2]],"shapes":[],"last":[1,2,3]}"#;
        let Shapes { raw, last, .. } = from_str(json).unwrap();
        assert_eq!((raw.unwrap().get(), last), ("[[1],[2]]", vec![1, 2, 3]));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\,\\[{]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::from(map.into_iter().collect::<serde_json::Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_result_is_that_of_serde_json(value in json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(from_str::<Value>(&text).unwrap(), value.clone());
            let object = serde_json::json!({"metadata": {"name": "a"}, "spec": value}).to_string();
            let expected: DynamicObject = serde_json::from_str(&object).unwrap();
            prop_assert_eq!(from_str::<DynamicObject>(&object).unwrap(), expected);
        }

        #[test]
        fn errors_are_those_of_serde_json(text in r#"[\[\]{}":,\\a1 ]{0,20}"#) {
            let expected = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            prop_assert_eq!(from_str::<Value>(&text).map_err(|error| error.to_string()), expected);
        }
    }
}
