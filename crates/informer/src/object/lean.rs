//! Objects kept as JSON.
//!
//! A decoded object takes several times the memory of its JSON, most of it for fields that nobody reads. A [`Lean`]
//! keeps the complete JSON in an allocation of exactly its size, and next to it the metadata that an informer reads
//! all the time. Everything else is decoded on demand: one field, a part, or the whole object.
//!
//! Invariant, kept by the only constructor [`Lean::index`]: key, revision, uid and labels are those in the JSON.

use crate::object::{
    Fetch, Object, ObjectKey,
    json_scanner::{Malformed, Scanner},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData, ops::Range};

/// A `K` as JSON, with its key, version, uid and labels.
///
/// ```
/// use keepwatch_informer::{Lean, Object};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let json = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0"},"spec":{"nodeName":"n1","containers":[]}}"#;
/// let mut pod = Lean::<Pod>::new(json).unwrap();
/// assert_eq!(pod.key().to_string(), "web-0");
/// assert_eq!(pod.field(&["spec", "nodeName"]).as_deref(), Some("n1"));
/// assert!(pod.remove(&["spec", "nodeName"]));
/// assert_eq!(pod.read().unwrap().spec.unwrap().node_name, None);
/// ```
pub struct Lean<K> {
    json: Box<str>,
    key: ObjectKey,
    revision: Box<str>,
    uid: Box<str>,
    /// The byte range of the labels in the JSON; empty if there are none.
    labels: Range<usize>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Lean<K> {
    /// Takes an object as well-formed JSON with metadata. Whether it is a valid `K` is only checked when it is
    /// decoded.
    pub fn new(json: &[u8]) -> Result<Self, serde_json::Error> {
        let json: &RawValue = serde_json::from_slice(json)?;
        Lean::index(json.get().into())
    }

    /// Takes well-formed JSON.
    fn index(json: Box<str>) -> Result<Self, serde_json::Error> {
        let found = Metadata::of(json.as_bytes());
        let found = found.map_err(|_| serde_json::Error::custom("an object without metadata"))?;
        let key = ObjectKey::new(&found.namespace, &found.name);
        let (revision, uid) = (Box::from(&*found.revision), Box::from(&*found.uid));
        let labels = found.labels;
        Ok(Lean { json, key, revision, uid, labels, kind: PhantomData })
    }

    /// The JSON.
    pub fn json(&self) -> &[u8] {
        self.json.as_bytes()
    }

    /// Decodes the object into a smaller type, which may borrow from it.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// Decodes the metadata.
    pub fn metadata(&self) -> Result<ObjectMeta, serde_json::Error> {
        match self.value(&["metadata"]) {
            Some(json) => serde_json::from_str(json),
            None => Ok(ObjectMeta::default()),
        }
    }

    /// The string, number or boolean at this path, for example `["spec", "nodeName"]`.
    ///
    /// Only the JSON before it is scanned, and nothing is decoded.
    pub fn field(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        let value = self.value(path)?;
        match value.as_bytes().first()? {
            b'"' => Scanner::new(value.as_bytes()).text().ok()?.read(),
            b'{' | b'[' | b'n' => None,
            _ => Some(Cow::Borrowed(value)),
        }
    }

    /// The JSON at this path.
    fn value(&self, path: &[&str]) -> Option<&str> {
        let (_, value) = self.find(path)?;
        Some(&self.json[value])
    }

    /// The start of the field at this path, and the range of its value.
    fn find(&self, path: &[&str]) -> Option<(usize, Range<usize>)> {
        let mut scanner = Scanner::new(self.json.as_bytes());
        let mut start = None;
        for name in path {
            scanner.open(b'{').ok()?;
            start = Some(scanner.seek(name).ok()??);
        }
        scanner.peek().ok()?;
        let from = scanner.position();
        scanner.value().ok()?;
        Some((start?, from..scanner.position()))
    }

    /// Removes the field at this path, for example `["metadata", "managedFields"]`. Returns whether it existed.
    ///
    /// Nothing is decoded, and the other bytes stay the same.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        let Some((start, value)) = self.find(path) else { return false };
        let cut = with_comma(&self.json, start..value.end);
        let rest = [&self.json[..cut.start], &self.json[cut.end..]].concat();
        // An object must have metadata: if the rest cannot be indexed, nothing is removed.
        match Lean::index(rest.into_boxed_str()) {
            Ok(lean) => {
                *self = lean;
                true
            }
            Err(_) => false,
        }
    }
}

