//! Text that is borrowed from a document or made by an expression.

use std::ops::Deref;
use std::sync::Arc;

/// Text, borrowed from a document or made by an expression. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// From a document or a program.
    Borrowed(&'a str),
    /// Made by an expression.
    Made(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Made(text.into())
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
