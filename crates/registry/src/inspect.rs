//! Reads the attributes of a stored value that selectors, lists and watches need.

use crate::{
    custom::Served,
    document::Fields,
    kind::{At, FieldPath, Kind},
};
use keepwatch_apimachinery::meta::{Others, Peek, Text};
use keepwatch_storage::{Attributes, Inspector, Key, Undecodable};
use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// The inspector of one resource's stored values.
pub struct ResourceInspector {
    namespaced: bool,
    /// The names of the fields, and their values where they are not set.
    fields: Vec<(String, &'static str)>,
    paths: Vec<Candidate>,
    /// The definition whose defaults a custom resource has for fields that are not stored.
    defaults: Option<Served>,
}

/// A path at which the value of a field may be.
struct Candidate {
    /// The number of the field.
    field: usize,
    path: FieldPath,
    /// Whether it is the first path of the field.
    is_first: bool,
}

impl ResourceInspector {
    /// For the resource in the version in which it is stored.
    pub fn new(kind: &Kind) -> Self {
        let (mut fields, mut paths): (Vec<(String, &str)>, Vec<Candidate>) = Default::default();
        for field in &kind.fields {
            let (if_absent, paths_of_field) = match &field.at {
                At::Path(path) => ("", std::slice::from_ref(path)),
                At::Flag(path) => ("false", std::slice::from_ref(path)),
                At::Number(path) => ("0", std::slice::from_ref(path)),
                At::Either(paths) => ("", paths.as_slice()),
                At::Metadata | At::Nowhere => continue,
            };
            if fields.iter().any(|(name, _)| *name == field.indexed) {
                continue;
            }
            let candidate = |(at, path): (usize, &FieldPath)| Candidate {
                field: fields.len(),
                path: path.clone(),
                is_first: at == 0,
            };
            paths.extend(paths_of_field.iter().enumerate().map(candidate));
            fields.push((field.indexed.clone(), if_absent));
        }
        let defaults = kind.custom.clone();
        let is_given = |served: &Served| paths.iter().any(|place| served.has_default_at(&place.path));
        let defaults = defaults.filter(is_given);
        Self { namespaced: kind.namespaced, paths, fields, defaults }
    }
}

impl ResourceInspector {
    /// Sets the fields that only the defaults of the definition add to an object.
    fn find_defaults(&self, value: &[u8], found: &mut [Option<Cow<'_, str>>]) {
        let Some(served) = &self.defaults else { return };
        if found.iter().all(Option::is_some) {
            return;
        }
        let document = served.stored_document(value);
        for place in &self.paths {
            let slot = &mut found[place.field];
            if let (None, Some(default)) = (&slot, document.field(&place.path.join("."))) {
                *slot = match default {
                    Value::String(text) => Some(Cow::Owned(text.clone())),
                    Value::Bool(_) | Value::Number(_) => Some(Cow::Owned(default.to_string())),
                    _ => None,
                };
            }
        }
    }
}

impl Inspector for ResourceInspector {
    fn inspect(&self, _: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        let mut found: Vec<Option<Cow<'_, str>>> = vec![None; self.fields.len()];
        let within: Vec<&Candidate> = self.paths.iter().collect();
        let mut reader = FieldReader { depth: 0, within: &within, found: &mut found };
        let peek = Peek::beside(value, &mut reader).map_err(undecodable)?;
        self.find_defaults(value, &mut found);
        let metadata = &peek.metadata;
        let namespace = self.namespaced.then_some(("metadata.namespace", &*metadata.namespace));
        let own = self
            .fields
            .iter()
            .zip(&found)
            .map(|((name, if_absent), found)| (name.as_str(), found.as_deref().unwrap_or(if_absent)));
        let fields = [("metadata.name", &*metadata.name)].into_iter().chain(namespace).chain(own).collect();
        Ok(Attributes {
            uid: (!metadata.uid.is_empty()).then(|| (&*metadata.uid).into()),
            labels: metadata.labels.iter().collect(),
            fields,
            version_at: peek.version_at,
            has_version: peek.has_version,
            ..Attributes::default()
        })
    }
}

fn undecodable(error: impl std::error::Error) -> Undecodable {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Undecodable(format!("{error}{cause}"))
}

/// Walks through a value along the paths of the wanted fields and skips all else.
struct FieldReader<'a, 'de> {
    depth: usize,
    /// The candidates below this value.
    within: &'a [&'a Candidate],
    found: &'a mut [Option<Cow<'de, str>>],
}

