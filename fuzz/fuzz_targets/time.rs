//! Any text is a time or an error; a time reads back from both of its forms, and has an age.

#![no_main]

use keepwatch_registry::{
    schema::{Timestamp, micro_time, parse_time, time},
    table::{age, duration},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, i64)| {
    let (one, other, seconds) = input;
    assert!(!duration(seconds).is_empty());
    let Some(at) = parse_time(one) else { return };
    let (whole, micro) = (time(at), micro_time(at));
    let floor = parse_time(&whole).unwrap_or_else(|| panic!("{one} is spelled {whole}"));
    let close = parse_time(&micro).unwrap_or_else(|| panic!("{one} is spelled {micro}"));
    assert_eq!((time(floor), micro_time(close)), (whole.clone(), micro.clone()), "{one}");
    assert_eq!((whole.len(), micro.len()), (20, 27), "{one}");
    assert!(close.duration_until(at).as_micros() == 0 && floor.duration_until(at).as_secs() == 0, "{one}");
    assert!(!age(Some(at), Timestamp::now()).is_empty());
    if let Some(later) = parse_time(other).filter(|other| *other >= at) {
        assert!(time(later) >= whole && micro_time(later) >= micro, "{one} {other}");
    }
});
