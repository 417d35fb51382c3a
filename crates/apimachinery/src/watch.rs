//! Watch events as they travel: one JSON object on one line each.
//!
//! An object is encoded once and framed by copying: the bytes of the object in an event are those given.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The annotation, with value `"true"`, of the BOOKMARK that follows the last initial event of a watch.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The change of the object of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// It came into being, or into the selection, or was there when the watch began.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or left the selection; it is shown as it was, with the version of that change.
    Deleted,
    /// Nothing: only the object's version counts, up to which everything has been sent.
    Bookmark,
    /// The object is a Status that says why the watch ends here.
    Error,
}

impl EventType {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark => "BOOKMARK",
            EventType::Error => "ERROR",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The line of an event about `object`, which is compact JSON with or without a newline behind it.
///
/// ```
/// use keepwatch_apimachinery::watch::{EventType, frame};
///
/// let line = frame(EventType::Added, br#"{"kind":"Pod"}"#);
/// assert_eq!(line, b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n");
/// ```
pub fn frame(event: EventType, object: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(object.len() + FRAME_BYTES_MAX);
    frame_into(&mut line, event, object);
    line
}

/// Appends the line of an event, as [`frame`] makes it.
pub fn frame_into(out: &mut Vec<u8>, event: EventType, object: &[u8]) {
    frame_with(out, event, |out| out.extend_from_slice(object.strip_suffix(b"\n").unwrap_or(object)));
}

/// Appends the line of an event about the object that `write` appends.
pub fn frame_with(out: &mut Vec<u8>, event: EventType, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(event.as_str().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    write(out);
    out.extend_from_slice(b"}\n");
}

/// The number of bytes of an event besides its object, at most.
pub const FRAME_BYTES_MAX: usize = r#"{"type":"BOOKMARK","object":}"#.len() + 1;

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [EventType; 5] =
        [EventType::Added, EventType::Modified, EventType::Deleted, EventType::Bookmark, EventType::Error];

    #[test]
    fn an_event_is_one_line_around_the_bytes_of_its_object() {
        for (event, line) in TYPES.into_iter().zip([
            "{\"type\":\"ADDED\",\"object\":{ \"a\":1}}\n",
            "{\"type\":\"MODIFIED\",\"object\":{ \"a\":1}}\n",
            "{\"type\":\"DELETED\",\"object\":{ \"a\":1}}\n",
            "{\"type\":\"BOOKMARK\",\"object\":{ \"a\":1}}\n",
            "{\"type\":\"ERROR\",\"object\":{ \"a\":1}}\n",
        ]) {
            assert_eq!(frame(event, b"{ \"a\":1}"), line.as_bytes());
            assert_eq!(frame(event, b"{ \"a\":1}\n"), line.as_bytes());
            assert!(line.len() <= 8 + FRAME_BYTES_MAX);
        }
    }

    #[test]
    fn the_word_in_json_is_the_word_on_the_wire() {
        for event in TYPES {
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
            assert_eq!(serde_json::from_value::<EventType>(event.as_str().into()).unwrap(), event);
        }
    }
}
