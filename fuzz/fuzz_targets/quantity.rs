//! Any text is a quantity or an error; a quantity reads back as the same amount from its text, in the same form.

#![no_main]

use keepwatch_registry::schema::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let Ok(one) = texts.0.parse::<Quantity>() else { return };
    let printed = one.to_string();
    let again: Quantity = printed.parse().expect("what is printed is a quantity");
    assert_eq!(again.to_string(), printed, "{}", texts.0);
    // Amounts in powers of 1024 are written as whole numbers, rounded up.
    let rounded = texts.0.ends_with('i') && again.units() == one.units();
    assert!(again == one || rounded, "{} is spelled {printed}", texts.0);
    assert_eq!(one.is_zero(), printed == "0");
    assert_eq!(one.is_negative(), printed.starts_with('-'));
    assert_eq!(one + Quantity::ZERO, one);
    assert!(one.rounded_to_milli().is_negative() == one.is_negative());
    let Ok(other) = texts.1.parse::<Quantity>() else { return };
    assert_eq!(one + other, other + one);
    if one <= other {
        assert!(one.millis() <= other.millis() && one.units() <= other.units());
    }
});
