//! The place where a list that came in pages goes on.
//!
//! Kept true: a token names a key below the list's prefix and never one beside or above it, whatever a
//! client makes of it; the key is relative, so a token does not reveal where a store keeps its data.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::resource_version::ResourceVersion;

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// At which version the next page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContinueAt {
    /// At the version of the first page, so that all pages show one state.
    Exact(ResourceVersion),
    /// At the newest version: the way on when the first page's version is no longer kept.
    Newest,
}

/// The place where a list that came in pages goes on. Opaque to clients.
///
/// ```
/// use keepwatch_apimachinery::ResourceVersion;
/// use keepwatch_apimachinery::list_options::{ContinueAt, ContinueToken};
///
/// let at = ContinueAt::Exact(ResourceVersion::new(714).expect("not zero"));
/// let token = ContinueToken::after("/registry/pods/n/b", "/registry/pods/n/", at).expect("below the prefix");
/// let text = token.encode();
/// assert_eq!(text, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzE0LCJzdGFydCI6ImJcdTAwMDAifQ");
/// assert_eq!(ContinueToken::decode(&text), Ok(token.clone()));
/// assert_eq!(token.start_key("/registry/pods/n/"), "/registry/pods/n/b\0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContinueToken {
    at: ContinueAt,
    start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    /// The token for going on right behind `last_key`, the last one shown of those below `prefix`.
    ///
    /// `None` if the key is not below the prefix, or has an element that no key can have (`..`).
    pub fn after(last_key: &str, prefix: &str, at: ContinueAt) -> Option<ContinueToken> {
        let below = last_key.strip_prefix(prefix)?;
        let below = if prefix.ends_with('/') { below } else { below.strip_prefix('/')? };
        let start = format!("{below}\0");
        is_clean(&start).then_some(ContinueToken { at, start })
    }

    /// At which version the next page is read.
    pub fn at(&self) -> ContinueAt {
        self.at
    }

    /// The first key that may be in the next page, relative to the list's prefix. Never empty.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// The first key that may be in the next page. It begins with `prefix`, and with a `/` behind it.
    pub fn start_key(&self, prefix: &str) -> String {
        let slash = if prefix.ends_with('/') { "" } else { "/" };
        format!("{prefix}{slash}{}", self.start)
    }

    /// The token with the same start at the newest version, for when this one's version is no longer kept.
    #[must_use]
    pub fn at_newest(self) -> ContinueToken {
        ContinueToken { at: ContinueAt::Newest, ..self }
    }

    /// The token as text.
    pub fn encode(&self) -> String {
        let rv = match self.at {
            // A store counts writes in 63 bits.
            ContinueAt::Exact(version) => i64::try_from(version.get()).unwrap_or(i64::MAX),
            ContinueAt::Newest => -1,
        };
        let wire = Wire { v: TOKEN_VERSION.to_owned(), rv, start: self.start.clone() };
        let json = serde_json::to_vec(&wire).expect("text and a number always encode");
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Reads the `continue` parameter of a request.
    pub fn decode(text: &str) -> Result<ContinueToken, InvalidContinueToken> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(invalid)?;
        let wire: Wire = serde_json::from_slice(&json).map_err(invalid)?;
        if wire.v != TOKEN_VERSION {
            return Err(invalid(format_args!("server does not recognize this encoded version {}", wire.v)));
        }
        let at = match u64::try_from(wire.rv).map(ResourceVersion::new) {
            Ok(Some(version)) => ContinueAt::Exact(version),
            Ok(None) => {
                return Err(invalid(format_args!(
                    "incorrect encoded start resourceVersion (version {TOKEN_VERSION})"
                )));
            }
            Err(_) => ContinueAt::Newest,
        };
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if start.is_empty() {
            return Err(invalid(format_args!("encoded start key empty (version {TOKEN_VERSION})")));
        }
        if !is_clean(start) {
            return Err(invalid(wire.start));
        }
        Ok(ContinueToken { at, start: start.to_owned() })
    }
}

