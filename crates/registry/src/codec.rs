//! Request bodies: from JSON, YAML or Protobuf to a document of the kind that a path expects.
//!
//! Kept true by [`decode`]: a decoded document is normalised, has the defaults of its kind, and has the kind and
//! apiVersion that were expected.

use crate::{
    custom::{self, Served},
    document::{Edit, Fields},
    error::Error,
    kind::{Kind, group_version},
    kinds::built_in,
    options::FieldValidation,
    protobuf::{self, ProtobufError},
    schema::{self, Problems, ReadError, TypeRef},
    strategy::{Plain, Strategy},
};
use serde_json::Value;
use std::fmt;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' Protobuf, in its envelope.
    Protobuf,
}

/// A request body.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The bytes as received.
    pub bytes: &'a [u8],
    /// The format of the bytes.
    pub media: Media,
}

/// A decoded document, and the warnings for the client.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The document.
    pub document: Value,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// The kind and type that a body must have.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The type.
    pub ty: TypeRef,
    strategy: &'a dyn Strategy,
    /// The definition whose schema counts instead of the type, if there is one.
    custom: Option<&'a Served>,
}

impl<'a> Expected<'a> {
    /// An object of a resource.
    pub fn of(kind: &'a Kind) -> Expected<'a> {
        let (group, version, name) = (&kind.group, &kind.version, &kind.name);
        let (strategy, custom) = (&*kind.strategy, kind.custom.as_ref());
        Expected { group, version, kind: name, ty: kind.ty, strategy, custom }
    }

    /// The object of a subresource, such as the scale of a deployment. It has no defaults.
    pub fn part(group: &'a str, version: &'a str, kind: &'a str, ty: TypeRef) -> Expected<'a> {
        Expected { group, version, kind, ty, strategy: &Plain, custom: None }
    }

    /// The definition whose schema it has, if there is one.
    pub(crate) fn custom(&self) -> Option<&'a Served> {
        self.custom
    }

    fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }
}

/// Decodes the body of a create or update.
pub fn decode(
    body: &Body<'_>,
    expected: Expected<'_>,
    strictness: FieldValidation,
) -> Result<Decoded, Error> {
    if let Some(served) = expected.custom {
        return custom::decode(body, served, strictness);
    }
    let mut problems = Problems::default();
    let (document, normalized) = match read(body, &mut problems) {
        Ok(Raw::Document(document)) => (document, false),
        Ok(Raw::Message { api_version, kind, raw }) => {
            must_be(&expected, &api_version, &kind)?;
            let document = protobuf::decode(raw, expected.ty).map_err(|error| match error {
                ProtobufError::TooManyValues => too_many_values(),
                error => cannot_be_handled(&expected, &api_version, &kind, &error.to_string()),
            })?;
            (document, true)
        }
        Err(ReadError::TooManyValues) => return Err(too_many_values()),
        Err(ReadError::Malformed(why)) => {
            let (kind, summary) = (expected.kind, summary(body.bytes));
            let message =
                format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})");
            return Err(Error::bad_request(message));
        }
    };
    let mut document = document;
    let duplicates = problems.0.len();
    if !normalized {
        let or = |given: &str, expected: &str| {
            if given.is_empty() { expected.to_owned() } else { given.to_owned() }
        };
        let kind = or(document.text("kind"), expected.kind);
        let api_version = or(document.text("apiVersion"), &expected.api_version());
        must_be(&expected, &api_version, &kind)?;
        document = schema::normalize(document, expected.ty, &mut problems)
            .map_err(|error| cannot_be_handled(&expected, &api_version, &kind, &error.to_string()))?;
    }
    let warnings = match strictness {
        FieldValidation::Ignore => Vec::new(),
        _ if problems.0.is_empty() => Vec::new(),
        _ => {
            let unknown = problems.0.split_off(duplicates);
            let strict = Strict::new(body, expected.ty, unknown, duplicates > 0);
            if strictness == FieldValidation::Strict && !strict.is_empty() {
                let (api_version, why) = (expected.api_version(), strict.to_string());
                return Err(cannot_be_handled(&expected, &api_version, expected.kind, &why));
            }
            strict.warnings()
        }
    };
    finish(&mut document, &expected);
    Ok(Decoded { document, warnings })
}

/// The errors of strict decoding.
struct Strict {
    /// Errors of the YAML parser.
    yaml: Vec<String>,
    fields: Vec<String>,
}

