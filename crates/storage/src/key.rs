//! Keys, and the two shapes a read can have: one object, or everything below a prefix.
//!
//! Kept true by [`ResourcePrefix`]: what it makes of a caller's key begins with the global prefix and the
//! resource's, and none of its elements is `.`, `..` or empty; only the prefix of [`Scope::Children`] ends in
//! `/`, so that `/pods/ns` never covers `/pods/ns2`.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// The full key of one object, such as `/registry/pods/default/web-0`, or of a prefix. Cloning shares it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Wraps a key as a backend holds it. Callers of [`crate::Storage`] never need this: a
    /// [`ResourcePrefix`] makes their keys and checks them.
    pub fn from_backend(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The keys that a read or a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One key.
    Object(Key),
    /// Every key below this prefix, which ends in `/`; never the prefix itself.
    Children(Key),
}

impl Scope {
    /// Whether a key lies inside.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::Object(own) => own.as_str() == key,
            Self::Children(prefix) => key.len() > prefix.len() && key.starts_with(prefix.as_str()),
        }
    }

    /// The key or prefix itself.
    pub fn key(&self) -> &Key {
        match self {
            Self::Object(key) | Self::Children(key) => key,
        }
    }

    /// The first key past the scope in byte order: where a range over it ends.
    pub fn end(&self) -> String {
        match self {
            Self::Object(key) => format!("{key}\0"),
            // '0' follows '/' in byte order.
            Self::Children(prefix) => format!("{}0", &prefix[..prefix.len() - 1]),
        }
    }
}

/// The place of the objects of one resource: the global prefix (`/registry`) and the resource's own (`/pods/`).
#[derive(Clone, Debug)]
pub struct ResourcePrefix {
    global: String,
    resource: String,
}

impl ResourcePrefix {
    /// `global` such as `/registry`, `resource` such as `pods` or `services/specs`; slashes at the ends are
    /// optional.
    pub fn new(global: &str, resource: &str) -> Result<Self, InvalidKey> {
        let resource = format!("/{}/", resource.trim_matches('/'));
        if resource == "//" {
            return Err(InvalidKey::Empty(resource));
        }
        refuse_bad_elements(&resource)?;
        let global = match global.trim_matches('/') {
            "" => String::new(),
            trimmed => format!("/{trimmed}"),
        };
        refuse_bad_elements(&global)?;
        Ok(Self { global, resource })
    }

    /// The full key of the object that callers name `key` (`/pods/ns/name`). No object's key ends in `/`.
    pub fn object(&self, key: &str) -> Result<Key, InvalidKey> {
        let full = self.full(key.to_owned())?;
        if key.ends_with('/') {
            return Err(InvalidKey::Element(key.to_owned()));
        }
        Ok(full)
    }

    /// The scope of a read of `key`: the key, or if `recursive` everything below it.
    pub fn scope(&self, key: &str, recursive: bool) -> Result<Scope, InvalidKey> {
        if !recursive {
            return Ok(Scope::Object(self.object(key)?));
        }
        let slash = if key.is_empty() || key.ends_with('/') { "" } else { "/" };
        Ok(Scope::Children(self.full(format!("{key}{slash}"))?))
    }

    /// The key under which callers name all objects of the resource, such as `/pods/`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The name that callers use for a full key: without the global prefix.
    pub fn relative<'a>(&self, key: &'a Key) -> &'a str {
        key.strip_prefix(self.global.as_str()).unwrap_or(key)
    }

    /// Every object of the resource.
    pub fn all(&self) -> Scope {
        Scope::Children(Key::from_backend(format!("{}{}", self.global, self.resource)))
    }

    fn full(&self, key: String) -> Result<Key, InvalidKey> {
        refuse_bad_elements(&key)?;
        if key.is_empty() || key == "/" {
            return Err(InvalidKey::Empty(key));
        }
        if !key.starts_with(&self.resource) {
            return Err(InvalidKey::LacksPrefix { key, prefix: self.resource.clone() });
        }
        Ok(Key::from_backend(format!("{}{key}", self.global)))
    }
}

