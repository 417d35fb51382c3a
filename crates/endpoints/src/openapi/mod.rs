//! The API described for programs: OpenAPI v3 with a document for each group and version, and OpenAPI v2 with one for all.
//!
//! kubectl reads them to explain fields, to learn whether the server checks fields itself, and to know which lists merge.
//! The schemas come from the tables of kinds and types; descriptions of types and fields from the program that starts the
//! server, since they are large and few need them.
//!
//! Nothing is made before it is requested: the documents are large, and most servers need few of them. A document
//! that was requested is kept, compressed; of the others only a hash is, since the index names the hashes of all.
//! Making a document takes many milliseconds of work, so these functions belong where a thread may block.

mod dialect;
mod markers;
mod schemas;
mod parameters;
mod paths;
mod protobuf;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use keepwatch_registry::{catalog::Snapshot, kind::Kind};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use self::dialect::Dialect;
use self::paths::Discovery;

/// A function that is given types, by names such as `io.k8s.api.core.v1.Pod`, and returns the JSON schemas of them and of all
/// types that they consist of, by name. Documents take descriptions from them, and nothing else.
pub type Descriptions = Arc<dyn Fn(&[&str]) -> Map<String, Value> + Send + Sync>;

/// One document.
#[derive(Clone, Debug)]
pub struct Document {
    gzip: Bytes,
    hash: String,
}

impl Document {
    fn new(bytes: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("writing to memory does not fail");
        let gzip = encoder.finish().expect("writing to memory does not fail").into();
        Self { gzip, hash: hash_of(bytes) }
    }

    /// The JSON, or the protobuf.
    pub fn bytes(&self) -> Bytes {
        let mut bytes = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut bytes).expect("it was compressed here");
        bytes.into()
    }

    /// The same, compressed with gzip: for clients that accept it, without further work.
    pub fn gzip(&self) -> Bytes {
        self.gzip.clone()
    }

    /// Changes whenever the document does. The header `Etag` has it in quotes, the index as it is.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

fn hash_of(bytes: &[u8]) -> String {
    format!("{:032X}", xxh3_128(bytes))
}

/// The documents about the kinds of one moment.
pub struct OpenApi {
    catalog: Arc<Snapshot>,
    descriptions: Descriptions,
    index: OnceLock<Bytes>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
    /// Locked while a document is made, so that two requests do not make it twice.
    v3: Mutex<BTreeMap<String, Document>>,
    v3_protobuf: Mutex<BTreeMap<String, Document>>,
    /// The hashes that the index has, by the paths of their documents.
    hashes: Mutex<BTreeMap<String, String>>,
}

impl OpenApi {
    /// About these kinds. Nothing is made yet.
    pub fn new(catalog: Arc<Snapshot>, descriptions: Descriptions) -> OpenApi {
        OpenApi {
            catalog,
            descriptions,
            index: OnceLock::new(),
            v2: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
            v3: Mutex::default(),
            v3_protobuf: Mutex::default(),
            hashes: Mutex::default(),
        }
    }

    /// About the kinds of another moment. What is made already of kinds that are the same is kept.
    pub fn about(&self, catalog: Arc<Snapshot>) -> OpenApi {
        let next = OpenApi::new(catalog, self.descriptions());
        let ids = |documents: BTreeMap<String, Vec<&Kind>>| -> BTreeMap<String, Vec<u32>> {
            let ids = |kinds: Vec<&Kind>| kinds.into_iter().map(Kind::id).collect();
            documents.into_iter().map(|(path, kinds)| (path, ids(kinds))).collect()
        };
        let (before, after) = (ids(self.documents()), ids(next.documents()));
        let is_same = |path: &String| before.get(path) == after.get(path);
        keep(&self.v3, &next.v3, is_same);
        keep(&self.v3_protobuf, &next.v3_protobuf, is_same);
        keep(&self.hashes, &next.hashes, is_same);
        next
    }

    /// Where its descriptions come from.
    pub fn descriptions(&self) -> Descriptions {
        Arc::clone(&self.descriptions)
    }

    /// The index at `/openapi/v3`: for each group and version, where its document is.
    pub fn v3_index(&self) -> Bytes {
        self.index.get_or_init(|| self.make_index()).clone()
    }