impl Strict {
    /// `unknown` are the fields that the document has and its type does not.
    fn new(body: &Body<'_>, ty: TypeRef, unknown: Vec<String>, has_duplicates: bool) -> Strict {
        match body.media {
            Media::Json => Strict { yaml: Vec::new(), fields: schema::field_problems(body.bytes, ty).0 },
            Media::Yaml if has_duplicates => {
                let text = std::str::from_utf8(body.bytes).unwrap_or_default();
                Strict { yaml: schema::yaml_duplicates(text).0, fields: unknown }
            }
            Media::Yaml | Media::Protobuf => Strict { yaml: Vec::new(), fields: unknown },
        }
    }

    fn is_empty(&self) -> bool {
        self.yaml.is_empty() && self.fields.is_empty()
    }

    fn warnings(self) -> Vec<String> {
        let mut all = self.yaml;
        all.extend(self.fields);
        all
    }
}

impl fmt::Display for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: String = self.yaml.iter().map(|line| format!("\n  {line}")).collect();
        let yaml = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
        let all: Vec<&str> = yaml.iter().chain(&self.fields).map(String::as_str).collect();
        write!(f, "strict decoding error: {}", all.join(", "))
    }
}

/// The number of bytes of a malformed body that an error message contains.
const SUMMARY_BYTES: usize = 30;

/// The beginning of a malformed body, for an error message.
pub(crate) fn summary(body: &[u8]) -> String {
    let (shown, more) = match body.get(..SUMMARY_BYTES) {
        Some(beginning) if body.len() > SUMMARY_BYTES => (beginning, " ..."),
        _ => (body, ""),
    };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", schema::lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// Sets the defaults of a document, and the kind and apiVersion of its path.
pub fn finish(document: &mut Value, expected: &Expected<'_>) {
    let root = document.make_object();
    expected.strategy.set_defaults(root);
    root.insert("kind".to_owned(), expected.kind.into());
    root.insert("apiVersion".to_owned(), expected.api_version().into());
}

/// Decodes options that a body may carry. Every group has them, so only the kind counts.
pub fn decode_options(body: &Body<'_>, kind: &'static str, ty: TypeRef) -> Result<Value, Error> {
    let mut problems = Problems::default();
    let unregistered = |kind: &str, api_version: &str| {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Error::bad_request(not_registered(kind, if kind.is_empty() { version } else { api_version }))
    };
    let refused = |error: ReadError| match error {
        ReadError::Malformed(why) => Error::bad_request(why),
        ReadError::TooManyValues => too_many_values(),
    };
    match read(body, &mut problems).map_err(refused)? {
        Raw::Message { api_version, kind: found, raw } => {
            if found != kind {
                return Err(unregistered(&found, &api_version));
            }
            protobuf::decode(raw, ty).map_err(|error| Error::bad_request(error.to_string()))
        }
        Raw::Document(document) => {
            let found = document.text("kind");
            if !found.is_empty() && found != kind {
                return Err(unregistered(found, document.text("apiVersion")));
            }
            schema::normalize(document, ty, &mut problems)
                .map_err(|error| Error::bad_request(error.to_string()))
        }
    }
}

enum Raw<'a> {
    Document(Value),
    Message { api_version: String, kind: String, raw: &'a [u8] },
}

fn read<'a>(body: &Body<'a>, problems: &mut Problems) -> Result<Raw<'a>, ReadError> {
    match body.media {
        Media::Json => read_json(body.bytes, problems).map(Raw::Document),
        Media::Yaml => read_yaml(body.bytes, problems).map(Raw::Document),
        Media::Protobuf => {
            let envelope =
                protobuf::open(body.bytes).map_err(|error| ReadError::Malformed(error.to_string()))?;
            Ok(Raw::Message {
                api_version: envelope.api_version.to_string(),
                kind: envelope.kind.to_string(),
                raw: envelope.raw,
            })
        }
    }
}

/// Reads JSON that must be an object.
pub fn read_json(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    match json_value(schema::read(text, problems))? {
        Value::Null => Ok(Value::Object(Default::default())),
        document => Ok(document),
    }
}

/// Reads JSON that must be an object, or null, and has no type: of two fields with one name only the last counts.
pub(crate) fn read_untyped_json(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    json_value(schema::read_untyped(text, problems))
}

