//! Objects, lists and events in the form that a client asked for.
//!
//! Kept true: the plain JSON of an object in the version in which it is stored is never decoded on its way out. Lists are
//! made piece by piece, so that a long one is never in memory as a whole (but for Protobuf, which says its length first).

use crate::{
    body::{Body, Chunks},
    indent::indented,
    negotiation::{Form, MetaVersion, Representation},
};
use bytes::Bytes;
use keepwatch_apimachinery::{
    meta::{ListMeta, write_versioned},
    status::Status,
};
use keepwatch_registry::{
    ObjectView,
    codec::Media,
    convert,
    kind::{Kind, group_version},
    protobuf,
    schema::{self, Timestamp, TypeRef},
    table,
};
use keepwatch_storage::Object;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The part of its object that a row of a table includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the parameter of that name.
    pub fn parse(text: &str) -> Result<IncludeObject, Status> {
        match text {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The form of one request's answers.
#[derive(Clone, Debug)]
pub struct Renderer {
    /// The kind that is shown.
    pub kind: Arc<Kind>,
    /// In which form.
    pub form: Form,
    /// Whether for people.
    pub pretty: bool,
    /// The part of their objects that rows of a table include.
    pub include_object: IncludeObject,
}

/// The size of a piece of a list, about: with an object more and its frames it fits into the 64 KB that TLS takes
/// at a time.
const PIECE_BYTES: usize = 56 << 10;

impl Renderer {
    /// One object.
    pub fn object(&self, shown: &ObjectView) -> Result<Bytes, Status> {
        match self.form.representation {
            Representation::Itself if self.is_plain() => {
                let mut out = Vec::with_capacity(shown.value.len() + 64);
                shown.write_json(&mut out);
                out.push(b'\n');
                Ok(out.into())
            }
            Representation::Itself => self.document(&self.converted(shown.document()), self.kind.ty),
            Representation::Table(version) => {
                let document = self.converted(shown.document());
                let resource_version = text_at(&document, "resourceVersion").to_owned();
                let meta = ListMeta { resource_version, ..ListMeta::default() };
                let table = self.table(version, json!(meta), &[document], true);
                Ok(self.untyped(&table))
            }
            Representation::Metadata(version) => Ok(self.partial(version, &shown.document())),
            Representation::MetadataList(_) => Err(self.not_a_list()),
        }
    }

    /// The scale of an object.
    pub fn scale(&self, scale: &Value, ty: TypeRef) -> Result<Bytes, Status> {
        match self.form.representation {
            Representation::Itself => self.document(scale, ty),
            Representation::Table(version) => {
                let row =
                    self.row_of(version, scale, table::scale_cells(&self.kind, scale, Timestamp::now()));
                let resource_version = text_at(scale, "resourceVersion").to_owned();
                let meta = ListMeta { resource_version, ..ListMeta::default() };
                let columns = shown_columns(table::scale_columns(&self.kind));
                Ok(self.untyped(&whole_table(version, json!(meta), columns, vec![row])))
            }
            Representation::Metadata(version) => Ok(self.partial(version, scale)),
            Representation::MetadataList(_) => Err(self.not_a_list()),
        }
    }

    /// Something that is no object of the resource, but says its kind.
    pub fn document(&self, document: &Value, ty: TypeRef) -> Result<Bytes, Status> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut out = Vec::new();
        match self.form.media {
            Media::Json if self.pretty => {
                schema::write(&mut out, document, ty);
                Ok(indented(&out).into())
            }
            Media::Json => {
                schema::write(&mut out, document, ty);
                out.push(b'\n');
                Ok(out.into())
            }
            Media::Yaml => Ok(yaml(document)),
            Media::Protobuf => {
                protobuf::wrap(&mut out, text("apiVersion"), text("kind"), |out| {
                    protobuf::encode(out, document, ty);
                });
                Ok(out.into())
            }
        }
    }

    /// A document without a type in the table, such as a table.
    fn untyped(&self, document: &Value) -> Bytes {
        match self.form.media {
            Media::Yaml => yaml(document),
            _ if self.pretty => indented(document.to_string().as_bytes()).into(),
            _ => {
                let mut out = document.to_string().into_bytes();
                out.push(b'\n');
                out.into()
            }
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.form.media == Media::Json && !self.pretty && self.kind.stored_as.is_none()
    }

    fn converted(&self, document: Value) -> Value {
        match &self.kind.stored_as {
            Some(_) => {
                let converted = convert::from_stored(&self.kind, document);
                let ty = self.kind.ty;
                schema::normalize(converted, ty, &mut Default::default()).unwrap_or_default()
            }
            None => document,
        }
    }

    fn partial(&self, version: MetaVersion, document: &Value) -> Bytes {
        let partial = partial(version, document);
        match self.form.media {
            Media::Protobuf => {
                let mut out = Vec::new();
                enveloped_partial(&mut out, version, &partial);
                out.into()
            }
            _ => self.untyped(&partial),
        }
    }

    fn table(&self, version: MetaVersion, metadata: Value, documents: &[Value], with_columns: bool) -> Value {
        let now = Timestamp::now();
        let rows: Vec<Value> = documents.iter().map(|document| self.row(version, document, now)).collect();
        let columns = if with_columns { columns(&self.kind) } else { Value::Null };
        whole_table(version, metadata, columns, rows)
    }

    fn row(&self, version: MetaVersion, document: &Value, now: Timestamp) -> Value {
        self.row_of(version, document, table::cells(&self.kind, document, now))
    }

    fn row_of(&self, version: MetaVersion, document: &Value, cells: table::Cells) -> Value {
        let mut row = Map::new();
        row.insert("cells".to_owned(), Value::Array(cells.cells));
        if let Some(conditions) = cells.conditions {
            row.insert("conditions".to_owned(), conditions);
        }
        let object = match self.include_object {
            IncludeObject::Metadata => partial(version, document),
            IncludeObject::Object => document.clone(),
            IncludeObject::None => Value::Null,
        };
        row.insert("object".to_owned(), object);
        Value::Object(row)
    }

    fn not_a_list(&self) -> Status {
        if self.kind.is_custom() {
            return Status::unexplained("content is not a list");
        }
        let message = format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
            self.kind.ty.name
        );
        let mut status = Status::not_acceptable(&[]);
        status.message = message;
        status
    }

    fn is_a_list(&self) -> Status {
        let message = format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            match self.kind.is_custom() {
                true => "*unstructured.UnstructuredList".to_owned(),
                false => format!("{}List", self.kind.ty.name),
            }
        );
        let mut status = Status::not_acceptable(&[]);
        status.message = message;
        status
    }

    /// Whether a list is made as a whole, and not piece by piece.
    pub fn lists_at_once(&self) -> bool {
        self.form.media == Media::Protobuf
            || (self.form.media == Media::Yaml && self.form.representation != Representation::Itself)
            || (self.form.representation == Representation::Itself && self.kind.stored_as.is_some())
    }

    /// A list, piece by piece where that can be.
    pub fn list(&self, list: Vec<Object>, meta: ListMeta) -> Result<Body, Status> {
        if self.pretty && self.form.media == Media::Json {
            let compact = Renderer { pretty: false, ..self.clone() };
            return Ok(compact.list(list, meta)?.indented());
        }
        match self.form.representation {
            Representation::Metadata(_) => Err(self.is_a_list()),
            Representation::Table(version) => Ok(self.table_list(version, list, meta)),
            Representation::MetadataList(version) => Ok(self.partial_list(version, list, meta)),
            Representation::Itself if self.is_plain() => Ok(self.plain_list(list, &meta)),
            Representation::Itself if self.form.media == Media::Protobuf => {
                Ok(self.protobuf_list(&list, &meta))
            }
            Representation::Itself if self.form.media == Media::Yaml && !list.is_empty() => {
                Ok(self.yaml_list(list, &meta))
            }
            Representation::Itself => {
                let items: Vec<Value> = list.iter().map(|object| self.item(object)).collect();
                let document = json!({
                    "kind": self.kind.list_name, "apiVersion": self.kind.api_version(),
                    "metadata": self.list_meta(&meta), "items": items,
                });
                Ok(self.untyped_list(document).into())
            }
        }
    }

    /// A list of objects that are not stored.
    pub fn documents(&self, documents: &[Value]) -> Result<Body, Status> {
        let meta = ListMeta::default();
        let is_protobuf = self.form.media == Media::Protobuf;
        let list = |kind: &str, api_version: &str, items: Vec<Value>, ty: TypeRef| {
            if is_protobuf {
                let mut encoded = Vec::new();
                items.iter().for_each(|item| protobuf::list_item(&mut encoded, item, ty));
                return protobuf_list(api_version, kind, &meta, encoded);
            }
            let list = json!({"kind": kind, "apiVersion": api_version, "metadata": meta, "items": items});
            match self.form.media {
                Media::Json if self.pretty => Bytes::from(indented(&ordered_list(&list, ty))).into(),
                Media::Json => ordered_list(&list, ty).into(),
                _ => yaml(&list).into(),
            }
        };
        match self.form.representation {
            Representation::Metadata(_) => Err(self.is_a_list()),
            Representation::Table(version) => {
                let table = self.table(version, json!(meta), documents, true);
                Ok(self.untyped(&table).into())
            }
            Representation::MetadataList(version) => {
                let items = documents.iter().map(|document| partial(version, document)).collect();
                Ok(list("PartialObjectMetadataList", version.api_version(), items, partial_type()))
            }
            Representation::Itself => {
                let items = documents.iter().cloned().map(without_type).collect();
                let (kind, api_version) = (&self.kind.list_name, self.kind.api_version());
                Ok(list(kind, &api_version, items, self.kind.ty))
            }
        }
    }

    fn untyped_list(&self, document: Value) -> Bytes {
        if self.form.media == Media::Json {
            return ordered_list(&document, self.kind.ty);
        }
        yaml(&document)
    }

    /// An item of a list: a built-in kind does not say what it is.
    fn item(&self, object: &Object) -> Value {
        let document = self.shown(object);
        if self.kind.is_custom() { document } else { without_type(document) }
    }

    /// A stored object in the version of the kind.
    fn shown(&self, object: &Object) -> Value {
        self.converted(ObjectView::of(&self.kind, object).document())
    }

    /// The metadata of a list: those of custom resources always say where they continue.
    fn list_meta(&self, meta: &ListMeta) -> Value {
        let mut meta = json!(meta);
        if let Some(fields) = meta.as_object_mut().filter(|_| self.kind.is_custom()) {
            fields.entry("continue").or_insert_with(|| "".into());
        }
        meta
    }

    fn plain_list(&self, list: Vec<Object>, meta: &ListMeta) -> Body {
        let stored = self.kind.stored();
        let own = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
            self.kind.name,
            group_version(&stored.group, &stored.version)
        );
        let head = list_head(&self.kind.list_name, &self.kind.api_version(), &self.list_meta(meta));
        if self.kind.is_custom() {
            let kind = Arc::clone(&self.kind);
            let write =
                move |out: &mut Vec<u8>, object: &Object| ObjectView::of(&kind, object).write_json(out);
            return Body::inline(pieces(head, list, b",", write, JSON_FOOT));
        }
        let write = move |out: &mut Vec<u8>, object: &Object| write_item(out, object, own.as_bytes());
        Body::inline(pieces(head, list, b",", write, JSON_FOOT))
    }

    /// A list with items, its fields in the order in which all YAML is written here.
    fn yaml_list(&self, list: Vec<Object>, meta: &ListMeta) -> Body {
        let head = format!("apiVersion: {}\nitems:\n", self.kind.api_version());
        let foot = yaml(&json!({"kind": self.kind.list_name, "metadata": self.list_meta(meta)}));
        let own = self.clone();
        let write = move |out: &mut Vec<u8>, object: &Object| {
            out.extend_from_slice(&yaml(&Value::Array(vec![own.item(object)])));
        };
        Body::offloaded(pieces(head.into_bytes(), list, b"", write, foot))
    }

    fn protobuf_list(&self, list: &[Object], meta: &ListMeta) -> Body {
        let mut items = Vec::new();
        for object in list {
            protobuf::list_item(&mut items, &self.item(object), self.kind.ty);
        }
        protobuf_list(&self.kind.api_version(), &self.kind.list_name, meta, items)
    }

    fn table_list(&self, version: MetaVersion, list: Vec<Object>, meta: ListMeta) -> Body {
        if self.form.media == Media::Yaml {
            let documents: Vec<Value> = list.iter().map(|object| self.shown(object)).collect();
            let table = self.table(version, json!(meta), &documents, true);
            return self.untyped(&table).into();
        }
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{},\"columnDefinitions\":{},\"rows\":[",
            version.api_version(),
            json!(meta),
            columns(&self.kind)
        );
        let (own, now) = (self.clone(), Timestamp::now());
        let write = move |out: &mut Vec<u8>, object: &Object| {
            let document = own.shown(object);
            out.extend_from_slice(own.row(version, &document, now).to_string().as_bytes());
        };
        Body::offloaded(pieces(head.into_bytes(), list, b",", write, JSON_FOOT))
    }

    fn partial_list(&self, version: MetaVersion, list: Vec<Object>, meta: ListMeta) -> Body {
        let kind = "PartialObjectMetadataList";
        if self.form.media == Media::Protobuf {
            let mut items = Vec::new();
            for object in &list {
                let item = partial(version, &ObjectView::of(&self.kind, object).document());
                protobuf::list_item(&mut items, &item, partial_type());
            }
            return protobuf_list(version.api_version(), kind, &meta, items);
        }
        let own = Arc::clone(&self.kind);
        let shown = move |object: &Object| partial(version, &ObjectView::of(&own, object).document());
        if self.form.media == Media::Yaml {
            let items: Vec<Value> = list.iter().map(shown).collect();
            let document = json!({
                "kind": kind, "apiVersion": version.api_version(), "metadata": meta, "items": items,
            });
            return self.untyped(&document).into();
        }
        let head = list_head(kind, version.api_version(), &meta);
        let write = move |out: &mut Vec<u8>, object: &Object| {
            out.extend_from_slice(shown(object).to_string().as_bytes());
        };
        Body::offloaded(pieces(head, list, b",", write, JSON_FOOT))
    }

    /// An object of an event, without a newline. `first` is the first event of a watch, which alone shows the columns.
    pub fn event_object(&self, shown: &ObjectView, first: bool) -> Vec<u8> {
        let is_plain = self.form.representation == Representation::Itself && self.form.media == Media::Json;
        if is_plain && self.kind.stored_as.is_none() {
            let mut out = Vec::with_capacity(shown.value.len() + 64);
            shown.write_json(&mut out);
            return out;
        }
        self.event_document(self.converted(shown.document()), first)
    }

    /// The object of a bookmark: empty but for its version and, at the end of the initial state, an annotation.
    pub fn bookmark(&self, metadata: Value, first: bool) -> Vec<u8> {
        let mut document = schema::zero(self.kind.ty);
        document["kind"] = self.kind.name.clone().into();
        document["apiVersion"] = self.kind.api_version().into();
        // Who reads the rows of a table must find the annotation there, whatever else was asked for.
        let is_end = metadata.get("annotations").is_some();
        document["metadata"] = metadata;
        let include_object = match self.include_object {
            IncludeObject::None if is_end => IncludeObject::Metadata,
            as_asked => as_asked,
        };
        Renderer { include_object, ..self.clone() }.event_document(document, first)
    }

    fn event_document(&self, document: Value, first: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match (self.form.representation, self.form.media) {
            (Representation::Itself, Media::Protobuf) => self.enveloped(&mut out, &document),
            (Representation::Itself, _) => schema::write(&mut out, &document, self.kind.ty),
            (Representation::Table(version), _) => {
                let meta = json!({"resourceVersion": text_at(&document, "resourceVersion")});
                out = self.table(version, meta, &[document], first).to_string().into_bytes();
            }
            (Representation::Metadata(version) | Representation::MetadataList(version), Media::Protobuf) => {
                enveloped_partial(&mut out, version, &partial(version, &document));
            }
            (Representation::Metadata(version) | Representation::MetadataList(version), _) => {
                out = partial(version, &document).to_string().into_bytes();
            }
        }
        out
    }

    fn enveloped(&self, out: &mut Vec<u8>, document: &Value) {
        protobuf::wrap(out, &self.kind.api_version(), &self.kind.name, |out| {
            protobuf::encode(out, document, self.kind.ty);
        });
    }
}

