//! Secret.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, SelectableField, UnknownField},
    kinds::core::config_map::{DATA_BYTES_MAX, decoded_len, entries, frozen, keys},
    schema::Timestamp,
    strategy::Strategy,
    table::{self, AGE, Column, NAME, row, words::age_of},
    validation::{CHANGE_FIRST, Step, warnings::Warnings},
};
use base64::{Engine, engine::general_purpose::STANDARD, prelude::BASE64_STANDARD};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Secret", "secrets")
        .selectable([SelectableField::namespace(), SelectableField::new("type")], UnknownField::NotSupported)
        .strategy(SecretStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    table::text("Type", "What the secret is for"),
    table::text("Data", "How many entries it has"),
    AGE,
];

struct SecretStrategy;

impl Strategy for SecretStrategy {
    /// Moves `stringData` to `data`, and sets the default type.
    fn set_defaults(&self, object: &mut Object) {
        object.set_if_zero("type", "Opaque");
        if let Some(Value::Object(texts)) = object.remove("stringData") {
            let data = object.object_or_new("data");
            for (key, text) in texts {
                data.insert(key, BASE64_STANDARD.encode(text.as_str().unwrap_or_default()).into());
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_FIRST
    }

    fn validate(&self, secret: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        if keys(secret, "data", decoded_len, errors) > DATA_BYTES_MAX {
            errors.too_long(&secret.at("data"), DATA_BYTES_MAX);
        }
        let has = |key: &str| secret.entry("data", key).exists();
        let need = |key: &str, errors: &mut FieldErrors| {
            if !has(key) {
                errors.required(&secret.entry("data", key), "");
            }
        };
        match secret.text("type") {
            "kubernetes.io/service-account-token" => {
                let meta = secret.at("metadata");
                errors.not_empty(&meta.entry("annotations", "kubernetes.io/service-account.name"));
            }
            "kubernetes.io/dockercfg" => json_under(secret, ".dockercfg", errors),
            "kubernetes.io/dockerconfigjson" => json_under(secret, ".dockerconfigjson", errors),
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                need("username", errors);
                need("password", errors);
            }
            "kubernetes.io/ssh-auth" => errors.not_empty(&secret.entry("data", "ssh-privatekey")),
            "kubernetes.io/tls" => {
                need("tls.crt", errors);
                need("tls.key", errors);
            }
            _ => {}
        }
    }

    /// Rejects changes of the type, and changes of the data of an immutable Secret.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("type"), &old.at("type"));
        frozen(new, old, &["data"], errors);
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        if object.text("type") != "kubernetes.io/tls" {
            return;
        }
        let data =
            |name: &str| BASE64_STANDARD.decode(object.entry("data", name).as_text()).unwrap_or_default();
        if let Some(text) = key_pair_warning(&data("tls.crt"), &data("tls.key")) {
            warnings.push(&text);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, secret: &Value, now: Timestamp) -> Vec<Value> {
        row![secret.name(), secret.text("type"), entries(secret, "data"), age_of(secret, now)]
    }
}

fn json_under(secret: &Node, key: &str, errors: &mut FieldErrors) {
    let value = secret.entry("data", key);
    if !value.exists() {
        errors.required(&value, "");
        return;
    }
    let text = STANDARD.decode(value.as_text()).unwrap_or_default();
    let wrong = match serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&text) {
        Ok(_) => return,
        Err(_) if text.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(wrong) => wrong.to_string(),
    };
    errors.invalid(&value, "<secret contents redacted>", &wrong);
}

/// A warning for a certificate and a key that cannot belong to each other, by the types of their PEM blocks.
fn key_pair_warning(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (of_certificate, of_key) = (pem_types(certificate), pem_types(key));
    let others =
        |types: &[String]| format!("after skipping PEM blocks of the following types: [{}]", types.join(" "));
    let is_key = |name: &String| name == "PRIVATE KEY" || name.ends_with(" PRIVATE KEY");
    if !of_certificate.iter().any(|name| name == "CERTIFICATE") {
        return Some(match of_certificate.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if one.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched"
                    .to_owned()
            }
            types => {
                format!("tls: failed to find \"CERTIFICATE\" PEM block in certificate input {}", others(types))
            }
        });
    }
    if of_key.iter().any(is_key) {
        return None;
    }
    Some(match of_key.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        types => {
            format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input {}",
                others(types)
            )
        }
    })
}

/// The types of the PEM blocks of a text, each between a line that begins it and one that ends it.
fn pem_types(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut types = Vec::new();
    let mut open = None;
    for line in text.lines().map(str::trim_end) {
        let between = |start: &str| line.strip_prefix(start).and_then(|rest| rest.strip_suffix("-----"));
        if let Some(name) = between("-----BEGIN ") {
            open = Some(name.to_owned());
        } else if let Some(name) = between("-----END ") {
            types.extend(open.take().filter(|begun| begun == name));
        }
    }
    types
}
