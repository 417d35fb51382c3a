//! Which web pages may talk to the server from a browser.

use crate::watch::websocket;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use regex_lite::Regex;
use std::fmt;

/// The characters that make an entry an expression rather than an origin; dots are in both.
const EXPRESSION_MARKS: [char; 12] = ['^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '|', '\\'];

/// The origins that are allowed, each given exactly or as a regular expression.
///
/// ```
/// use keepwatch_endpoints::origins::AllowedOrigins;
///
/// let allowed = AllowedOrigins::parse(["https://app.example", "//localhost(:[0-9]+)?$"])?;
/// assert!(allowed.allows("https://app.example"));
/// assert!(allowed.allows("http://localhost:3000"));
/// assert!(!allowed.allows("https://app.example.org"));
/// # Ok::<_, keepwatch_endpoints::origins::InvalidOrigin>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins(Vec<Origin>);

#[derive(Clone, Debug)]
enum Origin {
    Exact(String),
    Matching(Regex),
}

/// An entry that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOrigin(String);

impl fmt::Display for InvalidOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidOrigin {}

impl AllowedOrigins {
    /// The origins of these entries. An expression has to say where the host begins, with `^` or `//`, and where it
    /// ends, with `$` or `:`, or it would allow hosts that only contain what was meant.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<AllowedOrigins, InvalidOrigin> {
        entries.into_iter().map(Origin::parse).collect::<Result<_, _>>().map(AllowedOrigins)
    }

    /// Whether pages from this origin may.
    pub fn allows(&self, origin: &str) -> bool {
        self.0.iter().any(|allowed| match allowed {
            Origin::Exact(exact) => exact.eq_ignore_ascii_case(origin),
            Origin::Matching(expression) => expression.is_match(origin),
        })
    }

    /// Whether none is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Origin {
    fn parse(entry: &str) -> Result<Origin, InvalidOrigin> {
        let is_origin =
            entry.split_once("://").is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
        if is_origin && !entry.contains(EXPRESSION_MARKS) {
            return Ok(Origin::Exact(entry.trim_end_matches('/').to_owned()));
        }
        let expression = Regex::new(entry)
            .map_err(|error| InvalidOrigin(format!("{entry:?} is not a regular expression: {error}")))?;
        let host = entry.replace("://", "//");
        if !(entry.contains('^') || entry.contains("//")) || !(host.contains('$') || host.contains(':')) {
            let text = format!("{entry:?} does not say where the host begins (^ or //) and ends ($ or :)");
            return Err(InvalidOrigin(text));
        }
        Ok(Origin::Matching(expression))
    }
}

pub(crate) const FOREIGN_ORIGIN: &str = "a client certificate does not count for a page of another origin, unless \
                              --cors-allowed-origins allows it";

/// Whether a page of a foreign origin could do harm with this request: writes take effect although the page does not see
/// the answer, and the answers of WebSockets are visible to every page.
pub(crate) fn is_dangerous(method: &Method, headers: &HeaderMap) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || websocket::is_upgrade(headers)
}

/// Whether a browser says that the request comes from a page of another origin that is not allowed.
pub(crate) fn is_cross_origin(headers: &HeaderMap, uri: &Uri, allowed: &AllowedOrigins) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else {
        return text(HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
    };
    let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| text(header::HOST));
    let is_same = origin
        .strip_prefix("https://")
        .zip(host)
        .is_some_and(|(own, host)| without_port(own).eq_ignore_ascii_case(without_port(host)));
    !is_same && !allowed.allows(origin)
}

/// A host without the default port of `https`.
fn without_port(host: &str) -> &str {
    host.strip_suffix(":443").unwrap_or(host)
}

/// Adds the headers by which a browser lets a page of this origin see the answer.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
        ),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_allowed_exactly_or_by_an_expression() {
        for (entry, origin, allowed) in [
            ("https://app.example", "https://app.example", true),
            ("https://app.example/", "https://APP.example", true),
            ("https://app.example", "https://appxexample", false),
            ("https://app.example", "https://app.example.org", false),
            ("https://app.example", "http://app.example", false),
            ("http://localhost:8080", "http://localhost:8080", true),
            ("http://localhost:8080", "http://localhost:80801", false),
            (r"^https://.*\.example\.com$", "https://a.example.com", true),
            (r"^https://.*\.example\.com$", "https://a.example.com.org", false),
            ("//127.0.0.1(:|$)", "http://127.0.0.1:9000", true),
            ("^.*$", "null", true),
        ] {
            assert_eq!(AllowedOrigins::parse([entry]).unwrap().allows(origin), allowed, "{entry} {origin}");
        }
        assert!(!AllowedOrigins::default().allows("https://app.example"));
    }

    #[test]
    fn an_expression_that_allows_more_than_was_meant_is_refused() {
        for (entry, message) in [
            ("*", "\"*\" is not a regular expression: "),
            ("example.com", "\"example.com\" does not say where the host begins (^ or //) and ends ($ or :)"),
            ("https://.*", "\"https://.*\" does not say where"),
            ("^https://a[.]b", "\"^https://a[.]b\" does not say where"),
            ("a$", "\"a$\" does not say where"),
            ("", "\"\" does not say where"),
        ] {
            let error = AllowedOrigins::parse(["https://a", entry]).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
