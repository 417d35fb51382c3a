//! Changes as JSON, one object per line, for programs. Objects are complete except for `managedFields`.

use super::{
    session::{StoredObject, Update},
    status_change::StatusChange,
    text::one_line,
};
use keepwatch_informer::Event;
use serde::Serialize;
use std::borrow::Cow;

/// The line of an update.
pub(super) fn of(update: &Update) -> String {
    let line = match update {
        Update::Event(event) => event_line(event),
        Update::StatusChange(change) => status_line(change),
    };
    without_control_characters(line) + "\n"
}

fn event_line(event: &Event<StoredObject>) -> String {
    let (kind, more) = match event {
        Event::Added { initial: true, .. } => ("ADDED", r#""initial":true,"#),
        Event::Added { .. } => ("ADDED", ""),
        Event::Updated { .. } => ("MODIFIED", ""),
        Event::Deleted { final_state_unknown: true, .. } => ("DELETED", r#""finalStateUnknown":true,"#),
        _ => ("DELETED", ""),
    };
    format!(r#"{{"type":"{kind}",{more}"object":{}}}"#, on_one_line(event.object().json()))
}

/// Joins the lines of a JSON text: line breaks occur between its values only.
fn on_one_line(json: &[u8]) -> Cow<'_, str> {
    let json = String::from_utf8_lossy(json);
    match json.contains(['\n', '\r']) {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => json,
    }
}

/// Escapes control characters, which a terminal may execute. They occur in strings only.
fn without_control_characters(json: String) -> String {
    let is_active = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    if !json.contains(is_active) {
        return json;
    }
    let escaped = |c: char| if is_active(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escaped).collect()
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusLine<'a> {
    r#type: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    /// The version before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_seconds: Option<f64>,
}

fn status_line(change: &StatusChange) -> String {
    let line = match change {
        StatusChange::Synced { count, version } => StatusLine {
            state: "synced",
            count: Some(*count),
            version: Some(version),
            ..StatusLine::default()
        },
        StatusChange::Retrying { namespace, error, .. } => StatusLine {
            state: "retrying",
            namespace: namespace.as_deref(),
            error: Some(one_line(&error.error)),
            attempt: Some(error.attempt),
            retry_seconds: error.next_delay.map(|delay| delay.as_millis() as f64 / 1000.0),
            ..StatusLine::default()
        },
        StatusChange::Resumed { namespace, version } => StatusLine {
            state: "resumed",
            namespace: namespace.as_deref(),
            version: Some(version),
            ..StatusLine::default()
        },
        StatusChange::ListedAgain { namespace, version, before } => StatusLine {
            state: "listed",
            namespace: namespace.as_deref(),
            version: Some(version),
            before: Some(before),
            ..StatusLine::default()
        },
        StatusChange::Unreadable { error } => {
            StatusLine { state: "unreadable", error: Some(one_line(error)), ..StatusLine::default() }
        }
    };
    let line = StatusLine { r#type: "STATUS", ..line };
    serde_json::to_string(&line).expect("texts and numbers can be written")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_object_stays_as_it_is_but_on_one_line() {
        let json = "{\n  \"metadata\": {\"name\": \"a\", \"x\": \"\u{9b}2J\\n\"}\r\n}";
        let event =
            Event::Added { obj: Arc::new(StoredObject::new(json.as_bytes()).unwrap()), initial: true };
        let line = of(&Update::Event(event));
        assert_eq!(
            line,
            "{\"type\":\"ADDED\",\"initial\":true,\"object\":{   \"metadata\": {\"name\": \"a\", \"x\": \"\\u009b2J\\n\"}  }}\n"
        );
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["object"]["metadata"]["x"], "\u{9b}2J\n");
    }

    #[test]
    fn status_changes_have_the_type_status() {
        let resumed = StatusChange::Resumed { namespace: None, version: "7".to_owned() };
        assert_eq!(
            of(&Update::StatusChange(resumed)),
            "{\"type\":\"STATUS\",\"state\":\"resumed\",\"version\":\"7\"}\n"
        );
        let synced = StatusChange::Synced { count: 2, version: "5".to_owned() };
        assert_eq!(
            of(&Update::StatusChange(synced)),
            "{\"type\":\"STATUS\",\"state\":\"synced\",\"version\":\"5\",\"count\":2}\n"
        );
    }
}
