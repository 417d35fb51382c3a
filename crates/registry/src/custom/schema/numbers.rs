//! Numbers as Kubernetes has them: integers of 64 bits, or floats.

use serde_json::{Number, Value};

use crate::schema::double;

/// Makes floats of integers that have no room in 64 bits with a sign.
pub(super) fn read(value: &mut Value) {
    each(value, &|number| Number::from_f64(number.as_f64().filter(|_| number.is_u64())?).map(Value::Number));
}

/// Gives the numbers in a value the form in which Kubernetes writes them: without a point if they are whole. Read again, such
/// a number is an integer. To be done to an object before it is stored, but after it was checked.
pub(crate) fn settle(value: &mut Value) {
    each(value, &|number| number.as_f64().and_then(double));
}

fn each(value: &mut Value, change: &impl Fn(&Number) -> Option<Value>) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            if let Some(changed) = change(number) {
                *value = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|value| each(value, change)),
        _ => {}
    }
}
