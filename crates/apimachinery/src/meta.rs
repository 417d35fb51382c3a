//! The part that all objects, and all lists, have alike.
//!
//! Text is kept as it came: a client may send any `resourceVersion` or time in an object, and what a wrong
//! one means depends on the request. As everywhere in the API, JSON `null` means absent, and what is empty
//! is not written.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use crate::ResourceVersion;

/// A resource (`deployments`) or a kind (`Deployment`) together with its API group.
///
/// Shown as in messages: `deployments.apps`, and plain `pods` in the core group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qualified<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The resource or the kind.
    pub kind: &'a str,
}

impl<'a> Qualified<'a> {
    /// A resource or kind of some group.
    pub const fn new(group: &'a str, kind: &'a str) -> Qualified<'a> {
        Qualified { group, kind }
    }

    /// A resource or kind of the core group.
    pub const fn core(kind: &'a str) -> Qualified<'a> {
        Qualified { group: "", kind }
    }
}

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.kind, self.group)
    }
}

/// The type of an object: its kind, in a version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeMeta {
    /// The kind, as `Deployment`.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The group and version, as `apps/v1`; `v1` in the core group.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
}

/// The metadata of an object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Unique among the objects of one resource in one namespace.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The beginning of the name that the server makes if the client gives none.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Empty for objects outside namespaces.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Never written by this server.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub self_link: String,
    /// Unique among all objects that ever were.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The version of the object's last write; see [`ResourceVersion::parse`](crate::ResourceVersion::parse).
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts the changes of what is wanted, usually of `spec`.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// The time of the object's creation, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// From when on the object may be gone; set while something still holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// The time that the object may take to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The labels, which selectors match.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Data for tools, which selectors do not see.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Without these the object is collected.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The finalizers: the object is removed when none is left.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The manager of each field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_fields: Option<RawJson>,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version at which the list was read.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token to carry on with, if there is more.
    #[serde(
        rename = "continue",
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub continue_token: String,
    /// The number of objects that are left, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// One object that another belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's group and version.
    #[serde(deserialize_with = "null_is_default")]
    pub api_version: String,
    /// The owner's kind.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// The owner's name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The owner's uid.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
    /// Whether the owner is the one that manages the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner cannot go before the object does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// JSON that is passed on and not looked into. Equal when the text is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(pub Box<RawValue>);

impl PartialEq for RawJson {
    fn eq(&self, other: &RawJson) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for RawJson {}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The parts of an object that storage and watches need, read from its JSON without building anything else.
///
/// ```
/// use keepwatch_apimachinery::meta::Peek;
///
/// let object = br#"{"kind":"Pod","metadata":{"name":"web-0","labels":{"app":"web"}},"spec":{"containers":[]}}"#;
/// let peek = Peek::at(object).expect("an object");
/// assert_eq!((&*peek.kind, &*peek.metadata.name), ("Pod", "web-0"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The group and version, as `apps/v1`.
    pub api_version: Text<'a>,
    /// The kind, as `Deployment`.
    pub kind: Text<'a>,
    /// The needed part of the object's metadata.
    pub metadata: PeekMeta<'a>,
    /// The place where [`write_versioned`] may put a version, if the object has metadata without one.
    pub version_at: Option<u32>,
    /// Whether the metadata has a version, be it empty or null.
    pub has_version: bool,
}

/// The metadata that a [`Peek`] sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeekMeta<'a> {
    /// The object's name.
    pub name: Text<'a>,
    /// Its namespace; empty outside namespaces.
    pub namespace: Text<'a>,
    /// Its uid.
    pub uid: Text<'a>,
    /// Its version, as it stands in the object.
    pub resource_version: Text<'a>,
    /// The labels, which selectors match.
    pub labels: BTreeMap<Text<'a>, Text<'a>>,
}

