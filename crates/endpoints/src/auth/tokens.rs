//! The users that bearer tokens stand for.
//!
//! Kept true: how long a look-up takes says nothing about the tokens there are. A token is found by its digest
//! under a key that lives as long as the process, so no part of a token is ever compared.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::{hmac, rand::SystemRandom};

use super::user::User;

/// Why a credential is not accepted: for the log, not for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCredential(pub &'static str);

impl fmt::Display for InvalidCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidCredential {}

/// One kind of bearer token.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// The user of this token. `None` says that the token is not of this kind; it may be of another.
    async fn user_of(&self, token: &str) -> Result<Option<Arc<User>>, InvalidCredential>;
}

/// Tokens listed in a file, one `token,user,uid,"group1,group2"` on each line.
///
/// ```
/// use keepwatch_endpoints::auth::StaticTokens;
///
/// let tokens = StaticTokens::parse("s3cret,alice,u-1,\"dev,ops\"\n").expect("three columns or more");
/// assert_eq!(tokens.len(), 1);
/// let error = StaticTokens::parse("s3cret,alice\n").expect_err("no uid");
/// assert_eq!(error.to_string(), "line 1: needs at least 3 columns (token, user name, uid) and has 2");
/// ```
pub struct StaticTokens {
    key: hmac::Key,
    users: HashMap<Vec<u8>, Arc<User>>,
}

impl StaticTokens {
    /// The tokens of a file.
    pub fn read(path: &Path) -> Result<StaticTokens, TokenFileError> {
        StaticTokens::parse(&fs::read_to_string(path).map_err(TokenFileError::Unreadable)?)
    }

    /// The tokens of a text in the form of a token file.
    pub fn parse(text: &str) -> Result<StaticTokens, TokenFileError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| TokenFileError::Unreadable(io::Error::other("the system has no random numbers")))?;
        let mut tokens = StaticTokens { key, users: HashMap::new() };
        for record in Records::of(text) {
            let (line, fields) = record?;
            tokens.add(line, fields)?;
        }
        Ok(tokens)
    }

    fn add(&mut self, line: usize, fields: Vec<String>) -> Result<(), TokenFileError> {
        let [token, name, uid, rest @ ..] = fields.as_slice() else {
            let fault = format!("needs at least 3 columns (token, user name, uid) and has {}", fields.len());
            return Err(TokenFileError::ConnectionState { line, fault });
        };
        if name.is_empty() {
            return Err(TokenFileError::ConnectionState { line, fault: "the user name is empty".to_owned() });
        }
        if token.is_empty() {
            tracing::warn!(line, "an empty token in the token file is passed over");
            return Ok(());
        }
        let groups = rest.first().map(|list| list.split(',').filter(|group| !group.is_empty()));
        let groups = groups.into_iter().flatten().map(str::to_owned).collect();
        let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
        if self.users.insert(self.digest(token), Arc::new(user.in_its_group())).is_some() {
            tracing::warn!(line, "a token stands in the token file twice; the later line counts");
        }
        Ok(())
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    fn digest(&self, token: &str) -> Vec<u8> {
        hmac::sign(&self.key, token.as_bytes()).as_ref().to_vec()
    }
}

/// Counts them only: neither tokens nor users belong in a log.
impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticTokens({})", self.users.len())
    }
}

#[async_trait]
impl TokenAuthenticator for StaticTokens {
    async fn user_of(&self, token: &str) -> Result<Option<Arc<User>>, InvalidCredential> {
        Ok(self.users.get(&self.digest(token)).cloned())
    }
}

/// Why a token file cannot be used.
#[derive(Debug)]
pub enum TokenFileError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// One of its lines is wrong.
    ConnectionState {
        /// Which, counted from one.
        line: usize,
        /// The fault.
        fault: String,
    },
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileError::Unreadable(error) => write!(f, "cannot be read: {error}"),
            TokenFileError::ConnectionState { line, fault } => write!(f, "line {line}: {fault}"),
        }
    }
}

impl std::error::Error for TokenFileError {}

