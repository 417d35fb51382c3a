//! Validation of definitions: names, versions, columns, scales and conversions. Schemas are checked in [`schema`].
//!
//! Upstream validates the internal form of a definition, where fields that all versions share stand once, above the
//! versions. Errors are reported there: at `spec.subresources` if all versions have the same subresources.

use super::{
    columns::{FORMATS, TYPES},
    expressions::Checker,
    names::{APPROVED, Approval, approval, is_protected},
    schema::{self, Schema, Type, definition::Tolerated, json as go_json},
};
use crate::{
    document::{FieldErrors, Fields, Node, Object, same},
    kinds::webhooks::{webhook_service, webhook_url},
    validation::{names, warnings::Warnings},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The largest length of the warning of a deprecated version.
const DEPRECATION_BYTES_MAX: usize = 256;
/// The largest number of selectable fields.
const SELECTABLE_FIELDS_MAX: usize = 8;

/// A definition by itself, and beside the one that it replaces.
pub(crate) fn check(definition: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    if old.is_none() {
        name(definition, errors);
    }
    spec(definition, old, errors);
    if let Some(old) = old {
        immutable(definition, old, errors);
    }
    check_status(definition, errors);
    stored_versions(definition, errors);
    approved(definition, old, errors);
    prunes(definition, old, errors);
}

/// The status of a definition.
pub(crate) fn check_status(definition: &Node, errors: &mut FieldErrors) {
    let status = definition.at("status");
    well_formed_names(&status.at("acceptedNames"), errors);
}

fn name(definition: &Node, errors: &mut FieldErrors) {
    let (name, spec) = (definition.at("metadata.name"), definition.at("spec"));
    let expected = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    if !name.as_text().is_empty() && name.as_text() != expected {
        errors.invalid(&name, name.as_text(), "must be spec.names.plural+\".\"+spec.group");
    }
}

fn spec(definition: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let spec = definition.at("spec");
    group(&spec.at("group"), errors);
    match spec.text("scope") {
        "" => errors.required(&spec.at("scope"), ""),
        _ => errors.must_be_one_of(&spec.at("scope"), &["Cluster", "Namespaced"]),
    }
    for version in spec.items("versions") {
        if !version.at("schema").has("openAPIV3Schema") {
            errors.required(&version.at("schema").at("openAPIV3Schema"), "");
        }
    }
    let shared = Shared::of(&spec);
    let stored_spec = old.map(|old| old.value.field("spec").unwrap_or(&Value::Null));
    let tolerated = stored_spec.map(|spec| tolerated(&Node::root(spec))).unwrap_or_default();
    let judged = Judged { tolerated, stored_spec };
    let mut seen = BTreeSet::new();
    let (mut is_unique, mut stored) = (true, 0);
    for (number, version) in spec.items("versions").enumerate() {
        is_unique &= seen.insert(version.text("name"));
        stored += usize::from(version.flag("storage"));
        label(&version.at("name"), version.text("name"), errors);
        deprecation(&version, errors);
        if !shared.schema {
            check_schema(
                &version,
                &format!("spec.versions[{number}].schema.openAPIV3Schema"),
                judged,
                errors,
            );
        }
        if !shared.subresources {
            subresources(&version.at("subresources"), errors);
        }
        if !shared.columns {
            version.items("additionalPrinterColumns").for_each(|column| self::column(&column, errors));
        }
        if !shared.selectable {
            selectable_of_version(&version, shared.schema, errors);
        }
    }
    let versions = spec.at("versions");
    if !is_unique {
        let detail = format!("{}: must contain unique version names", shown_versions(&versions, &shared));
        errors.invalid_omit_value(&versions, &detail);
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.invalid_omit_value(&versions, &format!("{}: {detail}", shown_versions(&versions, &shared)));
    }
    let first = spec.item("versions", 0);
    if !first.text("name").is_empty() {
        label(&spec.at("version"), first.text("name"), errors);
    }
    let names = spec.at("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        errors.not_empty(&names.at(field));
    }
    well_formed_names(&names, errors);
    if first.exists() {
        if shared.schema {
            check_schema(&first, "spec.validation.openAPIV3Schema", judged, errors);
        }
        if shared.subresources {
            subresources(&spec.at("subresources").with(first.at("subresources").value), errors);
        }
        // Reported as the fields of the spec.
        let above = spec.with(first.value);
        if shared.columns {
            above.items("additionalPrinterColumns").for_each(|column| self::column(&column, errors));
        }
        if shared.selectable {
            selectable_of_all(&above, shared.schema, errors);
        }
    }
    conversion(&spec.at("conversion"), errors);
}

/// Whether all versions of a definition have the same value of each field.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(spec: &Node) -> Shared {
        let is_same = |field: &str| {
            let mut all = spec.items("versions").map(|version| version.at(field).value.clone());
            let Some(first) = all.next() else { return true };
            all.all(|other| same(&other, &first))
        };
        Shared {
            schema: is_same("schema"),
            subresources: is_same("subresources"),
            columns: is_same("additionalPrinterColumns"),
            selectable: is_same("selectableFields"),
        }
    }
}

