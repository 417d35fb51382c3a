//! Kubernetes' Protobuf: the other encoding of built-in kinds, to and from the same documents as JSON.
//!
//! Nothing here is special to a kind: the table of types has the number, shape and form of each field. [`decode`]
//! returns the document that [`schema::normalize`](crate::schema::normalize) returns for the same object in JSON, so
//! later steps do not depend on the encoding; [`encode`] takes such documents. Around an object there is an envelope
//! ([`open`], [`wrap`]) with its kind, which the message lacks.
//!
//! Values that Protobuf cannot express are lost: an empty list or map reads as one that is not set, as in Kubernetes.

mod wire;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;

use crate::schema::{ReadError, TypeRef};
use keepwatch_apimachinery::{meta::ListMeta, watch::EventType};
use serde_json::Value;
use std::fmt;
use wire::{Fields, Wire, framed_length, put_bytes, put_nested, put_number, put_tag, put_varint};

/// The first bytes of an object in Protobuf.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The reason for which bytes are no object. The texts are for the client that sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtobufError {
    /// They do not begin with [`MAGIC`].
    NotProtobuf,
    /// They end in the middle of a field.
    Truncated,
    /// A number has more than 64 bits.
    Overlong,
    /// A field has no number, or a wire type that Kubernetes does not use.
    IllegalTag(u64),
    /// A field has another wire type than its type requires.
    WireType {
        /// The field's name in JSON.
        field: &'static str,
    },
    /// The object would be nested more deeply than JSON may be.
    TooDeep,
    /// The object would have more values than JSON may have.
    TooManyValues,
    /// A field has the right wire type but a value that its type does not have.
    Value {
        /// The field's name in JSON.
        field: &'static str,
        /// The error in it.
        problem: String,
    },
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtobufError::NotProtobuf => write!(
                f,
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            ),
            ProtobufError::Truncated => f.write_str("unexpected EOF"),
            ProtobufError::Overlong => f.write_str("proto: integer overflow"),
            ProtobufError::IllegalTag(tag) => {
                write!(f, "proto: illegal tag {} (wire type {})", tag >> 3, tag & 7)
            }
            ProtobufError::WireType { field } => write!(f, "proto: wrong wireType for field {field}"),
            ProtobufError::TooDeep => f.write_str("proto: exceeded max depth"),
            ProtobufError::TooManyValues => write!(f, "proto: {}", ReadError::TooManyValues),
            ProtobufError::Value { field, problem } => write!(f, "proto: field {field}: {problem}"),
        }
    }
}

impl std::error::Error for ProtobufError {}

/// The envelope of an object: its kind, and the object as a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The group and version.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The object.
    pub raw: &'a [u8],
    /// The compression of `raw`; empty if there is none.
    pub content_encoding: &'a str,
    /// The format of `raw`; empty for a message of the kind.
    pub content_type: &'a str,
}

/// Opens the envelope around an object, which is not decoded yet.
///
/// ```
/// use keepwatch_registry::{protobuf::{decode, open}, schema};
///
/// let envelope = open(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x08\x12\x06\x0a\x01a\x12\x01b").unwrap();
/// assert_eq!((envelope.api_version, envelope.kind), ("v1", "ConfigMap"));
/// let document = decode(envelope.raw, schema::lookup("core.v1.ConfigMap").unwrap()).unwrap();
/// assert_eq!(document, serde_json::json!({"metadata": {}, "data": {"a": "b"}}));
/// ```
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let message = bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::NotProtobuf)?;
    let mut envelope = Envelope::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => {
                for field in Fields::of(bytes_of(value, "typeMeta")?) {
                    match field? {
                        (1, value) => envelope.api_version = text_of(value, "apiVersion")?,
                        (2, value) => envelope.kind = text_of(value, "kind")?,
                        _ => {}
                    }
                }
            }
            (2, value) => envelope.raw = bytes_of(value, "raw")?,
            (3, value) => envelope.content_encoding = text_of(value, "contentEncoding")?,
            (4, value) => envelope.content_type = text_of(value, "contentType")?,
            _ => {}
        }
    }
    Ok(envelope)
}

fn bytes_of<'a>(value: Wire<'a>, field: &'static str) -> Result<&'a [u8], ProtobufError> {
    match value {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtobufError::WireType { field }),
    }
}

fn text_of<'a>(value: Wire<'a>, field: &'static str) -> Result<&'a str, ProtobufError> {
    let bytes = bytes_of(value, field)?;
    std::str::from_utf8(bytes)
        .map_err(|_| ProtobufError::Value { field, problem: "the text is not UTF-8".to_owned() })
}

/// Appends an object in its envelope; `object` appends the message.
pub fn wrap(out: &mut Vec<u8>, api_version: &str, kind: &str, object: impl FnOnce(&mut Vec<u8>)) {
    put_type(out, api_version, kind);
    put_nested(out, 2, object);
}

/// Writes the part of the envelope before the object.
fn put_type(out: &mut Vec<u8>, api_version: &str, kind: &str) {
    out.extend_from_slice(&MAGIC);
    put_nested(out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
}

/// Appends one item of a list. It belongs after the output of [`list_header`].
pub fn list_item(out: &mut Vec<u8>, document: &Value, ty: TypeRef) {
    put_nested(out, 2, |out| encode(out, document, ty));
}

/// Appends the beginning of a list in its envelope: all but its items, which take `items_length` bytes as [`list_item`]
/// appends them. So items can be kept in many buffers and sent one by one.
pub fn list_header(out: &mut Vec<u8>, api_version: &str, kind: &str, meta: &ListMeta, items_length: usize) {
    let mut own = Vec::new();
    put_nested(&mut own, 1, |out| {
        put_bytes(out, 2, meta.resource_version.as_bytes());
        put_bytes(out, 3, meta.continue_token.as_bytes());
        if let Some(count) = meta.remaining_item_count {
            put_number(out, 4, count as u64);
        }
    });
    put_type(out, api_version, kind);
    put_tag(out, 2, wire::BYTES);
    put_varint(out, (own.len() + items_length) as u64);
    out.extend_from_slice(&own);
}

/// Appends a watch event about an object in its envelope. Over HTTP the event has its length in front, in four bytes; in a
/// WebSocket it has a frame of its own and none.
pub fn watch_frame(out: &mut Vec<u8>, event: EventType, object: &[u8], length_prefixed: bool) {
    let extension = framed_length(1, object.len());
    let name = event.as_str().as_bytes();
    if length_prefixed {
        let length = framed_length(1, name.len()) + framed_length(2, extension);
        let length = u32::try_from(length).expect("an object is far below 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
    }
    put_bytes(out, 1, name);
    put_tag(out, 2, wire::BYTES);
    put_varint(out, extension as u64);
    put_bytes(out, 1, object);
}