impl<K: DeserializeOwned> Lean<K> {
    /// Decodes the whole object.
    pub fn read(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// Decodes the object, changes it and encodes it again. If that fails, the object stays the same.
    pub fn edit(&mut self, change: impl FnOnce(&mut K)) -> Result<(), serde_json::Error>
    where
        K: Serialize,
    {
        let mut object = self.read()?;
        change(&mut object);
        *self = Lean::index(serde_json::to_string(&object)?.into_boxed_str())?;
        Ok(())
    }
}

/// The range of a field together with one adjacent comma.
fn with_comma(json: &str, field: Range<usize>) -> Range<usize> {
    let behind = json[field.end..].trim_ascii_start();
    if behind.starts_with(',') {
        return field.start..json.len() - behind.len() + 1;
    }
    let before = json[..field.start].trim_ascii_end();
    match before.strip_suffix(',') {
        Some(before) => before.len()..field.end,
        None => field,
    }
}

/// The metadata that is indexed.
#[derive(Default)]
struct Metadata<'a> {
    name: Cow<'a, str>,
    namespace: Cow<'a, str>,
    revision: Cow<'a, str>,
    uid: Cow<'a, str>,
    labels: Range<usize>,
}

impl<'a> Metadata<'a> {
    fn of(json: &'a [u8]) -> Result<Self, Malformed> {
        let mut scanner = Scanner::new(json);
        scanner.open(b'{')?;
        scanner.seek("metadata")?.ok_or(Malformed)?;
        scanner.open(b'{')?;
        let mut found = Metadata::default();
        while let Some(key) = scanner.key()? {
            let place = match key.read().as_deref() {
                Some("name") => &mut found.name,
                Some("namespace") => &mut found.namespace,
                Some("resourceVersion") => &mut found.revision,
                Some("uid") => &mut found.uid,
                Some("labels") => {
                    scanner.peek()?;
                    let start = scanner.position();
                    scanner.value()?;
                    found.labels = start..scanner.position();
                    continue;
                }
                _ => {
                    scanner.value()?;
                    continue;
                }
            };
            if let Some(text) = scanner.text_or_other()? {
                *place = text.read().ok_or(Malformed)?;
            }
        }
        Ok(found)
    }
}

impl<K: 'static> Object for Lean<K> {
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }

    fn revision(&self) -> &str {
        &self.revision
    }

    fn identity(&self) -> &str {
        &self.uid
    }

    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::Owned(serde_json::from_str(&self.json[self.labels.clone()]).unwrap_or_default())
    }
}

impl<K: Resource<DynamicType: Clone + Send + Sync> + 'static> Fetch for Lean<K> {
    type Resource = K;

    /// The JSON must be a complete object.
    const NEEDS_KIND: bool = true;

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        Lean::new(json)
    }
}

