//! The position of a value in a document: a chain of borrowed steps, which allocates nothing until it is printed.

use std::fmt;

/// One step after another, from the document to a value.
#[derive(Clone, Copy)]
pub(in crate::custom) enum Path<'a> {
    Root,
    /// A property.
    Field(&'a Path<'a>, &'a str),
    /// The entry of an object under a key that is not among its properties.
    Entry(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(in crate::custom) fn is_root(&self) -> bool {
        matches!(self, Path::Root)
    }

    /// The form `spec.labels[a.b]`, in which most rules name the entries of maps. The root is `<nil>`.
    pub(in crate::custom) fn keyed(&self) -> String {
        match self {
            Path::Root => "<nil>".to_owned(),
            path => Keyed(path).to_string(),
        }
    }
}

/// The form `spec.labels.a.b`, which names values that are validated by their schemas.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Entry(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

struct Keyed<'a>(&'a Path<'a>);

impl fmt::Display for Keyed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{}.{name}", Keyed(parent)),
            Path::Entry(parent, key) => write!(f, "{}[{key}]", Keyed(parent)),
            Path::Item(parent, at) => write!(f, "{}[{at}]", Keyed(parent)),
        }
    }
}
