//! Any query is options or an error; options are the same when encoded and decoded again, and no client waits longer
//! than the server allows.

#![no_main]

use form_urlencoded::Serializer;
use keepwatch_apimachinery::list_options::{ListAt, ListOptions, WatchStart};
use keepwatch_endpoints::query::Query;
use keepwatch_registry::options::{DeleteOptions, WriteOptions, Writing};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

const NAMES: [&str; 18] = [
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "resourceVersion",
    "resourceVersionMatch",
    "continue",
    "limit",
    "timeoutSeconds",
    "labelSelector",
    "fieldSelector",
    "timeout",
    "pretty",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
];

fn check(text: &str) {
    let query = Query::parse(text);
    let pairs = query.pairs();
    let again = Serializer::new(String::new()).extend_pairs(&pairs).finish();
    assert_eq!(Query::parse(&again).pairs(), pairs);

    let max = Duration::from_secs(60);
    if let Ok(timeout) = query.timeout(max) {
        assert!(timeout <= max && !timeout.is_zero());
    }
    for writing in
        [Writing::Create, Writing::Update, Writing::Patch { apply: true }, Writing::Patch { apply: false }]
    {
        if let Ok(options) = WriteOptions::from_query(&pairs, writing) {
            assert!(options.field_manager.len() <= 128);
            assert_eq!(options.dry_run, query.first("dryRun").is_some());
        }
    }
    if let Ok(options) = DeleteOptions::read(None, &pairs) {
        assert!(options.grace_period_seconds.is_none_or(|seconds| seconds >= 0));
    }
    let Ok(options) = ListOptions::from_query(pairs) else { return };
    let said = text_of(&options);
    assert_eq!(ListOptions::from_query(Query::parse(&said).pairs()).as_ref(), Ok(&options), "{said}");
    let Ok(valid) = options.check() else { return };
    assert_eq!(valid.options().clone().check().as_ref(), Ok(&valid), "what is checked stays so");
    if let Ok(ListAt::Continue(token)) = valid.list_at() {
        assert!(token.start_key("/registry/pods/").starts_with("/registry/pods/"));
    }
    if let (Ok(WatchStart::InitialEvents { end_bookmark: true, .. }), false) =
        (valid.watch_start(), valid.options().allow_watch_bookmarks)
    {
        panic!("a bookmark for a client that does not know them");
    }
}

/// Options as a client writes them.
fn text_of(options: &ListOptions) -> String {
    let mut out = Serializer::new(String::new());
    out.append_pair("watch", &options.watch.to_string())
        .append_pair("allowWatchBookmarks", &options.allow_watch_bookmarks.to_string())
        .append_pair("resourceVersion", &options.resource_version)
        .append_pair("resourceVersionMatch", &options.resource_version_match)
        .append_pair("continue", &options.continue_token)
        .append_pair("limit", &options.limit.to_string())
        .append_pair("labelSelector", &options.label_selector.to_string())
        .append_pair("fieldSelector", &options.field_selector.to_string());
    if let Some(wanted) = options.send_initial_events {
        out.append_pair("sendInitialEvents", &wanted.to_string());
    }
    if let Some(seconds) = options.timeout_seconds {
        out.append_pair("timeoutSeconds", &seconds.to_string());
    }
    out.finish()
}

// The same bytes as a query, and as the values of known parameters.
fuzz_target!(|input: (&str, Vec<(u8, &str)>)| {
    let (text, values) = input;
    check(text);
    let named = values.iter().map(|(name, value)| (NAMES[usize::from(*name) % NAMES.len()], *value));
    check(&Serializer::new(String::new()).extend_pairs(named).finish());
});
