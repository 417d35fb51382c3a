//! JSON as people read it: two blanks for each level.
//!
//! It is only spaced out, not read: no depth is too much for it, and it may come in pieces.

/// JSON, indented.
pub fn indented(json: &[u8]) -> Vec<u8> {
    Indenter::default().indent(json)
}

/// Indents JSON that comes in pieces.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether the last byte opened an object or a list.
    opened: bool,
}

impl Indenter {
    /// The next piece, indented.
    pub fn indent(&mut self, json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(json.len() * 2);
        for &byte in json {
            if self.in_text {
                out.push(byte);
                self.in_text = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
            } else if !byte.is_ascii_whitespace() {
                self.mark(&mut out, byte);
            }
        }
        out
    }

    /// A byte outside of strings.
    fn mark(&mut self, out: &mut Vec<u8>, byte: u8) {
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        // What is empty stays on its line.
        if self.opened != closes {
            self.new_line(out);
        }
        out.push(byte);
        self.opened = matches!(byte, b'{' | b'[');
        match byte {
            b'{' | b'[' => self.depth += 1,
            b',' => self.new_line(out),
            b':' => out.push(b' '),
            b'"' => self.in_text = true,
            _ => {}
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.depth * 2, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_serde_json_does_it_whole_or_in_pieces() {
        for text in [
            r#"{}"#,
            r#"[]"#,
            r#"[{},[],[[]],{"a":[]}]"#,
            r#"{"a":1,"b":[1,-2.5,true,null],"c":{"d":"x"}}"#,
            r#"{"a":"q\"{[,:\\","b\\":"\\\""}"#,
            " { \"a\" : [ 1 , { } ] }\n",
        ] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let expected = serde_json::to_vec_pretty(&value).unwrap();
            assert_eq!(indented(text.as_bytes()), expected, "{text}");
            let mut pieces = Indenter::default();
            let made: Vec<u8> = text.as_bytes().chunks(1).flat_map(|piece| pieces.indent(piece)).collect();
            assert_eq!(made, expected, "{text}");
        }
    }

    /// A list of objects that are as deep as an object may be is deeper than what serde_json reads.
    #[test]
    fn no_depth_is_too_much() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(indented(deep.as_bytes()).ends_with(b"\n]"));
    }
}
