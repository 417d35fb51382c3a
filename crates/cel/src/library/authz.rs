//! The authorizer of policies. What it decides comes from the caller.

use std::sync::Arc;

use super::{ONE, define, leaf, text};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{AuthorizerOf, CheckTarget, Decision, Opaque, ResourceAttributes, Value};
use leaf::named_format::NamedFormat;

/// The cost of a check: no more than two of them fit into one expression.
const CHECK: CostRule = CostRule::Fixed(350_000);

const OF_RESOURCE: &[(&str, CostRule)] =
    &[("kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck", ONE)];
const SELECTOR: &[(&str, CostRule)] = &[(
    "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
    CostRule::Selector,
)];
const DECISION_TEXT: &[(&str, CostRule)] = &[("kubernetes.authorization.Decision.() -> string", ONE)];
const DECISION_BOOL: &[(&str, CostRule)] = &[("kubernetes.authorization.Decision.() -> bool", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define(
        "path",
        path,
        &[("kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck", ONE)],
    ),
    define(
        "group",
        group,
        &[("kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck", ONE)],
    ),
    define(
        "serviceAccount",
        service_account,
        &[(
            "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
            ONE,
        )],
    ),
    define(
        "resource",
        resource,
        &[("kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck", ONE)],
    ),
    define("subresource", |args| with(args, |of, value| of.subresource = value), OF_RESOURCE),
    define("namespace", |args| with(args, |of, value| of.namespace = value), OF_RESOURCE),
    define("name", |args| with(args, |of, value| of.name = value), OF_RESOURCE),
    define("fieldSelector", |args| with(args, |of, value| of.field_selector = value), SELECTOR)
        .ambiguous(CostRule::Selector),
    define("labelSelector", |args| with(args, |of, value| of.label_selector = value), SELECTOR)
        .ambiguous(CostRule::Selector),
    define(
        "check",
        check,
        &[
            ("kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision", CHECK),
            ("kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision", CHECK),
        ],
    )
    .ambiguous(CHECK),
    define("allowed", |args| Ok(Value::Bool(decision(args)?.allowed)), DECISION_BOOL),
    define("errored", |args| Ok(Value::Bool(decision(args)?.error.is_some())), DECISION_BOOL),
    define("reason", |args| Ok(Value::text(decision(args)?.reason.as_str())), DECISION_TEXT),
    define("error", |args| Ok(Value::text(decision(args)?.error.as_deref().unwrap_or(""))), DECISION_TEXT),
];

fn authorizer<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v AuthorizerOf<'a>, &'v [Value<'a>]), Failure> {
    match args {
        [Value::Opaque(Opaque::Authorizer(authorizer)), rest @ ..] => Ok((authorizer, rest)),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, [path]) = authorizer(args)? else { return Err(Failure::NoSuchOverload) };
    let path = text(path)?;
    if path.trim().is_empty() {
        return Err("path must not be empty".into());
    }
    Ok(Value::Opaque(Opaque::PathCheck(Arc::new((authorizer.clone(), Box::from(path))))))
}

fn group<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, [group]) = authorizer(args)? else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Opaque(Opaque::GroupCheck(Arc::new((authorizer.clone(), Box::from(text(group)?))))))
}

fn service_account<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, [namespace, name]) = authorizer(args)? else { return Err(Failure::NoSuchOverload) };
    let (namespace, name) = (text(namespace)?, text(name)?);
    if !NamedFormat::Dns1123Subdomain.faults(name).is_empty() {
        return Err("Invalid service account name".into());
    }
    if !NamedFormat::Dns1123Label.faults(namespace).is_empty() {
        return Err("Invalid service account namespace".into());
    }
    Ok(Value::Opaque(Opaque::Authorizer(authorizer.service_account(namespace, name))))
}

fn resource<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(Opaque::GroupCheck(of)), resource] = args else {
        return Err(Failure::NoSuchOverload);
    };
    let resource = text(resource)?;
    if resource.trim().is_empty() {
        return Err("resource must not be empty".into());
    }
    let (authorizer, group) = &**of;
    let attributes =
        ResourceAttributes { group: group.to_string(), resource: resource.to_owned(), ..Default::default() };
    Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new((authorizer.clone(), attributes)))))
}

/// The same check with one attribute more.
fn with<'a>(args: &[Value<'a>], set: fn(&mut ResourceAttributes, String)) -> Outcome<'a> {
    let [Value::Opaque(Opaque::ResourceCheck(of)), value] = args else { return Err(Failure::NoSuchOverload) };
    let (authorizer, attributes) = &**of;
    let mut attributes = attributes.clone();
    set(&mut attributes, text(value)?.to_owned());
    Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new((authorizer.clone(), attributes)))))
}

fn check<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let decision = match args {
        [Value::Opaque(Opaque::PathCheck(of)), verb] => of.0.decide(text(verb)?, CheckTarget::Path(&of.1)),
        [Value::Opaque(Opaque::ResourceCheck(of)), verb] => {
            of.0.decide(text(verb)?, CheckTarget::Resource(&of.1))
        }
        _ => return Err(Failure::NoSuchOverload),
    };
    Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))))
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v Decision, Failure> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(decision),
        _ => Err(Failure::NoSuchOverload),
    }
}
