//! IP addresses and networks.

use super::{ONE, define, leaf, text};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Opaque, Value};
use leaf::network::{Cidr, Ip};

const OF_IP: &[(&str, CostRule)] = &[("net.IP.() -> bool", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define("ip", ip, &[("(string) -> net.IP", CostRule::Parse), ("net.CIDR.() -> net.IP", ONE)])
        .ambiguous(CostRule::Parse),
    define("isIP", is_ip, &[("(string) -> bool", CostRule::Parse)]).ambiguous(CostRule::Parse),
    define("ip.isCanonical", is_canonical, &[("(string) -> bool", CostRule::ParseTwice)])
        .ambiguous(CostRule::ParseTwice),
    define("family", family, &[("net.IP.() -> int", ONE)]),
    define("isUnspecified", is_unspecified, OF_IP),
    define("isLoopback", is_loopback, OF_IP),
    define("isLinkLocalMulticast", is_link_local_multicast, OF_IP),
    define("isLinkLocalUnicast", is_link_local_unicast, OF_IP),
    define("isGlobalUnicast", is_global_unicast, OF_IP),
    define("cidr", cidr, &[("(string) -> net.CIDR", CostRule::Parse)]).ambiguous(CostRule::Parse),
    define("isCIDR", is_cidr, &[("(string) -> bool", CostRule::Parse)]).ambiguous(CostRule::Parse),
    define(
        "containsIP",
        contains_ip,
        &[
            ("net.CIDR.(string) -> bool", CostRule::ContainsIp { parses: true }),
            ("net.CIDR.(net.IP) -> bool", CostRule::ContainsIp { parses: false }),
        ],
    )
    .ambiguous(CostRule::ContainsIp { parses: false }),
    define(
        "containsCIDR",
        contains_cidr,
        &[
            ("net.CIDR.(string) -> bool", CostRule::ContainsCidr { parses: true }),
            ("net.CIDR.(net.CIDR) -> bool", CostRule::ContainsCidr { parses: false }),
        ],
    )
    .ambiguous(CostRule::ContainsCidr { parses: false }),
    define("masked", masked, &[("net.CIDR.() -> net.CIDR", ONE)]),
    define("prefixLength", prefix_length, &[("net.CIDR.() -> int", ONE)]),
];

fn ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Opaque(Opaque::Ip(match args {
        [Value::Opaque(Opaque::Cidr(cidr))] => cidr.ip(),
        [of] => Ip::parse(text(of)?)?,
        _ => return Err(Failure::NoSuchOverload),
    })))
}

fn is_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(Ip::parse(text(of)?).is_ok()))
}

fn is_canonical<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(Ip::is_canonical(text(of)?)?))
}

fn receiver_ip(args: &[Value<'_>]) -> Result<Ip, Failure> {
    match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(*ip),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn family<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(receiver_ip(args)?.family()))
}

fn is_unspecified<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver_ip(args)?.is_unspecified()))
}

fn is_loopback<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver_ip(args)?.is_loopback()))
}

fn is_link_local_multicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver_ip(args)?.is_link_local_multicast()))
}

fn is_link_local_unicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver_ip(args)?.is_link_local_unicast()))
}

fn is_global_unicast<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver_ip(args)?.is_global_unicast()))
}

fn cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Opaque(Opaque::Cidr(Cidr::parse(text(of)?)?)))
}

fn is_cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(Cidr::parse(text(of)?).is_ok()))
}

fn receiver_cidr<'v, 'a>(args: &'v [Value<'a>]) -> Result<(Cidr, &'v [Value<'a>]), Failure> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr)), rest @ ..] => Ok((*cidr, rest)),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (cidr, rest) = receiver_cidr(args)?;
    let ip = match rest {
        [Value::Opaque(Opaque::Ip(ip))] => *ip,
        // Text that is no address is answered as a wrong type is.
        [Value::String(text)] => Ip::parse(text).map_err(|_| "no such overload")?,
        _ => return Err(Failure::NoSuchOverload),
    };
    Ok(Value::Bool(cidr.contains_ip(ip)))
}

fn contains_cidr<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (cidr, rest) = receiver_cidr(args)?;
    let other = match rest {
        [Value::Opaque(Opaque::Cidr(other))] => *other,
        [Value::String(text)] => Cidr::parse(text)?,
        _ => return Err(Failure::NoSuchOverload),
    };
    Ok(Value::Bool(cidr.contains_cidr(other)))
}

fn masked<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Opaque(Opaque::Cidr(receiver_cidr(args)?.0.masked())))
}

fn prefix_length<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(receiver_cidr(args)?.0.prefix_length())))
}
