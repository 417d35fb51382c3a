//! Reads the events of a watch as cheaply as possible: clients share their machine with the server, and only the server is
//! measured.
//!
//! Kept true: every whole line is read once, in order, however it was cut into pieces on the way.

use crate::{Failure, cluster::Stream, objects::SENT};
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// The events of an open watch.
pub(crate) struct Events {
    body: Body,
    /// The received part of a line that is not complete yet.
    partial_line: Vec<u8>,
}

enum Body {
    Http(Incoming),
    Socket(Box<WebSocketStream<Box<dyn Stream>>>),
}

const BROKEN: &str = "a watch broke";

/// One event, as far as it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchEvent<'a> {
    pub(crate) event_type: EventType,
    /// The object's name.
    pub(crate) name: &'a str,
    /// Its version.
    pub(crate) version: u64,
    /// The time at which the object's last write was sent, if the object has it.
    pub(crate) sent: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    /// It was created or changed.
    Changed,
    Deleted,
    Bookmark,
    /// The watch cannot be resumed from its version.
    Expired,
}

impl Events {
    pub(crate) fn of_body(body: Incoming) -> Self {
        Events { body: Body::Http(body), partial_line: Vec::new() }
    }

    pub(crate) fn of_socket(socket: WebSocketStream<Box<dyn Stream>>) -> Self {
        Events { body: Body::Socket(Box::new(socket)), partial_line: Vec::new() }
    }

    /// Waits for the next chunk and calls `deliver` with every event that it completes. Returns the number of received bytes; 0 at the
    /// end.
    pub(crate) async fn read(&mut self, mut deliver: impl FnMut(WatchEvent<'_>)) -> Result<usize, Failure> {
        let Some(piece) = self.piece().await? else { return Ok(0) };
        let mut rest = &*piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            if self.partial_line.is_empty() {
                deliver(parse(line)?);
            } else {
                self.partial_line.extend_from_slice(line);
                deliver(parse(&self.partial_line)?);
                self.partial_line.clear();
            }
            rest = &after[1..];
        }
        self.partial_line.extend_from_slice(rest);
        Ok(piece.len())
    }

    /// Every message of a WebSocket is a line.
    async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match &mut self.body {
                Body::Http(body) => match body.frame().await {
                    None => return Ok(None),
                    Some(frame) => match frame.map_err(Failure::at(BROKEN))?.into_data() {
                        Ok(data) if !data.is_empty() => return Ok(Some(data)),
                        _ => {}
                    },
                },
                Body::Socket(socket) => match socket.next().await {
                    None | Some(Ok(Message::Close(_))) => return Ok(None),
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                        let mut line = message.into_data().to_vec();
                        if !line.ends_with(b"\n") {
                            line.push(b'\n');
                        }
                        return Ok(Some(line.into()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(Failure::at(BROKEN)(error)),
                },
            }
        }
    }
}

fn parse(line: &[u8]) -> Result<WatchEvent<'_>, Failure> {
    let unexpected =
        || Failure::new(format!("a watch says {:?}", String::from_utf8_lossy(&line[..line.len().min(200)])));
    let event_type = match text_after(line, br#"{"type":""#).ok_or_else(unexpected)? {
        "ADDED" | "MODIFIED" => EventType::Changed,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" if memchr::memmem::find(line, br#""code":410"#).is_some() => {
            return Ok(WatchEvent { event_type: EventType::Expired, name: "", version: 0, sent: None });
        }
        _ => return Err(unexpected()),
    };
    let name = text_after(line, br#""name":""#).unwrap_or_default();
    let version = version_in(line).ok_or_else(unexpected)?;
    let sent = text_after(line, SENT).and_then(|sent| sent.parse().ok());
    Ok(WatchEvent { event_type, name, version, sent })
}

/// The first resourceVersion in a JSON text: that of the object or of the list.
pub(crate) fn version_in(json: &[u8]) -> Option<u64> {
    text_after(json, br#""resourceVersion":""#)?.parse().ok()
}

/// The text behind `name` up to the next quote.
pub(crate) fn text_after<'a>(json: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let from = memchr::memmem::find(json, name)? + name.len();
    let length = memchr::memchr(b'"', &json[from..])?;
    std::str::from_utf8(&json[from..from + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str, rest: &str) -> String {
        format!(
            r#"{{"type":"{event}","object":{{"kind":"ConfigMap","metadata":{{"name":"a","resourceVersion":"17"{rest}}}}}}}"#
        )
    }

    #[test]
    fn the_type_the_name_the_version_and_the_time_of_an_event_are_found() {
        let sent = line("MODIFIED", r#","annotations":{"keepwatch.dev/sent":"42"}"#);
        let parsed = |line: &str| super::parse(line.as_bytes()).map(|event| format!("{event:?}"));
        assert_eq!(
            parsed(&sent),
            Ok(r#"WatchEvent { event_type: Changed, name: "a", version: 17, sent: Some(42) }"#.to_owned())
        );
        assert!(parsed(&line("DELETED", "")).unwrap().contains("Deleted"));
        assert!(parsed(&line("BOOKMARK", "")).unwrap().contains("Bookmark"));
        assert!(
            parsed(r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#).unwrap().contains("Expired")
        );
    }

    #[test]
    fn unknown_lines_are_quoted_in_the_error() {
        for line in
            [r#"{"type":"ERROR","object":{"kind":"Status","code":500}}"#, "", "x", r#"{"type":"ADDED"}"#]
        {
            let failure = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(failure.starts_with("a watch says"), "{failure}");
        }
    }
}