impl<'a> Peek<'a> {
    /// Reads the JSON of one object.
    ///
    /// All of it is checked to be UTF-8 and to follow the grammar of JSON. Fields that are not needed are
    /// checked for nothing else: there a number may have any size, and an escape be half of a surrogate pair.
    pub fn at(object: &'a [u8]) -> Result<Peek<'a>, Undecodable> {
        Peek::beside(object, &mut Skipping)
    }

    /// The same, while `others` reads what else it needs of the object.
    pub fn beside(object: &'a [u8], others: &mut impl Others<'a>) -> Result<Peek<'a>, Undecodable> {
        let object = std::str::from_utf8(object).map_err(|error| Undecodable(de::Error::custom(error)))?;
        if !object.trim_ascii_start().starts_with('{') {
            return Err(Undecodable(de::Error::custom("expected an object")));
        }
        let mut deserializer = serde_json::Deserializer::from_str(object);
        let outer = deserializer.deserialize_map(OuterVisitor(others));
        let outer = outer.and_then(|outer| deserializer.end().map(|()| outer)).map_err(Undecodable)?;
        let raw = outer.metadata.flatten().map(RawValue::get).filter(|raw| *raw != "null");
        let metadata: RawMeta<'a> = match raw {
            // serde itself would take an array for a struct, too.
            Some(raw) if !raw.starts_with('{') => {
                return Err(Undecodable(de::Error::custom("metadata must be an object")));
            }
            Some(raw) => serde_json::from_str(raw).map_err(Undecodable)?,
            None => RawMeta::default(),
        };
        let has_version = metadata.resource_version.is_some();
        let version_at = raw.filter(|_| !has_version).and_then(|raw| {
            let after = match &metadata.uid.0 {
                // Behind its closing quote.
                Cow::Borrowed(uid) if !uid.is_empty() => uid.as_ptr().addr() + uid.len() + 1,
                _ => raw.as_ptr().addr() + 1,
            };
            u32::try_from(after - object.as_ptr().addr()).ok()
        });
        let metadata = PeekMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels,
        };
        let (api_version, kind) = (outer.api_version.unwrap_or_default(), outer.kind.unwrap_or_default());
        Ok(Peek { api_version, kind, metadata, version_at, has_version })
    }
}

/// Metadata as it is read: a version that is empty or null is still there.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    namespace: Text<'a>,
    uid: Text<'a>,
    #[serde(deserialize_with = "there")]
    resource_version: Option<Text<'a>>,
    #[serde(deserialize_with = "null_is_default")]
    labels: BTreeMap<Text<'a>, Text<'a>>,
}

/// Whatever it is, it is there.
fn there<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads what a [`Peek`] has no use for.
pub trait Others<'de> {
    /// Takes the value of a field at the top of the object, other than its metadata, kind and apiVersion.
    fn read<A: de::MapAccess<'de>>(&mut self, name: &str, fields: &mut A) -> Result<(), A::Error>;
}

/// Has no use for it either.
struct Skipping;

impl<'de> Others<'de> for Skipping {
    fn read<A: de::MapAccess<'de>>(&mut self, _: &str, fields: &mut A) -> Result<(), A::Error> {
        fields.next_value::<de::IgnoredAny>().map(drop)
    }
}

/// The top of an object.
#[derive(Default)]
struct Outer<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    metadata: Option<Option<&'a RawValue>>,
}

struct OuterVisitor<'o, O>(&'o mut O);

impl<'de, O: Others<'de>> de::Visitor<'de> for OuterVisitor<'_, O> {
    type Value = Outer<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut fields: A) -> Result<Outer<'de>, A::Error> {
        fn once<'de, A: de::MapAccess<'de>, T: Deserialize<'de>>(
            slot: &mut Option<T>,
            name: &'static str,
            fields: &mut A,
        ) -> Result<(), A::Error> {
            match slot.replace(fields.next_value()?) {
                Some(_) => Err(de::Error::duplicate_field(name)),
                None => Ok(()),
            }
        }
        let mut outer = Outer::default();
        while let Some(name) = fields.next_key::<Text<'de>>()? {
            match &*name {
                "apiVersion" => once(&mut outer.api_version, "apiVersion", &mut fields)?,
                "kind" => once(&mut outer.kind, "kind", &mut fields)?,
                "metadata" => once(&mut outer.metadata, "metadata", &mut fields)?,
                other => self.0.read(other, &mut fields)?,
            }
        }
        Ok(outer)
    }
}

