//! The path of a value, for messages.

use std::fmt;

/// The path of a value in a document: a chain of borrowed steps, which costs nothing until it becomes text.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Top,
    Field(&'a Path<'a>, &'a str),
    /// An entry of a map.
    Entry(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

/// As `spec.containers[0].name`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => Ok(()),
            Path::Field(Path::Top, name) | Path::Entry(Path::Top, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Entry(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

impl Path<'_> {
    /// Only the names of the fields, as `spec.containers.name`.
    pub(super) fn fields(&self) -> String {
        match self {
            Path::Top => String::new(),
            Path::Entry(parent, _) | Path::Item(parent, _) => parent.fields(),
            Path::Field(parent, name) => match parent.fields() {
                path if path.is_empty() => (*name).to_owned(),
                path => format!("{path}.{name}"),
            },
        }
    }
}
