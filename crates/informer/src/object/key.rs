//! The key of an object within its resource.

use std::{fmt, sync::Arc};

/// The namespace and name of an object. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; absent for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key. The empty namespace means none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: (!namespace.is_empty()).then(|| namespace.into()), name: name.into() }
    }

    /// The namespace; empty for cluster-scoped objects.
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

/// The text is not a valid key.
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
    fn a_displayed_key_can_be_parsed() {
        for (text, namespace, name) in [("a/b", "a", "b"), ("b", "", "b")] {
            let key: ObjectKey = text.parse().unwrap();
            assert_eq!((key.namespace(), &*key.name, key.to_string()), (namespace, name, text.to_owned()));
            assert_eq!(ObjectKey::from(text), key);
        }
        assert_eq!("a/b/c".parse::<ObjectKey>().unwrap_err().to_string(), "unexpected key format: \"a/b/c\"");
    }
}
