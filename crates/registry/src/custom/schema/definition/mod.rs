//! Validation of the schemas of a definition.
//!
//! Four checks run in this order, each only if it makes sense after those before: whether the schema is structural,
//! whether its defaults are valid, whether it stays within the part of OpenAPI that Kubernetes accepts, and whether its
//! rules compile.

mod defaults;
mod field_path;
mod openapi_rules;
mod props;
mod structural;
mod struct_shown;

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use self::props::{At, Props};
use super::{Node, Schema, parse::TOO_DEEP, shown};
pub(in crate::custom) use defaults::joined;
pub(crate) use field_path::resolve as resolve_field_path;
pub(crate) use struct_shown::rule as rule_shown;
pub(in crate::custom) use struct_shown::schema_of_definition as schema_shown;

/// The largest number of errors that are reported for one schema.
const FAULTS_MAX: usize = 1000;

/// A schema to be checked, and the options of the check.
pub(crate) struct Definition<'a> {
    /// The `openAPIV3Schema`, normalised by its type.
    pub(crate) schema: &'a Value,
    /// The path of the schema: `spec.validation.openAPIV3Schema` if all versions have the same, else
    /// `spec.versions[i].schema.openAPIV3Schema`.
    pub(crate) path: &'a str,
    /// Whether the status is a subresource.
    pub(crate) has_status: bool,
    /// The errors that are tolerated because the definition that it replaces has them.
    pub(crate) tolerated: Tolerated,
}

/// Errors in the schemas of a stored definition that its successor may have too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tolerated {
    pub(crate) unknown_types: bool,
    pub(crate) unpruned_defaults: bool,
    pub(crate) sets_of_granular: bool,
    pub(crate) loose_map_keys: bool,
}

/// A schema with rules. It and the schemas below have no errors, except perhaps in the rules.
pub(crate) struct RuleSite<'a> {
    /// The path of the schema.
    pub(crate) path: &'a str,
    /// The schemas from the root to this one. There are no rules elsewhere.
    pub(crate) way: &'a [&'a Node],
    /// The path of the list or map above whose items have no old value, if there is one.
    pub(crate) uncorrelatable: Option<&'a str>,
}

/// Checks the expressions of rules.
pub(crate) trait RuleChecker {
    /// The errors of the rules of a schema.
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Cause>;
    /// The errors of a default by the rules of its schema.
    fn check_default(&mut self, path: &str, node: &Node, default: &Value) -> Vec<Cause>;
    /// The errors of all rules together. Called last.
    fn finish(&mut self, path: &str) -> Vec<Cause>;
}

/// All errors of a schema, in Kubernetes' words and order.
pub(crate) fn validate(definition: &Definition<'_>, rules: &mut dyn RuleChecker) -> Vec<Cause> {
    let Definition { schema, path, has_status, tolerated } = *definition;
    let props = Props::of(schema);
    let root = At::Root(path);
    let parsed = Schema::parse_new(schema);
    let refused = |why: &str| shown::invalid(path, &Value::String(String::new()), why);
    if let Err(why) = &parsed
        && why == TOO_DEEP
    {
        return vec![refused(why)];
    }
    let mut causes = Vec::new();
    if has_status {
        root_with_status(props, &root, &mut causes);
    }
    if props.flag("nullable") {
        causes.push(Cause::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let mut may_have_rules = false;
    if let Ok(parsed) = &parsed {
        let mut faults = structural::faults(props, &root);
        if faults.is_empty() {
            faults = defaults::faults(parsed.root(), path, !tolerated.unpruned_defaults, rules);
        }
        may_have_rules = faults.is_empty();
        causes.extend(faults);
    }
    let compiled = parsed.as_ref().ok().filter(|_| may_have_rules).map(Schema::root);
    causes.extend(openapi_rules::faults(props, &root, compiled, tolerated, rules));
    if let (true, Err(why)) = (causes.is_empty(), &parsed) {
        causes.push(refused(why));
    }
    if may_have_rules {
        causes.extend(rules.finish(path));
    }
    causes.truncate(FAULTS_MAX);
    causes
}

/// The errors of a stored schema that its successor may have too.
pub(crate) fn tolerated(schema: &Value) -> Tolerated {
    let (props, root) = (Props::of(schema), At::Root(""));
    let parsed = Schema::parse(schema);
    if parsed.as_ref().is_err_and(|why| why == TOO_DEEP) {
        return Tolerated::default();
    }
    let mut found = openapi_rules::tolerated(props, &root);
    if let Ok(parsed) = &parsed
        && structural::faults(props, &root).is_empty()
    {
        found.unpruned_defaults = defaults::has_unpruned(parsed.root());
    }
    found
}

/// The reasons why a stored schema is not structural, as in the condition `NonStructuralSchema`. `path` is
/// `spec.versions[i].schema.openAPIV3Schema`. The error is that of a schema that cannot be parsed.
pub(crate) fn not_structural(schema: &Value, path: &str) -> Result<Vec<Cause>, String> {
    Schema::parse(schema)?;
    Ok(structural::faults(Props::of(schema), &At::Root(path)))
}

/// The fields allowed at the root of a schema if the status, which is validated separately, is a subresource.
const ROOT_FIELDS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// Reports the first field that should not be there.
fn root_with_status(props: Props<'_>, root: &At<'_>, causes: &mut Vec<Cause>) {
    for name in struct_shown::names().filter(|name| props.has(name)) {
        if name == "type" {
            if props.text("type") != "object" {
                let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                    enabled";
                causes.push(shown::invalid(root.child("type").to_string(), &props.text("type").into(), why));
                return;
            }
        } else if !ROOT_FIELDS.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> = ROOT_FIELDS.iter().map(|(_, shown)| *shown).collect();
            let message = format!(
                "Invalid value: {}: only [{}] fields are allowed at the root of the schema if the status subresource is \
                 enabled",
                struct_shown::schema(props),
                known.join(" ")
            );
            causes.push(Cause::new("FieldValueInvalid", message, root.to_string()));
            return;
        }
    }
}

#[cfg(test)]
mod tests;
