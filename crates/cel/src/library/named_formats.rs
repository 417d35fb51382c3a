//! Formats that have a name.

use super::{ONE, define, leaf, text, texts};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Opaque, Value};
use leaf::named_format::NamedFormat;

const CONSTANT: &[(&str, CostRule)] = &[("() -> kubernetes.NamedFormat", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define("format.named", named, &[("(string) -> optional_type(kubernetes.NamedFormat)", ONE)]),
    define(
        "validate",
        validate,
        &[("kubernetes.NamedFormat.(string) -> optional_type(list(string))", CostRule::Validate)],
    )
    .ambiguous(CostRule::Validate),
    define("format.dns1123Label", |_| constant(NamedFormat::Dns1123Label), CONSTANT),
    define("format.dns1123Subdomain", |_| constant(NamedFormat::Dns1123Subdomain), CONSTANT),
    define("format.dns1035Label", |_| constant(NamedFormat::Dns1035Label), CONSTANT),
    define("format.qualifiedName", |_| constant(NamedFormat::QualifiedName), CONSTANT),
    define("format.dns1123LabelPrefix", |_| constant(NamedFormat::Dns1123LabelPrefix), CONSTANT),
    define("format.dns1123SubdomainPrefix", |_| constant(NamedFormat::Dns1123SubdomainPrefix), CONSTANT),
    define("format.dns1035LabelPrefix", |_| constant(NamedFormat::Dns1035LabelPrefix), CONSTANT),
    define("format.labelValue", |_| constant(NamedFormat::LabelValue), CONSTANT),
    define("format.uri", |_| constant(NamedFormat::Uri), CONSTANT),
    define("format.uuid", |_| constant(NamedFormat::Uuid), CONSTANT),
    define("format.byte", |_| constant(NamedFormat::Byte), CONSTANT),
    define("format.date", |_| constant(NamedFormat::Date), CONSTANT),
    define("format.datetime", |_| constant(NamedFormat::Datetime), CONSTANT),
];

fn constant<'a>(format: NamedFormat) -> Outcome<'a> {
    Ok(Value::Opaque(Opaque::Format(format)))
}

fn named<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [name] = args else { return Err(Failure::NoSuchOverload) };
    Ok(match NamedFormat::named(text(name)?) {
        Some(format) => Value::some(Value::Opaque(Opaque::Format(format))),
        None => Value::Optional(None),
    })
}

fn validate<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Format(format)), of] = args else { return Err(Failure::NoSuchOverload) };
    let faults = format.faults(text(of)?);
    Ok(if faults.is_empty() { Value::Optional(None) } else { Value::some(texts(faults)) })
}