/// The records of a CSV text, each with the line on which it begins. Quoted fields may hold commas, line ends and
/// doubled quotes; empty lines are no records.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Records<'a> {
    fn of(text: &'a str) -> Records<'a> {
        Records { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// Takes `bytes` of what is left and, if another one follows, the line's end or the comma behind them.
    fn take(&mut self, bytes: usize) -> (&'a str, Option<char>) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        let end = rest.chars().next();
        self.rest = rest.get(1..).unwrap_or_default();
        self.line += usize::from(end == Some('\n'));
        (taken, end)
    }

    fn field(&mut self) -> Result<(String, Option<char>), TokenFileError> {
        let line = self.line;
        let fault = |fault: &str| TokenFileError::ConnectionState { line, fault: fault.to_owned() };
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let (text, end) = self.take(self.rest.find([',', '\n']).unwrap_or(self.rest.len()));
            let text = if end == Some(',') { text } else { text.strip_suffix('\r').unwrap_or(text) };
            let text =
                if text.contains('"') { Err(fault("a quote stands inside a field")) } else { Ok(text) };
            return Ok((text?.to_owned(), end));
        };
        let mut at = 0;
        let closed = loop {
            at += quoted[at..].find('"').ok_or_else(|| fault("a quote is never closed"))?;
            match quoted[at + 1..].starts_with('"') {
                true => at += 2,
                false => break at,
            }
        };
        let behind = &quoted[closed + 1..];
        let behind = if behind.starts_with("\r\n") || behind == "\r" { 1 } else { 0 };
        let (text, end) = self.take(1 + closed + 1 + behind);
        if !matches!(end, None | Some(',' | '\n')) {
            return Err(fault("something stands behind a closing quote"));
        }
        Ok((text[1..=closed].replace("\"\"", "\""), end))
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(usize, Vec<String>), TokenFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(rest) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
            (self.rest, self.line) = (rest, self.line + 1);
        }
        if self.rest.is_empty() {
            return None;
        }
        let (line, mut fields) = (self.line, Vec::new());
        loop {
            match self.field() {
                Err(error) => return Some(Err(error)),
                Ok((field, end)) => {
                    fields.push(field);
                    if end != Some(',') {
                        return Some(Ok((line, fields)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::user::ALL_AUTHENTICATED;

    fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
        Records::of(text).collect::<Result<_, _>>().map_err(|error: TokenFileError| error.to_string())
    }

    #[test]
    fn a_token_file_is_read_as_csv() {
        for (text, expected) in [
            ("", vec![]),
            ("\n\r\n\n", vec![]),
            ("a,b,c", vec![(1, vec!["a", "b", "c"])]),
            ("\u{feff}a,b\r\n", vec![(1, vec!["a", "b"])]),
            ("a,b\n\nc, d \n", vec![(1, vec!["a", "b"]), (3, vec!["c", " d "])]),
            ("a,\n", vec![(1, vec!["a", ""])]),
            ("a,\"b,c\"\nd", vec![(1, vec!["a", "b,c"]), (2, vec!["d"])]),
            ("a,\"b\"\r\n\"\"\r", vec![(1, vec!["a", "b"]), (2, vec![""])]),
            ("\"a\"\"b\",\"c\nd\"\ne", vec![(1, vec!["a\"b", "c\nd"]), (3, vec!["e"])]),
            ("é,ü", vec![(1, vec!["é", "ü"])]),
        ] {
            let expected: Vec<(usize, Vec<String>)> = expected
                .into_iter()
                .map(|(line, fields)| (line, fields.into_iter().map(str::to_owned).collect()))
                .collect();
            assert_eq!(records(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_fault_in_a_token_file_is_reported_with_its_line() {
        for (text, message) in [
            ("t,u,i\n\nt,u\n", "line 3: needs at least 3 columns (token, user name, uid) and has 2"),
            ("t,u,i\nt,,i\n", "line 2: the user name is empty"),
            ("t,u\"x\",i", "line 1: a quote stands inside a field"),
            ("t,u,i\nt,\"u,i\n\n", "line 2: a quote is never closed"),
            ("t,\"u\"é,i", "line 1: something stands behind a closing quote"),
        ] {
            assert_eq!(StaticTokens::parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
        let absent = StaticTokens::read(Path::new("/nowhere/tokens.csv")).unwrap_err().to_string();
        assert!(absent.starts_with("cannot be read: No such file"), "{absent}");
    }

    #[tokio::test]
    async fn a_token_stands_for_its_user() {
        let tokens = StaticTokens::parse("a,alice,u-1,\"dev,ops\"\nb,bob,\n,nobody,\nb,eve,u-3,\n").unwrap();
        assert_eq!(tokens.len(), 2);
        for (token, expected) in [
            ("a", Some(("alice", "u-1", vec!["dev", "ops", ALL_AUTHENTICATED]))),
            ("b", Some(("eve", "u-3", vec![ALL_AUTHENTICATED]))),
            ("c", None),
            ("", None),
        ] {
            let user = tokens.user_of(token).await.unwrap();
            let found = user.as_ref().map(|user| {
                (&*user.name, &*user.uid, user.groups.iter().map(String::as_str).collect::<Vec<_>>())
            });
            assert_eq!(found, expected, "{token:?}");
        }
    }
}
