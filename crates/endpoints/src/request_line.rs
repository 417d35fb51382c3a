//! The requests of an HTTP/1 connection, in a form that the HTTP library takes.
//!
//! Go takes request targets that the library refuses, such as `/api/v1/pods?labelSelector=a>1`. So the bytes that it does
//! not take are percent-encoded on their way to it.
//!
//! Kept true: only targets are changed, and they mean the same. Whatever else comes is passed on as it is; after a
//! request whose end is not plain to see (a chunked body, another protocol), all that follows is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest size of the header lines that are examined; those that matter are short.
const HEADER_BYTES_MAX: usize = 64;

/// A stream whose requests are read in that form.
pub(crate) struct RequestLines<S> {
    stream: S,
    at: At,
    /// Bytes that were read and changed, and that the reader had no room for.
    pending: Vec<u8>,
}

/// Where in a request the next byte belongs.
enum At {
    Method,
    Target,
    Version,
    /// A header line, of whose beginning this was read before.
    Header {
        line: Vec<u8>,
        body_bytes: u64,
    },
    Body {
        left: u64,
    },
    /// Beyond what is followed.
    Anywhere,
}

impl<S> RequestLines<S> {
    pub(crate) fn new(stream: S) -> RequestLines<S> {
        RequestLines { stream, at: At::Method, pending: Vec::new() }
    }
}

impl At {
    /// Follows these bytes. Returns them in another form if they need one.
    fn follow(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut changed: Option<Vec<u8>> = None;
        let mut at = 0;
        while let [byte, ..] = bytes[at..] {
            if matches!(self, At::Target) && is_encoded(byte) {
                let changed = changed.get_or_insert_with(|| bytes[..at].to_vec());
                changed.extend_from_slice(format!("%{byte:02X}").as_bytes());
                at += 1;
                continue;
            }
            let passed = self.pass(&bytes[at..]);
            if let Some(changed) = &mut changed {
                changed.extend_from_slice(&bytes[at..at + passed]);
            }
            at += passed;
        }
        changed
    }

    /// Follows the first of these bytes, which stay as they are. Returns how many: at least one.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let (next, end) = match self {
            At::Anywhere => return bytes.len(),
            At::Body { left } => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= here as u64;
                if *left == 0 {
                    *self = At::Method;
                }
                return here;
            }
            At::Method => {
                // Nothing that begins with anything else is a request with a target.
                let end = bytes.iter().position(|byte| !matches!(byte, b'A'..=b'Z' | b'\r' | b'\n'));
                let Some(end) = end else { return bytes.len() };
                (if bytes[end] == b' ' { At::Target } else { At::Anywhere }, end)
            }
            At::Target => {
                let end = bytes.iter().position(|byte| is_encoded(*byte) || b" \r\n".contains(byte));
                match end.map(|end| (end, bytes[end])) {
                    None => return bytes.len(),
                    Some((end, b' ')) => (At::Version, end),
                    Some((end, b'\r' | b'\n')) => (At::Anywhere, end),
                    Some((end, _)) => return end,
                }
            }
            At::Version => {
                let Some(end) = memchr::memchr(b'\n', bytes) else { return bytes.len() };
                (At::Header { line: Vec::new(), body_bytes: 0 }, end)
            }
            At::Header { line, body_bytes } => {
                let end = memchr::memchr(b'\n', bytes);
                let here = &bytes[..end.unwrap_or(bytes.len())];
                if end.is_none() || !line.is_empty() {
                    line.extend(here.iter().take(HEADER_BYTES_MAX - line.len()));
                }
                // One that says how long the body is, and is not seen whole, would be taken for another length.
                if line.len() == HEADER_BYTES_MAX && says_length(line) {
                    *self = At::Anywhere;
                    return bytes.len();
                }
                let Some(end) = end else { return bytes.len() };
                let line = if line.is_empty() { here } else { line };
                (after_header(line, *body_bytes), end)
            }
        };
        *self = next;
        end + 1
    }
}