fn group(group: &Node, errors: &mut FieldErrors) {
    let wrong = names::subdomain(group.as_text());
    if group.as_text().is_empty() {
        errors.required(group, "");
    } else if !wrong.is_empty() {
        errors.invalid(group, group.as_text(), &wrong.join(","));
    } else if !group.as_text().contains('.') {
        errors.invalid(group, group.as_text(), "should be a domain with at least one dot");
    }
}

/// A name that has to be a label, reported at some field.
fn label(reported_at: &Node, name: &str, errors: &mut FieldErrors) {
    let wrong = names::label_1035(name);
    if !wrong.is_empty() {
        errors.invalid(reported_at, name, &wrong.join(","));
    }
}

fn deprecation(version: &Node, errors: &mut FieldErrors) {
    let warning = version.at("deprecationWarning");
    let Some(words) = warning.value.as_str() else { return };
    if !version.flag("deprecated") {
        errors.invalid(&warning, words, "can only be set for deprecated versions");
    }
    if words.len() > DEPRECATION_BYTES_MAX {
        errors.invalid(&warning, words, &format!("must be <= {DEPRECATION_BYTES_MAX} characters long"));
    }
    if words.is_empty() {
        errors.invalid(&warning, words, "must not be an empty string");
    }
    let unprintable = words.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' '));
    if let Some((at, _)) = unprintable {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid(&warning, words, &detail);
    }
}

fn well_formed_names(names: &Node, errors: &mut FieldErrors) {
    for field in ["plural", "singular"] {
        if !names.text(field).is_empty() {
            label(&names.at(field), names.text(field), errors);
        }
    }
    for field in ["kind", "listKind"] {
        let (reported_at, name) = (names.at(field), names.text(field));
        let wrong = names::label_1035(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.invalid(&reported_at, name, &detail);
        }
    }
    for name in names.items("shortNames") {
        label(&name, name.as_text(), errors);
    }
    let list = names.at("listKind");
    if !list.as_text().is_empty() && list.as_text() == names.text("kind") {
        errors.invalid(&list, list.as_text(), "kind and listKind may not be the same");
    }
    for name in names.items("categories") {
        label(&name, name.as_text(), errors);
    }
}

fn column(column: &Node, errors: &mut FieldErrors) {
    errors.not_empty(&column.at("name"));
    let kind = column.at("type");
    let known = format!("must be one of {}", TYPES.join(","));
    match kind.as_text() {
        "" => errors.required(&kind, &known),
        text if !TYPES.contains(&text) => errors.invalid(&kind, text, &known),
        _ => {}
    }
    let format = column.at("format");
    if !format.as_text().is_empty() && !FORMATS.contains(&format.as_text()) {
        errors.invalid(&format, format.as_text(), &format!("must be one of {}", FORMATS.join(",")));
    }
    simple_path(&column.at_as("jsonPath", "JSONPath"), errors);
}

/// A path that has to be given and to begin with a dot. Returns whether it does.
fn simple_path(path: &Node, errors: &mut FieldErrors) -> bool {
    if path.as_text().is_empty() {
        errors.required(path, "");
        return false;
    }
    if !path.as_text().starts_with('.') {
        errors.invalid(path, path.as_text(), "must be a simple json path starting with .");
        return false;
    }
    true
}

