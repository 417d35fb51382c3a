//! URLs.

use std::sync::Arc;

use super::{ONE, define, leaf, text, texts};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Map, MapValues, Opaque, Value};
use leaf::url::Url;

const ACCESSOR: &[(&str, CostRule)] = &[("kubernetes.URL.() -> string", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define("url", url, &[("(string) -> kubernetes.URL", CostRule::Transform)]).ambiguous(CostRule::Transform),
    define("isURL", is_url, &[("(string) -> bool", ONE)]),
    define("getScheme", scheme, ACCESSOR),
    define("getHost", host, ACCESSOR),
    define("getHostname", hostname, ACCESSOR),
    define("getPort", port, ACCESSOR),
    define("getEscapedPath", escaped_path, ACCESSOR),
    define("getQuery", query, &[("kubernetes.URL.() -> map(string, list(string))", ONE)]),
];

fn receiver<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, Failure> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(url),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn url<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    let url = Url::parse(text(of)?)
        .map_err(|error| format!("URL parse error during conversion from string: {error}"))?;
    Ok(Value::Opaque(Opaque::Url(Arc::new(url))))
}

fn is_url<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(Url::parse(text(of)?).is_ok()))
}

fn scheme<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(receiver(args)?.scheme()))
}

fn host<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(receiver(args)?.host()))
}

fn hostname<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(receiver(args)?.hostname()))
}

fn port<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(receiver(args)?.port()))
}

fn escaped_path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(receiver(args)?.escaped_path()))
}

fn query<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut map = MapValues::default();
    for (name, values) in receiver(args)?.query() {
        map.put(Value::text(name), texts(values));
    }
    Ok(Value::Map(Map::Values(Arc::new(map))))
}
