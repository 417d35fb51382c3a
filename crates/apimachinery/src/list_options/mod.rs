//! The options of a list or watch request, from query parameters to a request that storage can answer.
//!
//! Three steps, in the order in which a server answers their errors: [`ListOptions::from_query`] reads
//! parameters (400), [`ListOptions::check`] refuses combinations without a meaning (422), and
//! [`ValidListOptions::list_at`] or [`ValidListOptions::watch_start`] say which version is meant. Between
//! the last two a kind refuses fields that it does not have. Each error is the Status to answer with.

mod continue_token;

use std::num::NonZeroU64;

pub use continue_token::{ContinueAt, ContinueToken, InvalidContinueToken};

use crate::go::{self, Quoted};
use crate::meta::Qualified;
use crate::resource_version::{InvalidResourceVersion, ResourceVersion};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status};

const NOT_OLDER_THAN: &str = "NotOlderThan";
const EXACT: &str = "Exact";

/// The parameters of a list or watch request, as the client gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Whether this is a watch.
    pub watch: bool,
    /// Whether the client understands BOOKMARK events.
    pub allow_watch_bookmarks: bool,
    /// Whether a watch begins with the objects that there are; `None` if the client did not say.
    pub send_initial_events: Option<bool>,
    /// The version that is meant, as text.
    pub resource_version: String,
    /// The meaning of the version: `Exact`, `NotOlderThan` or nothing.
    pub resource_version_match: String,
    /// The continue token of a paged list, as text.
    pub continue_token: String,
    /// The number of objects of a page at most; no limit if not above zero.
    pub limit: i64,
    /// The duration of a watch.
    pub timeout_seconds: Option<i64>,
    /// The labels of the objects.
    pub label_selector: LabelSelector,
    /// The values of the objects' fields.
    pub field_selector: FieldSelector,
}

impl ListOptions {
    /// Reads decoded query parameters. The first of a repeated parameter counts; unknown ones do not.
    pub fn from_query<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<ListOptions, Status> {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let first = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let text = |name| first(name).unwrap_or_default();
        let flag = |name| first(name).map(is_true);
        Ok(ListOptions {
            watch: flag("watch").unwrap_or(false),
            allow_watch_bookmarks: flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: flag("sendInitialEvents"),
            resource_version: text("resourceVersion").to_owned(),
            resource_version_match: text("resourceVersionMatch").to_owned(),
            continue_token: text("continue").to_owned(),
            timeout_seconds: first("timeoutSeconds").map(integer).transpose()?,
            limit: first("limit").map_or(Ok(0), integer)?,
            label_selector: LabelSelector::parse(text("labelSelector")).map_err(bad_request)?,
            field_selector: FieldSelector::parse(text("fieldSelector")).map_err(bad_request)?,
        })
    }

    /// Fills in what a watch leaves open, then refuses combinations without a meaning.
    ///
    /// The rules depend on `watch` alone: a request that watches by its path and does not set the
    /// parameter is held to the rules of a list.
    pub fn check(mut self) -> Result<ValidListOptions, Status> {
        let causes = if self.watch {
            self.default_watch();
            self.watch_faults()
        } else {
            self.list_faults()
        };
        if causes.is_empty() {
            return Ok(ValidListOptions(self));
        }
        Err(Status::invalid(Qualified::new("meta.k8s.io", "ListOptions"), "", causes))
    }

    /// A watch that names no version means: first what there is.
    fn default_watch(&mut self) {
        if self.send_initial_events.is_none()
            && self.resource_version_match.is_empty()
            && matches!(self.resource_version.as_str(), "" | "0")
        {
            self.send_initial_events = Some(true);
            self.resource_version_match = NOT_OLDER_THAN.to_owned();
        }
    }

