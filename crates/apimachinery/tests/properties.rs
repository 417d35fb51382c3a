//! Properties of every input, checked on generated ones: nothing panics, what is printed reads back as
//! the same, and selectors agree with a second matcher that is written to be obvious.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_apimachinery::list_options::{ContinueAt, ContinueToken, ListOptions};
use keepwatch_apimachinery::meta::Peek;
use keepwatch_apimachinery::selector::{
    Comparison, FieldSelector, FieldTerm, LabelSelector, Operator, Requirement,
};
use keepwatch_apimachinery::watch::{EventType, frame};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Few keys and values, so that selectors and labels meet.
fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[abc]", Just("in".to_owned()), Just("example.com/notin".to_owned())]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[xy]?", "[0-9]{1,3}", Just("in".to_owned()), Just("99999999999999999999".to_owned())]
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(key(), value(), 0..5)
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let single = prop_oneof![Just(Operator::Equals), Just(Operator::DoubleEquals), Just(Operator::NotEquals)];
    let set = prop_oneof![Just(Operator::In), Just(Operator::NotIn)];
    let unary = prop_oneof![Just(Operator::Exists), Just(Operator::DoesNotExist)];
    let order = prop_oneof![Just(Operator::GreaterThan), Just(Operator::LessThan)];
    prop_oneof![
        (key(), single, vec(value(), 1)),
        (key(), set, vec(value(), 1..4)),
        (key(), unary, vec(value(), 0)),
        (key(), order, vec("[0-9]{1,3}", 1)),
    ]
    .prop_map(|(key, operator, values)| Requirement::new(key, operator, values).expect("legal parts"))
}

fn label_selector() -> impl Strategy<Value = LabelSelector> {
    vec(requirement(), 0..4).prop_map(LabelSelector::from_iter)
}

/// The words of the specification, one operator at a time.
fn obviously_meets(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let values: BTreeSet<&str> = requirement.values().iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().copied().and_then(number);
    let Some(value) = labels.get(requirement.key()).map(String::as_str) else {
        return [Operator::NotEquals, Operator::NotIn, Operator::DoesNotExist]
            .contains(&requirement.operator());
    };
    match requirement.operator() {
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::Equals | Operator::DoubleEquals | Operator::In => values.contains(value),
        Operator::NotEquals | Operator::NotIn => !values.contains(value),
        Operator::GreaterThan => number(value).is_some_and(|n| Some(n) > bound),
        Operator::LessThan => number(value).is_some_and(|n| Some(n) < bound),
    }
}

fn field_term() -> impl Strategy<Value = FieldTerm> {
    let comparison = prop_oneof![Just(Comparison::Equal), Just(Comparison::NotEqual)];
    ("[abc]", comparison, r"[xy,=\\!]{0,2}").prop_map(|(field, comparison, value)| FieldTerm {
        field,
        comparison,
        value,
    })
}

/// Texts of which many are nearly selectors.
fn nearly_selector() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        r"[ab/\-. \t=!<>(),\\]{0,12}",
        "([ab](=|==|!=| in | notin |<|>|,|\\(|\\)|!)){0,4}"
    ]
}

fn version() -> impl Strategy<Value = ResourceVersion> {
    (1..=i64::MAX as u64).prop_map(|number| ResourceVersion::new(number).expect("not zero"))
}

