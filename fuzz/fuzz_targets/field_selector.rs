//! Any text is a field selector or an error, and a selector reads back from what it prints.

#![no_main]

use keepwatch_apimachinery::selector::FieldSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = FieldSelector::parse(text) {
        let printed = selector.to_string();
        assert_eq!(FieldSelector::parse(&printed).expect("a printed selector is one"), selector, "{printed}");
        selector.matches(&[("metadata.name", "a")]);
    }
});