    fn list_faults(&self) -> Vec<Cause> {
        let matching = self.resource_version_match.as_str();
        let mut causes = Vec::new();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                causes.push(forbidden_match(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            causes.extend(self.continue_fault());
            if ![EXACT, NOT_OLDER_THAN].contains(&matching) {
                causes.push(unsupported_match(matching, &[EXACT, NOT_OLDER_THAN, ""]));
            }
            if matching == EXACT && self.resource_version == "0" {
                causes.push(forbidden_match(
                    r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
                ));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        causes
    }

    fn watch_faults(&self) -> Vec<Cause> {
        let matching = self.resource_version_match.as_str();
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() && matching != NOT_OLDER_THAN {
            causes.push(forbidden_match(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                causes.push(forbidden_match(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if matching != NOT_OLDER_THAN {
                causes.push(unsupported_match(matching, &[NOT_OLDER_THAN]));
            }
            causes.extend(self.continue_fault());
        }
        causes
    }

    fn continue_fault(&self) -> Option<Cause> {
        (!self.continue_token.is_empty())
            .then(|| forbidden_match("resourceVersionMatch is forbidden when continue is provided"))
    }
}

/// Options whose combination has a meaning. Made by [`ListOptions::check`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidListOptions(ListOptions);

/// The state that a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListAt {
    /// Not older than the request.
    #[default]
    MostRecent,
    /// Any that is at hand: a cache answers without asking storage.
    Any,
    /// This version or a newer one.
    NotOlderThan(ResourceVersion),
    /// This version.
    Exact(ResourceVersion),
    /// The rest of a list that came in pages.
    Continue(ContinueToken),
}

/// The beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// With every object of the state at `position` as ADDED, then what changes after it.
    InitialEvents {
        /// The position of the state; a version means that one or a newer one.
        position: Position,
        /// Whether a BOOKMARK with the annotation [`INITIAL_EVENTS_END`](crate::watch::INITIAL_EVENTS_END)
        /// marks the end of the state.
        end_bookmark: bool,
    },
    /// With what changes after `position`.
    Changes {
        /// The position after which the changes begin; the change at a version itself is not repeated.
        position: Position,
    },
}

impl WatchStart {
    /// With the most recent state, its end not marked.
    pub const fn state() -> WatchStart {
        WatchStart::InitialEvents { position: Position::MostRecent, end_bookmark: false }
    }

    /// With what changes from now on.
    pub const fn now() -> WatchStart {
        WatchStart::Changes { position: Position::MostRecent }
    }

    /// With what changes after this version, which may lie in the future.
    pub const fn after(version: ResourceVersion) -> WatchStart {
        WatchStart::Changes { position: Position::At(version) }
    }
}

/// A point in the history of a resource, as a watch or the read of one object names it.
///
/// A position. For a state, a version means that one or a newer one; there is no reading of the past by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The revision of storage when the request comes in.
    MostRecent,
    /// The revision of the server's copy, whatever it is; that of storage if there is no copy.
    Any,
    /// A version.
    At(ResourceVersion),
}

impl ValidListOptions {
    /// The options themselves, with what [`ListOptions::check`] filled in.
    pub fn options(&self) -> &ListOptions {
        &self.0
    }

    /// The number of objects of a page at most.
    pub fn limit(&self) -> Option<NonZeroU64> {
        u64::try_from(self.0.limit).ok().and_then(NonZeroU64::new)
    }

    /// The same options over renamed fields, or the first refusal of a field.
    pub fn try_map_fields<E>(
        self,
        rename: impl FnMut(String) -> Result<String, E>,
    ) -> Result<ValidListOptions, E> {
        let field_selector = self.0.field_selector.try_map_fields(rename)?;
        Ok(ValidListOptions(ListOptions { field_selector, ..self.0 }))
    }

    /// The state that a list of a collection shows.
    pub fn list_at(&self) -> Result<ListAt, Status> {
        if self.0.continue_token.is_empty() {
            return self.versioned_list_at(self.limit().is_some());
        }
        let token = ContinueToken::decode(&self.0.continue_token)
            .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
        if !matches!(self.0.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        Ok(ListAt::Continue(token))
    }

    /// The state of a list that a field selector narrows to one object. It has no pages.
    pub fn list_one_at(&self) -> Result<ListAt, Status> {
        self.versioned_list_at(false)
    }

    /// A version without a match means "not older", but exactly that version if the list comes in pages.
    fn versioned_list_at(&self, paged: bool) -> Result<ListAt, Status> {
        let position = self
            .position()
            .map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))?;
        Ok(match (position, self.0.resource_version_match.as_str()) {
            (Position::MostRecent, _) => ListAt::MostRecent,
            (Position::Any, _) => ListAt::Any,
            (Position::At(version), EXACT) => ListAt::Exact(version),
            (Position::At(version), "") if paged => ListAt::Exact(version),
            (Position::At(version), _) => ListAt::NotOlderThan(version),
        })
    }

    /// The beginning of a watch.
    ///
    /// The watch of a request that did not set `watch` may name no version and not say whether it wants
    /// initial events; then it gets them from any state, and no bookmark behind them.
    pub fn watch_start(&self) -> Result<WatchStart, Status> {
        let position = self.position().map_err(|error| Status::unexplained(error.to_string()))?;
        Ok(match (self.0.send_initial_events, position) {
            (Some(true), position) => {
                WatchStart::InitialEvents { position, end_bookmark: self.0.allow_watch_bookmarks }
            }
            (Some(false), position) | (None, position @ Position::At(_)) => WatchStart::Changes { position },
            (None, _) => WatchStart::InitialEvents { position: Position::Any, end_bookmark: false },
        })
    }

    fn position(&self) -> Result<Position, InvalidResourceVersion> {
        if self.0.resource_version.is_empty() {
            return Ok(Position::MostRecent);
        }
        Ok(ResourceVersion::parse(&self.0.resource_version)?.map_or(Position::Any, Position::At))
    }
}

/// Whatever a client writes behind a flag sets it, unless it clearly says no.
pub fn is_true(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

/// Reads a whole number, as a parameter has it.
pub fn integer(text: &str) -> Result<i64, Status> {
    go::parse_i64(text)
        .map_err(|fault| Status::bad_request(format!("strconv.ParseInt: parsing {}: {fault}", Quoted(text))))
}

fn bad_request(error: impl std::error::Error) -> Status {
    Status::bad_request(error.to_string())
}

fn forbidden_match(detail: &str) -> Cause {
    Cause::forbidden("resourceVersionMatch", detail)
}

fn unsupported_match(value: &str, supported: &[&str]) -> Cause {
    Cause::not_supported("resourceVersionMatch", value, supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits `a=1&b` without decoding.
    fn query(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    fn checked(text: &str) -> Result<ValidListOptions, Status> {
        ListOptions::from_query(query(text))?.check()
    }

    fn list(text: &str) -> Result<ListAt, String> {
        checked(text).and_then(|options| options.list_at()).map_err(|s| format!("{} {s}", s.code))
    }

    fn watch(text: &str) -> Result<WatchStart, String> {
        checked(text).and_then(|options| options.watch_start()).map_err(|s| format!("{} {s}", s.code))
    }

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    const TOKEN_AT_1: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0";
    const TOKEN_NEWEST: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYlx1MDAwMCJ9";

    #[test]
    fn parameters_are_read_and_the_first_of_a_name_counts() {
        let options = ListOptions::from_query(query(
            "limit=5&limit=x&resourceVersion=7&resourceVersionMatch=Exact&continue=t&timeoutSeconds=-3\
             &labelSelector=a=b&fieldSelector=metadata.name=x&pretty=true&allowWatchBookmarks=1",
        ));
        let expected = ListOptions {
            limit: 5,
            resource_version: "7".to_owned(),
            resource_version_match: "Exact".to_owned(),
            continue_token: "t".to_owned(),
            timeout_seconds: Some(-3),
            label_selector: LabelSelector::parse("a=b").unwrap(),
            field_selector: FieldSelector::parse("metadata.name=x").unwrap(),
            allow_watch_bookmarks: true,
            ..ListOptions::default()
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(ListOptions::from_query([]), Ok(ListOptions::default()));
    }

    #[test]
    fn a_flag_is_set_unless_it_says_no() {
        for (text, flag) in [
            ("", None),
            ("sendInitialEvents=0", Some(false)),
            ("sendInitialEvents=false", Some(false)),
            ("sendInitialEvents=FALSE", Some(false)),
            ("sendInitialEvents=true", Some(true)),
            ("sendInitialEvents=", Some(true)),
            ("sendInitialEvents", Some(true)),
            ("sendInitialEvents=no", Some(true)),
            ("sendInitialEvents=0&sendInitialEvents=1", Some(false)),
        ] {
            let options = ListOptions::from_query(query(text)).unwrap();
            assert_eq!(options.send_initial_events, flag, "{text}");
        }
    }

    #[test]
    fn parameters_that_cannot_be_read_are_bad_requests() {
        for (text, message) in [
            ("limit=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            ("limit=", r#"strconv.ParseInt: parsing "": invalid syntax"#),
            ("timeoutSeconds=1.5", r#"strconv.ParseInt: parsing "1.5": invalid syntax"#),
            (
                "limit=9223372036854775808",
                r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#,
            ),
            ("limit=x&resourceVersionMatch=foo", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            (
                "resourceVersionMatch=Exact&labelSelector=x==a==b",
                "found '==', expected: ',' or 'end of string'",
            ),
            (
                "fieldSelector=metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
        ] {
            assert_eq!(checked(text), Err(Status::bad_request(message)), "{text}");
        }
    }

    #[test]
    fn a_limit_that_is_not_above_zero_is_none() {
        for (text, limit) in
            [("", None), ("limit=0", None), ("limit=-1", None), ("limit=5", NonZeroU64::new(5))]
        {
            assert_eq!(checked(text).unwrap().limit(), limit, "{text}");
        }
    }

    #[test]
    fn a_list_asks_for_one_state() {
        let token = |text| ListAt::Continue(ContinueToken::decode(text).unwrap());
        for (text, at) in [
            ("".to_owned(), ListAt::MostRecent),
            ("limit=5".to_owned(), ListAt::MostRecent),
            ("allowWatchBookmarks=true".to_owned(), ListAt::MostRecent),
            ("resourceVersion=0".to_owned(), ListAt::Any),
            ("resourceVersion=0&limit=5".to_owned(), ListAt::Any),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), ListAt::Any),
            ("resourceVersion=7".to_owned(), ListAt::NotOlderThan(version(7))),
            ("resourceVersion=7&limit=-1".to_owned(), ListAt::NotOlderThan(version(7))),
            ("resourceVersion=7&limit=5".to_owned(), ListAt::Exact(version(7))),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5".to_owned(),
                ListAt::NotOlderThan(version(7)),
            ),
            ("resourceVersion=7&resourceVersionMatch=Exact".to_owned(), ListAt::Exact(version(7))),
            (format!("continue={TOKEN_AT_1}"), token(TOKEN_AT_1)),
            (format!("continue={TOKEN_AT_1}&resourceVersion=0&limit=1"), token(TOKEN_AT_1)),
            (format!("continue={TOKEN_NEWEST}"), token(TOKEN_NEWEST)),
        ] {
            assert_eq!(list(&text), Ok(at), "{text}");
        }
    }

    #[test]
    fn a_list_of_one_object_has_no_pages() {
        for (text, at) in [
            ("resourceVersion=7&limit=5", ListAt::NotOlderThan(version(7))),
            ("continue=garbage", ListAt::MostRecent),
            ("resourceVersion=7&resourceVersionMatch=Exact", ListAt::Exact(version(7))),
        ] {
            assert_eq!(checked(text).unwrap().list_one_at(), Ok(at), "{text}");
        }
    }

    /// Recorded from a v1.36 server; `INVALID` stands for the beginning of every 422.
    #[test]
    fn a_list_without_a_meaning_is_refused_with_the_known_texts() {
        for (text, message) in [
            (
                "resourceVersionMatch=Exact",
                "INVALID resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                r#"INVALID resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
            ),
            (
                "resourceVersion=5&resourceVersionMatch=foo",
                r#"INVALID resourceVersionMatch: Unsupported value: "foo": supported values: "Exact", "NotOlderThan", """#,
            ),
            (
                "resourceVersionMatch=foo",
                r#"INVALID [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Unsupported value: "foo": supported values: "Exact", "NotOlderThan", ""]"#,
            ),
            (
                "sendInitialEvents=true",
                "INVALID sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=Exact",
                "INVALID [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]",
            ),
            (
                "resourceVersionMatch=Exact&continue=bad!",
                "INVALID [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]",
            ),
            (
                "continue=t&resourceVersion=5&resourceVersionMatch=Exact",
                "INVALID resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "resourceVersion=abc",
                r#"400 invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
            ),
            (
                "resourceVersion=-5",
                r#"400 invalid resource version: resourceVersion: Invalid value: "-5": strconv.ParseUint: parsing "-5": invalid syntax"#,
            ),
            (
                &format!("continue={TOKEN_AT_1}&resourceVersion=5"),
                "400 specifying resource version is not allowed when using continue",
            ),
            (
                "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi94In0",
                "400 invalid continue token: continue key is not valid: ../x",
            ),
        ] {
            let message = message.replace("INVALID", r#"422 ListOptions.meta.k8s.io "" is invalid:"#);
            assert_eq!(list(text), Err(message), "{text}");
        }
    }

    #[test]
    fn a_watch_starts_where_its_options_say() {
        let state = |position, end_bookmark| WatchStart::InitialEvents { position, end_bookmark };
        let changes = |position| WatchStart::Changes { position };
        let at_7 = Position::At(version(7));
        for (text, start) in [
            ("watch=1", state(Position::MostRecent, false)),
            ("watch=1&allowWatchBookmarks=1", state(Position::MostRecent, true)),
            ("watch=1&resourceVersion=0", state(Position::Any, false)),
            ("watch=1&resourceVersion=0&allowWatchBookmarks=1", state(Position::Any, true)),
            ("watch=1&resourceVersion=7", changes(at_7)),
            ("watch=1&resourceVersion=7&continue=x&limit=1", changes(at_7)),
            (
                "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan",
                state(Position::MostRecent, false),
            ),
            (
                "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=7&allowWatchBookmarks=1",
                state(at_7, true),
            ),
            ("watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan", changes(Position::MostRecent)),
            (
                "watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan&resourceVersion=0",
                changes(Position::Any),
            ),
            (
                "watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan&resourceVersion=7",
                changes(at_7),
            ),
            // The deprecated /watch/ path.
            ("allowWatchBookmarks=1", state(Position::Any, false)),
            ("resourceVersion=0", state(Position::Any, false)),
            ("resourceVersion=7", changes(at_7)),
        ] {
            assert_eq!(watch(text), Ok(start), "{text}");
        }
    }

    #[test]
    fn the_short_words_for_starts_are_those_of_requests() {
        for (text, start) in [
            ("watch=1", WatchStart::state()),
            ("watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan", WatchStart::now()),
            ("watch=1&resourceVersion=7", WatchStart::after(version(7))),
        ] {
            assert_eq!(watch(text), Ok(start), "{text}");
        }
        assert_eq!(list(""), Ok(ListAt::default()));
    }

    /// Recorded from a v1.36 server; `INVALID` stands for the beginning of every 422.
    #[test]
    fn a_watch_without_a_meaning_is_refused_with_the_known_texts() {
        for (text, message) in [
            (
                "watch=1&sendInitialEvents=1",
                "INVALID resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "watch=1&sendInitialEvents=1&resourceVersionMatch=Exact",
                r#"INVALID [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]"#,
            ),
            (
                "watch=1&resourceVersion=5&resourceVersionMatch=NotOlderThan",
                "INVALID resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (
                "watch=1&resourceVersion=5&resourceVersionMatch=Exact",
                r#"INVALID [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]"#,
            ),
            (
                "watch=1&continue=x",
                "INVALID resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            // The deprecated /watch/ path.
            (
                "sendInitialEvents=true",
                "INVALID sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&resourceVersion=abc",
                r#"500 resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
            ),
        ] {
            let message = message.replace("INVALID", r#"422 ListOptions.meta.k8s.io "" is invalid:"#);
            assert_eq!(watch(text), Err(message), "{text}");
        }
        let unreadable = checked("watch=1&resourceVersion=abc").unwrap().watch_start().unwrap_err();
        assert_eq!(unreadable.reason, None);
    }

    #[test]
    fn each_fault_of_invalid_options_is_a_cause() {
        let status = checked("resourceVersionMatch=foo").unwrap_err();
        let details = status.details.unwrap();
        assert_eq!([&*details.group, &*details.kind], ["meta.k8s.io", "ListOptions"]);
        let causes: Vec<_> = details.causes.iter().map(|cause| (&*cause.reason, &*cause.field)).collect();
        let field = "resourceVersionMatch";
        assert_eq!(causes, [("FieldValueForbidden", field), ("FieldValueNotSupported", field)]);
    }

    #[test]
    fn fields_can_be_renamed_after_the_check() {
        let options = checked("fieldSelector=spec.host=a").unwrap();
        let renamed = options.try_map_fields(|_| Ok::<_, ()>("spec.nodeName".to_owned())).unwrap();
        assert_eq!(renamed.options().field_selector.to_string(), "spec.nodeName=a");
    }
}