/// A Status in some media.
pub fn status(status: &Status, media: Media, pretty: bool) -> Bytes {
    match media {
        Media::Protobuf => {
            let mut out = Vec::new();
            wrap_status(&mut out, status);
            out.into()
        }
        Media::Yaml => serde_saphyr::to_string(status).unwrap_or_default().into(),
        Media::Json => {
            let mut out = serde_json::to_vec(status).expect("a Status is made of text and numbers");
            if pretty {
                return indented(&out).into();
            }
            out.push(b'\n');
            out.into()
        }
    }
}

/// Appends a Status as Protobuf, in its envelope.
pub fn wrap_status(out: &mut Vec<u8>, status: &Status) {
    let ty = schema::lookup("meta.v1.Status").expect("the table of types has Status");
    let document = serde_json::to_value(status).unwrap_or_default();
    protobuf::wrap(out, "v1", "Status", |out| protobuf::encode(out, &document, ty));
}

/// A list whose items are made. The header goes in front and says how long they are.
fn protobuf_list(api_version: &str, kind: &str, meta: &ListMeta, items: Vec<u8>) -> Body {
    let mut head = Vec::new();
    protobuf::list_header(&mut head, api_version, kind, meta, items.len());
    Body::inline(Box::new([Bytes::from(head), Bytes::from(items)].into_iter()))
}