/// Appends an object's JSON with its version, which goes where [`Peek::version_at`] said: behind the uid, where
/// Kubernetes has it, or at the beginning of the metadata. Without a place the object is appended as it is.
///
/// ```
/// use keepwatch_apimachinery::{ResourceVersion, meta::{Peek, write_versioned}};
///
/// let object = br#"{"metadata":{"name":"a","uid":"u"},"data":{}}"#;
/// let mut out = Vec::new();
/// let version_at = Peek::at(object).expect("an object").version_at;
/// write_versioned(&mut out, object, version_at, ResourceVersion::new(7).expect("not zero"));
/// assert_eq!(out, br#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7"},"data":{}}"#);
/// ```
pub fn write_versioned(out: &mut Vec<u8>, object: &[u8], version_at: Option<u32>, version: ResourceVersion) {
    let Some((before, after)) = version_at.and_then(|at| object.split_at_checked(at as usize)) else {
        return out.extend_from_slice(object);
    };
    out.reserve(object.len() + VERSION_BYTES_MAX);
    out.extend_from_slice(before);
    let is_first = before.ends_with(b"{");
    out.extend_from_slice(if is_first { b"\"resourceVersion\":\"" } else { b",\"resourceVersion\":\"" });
    write!(out, "{version}").expect("writing to memory does not fail");
    let is_alone = is_first && after.trim_ascii_start().starts_with(b"}");
    out.extend_from_slice(if is_first && !is_alone { b"\"," } else { b"\"" });
    out.extend_from_slice(after);
}

/// The number of bytes that a version adds to an object at the most.
pub const VERSION_BYTES_MAX: usize = r#","resourceVersion":"18446744073709551615""#.len();

/// The bytes are no JSON object with metadata. They cannot be served; storage that returns them is damaged.
#[derive(Debug)]
pub struct Undecodable(serde_json::Error);

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object cannot be decoded")
    }
}

