//! Numbers, by the rules of a library that holds them for integers of 64 bits or for floats.

use serde_json::{Number, Value};

use super::super::{
    node::{Checks, Type},
    shown,
};

/// An error of a number.
pub(super) enum Fault {
    /// The number or the limit that it is compared with does not fit its type: reported for the whole object.
    Range(String),
    /// It breaks a rule: the value to show, and the message.
    Rule(Value, String),
    /// It must be a multiple of something that it cannot be a multiple of.
    Factor(Number),
}

/// Above it, and below its negative, not every integer is a float.
const EXACT_MAX: f64 = ((1_i64 << 53) - 1) as f64;
/// The largest relative difference of a float from an integer that it counts as.
const WHOLE_WITHIN: f64 = 1e-9;

/// Whether a float is an integer, or as good as one.
pub(super) fn is_whole(float: f64) -> bool {
    if !float.is_finite() || float.abs() > EXACT_MAX {
        return false;
    }
    if float.fract() == 0.0 {
        return true;
    }
    let whole = float.trunc();
    float > 0.0 && (float - whole).abs() / (float.abs() + whole.abs()) < WHOLE_WITHIN
}

/// A float converted to an integer as in Go: the least integer if the float is out of range.
fn integer(float: f64) -> i64 {
    if float >= -(2_f64.powi(63)) && float < 2_f64.powi(63) { float as i64 } else { i64::MIN }
}

/// A number that is compared with a limit, as Go reads it.
#[derive(Clone, Copy)]
enum Read {
    Integer(i64),
    Float(f64),
}

impl Read {
    fn new(number: &Number) -> Read {
        match number.as_i64() {
            Some(integer) => Read::Integer(integer),
            None => Read::Float(number.as_f64().unwrap_or_default()),
        }
    }

    fn float(self) -> f64 {
        match self {
            Read::Integer(integer) => integer as f64,
            Read::Float(float) => float,
        }
    }

    /// Whether it fits the type and format. A float of 32 bits may lose digits, but must be finite.
    fn has_room(self, ty: Type, format: &str) -> bool {
        let whole = match self {
            Read::Integer(integer) => Some(integer),
            Read::Float(float) if float.fract() == 0.0 && float.abs() < 2_f64.powi(63) => Some(float as i64),
            Read::Float(float) if float == -(2_f64.powi(63)) => Some(i64::MIN),
            Read::Float(_) => None,
        };
        match (ty, format) {
            (Type::Integer, "int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
            (Type::Integer, _) => whole.is_some(),
            (Type::Number, "float") => (self.float() as f32).is_finite(),
            _ => true,
        }
    }
}

/// The errors of a number by a type and its rules.
pub(super) fn faults(number: &Number, ty: Type, format: &str, checks: Option<&Checks>) -> Vec<Fault> {
    let mut asked = Asked { value: Read::new(number), ty, format, faults: Vec::new() };
    asked.room("Checked", asked.value);
    if let Some(checks) = checks {
        if let Some(factor) = checks.multiple_of {
            asked.multiple(factor);
        }
        if let Some(least) = checks.minimum {
            asked.bound("Minimum boundary", least, checks.exclusive_minimum, MINIMUM);
        }
        if let Some(most) = checks.maximum {
            asked.bound("Maximum boundary", most, checks.exclusive_maximum, MAXIMUM);
        }
    }
    asked.faults
}

/// The words for a bound, and whether it is one from below.
struct Bound {
    from_below: bool,
    inclusive: &'static str,
    exclusive: &'static str,
}

const MINIMUM: Bound =
    Bound { from_below: true, inclusive: "greater than or equal to", exclusive: "greater than" };
const MAXIMUM: Bound =
    Bound { from_below: false, inclusive: "less than or equal to", exclusive: "less than" };

struct Asked<'a> {
    value: Read,
    ty: Type,
    format: &'a str,
    faults: Vec<Fault>,
}

impl Asked<'_> {
    /// Whether the number fits; if not, reports that. `what` names it in the message.
    fn room(&mut self, what: &str, number: Read) -> bool {
        if number.has_room(self.ty, self.format) {
            return true;
        }
        let ty = if self.ty == Type::Integer { "integer" } else { "number" };
        let format = match self.format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        self.faults.push(Fault::Range(format!("{what} value must be of type {ty} {format}")));
        false
    }

    /// The value, which is a float if it was compared with one.
    fn shown(&self, as_integer: bool) -> Value {
        match self.value {
            Read::Integer(value) if as_integer => value.into(),
            value => value.float().into(),
        }
    }

    fn bound(&mut self, what: &str, bound: f64, is_exclusive: bool, words: Bound) {
        let as_integer = self.room(what, Read::Float(bound));
        let breaks = |ordering: Option<std::cmp::Ordering>| match ordering {
            Some(std::cmp::Ordering::Equal) => is_exclusive,
            Some(std::cmp::Ordering::Less) => words.from_below,
            Some(std::cmp::Ordering::Greater) => !words.from_below,
            None => false,
        };
        let (is_broken, shown) = match self.value {
            Read::Integer(value) if as_integer => {
                let bound = integer(bound);
                (breaks(Some(value.cmp(&bound))), bound.to_string())
            }
            value => (breaks(value.float().partial_cmp(&bound)), shown::float(bound)),
        };
        if is_broken {
            let relation = if is_exclusive { words.exclusive } else { words.inclusive };
            self.faults.push(Fault::Rule(self.shown(as_integer), format!("should be {relation} {shown}")));
        }
    }

    fn multiple(&mut self, factor: f64) {
        let as_integer = self.room("MultipleOf", Read::Float(factor));
        let (is_positive, is_multiple, shown, number) = match self.value {
            Read::Integer(value) if as_integer => {
                let factor = integer(factor);
                let is_multiple = factor > 0 && value % factor == 0;
                (factor > 0, is_multiple, factor.to_string(), Some(factor.into()))
            }
            value => {
                let times = if factor < 1.0 { 1.0 / factor * value.float() } else { value.float() / factor };
                (factor > 0.0, is_whole(times), shown::float(factor), Number::from_f64(factor))
            }
        };
        if !is_positive {
            self.faults.extend(number.map(Fault::Factor));
        } else if !is_multiple {
            self.faults.push(Fault::Rule(self.shown(as_integer), format!("should be a multiple of {shown}")));
        }
    }
}

/// Whether a value counts as one of those allowed: numbers are made one of the other's kind, and an integer even the text of
/// the character that has it as its code.
pub(super) fn is_same_as(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => match (Read::new(a), Read::new(b)) {
            (Read::Integer(a), Read::Integer(b)) => a == b,
            (Read::Float(a), Read::Integer(b)) => integer(a) == b,
            (a, Read::Float(b)) => a.float() == b,
        },
        (Value::Number(a), Value::String(b)) => {
            let code = a.as_i64().map(|code| u32::try_from(code).ok().and_then(char::from_u32));
            code.is_some_and(|c| b.chars().eq([c.unwrap_or('\u{fffd}')]))
        }
        (a, b) => a == b,
    }
}
