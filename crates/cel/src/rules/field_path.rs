//! The path at which a rule says its error is: `.spec.labels['x.y']`.

use std::fmt;

use serde_json::Value as Json;

/// A path from a place in a schema to a field below it. Displays as it is appended to the place's own path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    steps: Vec<PathStep>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// To a declared property.
    Field(String),
    /// To the value of a key.
    Key(String),
}

impl FieldPath {
    /// Reads a path and follows it in a schema. `None`: it does not lead to a field.
    pub fn parse(path: &str, schema: &Json) -> Option<Self> {
        let mut steps = Vec::new();
        let mut schema = schema;
        let mut rest = path;
        while !rest.is_empty() {
            let (name, after) = step(rest)?;
            rest = after;
            let properties = schema.get("properties");
            if let Some(properties) = properties {
                schema = properties.get(&name)?;
                steps.push(PathStep::Field(name));
            } else {
                schema = schema.get("additionalProperties").filter(|values| values.is_object())?;
                steps.push(PathStep::Key(name));
            }
        }
        Some(Self { steps })
    }

    /// The steps.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                PathStep::Field(name) => write!(f, ".{name}")?,
                PathStep::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// The name that a path begins with, and the rest of the path.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(name) = path.strip_prefix('.') {
        let is_end = |char: char| matches!(char, '.' | '[' | ']');
        let end = if name.starts_with(is_end) { 1 } else { name.find(is_end).unwrap_or(name.len()) };
        return (end > 0).then(|| (name[..end].to_owned(), &name[end..]));
    }
    let quoted = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '\'' => break,
            '\\' => name.push(match chars.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                literal @ ('\'' | '\\') => literal,
                _ => return None,
            }),
            char => name.push(char),
        }
    }
    Some((name, chars.as_str().strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_followed_in_the_schema_and_normalised() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b.c": {"type": "string"}, "it's": {"type": "string"}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "string"}},
            }
        });
        for (path, shown) in [
            (".a", Some(".a")),
            ("['a']['b.c']", Some(".a.b.c")),
            (".a['b.c']", Some(".a.b.c")),
            (".a['it\\'s']", Some(".a.it's")),
            (".labels['x.y']", Some(".labels[x.y]")),
            (".labels.z", Some(".labels[z]")),
            (".nope", None),
            ("a", None),
            (".", None),
            (".a['b.c", None),
            (".a[b]", None),
            (".list[0]", None),
            (".list['0']", None),
            (".labels['\\q']", None),
        ] {
            assert_eq!(
                FieldPath::parse(path, &schema).map(|path| path.to_string()).as_deref(),
                shown,
                "{path}"
            );
        }
    }
}