impl std::error::Error for Undecodable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// A piece of text inside the JSON it was read from, copied only if it had escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selector::LabelSelector;

    #[test]
    fn metadata_is_written_as_it_was_read_and_empty_parts_are_not() {
        for meta in [
            json!({}),
            json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 2}),
            json!({"generateName": "a-", "labels": {"a": ""}, "annotations": {"k8s.io/x": "y"}}),
            json!({"creationTimestamp": "2024-01-02T03:04:05Z", "deletionTimestamp": "2024-01-02T03:04:06Z", "deletionGracePeriodSeconds": 0}),
            json!({"finalizers": ["orphan"], "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]}),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true, "blockOwnerDeletion": false}]}),
        ] {
            let read: ObjectMeta = serde_json::from_str(&meta.to_string()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), meta);
        }
    }

    #[test]
    fn null_and_unknown_fields_are_absent() {
        let meta = r#"{"name":null,"labels":null,"generation":null,"creationTimestamp":null,"finalizers":null,
            "managedFields":null,"ownerReferences":null,"clusterName":"old"}"#;
        assert_eq!(serde_json::from_str::<ObjectMeta>(meta).unwrap(), ObjectMeta::default());
    }

    #[test]
    fn a_list_says_where_it_was_read_and_how_to_go_on() {
        let meta = ListMeta {
            resource_version: "7".into(),
            continue_token: "abc".into(),
            remaining_item_count: Some(2),
        };
        let json = json!({"resourceVersion": "7", "continue": "abc", "remainingItemCount": 2});
        assert_eq!(serde_json::to_value(&meta).unwrap(), json);
        assert_eq!(serde_json::to_value(ListMeta::default()).unwrap(), json!({}));
    }

    #[test]
    fn a_peek_borrows_strings_without_escapes() {
        let object = br#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"deep":[1,{"x":null}]},"metadata":
            {"name":"a","namespace":"n","uid":"u","resourceVersion":"5","generation":3,"labels":{"app":"w\u0065b","b":"1"}}}"#;
        let peek = Peek::at(object).unwrap();
        let meta = &peek.metadata;
        assert_eq!([&*peek.api_version, &*peek.kind], ["apps/v1", "Deployment"]);
        assert_eq!(
            [&*meta.name, &*meta.namespace, &*meta.uid, &*meta.resource_version],
            ["a", "n", "u", "5"]
        );
        assert!(LabelSelector::parse("app=web,b=1").unwrap().matches(&meta.labels));
        assert!(matches!(meta.labels["b"], Text(Cow::Borrowed("1"))));
        assert!(matches!(meta.labels["app"], Text(Cow::Owned(_))));
    }

    #[test]
    fn a_peek_takes_absent_and_null_for_empty() {
        for object in [
            "{}",
            r#"{"metadata":null}"#,
            r#"{"kind":null,"metadata":{}}"#,
            r#"{"metadata":{"labels":null,"name":null}}"#,
        ] {
            let peek = Peek { version_at: None, has_version: false, ..Peek::at(object.as_bytes()).unwrap() };
            assert_eq!(peek, Peek::default(), "{object}");
        }
    }

    #[test]
    fn a_version_is_put_where_kubernetes_has_it_or_at_the_beginning() {
        for (object, versioned) in [
            (r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"9"}}"#),
            (r#"{"metadata":{ } }"#, r#"{"metadata":{"resourceVersion":"9" } }"#),
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"resourceVersion":"9","name":"a"}}"#),
            (r#"{"metadata":{"uid":""}}"#, r#"{"metadata":{"resourceVersion":"9","uid":""}}"#),
            (r#"{"metadata":{"uid":null}}"#, r#"{"metadata":{"resourceVersion":"9","uid":null}}"#),
            (r#"{"metadata":{"uid":"\u0061"}}"#, r#"{"metadata":{"resourceVersion":"9","uid":"\u0061"}}"#),
            (
                r#" {"spec":{"metadata":{"uid":"x"}},"metadata":{"uid":"u","z":1}}"#,
                r#" {"spec":{"metadata":{"uid":"x"}},"metadata":{"uid":"u","resourceVersion":"9","z":1}}"#,
            ),
            // Nowhere to put it, or there already.
            (r#"{"metadata":null}"#, r#"{"metadata":null}"#),
            (r#"{}"#, r#"{}"#),
            (r#"{"metadata":{"resourceVersion":"1"}}"#, r#"{"metadata":{"resourceVersion":"1"}}"#),
            (r#"{"metadata":{"resourceVersion":""}}"#, r#"{"metadata":{"resourceVersion":""}}"#),
            (r#"{"metadata":{"resourceVersion":null}}"#, r#"{"metadata":{"resourceVersion":null}}"#),
        ] {
            let mut out = Vec::new();
            let version_at = Peek::at(object.as_bytes()).unwrap().version_at;
            write_versioned(&mut out, object.as_bytes(), version_at, ResourceVersion::new(9).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), versioned);
            serde_json::from_str::<serde_json::Value>(versioned).unwrap();
        }
    }

    #[test]
    fn a_peek_refuses_documents_that_are_no_objects() {
        for object in [
            "",
            "null",
            "[]",
            "5",
            "{",
            r#"{"metadata":[]}"#,
            r#"{"metadata":{"name":5}}"#,
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "{} {}",
            "{\"kind\":\"\u{0}\"}",
        ] {
            let error = Peek::at(object.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "the object cannot be decoded", "{object}");
            assert!(std::error::Error::source(&error).is_some());
        }
        for object in
            [&b"{\"kind\":\"\xff\"}"[..], b"{\"spec\":{\"a\":\"\xff\"}}", b"{\"spec\":{\"\xff\":1}}"]
        {
            assert!(Peek::at(object).is_err(), "{}", object.escape_ascii());
        }
    }

    #[test]
    fn a_peek_checks_only_the_grammar_of_fields_it_does_not_need() {
        for object in [r#"{"spec":"\ud800"}"#, r#"{"spec":1e999}"#, r#"{"spec":{"a":1,"a":2}}"#] {
            assert_eq!(Peek::at(object.as_bytes()).unwrap(), Peek::default(), "{object}");
        }
        for object in [r#"{"spec":"\x"}"#, r#"{"spec":01}"#, r#"{"spec":[1,]}"#, r#"{"kind":"\ud800"}"#] {
            assert!(Peek::at(object.as_bytes()).is_err(), "{object}");
        }
    }
}
