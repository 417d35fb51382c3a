//! Functions of text.

use super::{ONE, define, int, leaf, text, texts};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::limits;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Definition] = &[
    define("charAt", char_at, &[("string.(int) -> string", ONE)]),
    define("lowerAscii", lower, &[("string.() -> string", CostRule::Transform)])
        .ambiguous(CostRule::Transform),
    define("upperAscii", upper, &[("string.() -> string", CostRule::Transform)])
        .ambiguous(CostRule::Transform),
    define("trim", trim, &[("string.() -> string", CostRule::Transform)]).ambiguous(CostRule::Transform),
    define(
        "substring",
        substring,
        &[
            ("string.(int) -> string", CostRule::Transform),
            ("string.(int, int) -> string", CostRule::Transform),
        ],
    )
    .ambiguous(CostRule::Transform),
    define(
        "replace",
        replace,
        &[
            ("string.(string, string) -> string", CostRule::Replace),
            ("string.(string, string, int) -> string", CostRule::Replace),
        ],
    )
    .ambiguous(CostRule::Replace),
    define(
        "split",
        split,
        &[
            ("string.(string) -> list(string)", CostRule::Split),
            ("string.(string, int) -> list(string)", CostRule::Split),
        ],
    )
    .ambiguous(CostRule::Split),
    define(
        "join",
        join,
        &[("list(string).() -> string", CostRule::Join), ("list(string).(string) -> string", CostRule::Join)],
    )
    .ambiguous(CostRule::Join),
    define("strings.quote", quote, &[("(string) -> string", CostRule::Quote)]),
    define("format", super::format::format, &[("string.(list(dyn)) -> string", CostRule::Format)]),
];

fn char_at<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, index] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::strings::char_at(text(of)?, int(index)?)?))
}

fn lower<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::strings::lower_ascii(text(of)?)))
}

fn upper<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::strings::upper_ascii(text(of)?)))
}

fn trim<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::strings::trim(text(of)?)))
}

fn substring<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(match args {
        [of, from] => leaf::strings::substring(text(of)?, int(from)?)?,
        [of, from, to] => leaf::strings::substring_to(text(of)?, int(from)?, int(to)?)?,
        _ => return Err(Failure::NoSuchOverload),
    }))
}

/// The largest number of replacements or parts; -1 without an argument: no limit.
fn count(arg: Option<&Value<'_>>) -> Result<i64, Failure> {
    arg.map_or(Ok(-1), int)
}

fn replace<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, old, new, times @ ..] = args else { return Err(Failure::NoSuchOverload) };
    let times = count(times.first())?;
    let (of, old, new) = (text(of)?, text(old)?, text(new)?);
    limits::visit(of.matches(old).count().saturating_mul(new.len()))?;
    Ok(Value::text(leaf::strings::replace(of, old, new, times)))
}

fn split<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, separator, times @ ..] = args else { return Err(Failure::NoSuchOverload) };
    let times = count(times.first())?;
    Ok(texts(leaf::strings::split(text(of)?, text(separator)?, times)))
}

fn join<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), separator @ ..] = args else { return Err(Failure::NoSuchOverload) };
    let separator = separator.first().map_or(Ok(""), text)?;
    // The first element decides whether the list is one of texts.
    if matches!(list.get(0), Some(Ok(first)) if !matches!(first, Value::String(_))) {
        return Err(Failure::NoSuchOverload);
    }
    let mut joined = String::new();
    for (index, element) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match element? {
            Value::String(part) => {
                limits::visit(part.len() + separator.len())?;
                joined.push_str(&part);
            }
            other => return Err(Failure::Error(format!("join: invalid input: {}", other.message_text()))),
        }
    }
    Ok(Value::text(joined))
}

fn quote<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::strings::quote(text(of)?)))
}