/// Whether the relative key stays below the prefix it is put behind, and is spelled in the one way that storage uses.
fn is_clean(start: &str) -> bool {
    start.split('/').all(|element| !matches!(element, "" | "." | ".."))
}

fn invalid(why: impl fmt::Display) -> InvalidContinueToken {
    InvalidContinueToken(why.to_string())
}

/// The text is no token of this server. The client starts its list again, without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidContinueToken(String);

impl fmt::Display for InvalidContinueToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "continue key is not valid: {}", self.0)
    }
}

impl std::error::Error for InvalidContinueToken {}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(json: &str) -> Result<ContinueToken, String> {
        ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json)).map_err(|error| error.to_string())
    }

    fn exact(number: u64) -> ContinueAt {
        ContinueAt::Exact(ResourceVersion::new(number).unwrap())
    }

    /// Tokens of a v1.36 server.
    #[test]
    fn a_token_says_where_to_go_on_and_at_which_version() {
        for (text, at, start) in [
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0", exact(1), "a\0"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYlx1MDAwMCJ9", ContinueAt::Newest, "b\0"),
        ] {
            let token = ContinueToken::decode(text).unwrap();
            assert_eq!((token.at(), token.start()), (at, start));
            assert_eq!(token.encode(), text);
        }
    }

    #[test]
    fn a_leading_slash_makes_no_difference() {
        let with = token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/n/b\u0000"}"#).unwrap();
        let without = token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"n/b\u0000"}"#).unwrap();
        assert_eq!(with, without);
        assert_eq!(with.start_key("/registry/pods"), "/registry/pods/n/b\0");
        assert_eq!(with.start_key("/registry/pods/"), "/registry/pods/n/b\0");
    }

    #[test]
    fn a_broken_token_is_refused_with_the_known_texts() {
        for (json, message) in [
            (
                r#"{"v":"meta.k8s.io/v1","rv":0,"start":"b\u0000"}"#,
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","start":"b\u0000"}"#,
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#,
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../x"}"#, "continue key is not valid: ../x"),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a//b"}"#, "continue key is not valid: a//b"),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a/../../b"}"#, "continue key is not valid: a/../../b"),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a/."}"#, "continue key is not valid: a/."),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a/"}"#, "continue key is not valid: a/"),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"//a"}"#, "continue key is not valid: //a"),
            (
                r#"{"v":"meta.k8s.io/v9","rv":5,"start":"b\u0000"}"#,
                "continue key is not valid: server does not recognize this encoded version meta.k8s.io/v9",
            ),
            ("{}", "continue key is not valid: server does not recognize this encoded version "),
        ] {
            assert_eq!(token(json).unwrap_err(), message, "{json}");
        }
    }

    #[test]
    fn tokens_that_are_not_base64_or_not_json_are_refused() {
        for text in [
            "garbage",
            "%%",
            "",
            "bnVsbA",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0=",
        ] {
            let message = ContinueToken::decode(text).unwrap_err().to_string();
            assert!(message.starts_with("continue key is not valid: "), "{message}");
        }
    }

    #[test]
    fn a_token_is_made_only_for_a_key_below_the_prefix() {
        let after = |key, prefix| ContinueToken::after(key, prefix, exact(5)).map(|token| token.start);
        assert_eq!(after("/r/pods/n/b", "/r/pods/"), Some("n/b\0".to_owned()));
        assert_eq!(after("/r/pods/n/b", "/r/pods"), Some("n/b\0".to_owned()));
        assert_eq!(after("/r/secrets/n/b", "/r/pods/"), None);
        assert_eq!(after("/r/pods/n/b", "/r/pod"), None);
        assert_eq!(after("/r/pods//b", "/r/pods/"), None);
        assert_eq!(after("/r/pods/../b", "/r/pods/"), None);
    }
}