/// Whether a header line begins as the one that has the length of the body.
fn says_length(line: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length";
    line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// Where the next byte belongs after a header line.
fn after_header(line: &[u8], body_bytes: u64) -> At {
    let line = line.trim_ascii();
    if line.is_empty() {
        return if body_bytes == 0 { At::Method } else { At::Body { left: body_bytes } };
    }
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if is("transfer-encoding") || is("upgrade") || is("expect") {
        return At::Anywhere;
    }
    if !is("content-length") {
        return At::Header { line: Vec::new(), body_bytes };
    }
    let digits = std::str::from_utf8(value.trim_ascii()).ok().filter(|text| !text.starts_with('+'));
    match digits.and_then(|text| text.parse().ok()) {
        Some(length) if body_bytes == 0 => At::Header { line: Vec::new(), body_bytes: length },
        _ => At::Anywhere,
    }
}

/// Whether a byte of a target is one that Go takes and the library does not take as it is.
fn is_encoded(byte: u8) -> bool {
    byte >= 0x80 || b"\"#<>\\^`{|}".contains(&byte)
}

impl<S: AsyncRead + Unpin> AsyncRead for RequestLines<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pending.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            match this.at.follow(&buffer.filled()[before..]) {
                None => return Poll::Ready(Ok(())),
                Some(changed) => {
                    buffer.set_filled(before);
                    this.pending = changed;
                }
            }
        }
        let now = this.pending.len().min(buffer.remaining());
        buffer.put_slice(&this.pending[..now]);
        this.pending.drain(..now);
        if this.pending.is_empty() {
            this.pending = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RequestLines<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// Compares what the library reads when these bytes arrive, split at any position.
    async fn check(sent: &str, read: &str) {
        for split in 0..sent.len() {
            let (first, second) = sent.as_bytes().split_at(split);
            let mut lines = RequestLines::new(first.chain(second));
            let mut all = Vec::new();
            let mut piece = [0; 7];
            loop {
                match lines.read(&mut piece).await.unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&piece[..count]),
                }
            }
            assert_eq!(String::from_utf8_lossy(&all), read, "split at {split}");
        }
    }

    #[tokio::test]
    async fn targets_are_encoded_and_nothing_else_is() {
        let plain = "GET /a?b=%3E HTTP/1.1\r\nHost: <x>\r\n\r\n";
        check(plain, plain).await;
        check(
            "GET /<a>?b=c>\"1|é HTTP/1.1\r\nHost: <x>\r\n\r\n",
            "GET /%3Ca%3E?b=c%3E%221%7C%C3%A9 HTTP/1.1\r\nHost: <x>\r\n\r\n",
        )
        .await;
    }

    #[tokio::test]
    async fn the_request_after_a_body_is_found() {
        check(
            "POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n<>\r\nGET /<> HTTP/1.1\r\n\r\nGET /> HTTP/1.1\r\n\r\n",
            "POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n<>\r\nGET /%3C%3E HTTP/1.1\r\n\r\nGET /%3E HTTP/1.1\r\n\r\n",
        )
        .await;
    }

    #[tokio::test]
    async fn bytes_after_a_body_of_unknown_length_are_left_alone() {
        for header in [
            "Transfer-Encoding: chunked",
            "upgrade: websocket",
            "Content-Length: x",
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: +1",
        ] {
            let sent = format!("POST /a HTTP/1.1\r\n{header}\r\n\r\nGET /<> HTTP/1.1\r\n\r\n");
            check(&sent, &sent).await;
        }
        let sent = "GET /a\r\nGET /<> HTTP/1.1\r\n\r\n";
        check(sent, sent).await;
    }

    /// Whatever the line looks like, the body behind it is not taken for a request.
    #[tokio::test]
    async fn a_length_with_many_digits_counts_whole_or_not_at_all() {
        let body = "GET /<> HTTP/1.1\r\n\r\n";
        let sent = format!("POST /a HTTP/1.1\r\nContent-Length: {:0>70}\r\n\r\n{body}", body.len());
        check(&sent, &sent).await;
    }
}
