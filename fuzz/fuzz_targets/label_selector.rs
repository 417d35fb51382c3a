//! Any text is a label selector or an error, and a selector reads back from what it prints.

#![no_main]

use keepwatch_apimachinery::selector::LabelSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let printed = selector.to_string();
        assert_eq!(LabelSelector::parse(&printed).expect("a printed selector is one"), selector, "{printed}");
        for requirement in selector.requirements() {
            assert!(selector.exact_match(requirement.key()).is_some() >= requirement.exact_value().is_some());
        }
        selector.matches(&[("a", "b"), ("c", "1")]);
    }
});