fn subresources(subresources: &Node, errors: &mut FieldErrors) {
    let scale = subresources.at("scale");
    if !scale.exists() {
        return;
    }
    let under =
        |path: &Node, parents: &[&str]| parents.iter().any(|parent| path.as_text().starts_with(parent));
    for (field, parent) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = scale.at(field);
        if simple_path(&path, errors) && !under(&path, &[&format!("{parent}.")]) {
            errors.invalid(&path, path.as_text(), &format!("should be a json path under {parent}"));
        }
    }
    let path = scale.at("labelSelectorPath");
    if !path.as_text().is_empty() && simple_path(&path, errors) && !under(&path, &[".spec.", ".status."]) {
        errors.invalid(&path, path.as_text(), "should be a json path under either .spec or .status");
    }
}

/// The selectable fields of a version that does not share them with the others. Upstream no longer finds its schema if it
/// shares that.
fn selectable_of_version(version: &Node, is_schema_shared: bool, errors: &mut FieldErrors) {
    let schema = version.at("schema.openAPIV3Schema");
    let without_schema = "may only be set when `version.schema.openAPIV3Schema` is not included";
    selectable(version, schema.value.as_object().filter(|_| !is_schema_shared), without_schema, errors);
}

/// The selectable fields that all versions have in common.
fn selectable_of_all(above: &Node, is_schema_shared: bool, errors: &mut FieldErrors) {
    let schema = above.at("schema.openAPIV3Schema");
    let without_schema = "may only be set when validations.schema is included";
    selectable(above, schema.value.as_object().filter(|_| is_schema_shared), without_schema, errors);
}

fn selectable(version: &Node, schema: Option<&Object>, without_schema: &str, errors: &mut FieldErrors) {
    if version.length("selectableFields") == 0 {
        return;
    }
    let Some(schema) = schema else {
        return errors.invalid(&version.at("selectableFields"), "", without_schema);
    };
    let Ok(schema) = Schema::parse(&Value::Object(schema.clone())) else { return };
    let mut seen = BTreeSet::new();
    for field in version.items("selectableFields") {
        let path = field.at("jsonPath");
        selectable_field(&schema, &path, errors);
        let is_valid = selectable_type(&schema, path.as_text()).is_ok();
        if is_valid && !path.as_text().is_empty() && !seen.insert(path.as_text()) {
            errors.duplicate(&path, path.as_text());
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.too_many(&version.at("selectableFields"), seen.len(), SELECTABLE_FIELDS_MAX);
    }
}

/// Whether a path leads to a field that selectors can name.
fn selectable_field(schema: &Schema, path: &Node, errors: &mut FieldErrors) {
    if path.as_text().is_empty() {
        return errors.required(path, "");
    }
    let ty = match selectable_type(schema, path.as_text()) {
        Ok(ty) => ty,
        Err(why) => return errors.invalid(path, path.as_text(), &format!("is an invalid path: {why}")),
    };
    if path.as_text().split(['.', '[']).nth(1) == Some("metadata") {
        errors.invalid(path, path.as_text(), "must not point to fields in metadata");
    }
    if !matches!(ty, Type::String | Type::Boolean | Type::Integer) {
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                      formats are allowed.";
        errors.invalid(path, path.as_text(), detail);
    }
}

/// The type that a schema has at a path of fields.
fn selectable_type(schema: &Schema, path: &str) -> Result<Type, String> {
    let unknown = || "does not refer to a valid field".to_owned();
    let mut node = schema.root();
    let mut rest = path;
    if !rest.starts_with(['.', '[']) {
        let word = rest.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {word}"));
    }
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix('.') else {
            return Err("array notation is not allowed".to_owned());
        };
        if after.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let end = after.find(['.', '[']).unwrap_or(after.len());
        let name = &after[..end];
        node = node.property(name).ok_or_else(unknown)?;
        rest = &after[end..];
    }
    Ok(node.ty)
}

fn conversion(conversion: &Node, errors: &mut FieldErrors) {
    if !conversion.exists() {
        return;
    }
    let strategy = conversion.at("strategy");
    match strategy.as_text() {
        "" => errors.required(&strategy, ""),
        _ => errors.must_be_one_of(&strategy, &["None", "Webhook"]),
    }
    let webhook = conversion.at("webhook");
    // The form that upstream checks has no webhook between the two.
    let (config, versions) = (webhook.at("clientConfig"), webhook.at("conversionReviewVersions"));
    let reported_at = conversion.at_as("webhook.clientConfig", "webhookClientConfig");
    let versions_at = conversion.at_as("webhook.conversionReviewVersions", "conversionReviewVersions");
    let given = versions.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if strategy.as_text() != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.exists() {
            errors.forbidden(&reported_at, detail);
        }
        if !given.is_empty() {
            errors.forbidden(&versions_at, detail);
        }
        return;
    }
    let (url, service) = (reported_at.at("url"), reported_at.at("service"));
    if !config.exists() {
        errors.required(&reported_at, "required when strategy is set to Webhook");
    } else if url.exists() == service.exists() {
        errors.required(&reported_at, "exactly one of url or service is required");
    } else if url.exists() {
        webhook_url(&url, errors);
    } else {
        webhook_service(&service, errors);
    }
    review_versions(conversion, &versions_at, errors);
}