proptest! {
    #[test]
    fn a_printed_label_selector_reads_back_as_the_same(selector in label_selector()) {
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_label_selector_agrees_with_the_specification(selector in label_selector(), labels in labels()) {
        let expected = selector.requirements().iter().all(|r| obviously_meets(r, &labels));
        prop_assert_eq!(selector.matches(&labels), expected);
    }

    #[test]
    fn an_exact_match_is_necessary(selector in label_selector(), labels in labels(), key in key()) {
        if let (Some(value), true) = (selector.exact_match(&key), selector.matches(&labels)) {
            prop_assert_eq!(labels.get(&key).map(String::as_str), Some(value));
        }
    }

    #[test]
    fn any_text_is_a_label_selector_or_an_error(text in nearly_selector()) {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn a_printed_field_selector_reads_back_as_the_same(terms in vec(field_term(), 0..4)) {
        let selector = FieldSelector::from_iter(terms);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_field_selector_agrees_with_the_specification(
        terms in vec(field_term(), 0..4),
        fields in btree_map("[abc]", "[xy]{0,2}", 0..3),
    ) {
        let holds = |term: &FieldTerm| {
            let value = fields.get(&term.field).cloned().unwrap_or_default();
            match term.comparison {
                Comparison::Equal => value == term.value,
                Comparison::NotEqual => value != term.value,
            }
        };
        let expected = terms.iter().all(holds);
        prop_assert_eq!(FieldSelector::from_iter(terms).matches(&fields), expected);
    }

    #[test]
    fn any_text_is_a_field_selector_or_an_error(text in nearly_selector()) {
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn a_continue_token_reads_back_as_the_same(
        version in version(),
        newest: bool,
        name in "[a-z0-9][a-z0-9.:/-]{0,8}[a-z0-9]",
    ) {
        let at = if newest { ContinueAt::Newest } else { ContinueAt::Exact(version) };
        let key = format!("/registry/pods/{name}");
        if let Some(token) = ContinueToken::after(&key, "/registry/pods/", at) {
            prop_assert_eq!(token.start_key("/registry/pods/"), format!("{key}\0"));
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        } else {
            prop_assert!(name.split('/').any(|element| ["", ".", ".."].contains(&element)));
        }
    }

    #[test]
    fn a_forged_token_never_leaves_the_prefix(rv: i64, start in r"[a./\x00]{0,6}") {
        let json = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start});
        let text = URL_SAFE_NO_PAD.encode(json.to_string());
        if let Ok(token) = ContinueToken::decode(&text) {
            let key = token.start_key("/registry/pods/n");
            let below = key.strip_prefix("/registry/pods/n/").expect("begins with the prefix");
            prop_assert!(!below.is_empty());
            prop_assert!(below.split('/').all(|element| !["", ".", ".."].contains(&element)));
        }
    }

    #[test]
    fn any_text_is_a_continue_token_or_an_error(text: String) {
        prop_assert!(ContinueToken::decode(&text).is_err());
    }

    #[test]
    fn any_parameters_are_options_or_an_error(
        pairs in vec(
            ("(watch|resourceVersion|resourceVersionMatch|limit|continue|sendInitialEvents|labelSelector|fieldSelector)",
             "(0|1|7|true|false|Exact|NotOlderThan|a=b|.*)"),
            0..5,
        )
    ) {
        let options = ListOptions::from_query(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        if let Ok(options) = options.and_then(ListOptions::check) {
            prop_assert_eq!(options.clone().options().clone().check(), Ok(options.clone()));
            let _ = (options.list_at(), options.list_one_at(), options.watch_start());
        }
    }

    #[test]
    fn a_version_reads_back_as_the_same(number: u64, text in "[+-]?[0-9]{0,21}|.*") {
        let version = ResourceVersion::new(number);
        prop_assert_eq!(ResourceVersion::parse(&number.to_string()), Ok(version));
        let is_number = text.parse::<u64>().is_ok() && !text.starts_with('+');
        prop_assert_eq!(ResourceVersion::parse(&text).is_ok(), text.is_empty() || is_number);
    }

    #[test]
    fn an_object_in_an_event_is_the_object(labels in labels(), name: String) {
        let object = json!({"kind": "Pod", "metadata": {"name": name, "labels": labels}});
        let line = frame(EventType::Modified, object.to_string().as_bytes());
        let event: Value = serde_json::from_slice(&line).expect("JSON");
        prop_assert_eq!(event, json!({"type": "MODIFIED", "object": object}));
    }

    #[test]
    fn a_peek_returns_the_metadata_of_the_object(labels in labels(), name: String) {
        let object = json!({"metadata": {"labels": labels, "name": name}}).to_string();
        let peek = Peek::at(object.as_bytes()).expect("an object");
        let seen = peek.metadata.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        prop_assert_eq!((&*peek.metadata.name, seen.collect::<BTreeMap<_, _>>()), (name.as_str(), labels));
    }

    #[test]
    fn any_bytes_are_an_object_or_an_error(bytes in vec(any::<u8>(), 0..64)) {
        let _ = Peek::at(&bytes);
    }
}
