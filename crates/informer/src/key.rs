//! The name of an object among those of its resource.

use std::{fmt, sync::Arc};

/// Namespace and name of an object. Cloning shares them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Absent outside namespaces.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object; an empty namespace is none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: (!namespace.is_empty()).then(|| namespace.into()), name: name.into() }
    }

    /// The namespace; empty outside namespaces.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

/// As `namespace/name`, or only `name`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A text is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKey(pub String);

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected key format: {:?}", self.0)
    }
}

impl std::error::Error for InvalidKey {}

impl std::str::FromStr for ObjectKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        match *text.split('/').collect::<Vec<_>>() {
            [name] => Ok(Self::new("", name)),
            [namespace, name] => Ok(Self::new(namespace, name)),
            _ => Err(InvalidKey(text.to_owned())),
        }
    }
}

/// As `"namespace/name"`, or only `"name"`.
impl From<&str> for ObjectKey {
    fn from(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }
}

impl From<(&str, &str)> for ObjectKey {
    fn from((namespace, name): (&str, &str)) -> Self {
        Self::new(namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for (text, namespace, name) in [("a/b", "a", "b"), ("b", "", "b")] {
            let key: ObjectKey = text.parse().unwrap();
            assert_eq!((key.namespace(), &*key.name, key.to_string()), (namespace, name, text.to_owned()));
            assert_eq!(ObjectKey::from(text), key);
        }
        assert_eq!("a/b/c".parse::<ObjectKey>().unwrap_err().to_string(), "unexpected key format: \"a/b/c\"");
    }
}