impl<K> fmt::Debug for Lean<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lean")
            .field("key", &format_args!("{}", self.key))
            .field("revision", &self.revision)
            .field("bytes", &self.json.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use std::sync::Arc;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"apps","uid":"u1","resourceVersion":"7","labels":{"app":"web"},"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n1","hostNetwork":true,"priority":5,"containers":[{"name":"c"}]}}"#;

    fn pod() -> Lean<Pod> {
        Lean::new(POD.as_bytes()).unwrap()
    }

    #[test]
    fn names_can_contain_escapes() {
        let json = br#"{"metad\u0061ta":{"n\u0061me":"a","namespace":"x","resourceVersion":"1"}}"#;
        let lean = Lean::<Pod>::new(json).unwrap();
        assert_eq!(lean.key(), ("x", "a").into());
    }

    #[test]
    fn the_indexed_metadata_is_that_of_the_json() {
        let pod = pod();
        assert_eq!(pod.key(), ("apps", "web-0").into());
        assert_eq!((pod.revision(), pod.identity()), ("7", "u1"));
        assert_eq!(*pod.label_map(), BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        assert_eq!(pod.json(), POD.as_bytes());
        assert_eq!(
            format!("{pod:?}"),
            format!(r#"Lean {{ key: apps/web-0, revision: "7", bytes: {} }}"#, POD.len())
        );
    }

    #[test]
    fn a_lean_object_decodes_to_the_same_object() {
        #[derive(Deserialize)]
        struct Small<'a> {
            #[serde(borrow)]
            kind: &'a str,
        }
        let pod = pod();
        assert_eq!(pod.read().unwrap(), serde_json::from_str(POD).unwrap());
        assert_eq!(pod.metadata().unwrap(), pod.read().unwrap().metadata);
        assert_eq!(pod.view::<Small<'_>>().unwrap().kind, "Pod");
    }

    #[test]
    fn a_field_is_read_without_decoding_the_object() {
        let pod = pod();
        for (path, expected) in [
            (&["spec", "nodeName"][..], Some("n1")),
            (&["spec", "hostNetwork"], Some("true")),
            (&["spec", "priority"], Some("5")),
            (&["metadata", "labels", "app"], Some("web")),
            (&["spec", "containers"], None),
            (&["spec", "nodeName", "more"], None),
            (&["status", "phase"], None),
            (&["missing"], None),
            (&[], None),
        ] {
            assert_eq!(pod.field(path).as_deref(), expected, "{path:?}");
        }
        let escaped =
            Lean::<Pod>::new(br#"{"metadata":{"name":"a\u0062","uid":null},"spec":{"a":"x\"y"}}"#).unwrap();
        assert_eq!(escaped.key(), "ab".into());
        assert_eq!(escaped.field(&["spec", "a"]).as_deref(), Some("x\"y"));
        assert_eq!(escaped.field(&["metadata", "uid"]), None);
    }

    #[test]
    fn a_field_is_removed_and_the_other_bytes_stay_the_same() {
        for (before, path, after) in [
            (r#"{"a":1,"metadata":{"x":2,"y":[3]}}"#, &["a"][..], r#"{"metadata":{"x":2,"y":[3]}}"#),
            (r#"{"metadata":{"x":2, "y":[3] }}"#, &["metadata", "y"], r#"{"metadata":{"x":2 }}"#),
            (r#"{"metadata":{"x":2 , "y":[3]}}"#, &["metadata", "x"], r#"{"metadata":{ "y":[3]}}"#),
            (r#"{"metadata":{ "x":2 }}"#, &["metadata", "x"], r#"{"metadata":{  }}"#),
        ] {
            let mut lean = Lean::<Pod>::new(before.as_bytes()).unwrap();
            assert!(lean.remove(path));
            assert_eq!(std::str::from_utf8(lean.json()).unwrap(), after);
            assert!(serde_json::from_str::<serde_json::Value>(after).is_ok());
            assert!(!lean.remove(path));
        }
        let mut pod = pod();
        assert!(pod.remove(&["metadata", "name"]) && pod.remove(&["metadata", "managedFields"]));
        assert_eq!((&*pod.key().name, pod.label_map().len()), ("", 1));
        assert!(!pod.remove(&["metadata"]), "an object has metadata");
        assert!(!pod.remove(&[]));
    }

    #[test]
    fn an_edited_object_has_the_new_content() {
        let mut pod = pod();
        pod.edit(|pod| {
            pod.metadata.labels.get_or_insert_default().insert("tier".into(), "a".into());
        })
        .unwrap();
        assert_eq!(pod.label_map().len(), 2);
        assert_eq!(pod.field(&["metadata", "labels", "tier"]).as_deref(), Some("a"));
        assert_eq!(pod.field(&["kind"]).as_deref(), Some("Pod"));
    }

    #[test]
    fn invalid_json_is_an_error() {
        for json in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":"a"}} x"#,
            "{\"metadata\":{\"name\":\"\u{1}\"}}",
        ] {
            assert!(Lean::<Pod>::new(json.as_bytes()).is_err(), "{json}");
        }
        assert!(Lean::<Pod>::new(b"{\"metadata\":{},\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn a_lean_object_is_send_and_sync_for_any_type() {
        fn check<T: Send + Sync>(_: Option<T>) {}
        check(None::<Arc<Lean<std::rc::Rc<()>>>>);
    }
}
