//! Fields of timestamps, and the units of durations.

use super::{ONE, define, leaf};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::Value;
use leaf::timestamp::Field;

const OF_TIMESTAMP: &[(&str, CostRule)] = &[("timestamp.() -> int", ONE), ("timestamp.(string) -> int", ONE)];
const OF_BOTH: &[(&str, CostRule)] =
    &[("timestamp.() -> int", ONE), ("timestamp.(string) -> int", ONE), ("duration.() -> int", ONE)];

pub(super) const FUNCTIONS: &[Definition] = &[
    define("getFullYear", full_year, OF_TIMESTAMP),
    define("getMonth", month, OF_TIMESTAMP),
    define("getDayOfYear", day_of_year, OF_TIMESTAMP),
    define("getDayOfMonth", day_of_month, OF_TIMESTAMP),
    define("getDate", date, OF_TIMESTAMP),
    define("getDayOfWeek", day_of_week, OF_TIMESTAMP),
    define("getHours", hours, OF_BOTH),
    define("getMinutes", minutes, OF_BOTH),
    define("getSeconds", seconds, OF_BOTH),
    define("getMilliseconds", milliseconds, OF_BOTH),
];

fn field<'a>(args: &[Value<'a>], field: Field) -> Outcome<'a> {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(leaf::timestamp::field(*time, field))),
        [Value::Timestamp(time), Value::String(zone)] => {
            Ok(Value::Int(leaf::timestamp::field_in_zone(*time, field, zone)?))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn field_or_unit<'a>(args: &[Value<'a>], of_time: Field, unit: fn(i64) -> i64) -> Outcome<'a> {
    match args {
        [Value::Duration(span)] => Ok(Value::Int(unit(span.nanos))),
        _ => field(args, of_time),
    }
}

fn full_year<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::FullYear)
}

fn month<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::Month)
}

fn day_of_year<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::DayOfYear)
}

fn day_of_month<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::DayOfMonth)
}

fn date<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::Date)
}

fn day_of_week<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field(args, Field::DayOfWeek)
}

fn hours<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field_or_unit(args, Field::Hours, leaf::duration::hours)
}

fn minutes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field_or_unit(args, Field::Minutes, leaf::duration::minutes)
}

fn seconds<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field_or_unit(args, Field::Seconds, leaf::duration::seconds)
}

fn milliseconds<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    field_or_unit(args, Field::Milliseconds, leaf::duration::milliseconds)
}