fn enveloped_partial(out: &mut Vec<u8>, version: MetaVersion, partial: &Value) {
    protobuf::wrap(out, version.api_version(), "PartialObjectMetadata", |out| {
        protobuf::encode(out, partial, partial_type());
    });
}

/// A list of documents, with its fields in the usual order.
fn ordered_list(document: &Value, ty: TypeRef) -> Bytes {
    let mut out = list_head(
        document["kind"].as_str().unwrap_or_default(),
        document["apiVersion"].as_str().unwrap_or_default(),
        &document["metadata"],
    );
    for (number, item) in document["items"].as_array().into_iter().flatten().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        schema::write(&mut out, item, ty);
    }
    out.extend_from_slice(b"]}\n");
    out.into()
}

fn without_type(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    document
}

fn partial_type() -> TypeRef {
    schema::lookup("meta.v1.PartialObjectMetadata").expect("the table of types has the metadata of objects")
}

fn partial(version: MetaVersion, document: &Value) -> Value {
    let metadata = document.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

fn text_at<'a>(document: &'a Value, name: &str) -> &'a str {
    document["metadata"].get(name).and_then(Value::as_str).unwrap_or_default()
}

fn whole_table(version: MetaVersion, metadata: Value, columns: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn columns(kind: &Kind) -> Value {
    shown_columns(table::columns(kind))
}

fn shown_columns(columns: &[table::Column]) -> Value {
    let columns = columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    Value::Array(columns.collect())
}

fn list_head(kind: &str, api_version: &str, meta: &impl serde::Serialize) -> Vec<u8> {
    let meta = serde_json::to_string(meta).expect("a list's metadata is made of text and numbers");
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":[")
        .into_bytes()
}