fn json_value(read: Result<Value, ReadError>) -> Result<Value, ReadError> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    match read.map_err(|error| error.map_message(unread))? {
        document @ (Value::Object(_) | Value::Null) => Ok(document),
        _ => Err(ReadError::Malformed(unread(
            "json: cannot unmarshal into Go value of type struct".to_owned(),
        ))),
    }
}

/// Reads YAML that must be an object.
pub fn read_yaml(text: &[u8], problems: &mut Problems) -> Result<Value, ReadError> {
    let unread = |why: String| format!("yaml: {why}");
    let text = std::str::from_utf8(text)
        .map_err(|_| ReadError::Malformed(unread("invalid leading UTF-8 octet".to_owned())))?;
    match schema::read_yaml(text, problems).map_err(|error| error.map_message(unread))? {
        document @ Value::Object(_) => Ok(document),
        _ => Err(ReadError::Malformed(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct"
                .to_owned(),
        )),
    }
}

/// The error for a document with more values than the limit.
pub(crate) fn too_many_values() -> Error {
    Error::TooLarge(ReadError::TooManyValues.to_string())
}

fn must_be(expected: &Expected<'_>, api_version: &str, kind: &str) -> Result<(), Error> {
    if api_version == expected.api_version() && kind == expected.kind {
        return Ok(());
    }
    let is_known = built_in().iter().any(|known| known.name == kind && known.api_version() == api_version);
    let why = if is_known {
        format!("an object of {api_version}, Kind={kind} was sent to a path of {}", expected.kind)
    } else {
        not_registered(kind, api_version)
    };
    Err(cannot_be_handled(expected, api_version, kind, &why))
}

pub(crate) fn not_registered(kind: &str, api_version: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"keepwatch\"")
}

fn cannot_be_handled(expected: &Expected<'_>, api_version: &str, kind: &str, why: &str) -> Error {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let message = format!("{kind} in version \"{version}\" cannot be handled as a {}: {why}", expected.kind);
    Error::bad_request(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_yaml(text: &str, strictness: FieldValidation) -> Result<Decoded, Error> {
        let expected = Expected::of(crate::kinds::known("", "configmaps"));
        decode(&Body { bytes: text.as_bytes(), media: Media::Yaml }, expected, strictness)
    }

    /// The answers of a real kube-apiserver.
    #[test]
    fn duplicate_fields_of_yaml_are_reported_with_their_lines_and_the_last_wins() {
        let text = "zz: 1\nmetadata:\n  name: x\n  bb: 1\n  aa: 1\n  name: y\ndata:\n  k: a\n  k: b\n\
                    foo: {a: 1, a: 2}\nzz: 3\nmetadata:\n  name: x\n  aa: 3\n";
        let refused = decode_yaml(text, FieldValidation::Strict).unwrap_err();
        let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
             yaml: unmarshal errors:\n  line 6: key \"name\" already set in map\n  line 9: key \"k\" already set in map\n  \
             line 10: key \"a\" already set in map\n  line 11: key \"zz\" already set in map\n  \
             line 13: key \"metadata\" already set in map, \
             unknown field \"foo\", unknown field \"metadata.aa\", unknown field \"zz\"";
        assert_eq!(refused.to_string(), message);
        let decoded = decode_yaml(text, FieldValidation::Warn).unwrap();
        assert_eq!(decoded.warnings.len(), 8);
        assert_eq!(decoded.warnings[4], "line 13: key \"metadata\" already set in map");
        assert_eq!(decoded.document["data"]["k"], "b");
    }

    /// The answers of a real kube-apiserver, which reads YAML 1.1: file modes are written so.
    #[test]
    fn a_number_of_yaml_that_begins_with_zero_is_octal() {
        for (text, number) in [
            ("010", 8),
            ("0644", 420),
            ("-010", -8),
            ("+010", 8),
            ("0_1_0", 8),
            ("0_644", 420),
            ("00", 0),
            ("0", 0),
            ("0o10", 8),
            ("-0o10", -8),
            ("0b11", 3),
            ("0x1F", 31),
            ("1_000", 1000),
        ] {
            let document = read_yaml(format!("any: {text}").as_bytes(), &mut Problems::default()).unwrap();
            assert_eq!(document["any"], number, "{text}");
        }
        let document = read_yaml(b"{a: 010.5, b: \"010\", c: 089}", &mut Problems::default()).unwrap();
        assert_eq!((&document["a"], &document["b"]), (&10.5.into(), &"010".into()));
        assert_eq!(document["c"].as_f64(), Some(89.0));
    }
}
