//! The fields at which rules report failures: `.spec.size` or `['x.y']`, from the schema of the rule on.

use super::super::{Additional, Node};

/// The path in the form that is appended to the field of a cause, such as `spec.size` or `labels[x.y]`. None if the
/// schema has no such field.
pub(crate) fn resolve(node: &Node, path: &str) -> Option<String> {
    let (mut node, mut rest, mut resolved) = (Some(node), path, String::new());
    while !rest.is_empty() {
        let (name, behind) = step(rest)?;
        let own = node?;
        if !own.properties.is_empty() {
            node = Some(own.property(&name)?);
            if !resolved.is_empty() {
                resolved.push('.');
            }
            resolved.push_str(&name);
        } else {
            node = match &own.additional {
                Additional::Unset => return None,
                Additional::Allowed(_) => None,
                Additional::Schema(schema) => Some(schema),
            };
            resolved.push_str(&format!("[{name}]"));
        }
        rest = behind;
    }
    Some(resolved)
}

/// The first name of a path, and the rest of the path.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let (name, behind) = match rest.strip_prefix('\'') {
            // A quoted name after a dot includes its quotes.
            Some(_) => rest.split_at(end_of_quoted(rest)?),
            None => rest.split_at(rest.find(['.', '[', ']']).unwrap_or(rest.len())),
        };
        return (!name.is_empty()).then(|| (name.to_owned(), behind));
    }
    let rest = path.strip_prefix('[')?;
    let end = end_of_quoted(rest)?;
    let name = unescaped(&rest[1..end - 1])?;
    Some((name, rest[end..].strip_prefix(']')?))
}

/// The index after the quote that ends the quoted text.
fn end_of_quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    bytes.first().filter(|first| **first == b'\'')?;
    (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\').map(|at| at + 1)
}

fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                c @ ('\'' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}
