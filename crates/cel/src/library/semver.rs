//! Semantic versions. They are compared by the functions of `quantity`.

use std::sync::Arc;

use super::{ONE, define, leaf, text};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Opaque, Value};
use leaf::semver::Semver;

const ACCESSOR: &[(&str, CostRule)] = &[("kubernetes.Semver.() -> int", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define(
        "semver",
        semver,
        &[
            ("(string) -> kubernetes.Semver", CostRule::Parse),
            ("(string, bool) -> kubernetes.Semver", CostRule::Parse),
        ],
    )
    .ambiguous(CostRule::Parse),
    define(
        "isSemver",
        is_semver,
        &[("(string) -> bool", CostRule::Parse), ("(string, bool) -> bool", CostRule::Parse)],
    )
    .ambiguous(CostRule::Parse),
    define("major", major, ACCESSOR),
    define("minor", minor, ACCESSOR),
    define("patch", patch, ACCESSOR),
];

fn parse(args: &[Value<'_>]) -> Result<Result<Semver, String>, Failure> {
    Ok(match args {
        [of] | [of, Value::Bool(false)] => Semver::parse(text(of)?),
        [of, Value::Bool(true)] => Semver::parse_normalized(text(of)?),
        _ => return Err(Failure::NoSuchOverload),
    })
}

fn semver<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Opaque(Opaque::Semver(Arc::new(parse(args)??))))
}

fn is_semver<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parse(args)?.is_ok()))
}

fn number<'a>(args: &[Value<'a>], number: fn(&Semver) -> u64) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Semver(version))] = args else { return Err(Failure::NoSuchOverload) };
    // As the API server does it, the largest numbers wrap.
    Ok(Value::Int(number(version).cast_signed()))
}

fn major<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.major)
}

fn minor<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.minor)
}

fn patch<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    number(args, |version| version.patch)
}
