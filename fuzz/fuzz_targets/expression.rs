//! Any text is an expression or an error, and an expression ends within its cost limit. The estimated cost of one that
//! has a value is not lower than the cost of its evaluation.

#![no_main]

use keepwatch_cel::rules::Place;
use keepwatch_cel::schema::{Declared, Kind, ListType};
use keepwatch_cel::types::Type;
use keepwatch_fuzz::{any, custom::expression};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use serde_json::json;
use std::sync::{Arc, LazyLock};

/// The cost limit of an evaluation: as in rules, but lower, so that the fuzzer makes many of them.
const COST_MAX: u64 = 50_000;

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let list = |items| Declared {
        kind: Kind::List { items: Arc::new(items), list_type: ListType::Atomic },
        ..Declared::any()
    };
    let fields = [
        ("a", Declared::typed(Type::Int)),
        ("b", Declared::typed(Type::String)),
        ("c", Declared::any()),
        ("items", list(Declared::typed(Type::String))),
    ];
    Place::new(Arc::new(Declared::object(fields)))
});

fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let (Ok(text), Ok(is_optional)) = (expression(&mut source), source.arbitrary()) else { return };
    for compiled in [PLACE.rule(&text, is_optional), PLACE.message_expression(&text, is_optional)] {
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let odd = any(&mut source, 0).unwrap_or_default();
        for new in [json!({"a": 1, "b": "a", "c": odd, "items": ["a", "", "é"]}), odd] {
            let old = json!({"a": 0, "b": ""});
            let Ok(activation) = PLACE.activation(&new, Some(&old), is_optional) else { continue };
            let (_, cost) = compiled.program().eval(&activation, COST_MAX);
            // The last step may be what exceeded it.
            assert!(cost <= COST_MAX.saturating_mul(2) + compiled.estimate().max, "{text}: {cost}");
        }
    }
});