    fn make_index(&self) -> Bytes {
        let entry = |(path, kinds): (String, Vec<&Kind>)| {
            let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
            let hash = hashes.entry(path.clone()).or_insert_with(|| hash_of(&self.v3_json(&path, &kinds)));
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({ "serverRelativeURL": url }))
        };
        let paths: Map<String, Value> = self.documents().into_iter().map(entry).collect();
        json!({ "paths": paths }).to_string().into()
    }

    /// The document below `/openapi/v3/` as the index names it: `api/v1`, `apis/apps/v1`, `apis/apps`.
    pub fn v3_document(&self, path: &str) -> Option<Document> {
        let kinds = self.documents().remove(path)?;
        let mut made = self.v3.lock().unwrap_or_else(PoisonError::into_inner);
        Some(
            made.entry(path.to_owned()).or_insert_with(|| Document::new(&self.v3_json(path, &kinds))).clone(),
        )
    }

    /// The same document as protobuf. It has the hash of the JSON, since the index names one for both.
    pub fn v3_protobuf(&self, path: &str) -> Option<Document> {
        let json = self.v3_document(path)?;
        let mut made = self.v3_protobuf.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Document { gzip: encoded(Dialect::V3, &json).gzip, hash: json.hash.clone() };
        Some(made.entry(path.to_owned()).or_insert_with(make).clone())
    }

    /// The document at `/openapi/v2`.
    pub fn v2(&self) -> Document {
        self.v2.get_or_init(|| Document::new(&self.v2_json())).clone()
    }

    /// The same document as protobuf.
    pub fn v2_protobuf(&self) -> Document {
        self.v2_protobuf.get_or_init(|| encoded(Dialect::V2, &self.v2())).clone()
    }

    fn v2_json(&self) -> Vec<u8> {
        let documents = self.documents();
        let is_published = |kinds: &[&Kind]| kinds.is_empty() || kinds.iter().any(|kind| !kind.is_custom());
        let published = documents.iter().filter(|(_, kinds)| is_published(kinds));
        let discovery: Vec<Discovery> = published.map(|(path, _)| Discovery::at(path)).collect();
        let kinds: Vec<&Kind> = self.catalog.kinds().iter().map(|kind| &**kind).collect();
        document(Dialect::V2, &kinds, &discovery, &self.descriptions)
    }

    fn v3_json(&self, path: &str, kinds: &[&Kind]) -> Vec<u8> {
        // The documents of custom resources do not list them.
        let is_custom = !kinds.is_empty() && kinds.iter().all(|kind| kind.is_custom());
        let discovery = (!is_custom).then(|| Discovery::at(path));
        document(Dialect::V3, kinds, discovery.as_slice(), &self.descriptions)
    }

    /// The documents of OpenAPI 3 by their paths, with the kinds of those that are of a version of a group. Every path of
    /// discovery has one.
    fn documents(&self) -> BTreeMap<String, Vec<&Kind>> {
        let without_kinds = ["api", "apis", "version"].map(|path| (path.to_owned(), Vec::new()));
        let mut documents: BTreeMap<String, Vec<&Kind>> = without_kinds.into();
        for kind in self.catalog.kinds() {
            if !kind.group.is_empty() && !kind.is_custom() {
                documents.entry(format!("apis/{}", kind.group)).or_default();
            }
            let path = paths::root(&kind.group, &kind.version);
            documents.entry(path[1..].to_owned()).or_default().push(kind);
        }
        documents
    }
}

/// Copies what was made for paths of which this is true.
fn keep<T: Clone>(
    from: &Mutex<BTreeMap<String, T>>,
    to: &Mutex<BTreeMap<String, T>>,
    is_same: impl Fn(&String) -> bool,
) {
    let from = from.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = from.iter().filter(|(path, _)| is_same(path));
    let kept = kept.map(|(path, made)| (path.clone(), made.clone()));
    to.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
}

/// A document in JSON as protobuf.
fn encoded(dialect: Dialect, json: &Document) -> Document {
    let whole = serde_json::from_slice(&json.bytes()).expect("it is JSON that was made here");
    Document::new(&protobuf::encode(dialect, &whole))
}

/// The document of some kinds and of paths of discovery, as JSON.
fn document(
    dialect: Dialect,
    kinds: &[&Kind],
    discovery: &[Discovery],
    descriptions: &Descriptions,
) -> Vec<u8> {
    let answers: Vec<&str> = discovery.iter().map(|path| path.ty).collect();
    let schemas = schemas::of(dialect, kinds, &answers, descriptions);
    let mut paths = Map::new();
    for path in discovery {
        path.add(&mut paths, dialect);
    }
    for kind in kinds {
        paths::add(&mut paths, dialect, kind);
    }
    let token = json!({
        "BearerToken": {
            "type": "apiKey", "in": "header", "name": "authorization", "description": "A bearer token"
        }
    });
    let mut whole = json!({ "info": { "title": "Kubernetes", "version": "1.36" } });
    // Moved into their places: the macro would copy them.
    whole["paths"] = paths.into();
    match dialect {
        Dialect::V2 => {
            whole["swagger"] = "2.0".into();
            // A document of OpenAPI 3 could say it too, but the original's type for those has no such field.
            whole["security"] = json!([{ "BearerToken": [] }]);
            whole["definitions"] = schemas.into();
            whole["parameters"] = parameters::shared().into();
            whole["securityDefinitions"] = token;
        }
        Dialect::V3 => {
            whole["openapi"] = "3.0.0".into();
            whole["components"]["schemas"] = schemas.into();
            whole["components"]["securitySchemes"] = token;
        }
    }
    whole.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