fn review_versions(conversion: &Node, reported_at: &Node, errors: &mut FieldErrors) {
    let holder = conversion.with(conversion.at("webhook").value);
    let mut seen = BTreeSet::new();
    for version in holder.items("conversionReviewVersions") {
        if !seen.insert(version.as_text()) {
            errors.invalid(&version, version.as_text(), "duplicate version");
            continue;
        }
        errors.invalid_each(&version, names::label_1035(version.as_text()));
    }
    if seen.is_empty() {
        errors.required(reported_at, "");
    } else if !seen.contains("v1") && !seen.contains("v1beta1") {
        errors.invalid(reported_at, reported_at.value.clone(), "must include at least one of v1, v1beta1");
    }
}

/// The tolerated errors and the spec of the definition that is replaced.
#[derive(Clone, Copy)]
struct Judged<'a> {
    tolerated: Tolerated,
    stored_spec: Option<&'a Value>,
}

impl Judged<'_> {
    /// Whether the version had this schema already.
    fn has(self, version: &str, schema: &Value) -> bool {
        let versions = self.stored_spec.map_or(&[][..], |spec| spec.list("versions"));
        let own = versions.iter().find(|own| own.text("name") == version);
        own.and_then(|own| own.field("schema.openAPIV3Schema")) == Some(schema)
    }
}

fn check_schema(version: &Node, path: &str, judged: Judged<'_>, errors: &mut FieldErrors) {
    let schema = version.at("schema.openAPIV3Schema");
    if !schema.exists() {
        return;
    }
    let has_status = version.at("subresources").has("status");
    let tolerated = judged.tolerated;
    let definition = schema::definition::Definition { schema: schema.value, path, has_status, tolerated };
    let mut rules = Checker::new(judged.has(version.text("name"), schema.value));
    errors.0.extend(schema::definition::validate(&definition, &mut rules));
}

/// The errors that are tolerated in a definition because the one before had them too.
fn tolerated(spec: &Node) -> Tolerated {
    let all = spec.items("versions").map(|version| {
        let schema = version.at("schema").at("openAPIV3Schema").value.clone();
        schema::definition::tolerated(&schema)
    });
    all.fold(Tolerated::default(), |a, b| Tolerated {
        unknown_types: a.unknown_types || b.unknown_types,
        unpruned_defaults: a.unpruned_defaults || b.unpruned_defaults,
        sets_of_granular: a.sets_of_granular || b.sets_of_granular,
        loose_map_keys: a.loose_map_keys || b.loose_map_keys,
    })
}

fn immutable(new: &Node, old: &Node, errors: &mut FieldErrors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if super::names::is_true(old.value, "Established") {
        for field in ["scope", "names.kind"] {
            errors.immutable(&spec.at(field), &before.at(field));
        }
    }
    for field in ["group", "names.plural"] {
        errors.immutable(&spec.at(field), &before.at(field));
    }
}

fn stored_versions(definition: &Node, errors: &mut FieldErrors) {
    let status = definition.at("status");
    let reported_at = status.at("storedVersions");
    let stored: Vec<&str> = status.items("storedVersions").map(|version| version.as_text()).collect();
    if stored.is_empty() {
        errors.invalid(&reported_at, Value::Null, "must have at least one stored version");
        return;
    }
    let spec = definition.at("spec");
    for version in spec.items("versions").filter(|version| version.flag("storage")) {
        let name = version.text("name");
        if !stored.contains(&name) {
            errors.invalid(&reported_at, json!(stored), &format!("must have the storage version {name}"));
        }
    }
    for version in status.items("storedVersions") {
        let name = version.as_text();
        if spec.items("versions").any(|own| own.text("name") == name) {
            continue;
        }
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.invalid(&version, name, &detail);
    }
}