/// Appends an object as an item: without its kind, which `own` says as it is stored.
fn write_item(out: &mut Vec<u8>, object: &Object, own: &[u8]) {
    let Some(rest) = object.value.strip_prefix(own) else {
        return write_versioned(out, &object.value, object.attributes.version_at, object.revision);
    };
    out.push(b'{');
    let version_at = object.attributes.version_at.map(|at| at - own.len() as u32);
    write_versioned(out, rest, version_at, object.revision);
}

/// The end of a list of rows or items.
const JSON_FOOT: Bytes = Bytes::from_static(b"]}\n");

/// A head, items with something between them, and a foot, in pieces of about the same size.
fn pieces(
    head: Vec<u8>,
    items: Vec<Object>,
    between: &'static [u8],
    write: impl Fn(&mut Vec<u8>, &Object) + Send + 'static,
    foot: Bytes,
) -> Chunks {
    let mut items = items.into_iter().enumerate();
    let mut next = Some(head);
    Box::new(std::iter::from_fn(move || {
        let mut out = next.take()?;
        out.reserve(PIECE_BYTES + PIECE_BYTES / 4);
        while out.len() < PIECE_BYTES {
            let Some((number, object)) = items.next() else {
                out.extend_from_slice(&foot);
                return Some(out.into());
            };
            if number > 0 {
                out.extend_from_slice(between);
            }
            write(&mut out, &object);
        }
        next = Some(Vec::new());
        Some(out.into())
    }))
}

fn yaml(document: &Value) -> Bytes {
    serde_saphyr::to_string(document).unwrap_or_default().into()
}
