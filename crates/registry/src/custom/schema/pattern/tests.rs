use proptest::prelude::*;

use super::{compile, translate::translate};

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_is_refused(text in r"[-a-z0-9\\\[\](){}|*+?.^$:<>P,QEpdwx&~\pL]{0,24}") {
        if compile(&text).is_ok() {
            prop_assert!(translate(&text).is_ok());
        }
    }

    /// The library may still refuse an unknown script, or a pattern that is too large. This text has neither.
    #[test]
    fn what_is_translated_is_a_pattern(text in r"[-a-z0-9\[\](){}|*+?.^$]{0,16}") {
        let refused = compile(&text).err().unwrap_or_default();
        prop_assert!(translate(&text).is_err() || refused.is_empty(), "{text}: {refused}");
    }
}

/// The expected results are those of Go's `regexp`.
#[test]
fn patterns_mean_what_they_mean_in_go() {
    for (pattern, matching, other) in [
        (r"^\d+$", "12", "١٢"),
        (r"^[\d.]+$", "1.2", "٣"),
        (r"^\w$", "a", "é"),
        (r"^[^\w]$", "é", "a"),
        (r"^[[a]+$", "[a", "b"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^a{2,3}?$", "aa", "a"),
        (r"^\Qa.b\E$", "a.b", "acb"),
        (r"^\<x\>$", "<x>", "x"),
        (r"(?i)^K$", "k", "j"),
        (r"^[]-a]$", "^", "b"),
        (r"^\x41\x{42}\103$", "ABC", "abc"),
        (r"^\p{Lu}\pL\P{L}$", "Aa1", "aaa"),
        (r"^(?P<n>a)(?<m>b)$", "ab", "ba"),
        (r"^[[:alpha:]]$", "a", "1"),
        (r"^a.b$", "a-b", "a\nb"),
        (r"(?s)^a.b$", "a\nb", "ab"),
        (r"^\bé", "", "é"),
    ] {
        let compiled = compile(pattern).unwrap();
        assert!(matching.is_empty() || compiled.is_match(matching), "{pattern} should match {matching}");
        assert!(!compiled.is_match(other), "{pattern} should not match {other}");
    }
}

#[test]
fn what_is_no_pattern_is_refused_in_the_words_of_go() {
    for (pattern, why) in [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("x[", "missing closing ]: `[`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(a{500}){3}", "invalid repeat count: `{3}`"),
        ("(?:(x{10})+y{2}){101}", "invalid repeat count: `{101}`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
    ] {
        assert_eq!(compile(pattern).unwrap_err(), format!("error parsing regexp: {why}"), "{pattern}");
    }
}
