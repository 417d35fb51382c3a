//! Changes as text, one per line, for people and for `grep`. Lines about the watch itself begin with `#`.

use super::{
    Subject,
    session::{StoredObject, Update},
    status_change::StatusChange,
    summary,
    text::{one_line, plain, seconds, time},
};
use keepwatch_informer::{Event, Object};

/// The line of an update.
pub(super) fn of(update: &Update, subject: &Subject) -> String {
    match update {
        Update::Event(event) => format!("{} {}\n", time(), event_text(event)),
        Update::StatusChange(change) => format!("# {}, {}\n", status_text(change, subject), time()),
    }
}

fn event_text(event: &Event<StoredObject>) -> String {
    let (word, version) = match event {
        Event::Added { initial: true, .. } => ("LISTED", "version"),
        Event::Added { .. } => ("ADDED", "version"),
        Event::Updated { .. } => ("MODIFIED", "version"),
        Event::Deleted { final_state_unknown: true, .. } => ("DELETED", "last-known-version"),
        _ => ("DELETED", "version"),
    };
    let object = event.object();
    let status = match summary::status(object) {
        status if status.is_empty() => String::new(),
        status if status.contains(char::is_whitespace) => format!(" status={:?}", plain(&status)),
        status => format!(" status={}", plain(&status)),
    };
    let (key, revision) = (object.key().to_string(), object.revision());
    format!("{word} {}{status} {version}={}", plain(&key), plain(revision))
}

fn status_text(change: &StatusChange, subject: &Subject) -> String {
    let of =
        |namespace: &Option<String>| namespace.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    match change {
        StatusChange::Synced { count, version } => {
            format!("synced {} at version {}", subject.resource.counted(*count), plain(version))
        }
        StatusChange::Retrying { namespace, error, is_synced } => {
            let what = if *is_synced { "disconnected" } else { "not connected" };
            let wait = seconds(error.next_delay.unwrap_or_default());
            let (why, attempt) = (one_line(&error.error), error.attempt);
            format!("{}{what}: {why}; retrying in {wait} (attempt {attempt})", of(namespace))
        }
        StatusChange::Resumed { namespace, version } => {
            format!("{}resumed from version {}", of(namespace), plain(version))
        }
        StatusChange::ListedAgain { namespace, version, before } => {
            let (version, before) = (plain(version), plain(before));
            format!("{}listed again at version {version}, instead of going on from {before}", of(namespace))
        }
        StatusChange::Unreadable { error } => format!("an object cannot be read: {}", one_line(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn object(json: &str) -> Arc<StoredObject> {
        Arc::new(StoredObject::new(json.as_bytes()).unwrap())
    }

    #[test]
    fn an_event_says_what_happened_to_which_object() {
        let old = object(r#"{"metadata":{"name":"web","namespace":"a","resourceVersion":"7"}}"#);
        let new = object(
            r#"{"metadata":{"name":"web","namespace":"a","resourceVersion":"8"},"status":{"phase":"Running"}}"#,
        );
        let cause = keepwatch_informer::Cause::Watch;
        for (event, expected) in [
            (Event::Added { obj: Arc::clone(&old), initial: true }, "LISTED a/web version=7"),
            (Event::Added { obj: Arc::clone(&old), initial: false }, "ADDED a/web version=7"),
            (Event::Updated { old, new: Arc::clone(&new), cause }, "MODIFIED a/web status=Running version=8"),
            (
                Event::Deleted { obj: Arc::clone(&new), final_state_unknown: false },
                "DELETED a/web status=Running version=8",
            ),
            (
                Event::Deleted { obj: new, final_state_unknown: true },
                "DELETED a/web status=Running last-known-version=8",
            ),
        ] {
            assert_eq!(event_text(&event), expected);
        }
    }

    #[test]
    fn texts_of_a_server_stay_on_their_line() {
        let json =
            r#"{"metadata":{"name":"a\nb\u001b[2J","resourceVersion":"1\r"},"status":{"phase":"a b\n\""}}"#;
        let event = Event::Added { obj: object(json), initial: false };
        assert_eq!(
            event_text(&event),
            "ADDED a\u{fffd}b\u{fffd}[2J status=\"a b\u{fffd}\\\"\" version=1\u{fffd}"
        );
    }
}