impl<'de> DeserializeSeed<'de> for FieldReader<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> FieldReader<'_, 'de> {
    fn leaf(self, text: Cow<'de, str>) {
        for candidate in self.within {
            let slot = &mut self.found[candidate.field];
            // The first of several paths wins: a later one in the value must not replace it.
            if candidate.path.len() == self.depth
                && !text.is_empty()
                && (candidate.is_first || slot.is_none())
            {
                *slot = Some(text.clone());
            }
        }
    }
}

impl<'de> Visitor<'de> for FieldReader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.leaf(Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }
    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.leaf(Cow::Owned(value.to_string()));
        Ok(())
    }
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.leaf(Cow::Owned(value.to_string()));
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        self.leaf(Cow::Borrowed(text));
        Ok(())
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.leaf(Cow::Owned(text.to_owned()));
        Ok(())
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut this = self;
        while let Some(name) = fields.next_key::<Text<'de>>()? {
            this.read(&name, &mut fields)?;
        }
        Ok(())
    }
}

impl<'de> Others<'de> for FieldReader<'_, 'de> {
    fn read<A: MapAccess<'de>>(&mut self, name: &str, fields: &mut A) -> Result<(), A::Error> {
        let leads =
            |candidate: &&&Candidate| candidate.path.get(self.depth).is_some_and(|step| *step == name);
        let within: Vec<&Candidate> = self.within.iter().filter(leads).copied().collect();
        if within.is_empty() {
            return fields.next_value::<IgnoredAny>().map(drop);
        }
        fields.next_value_seed(FieldReader {
            depth: self.depth + 1,
            within: &within,
            found: &mut *self.found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::find;

    fn fields(plural: &str, value: &str) -> String {
        let inspector = ResourceInspector::new(find("", "v1", plural).unwrap());
        let attributes = inspector.inspect(&Key::from_backend("/registry/x"), value.as_bytes()).unwrap();
        attributes.fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_fields_of_a_pod_are_found_and_the_missing_ones_have_their_zero() {
        let pod = r#"{"metadata":{"name":"a","namespace":"n","labels":{"l":"1"}},"spec":{"containers":[{"nodeName":"no"}],
            "nodeName":"n1","restartPolicy":"Always","hostNetwork":true},"status":{"phase":"Running"}}"#;
        assert_eq!(
            fields("pods", pod),
            "metadata.name=a metadata.namespace=n spec.nodeName=n1 spec.restartPolicy=Always spec.schedulerName= \
             spec.serviceAccountName= spec.hostNetwork=true status.phase=Running status.podIP= status.nominatedNodeName="
        );
        assert!(fields("pods", r#"{"metadata":{"name":"a"}}"#).contains("spec.hostNetwork=false"));
    }

    #[test]
    fn the_source_of_an_event_is_its_component_or_who_reports_it() {
        for (event, source) in [
            (r#"{"source":{"component":"a"},"reportingComponent":"b"}"#, "source=a"),
            (r#"{"reportingComponent":"b","source":{"component":"a"}}"#, "source=a"),
            (r#"{"reportingComponent":"b","source":{}}"#, "source=b"),
        ] {
            let found = fields("events", event);
            assert!(found.contains(source), "{found}");
        }
    }

    #[test]
    fn values_that_are_no_objects_are_rejected() {
        let inspector = ResourceInspector::new(find("", "v1", "pods").unwrap());
        for value in ["", "[]", "{", r#"{"metadata":[]}"#, r#"{"metadata":{"name":1}}"#] {
            assert!(
                inspector.inspect(&Key::from_backend("/registry/x"), value.as_bytes()).is_err(),
                "{value}"
            );
        }
    }
}