fn refuse_bad_elements(key: &str) -> Result<(), InvalidKey> {
    if key.contains("//") || key.split('/').any(|element| element == "." || element == "..") {
        return Err(InvalidKey::Element(key.to_owned()));
    }
    Ok(())
}

/// The reason why a key was refused. Nothing was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidKey {
    /// The key names nothing.
    Empty(String),
    /// An element of the key is empty, `.` or `..`.
    Element(String),
    /// The key does not belong to the resource it was used with.
    LacksPrefix {
        /// The key as it was given.
        key: String,
        /// The prefix that it should have.
        prefix: String,
    },
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(key) => write!(f, "empty key: {key:?}"),
            Self::Element(key) => write!(f, "invalid key: {key:?}"),
            Self::LacksPrefix { key, prefix } => {
                write!(f, "invalid key: {key:?} lacks resource prefix: {prefix:?}")
            }
        }
    }
}

impl std::error::Error for InvalidKey {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ResourcePrefix {
        ResourcePrefix::new("/registry", "pods").unwrap()
    }

    #[test]
    fn keys_that_name_nothing_or_climb_out_are_refused() {
        for (key, recursive, text) in [
            ("", false, "empty key"),
            ("/", false, "empty key"),
            ("", true, "empty key"),
            (".", false, "invalid key"),
            ("..", true, "invalid key"),
            ("/pods/../x", false, "invalid key"),
            ("/pods/./x", true, "invalid key"),
            ("../pods/x", false, "invalid key"),
            ("/pods/x/..", false, "invalid key"),
            ("/pods//x", false, "invalid key"),
            ("/pods//", true, "invalid key"),
            ("/pods/", false, "invalid key"),
            ("/pods/n/", false, "invalid key"),
            ("/pods/n/b/", false, "invalid key"),
            ("pods", false, "lacks resource prefix"),
            ("pods", true, "lacks resource prefix"),
            ("/pods", false, "lacks resource prefix"),
            ("/pods.apps", true, "lacks resource prefix"),
            ("/foo/", true, "lacks resource prefix"),
        ] {
            let error = pods().scope(key, recursive).expect_err(key).to_string();
            assert!(error.contains(text), "{key:?}: {error}");
        }
    }

    #[test]
    fn prefixes_that_climb_out_are_refused() {
        for (global, resource) in [("/registry/..", "pods"), ("/a//b", "pods"), ("/registry", "a/../b")] {
            let error = ResourcePrefix::new(global, resource).expect_err(global);
            assert!(matches!(error, InvalidKey::Element(_)), "{error}");
        }
        assert_eq!(ResourcePrefix::new("", "/").unwrap_err(), InvalidKey::Empty("//".to_owned()));
    }

    #[test]
    fn recursive_keys_gain_a_slash_and_dots_inside_names_are_fine() {
        for (key, recursive, full) in [
            ("/pods", true, "/registry/pods/"),
            ("/pods/ns", true, "/registry/pods/ns/"),
            ("/pods/ns/", true, "/registry/pods/ns/"),
            ("/pods/bar..baz", false, "/registry/pods/bar..baz"),
        ] {
            assert_eq!(pods().scope(key, recursive).unwrap().key().as_str(), full);
        }
    }

    #[test]
    fn a_prefix_covers_its_children_only() {
        let scope = pods().scope("/pods/ns", true).unwrap();
        assert!(scope.contains("/registry/pods/ns/a"));
        for outside in ["/registry/pods/ns", "/registry/pods/ns/", "/registry/pods/ns2/a", "/registry/pods/n"]
        {
            assert!(!scope.contains(outside), "{outside}");
        }
        assert_eq!(scope.end(), "/registry/pods/ns0");
    }
}
