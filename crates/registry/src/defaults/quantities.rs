//! Quantities of resources.

use crate::{
    document::{Edit, Object},
    schema::Quantity,
};

/// Rounds the quantities in these maps up to thousandths, the precision that Kubernetes keeps.
pub(crate) fn round_quantities(object: &mut Object, maps: &[&str]) {
    for name in maps {
        let Some(map) = object.object_mut(name) else { continue };
        for value in map.values_mut() {
            if let Some(rounded) = value.as_str().and_then(rounded) {
                *value = rounded.into();
            }
        }
    }
}

/// The text of a quantity rounded up to thousandths, if it is finer than that.
fn rounded(text: &str) -> Option<String> {
    // Spelled as usual, only these are.
    let may_be_finer = text.ends_with(['n', 'u']) || text.contains("e-");
    let quantity: Quantity = may_be_finer.then(|| text.parse().ok())??;
    Some(quantity.rounded_to_milli().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_finer_than_a_thousandth_are_rounded_up() {
        let mut given =
            json!({"m": {"a": "1n", "b": "1001u", "c": "5", "d": "1500e-6", "e": "1200e-3", "f": "1Gi"}});
        let rounded = json!({"m": {"a": "1m", "b": "2m", "c": "5", "d": "2e-3", "e": "1200e-3", "f": "1Gi"}});
        round_quantities(given.as_object_mut().unwrap(), &["m", "absent"]);
        assert_eq!(given, rounded);
    }
}
