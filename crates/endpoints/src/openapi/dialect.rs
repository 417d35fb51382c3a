//! The two versions of OpenAPI that are spoken, and what they say differently.

use keepwatch_registry::custom::OpenApiVersion;
use serde_json::{Map, Value, json};

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// The media types of the answers of most kinds.
pub(super) const MEDIA_TYPES: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The media types of lists, which may also be answered with events one after another.
pub(super) const LIST_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Whatever the client and the server agree on.
pub(super) const ANY_TYPE: &[&str] = &["*/*"];

/// The media types of custom resources.
pub(super) const CUSTOM_TYPES: &[&str] = &["application/json", "application/yaml"];

impl Dialect {
    /// As the registry calls it.
    pub(super) fn version(self) -> OpenApiVersion {
        match self {
            Dialect::V2 => OpenApiVersion::V2,
            Dialect::V3 => OpenApiVersion::V3,
        }
    }

    /// A schema that is defined elsewhere in the document.
    pub(super) fn reference(self, name: &str) -> Value {
        let place = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        json!({ "$ref": format!("#/{place}/{name}") })
    }

    /// The schema with more said about it. In OpenAPI 3 nothing may stand beside a reference.
    pub(super) fn with(self, schema: Value, more: Map<String, Value>) -> Value {
        let mut whole = match schema {
            Value::Object(reference)
                if self == Self::V3 && reference.contains_key("$ref") && !more.is_empty() =>
            {
                Map::from_iter([("allOf".to_owned(), json!([reference]))])
            }
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        whole.extend(more);
        whole.into()
    }

    /// The schema with what a value is that nobody gave. In OpenAPI 2 Kubernetes does not say it.
    pub(super) fn with_default(self, schema: Value, default: Option<Value>) -> Value {
        match (self, default) {
            (Self::V3, Some(default)) => self.with(schema, Map::from_iter([("default".to_owned(), default)])),
            _ => schema,
        }
    }

    /// A number or a text.
    pub(super) fn int_or_string(self) -> Value {
        match self {
            Self::V2 => json!({ "type": "string", "format": "int-or-string" }),
            Self::V3 => {
                json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }
        }
    }

    /// A number with a unit.
    pub(super) fn quantity(self) -> Value {
        match self {
            Self::V2 => json!({ "type": "string" }),
            Self::V3 => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        }
    }

    /// A parameter of a plain type, in the `query` or the `path`.
    pub(super) fn parameter(self, place: &str, name: &str, ty: &str, description: &str) -> Value {
        let mut parameter = json!({ "name": name, "in": place });
        match self {
            Self::V2 => {
                parameter["type"] = ty.into();
                parameter["uniqueItems"] = true.into();
            }
            Self::V3 => parameter["schema"] = json!({ "type": ty, "uniqueItems": true }),
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        if !description.is_empty() {
            parameter["description"] = description.into();
        }
        parameter
    }

    /// Says what an operation is sent.
    pub(super) fn put_body(self, operation: &mut Value, schema: &str, required: bool, media_types: &[&str]) {
        let schema = self.reference(schema);
        match self {
            Self::V2 => {
                operation["consumes"] = media_types.into();
                let mut body = json!({ "name": "body", "in": "body", "schema": schema });
                if required {
                    body["required"] = true.into();
                }
                if let Some(parameters) = operation["parameters"].as_array_mut() {
                    parameters.push(body);
                }
            }
            Self::V3 => {
                let mut body = json!({ "content": contents(media_types, &schema) });
                if required {
                    body["required"] = true.into();
                }
                operation["requestBody"] = body;
            }
        }
    }

    /// Says what an operation answers: one schema, under each of some codes. Without a schema, it is text.
    pub(super) fn put_answers(
        self,
        operation: &mut Value,
        schema: Option<&str>,
        media_types: &[&str],
        codes: &[(&str, &str)],
    ) {
        let schema = schema.map_or_else(|| json!({ "type": "string" }), |name| self.reference(name));
        let mut answers = Map::from_iter([("401".to_owned(), json!({ "description": "Unauthorized" }))]);
        for (code, description) in codes {
            let answer = match self {
                Self::V2 => json!({ "description": description, "schema": schema }),
                Self::V3 => {
                    json!({ "description": description, "content": contents(media_types, &schema) })
                }
            };
            answers.insert((*code).to_owned(), answer);
        }
        operation["responses"] = answers.into();
        if self == Self::V2 {
            operation["produces"] = media_types.into();
        }
    }
}

fn contents(media_types: &[&str], schema: &Value) -> Value {
    media_types.iter().map(|media_type| ((*media_type).to_owned(), json!({ "schema": schema }))).collect()
}
