//! The patterns of strings: regular expressions of Go, matched in linear time.
//!
//! A pattern is compiled when a value is first validated by it. The compiled ones are shared and limited in number,
//! since each takes more memory than the rest of a definition.

use std::sync::{Arc, LazyLock};

use quick_cache::sync::Cache;
use regex::{Regex, RegexBuilder};

mod translate;

/// The largest number of compiled patterns in the cache.
const COMPILED_MAX: usize = 256;
/// The largest size of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The largest size of the cache of states that a search fills. More would be faster for long texts, of which there are
/// few.
const SEARCH_BYTES_MAX: usize = 16 << 10;

static COMPILED: LazyLock<Cache<Box<str>, Arc<Regex>>> = LazyLock::new(|| Cache::new(COMPILED_MAX));

/// A regular expression.
#[derive(Debug)]
pub(crate) struct Pattern(Box<str>);

impl Pattern {
    pub(super) fn new(text: &str) -> Pattern {
        Pattern(text.into())
    }

    /// The text of the pattern in the schema.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the text has a match. The error is the reason why the pattern is no regular expression, in Go's words.
    pub(super) fn matches(&self, text: &str) -> Result<bool, String> {
        if let Some(compiled) = COMPILED.get(&*self.0) {
            return Ok(compiled.is_match(text));
        }
        let compiled = Arc::new(compile(&self.0)?);
        COMPILED.insert(self.0.clone(), Arc::clone(&compiled));
        Ok(compiled.is_match(text))
    }
}

/// Compiles a regular expression of Go. The error is in Go's words.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    let translated = translate::translate(text)
        .map_err(|fault| format!("error parsing regexp: {}: `{}`", fault.why, fault.at))?;
    let built = RegexBuilder::new(&translated)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(SEARCH_BYTES_MAX)
        .build();
    built.map_err(|error| {
        let why = match error {
            regex::Error::CompiledTooBig(_) => "expression too large",
            _ => "invalid character class range",
        };
        format!("error parsing regexp: {why}: `{text}`")
    })
}

#[cfg(test)]
mod tests;