fn approved(definition: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let spec = definition.at("spec");
    if !is_protected(spec.text("group")) {
        return;
    }
    let said = |definition: &Node| definition.value.annotation(APPROVED).to_owned();
    let annotation = said(definition);
    let (state, why) = approval(&annotation);
    if old.is_some_and(|old| approval(&said(old)).0 == state) {
        return;
    }
    let metadata = definition.at("metadata");
    let reported_at = metadata.entry("annotations", APPROVED);
    match state {
        Approval::Invalid => errors.invalid(&reported_at, annotation, &why),
        Approval::Missing => errors.required(&reported_at, &why),
        Approval::Approved | Approval::Bypassed => {}
    }
}

/// Unknown fields are dropped, but by definitions that are older than that.
fn prunes(definition: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let keeps =
        |definition: &Node| definition.value.field("spec.preserveUnknownFields") == Some(&Value::Bool(true));
    if keeps(definition) && !old.is_some_and(keeps) {
        let spec = definition.at("spec");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        errors.invalid(&spec.at("preserveUnknownFields"), true, detail);
    }
}

/// The formats in the schemas of a definition that are not recognised. Of an update, those that the old one did not have.
pub(crate) fn warn(definition: &Node, old: Option<&Node>, warnings: &mut Warnings) {
    let formats = |definition: &Node| {
        let versions = definition.value.list("spec.versions").iter();
        let schemas = versions.filter_map(|version| version.field("schema.openAPIV3Schema"));
        schemas.flat_map(schema::unrecognized_formats).collect::<BTreeSet<_>>()
    };
    let before = old.map(formats).unwrap_or_default();
    for format in formats(definition).difference(&before) {
        warnings.push(&format!("unrecognized format {format:?}"));
    }
}

/// Versions as upstream shows them, without the fields that all have in common.
fn shown_versions(versions: &Node, shared: &Shared) -> String {
    let Some(all) = versions.value.as_array() else { return "null".to_owned() };
    let shown: Vec<String> = all.iter().map(|version| shown_version(version, shared)).collect();
    format!("[{}]", shown.join(","))
}

fn shown_version(version: &Value, shared: &Shared) -> String {
    let flag = |field: &str| version.field(field).and_then(Value::as_bool).unwrap_or(false);
    let own = |is_shared: bool, field: &str| version.get(field).filter(|_| !is_shared);
    let schema = own(shared.schema, "schema").map(|schema| {
        let schema = schema.get("openAPIV3Schema").map(schema::definition::schema_shown);
        format!("{{\"OpenAPIV3Schema\":{}}}", schema.unwrap_or_else(|| "null".to_owned()))
    });
    let subresources = own(shared.subresources, "subresources").map(shown_subresources);
    let columns = own(shared.columns, "additionalPrinterColumns");
    let columns = columns.map(|columns| shown_list(columns, shown_column));
    let fields = own(shared.selectable, "selectableFields").map(|fields| {
        shown_list(fields, |field| format!("{{\"JSONPath\":{}}}", go_json(&field.text("jsonPath").into())))
    });
    let or_null = |shown: Option<String>| shown.unwrap_or_else(|| "null".to_owned());
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\
         \"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
        go_json(&version.text("name").into()),
        flag("served"),
        flag("storage"),
        flag("deprecated"),
        go_json(version.get("deprecationWarning").unwrap_or(&Value::Null)),
        or_null(schema),
        or_null(subresources),
        or_null(columns),
        or_null(fields),
    )
}

fn shown_list(list: &Value, shown: impl Fn(&Value) -> String) -> String {
    let items: Vec<String> = list.as_array().into_iter().flatten().map(shown).collect();
    format!("[{}]", items.join(","))
}

fn shown_subresources(subresources: &Value) -> String {
    let status = if subresources.has("status") { "{}" } else { "null" };
    let scale = subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| {
        let text = |field: &str| go_json(&scale.text(field).into());
        format!(
            "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
            text("specReplicasPath"),
            text("statusReplicasPath"),
            go_json(scale.get("labelSelectorPath").unwrap_or(&Value::Null)),
        )
    });
    format!("{{\"Status\":{status},\"Scale\":{}}}", scale.unwrap_or_else(|| "null".to_owned()))
}

fn shown_column(column: &Value) -> String {
    let text = |field: &str| go_json(&column.text(field).into());
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
        text("name"),
        text("type"),
        text("format"),
        text("description"),
        column.number("priority"),
        text("jsonPath"),
    )
}
