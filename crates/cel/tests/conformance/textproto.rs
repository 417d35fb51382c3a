//! Reads the text form of protocol buffers, as far as the conformance data uses it.

/// A message: its fields in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<(String, Node)>);

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A number or a name.
    Word(String),
    /// Text or bytes.
    Text(Vec<u8>),
    /// A message.
    Message(Message),
}

impl Message {
    /// Parses a file.
    pub(crate) fn parse(source: &str) -> Result<Message, String> {
        let mut parser = Parser { rest: source.as_bytes() };
        let message = parser.fields(None)?;
        if parser.rest.is_empty() { Ok(message) } else { Err(parser.fault("end of file")) }
    }

    /// All fields of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Node> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, node)| node)
    }

    /// The messages in fields of this name.
    pub(crate) fn messages<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Message> {
        self.all(name).filter_map(|node| match node {
            Node::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The message in the field of this name.
    pub(crate) fn message<'a>(&'a self, name: &'a str) -> Option<&'a Message> {
        self.messages(name).next()
    }

    /// The text in the field of this name, or an empty text.
    pub(crate) fn text(&self, name: &str) -> String {
        match self.all(name).next() {
            Some(Node::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }

    /// Whether the field of this name is `true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.all(name).next(), Some(Node::Word(word)) if word == "true")
    }
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn fault(&self, expected: &str) -> String {
        let shown = &self.rest[..self.rest.len().min(40)];
        format!("expected {expected} at {:?}", String::from_utf8_lossy(shown))
    }

    fn skip_space(&mut self) {
        loop {
            let space = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.rest = &self.rest[space..];
            if self.rest.first() != Some(&b'#') {
                return;
            }
            let comment = self.rest.iter().take_while(|byte| **byte != b'\n').count();
            self.rest = &self.rest[comment..];
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn fields(&mut self, end: Option<u8>) -> Result<Message, String> {
        let mut message = Message::default();
        loop {
            self.skip_space();
            match end {
                None if self.rest.is_empty() => return Ok(message),
                Some(end) if self.take(end) => return Ok(message),
                _ => {}
            }
            let name = if self.take(b'[') {
                let end = self.rest.iter().position(|byte| *byte == b']').ok_or_else(|| self.fault("]"))?;
                let name = format!("[{}]", String::from_utf8_lossy(&self.rest[..end]));
                self.rest = &self.rest[end + 1..];
                name
            } else {
                self.word()?
            };
            self.take(b':');
            if self.take(b'[') {
                while !self.take(b']') {
                    let node = self.node()?;
                    message.0.push((name.clone(), node));
                    self.take(b',');
                }
            } else {
                let node = self.node()?;
                message.0.push((name, node));
            }
            if !self.take(b',') {
                self.take(b';');
            }
        }
    }

    fn word(&mut self) -> Result<String, String> {
        self.skip_space();
        let end = self
            .rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(byte))
            .count();
        if end == 0 {
            return Err(self.fault("a name"));
        }
        let word = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end..];
        Ok(word)
    }

    fn node(&mut self) -> Result<Node, String> {
        self.skip_space();
        match self.rest.first() {
            Some(b'{') => {
                self.take(b'{');
                Ok(Node::Message(self.fields(Some(b'}'))?))
            }
            Some(b'<') => {
                self.take(b'<');
                Ok(Node::Message(self.fields(Some(b'>'))?))
            }
            Some(b'"' | b'\'') => {
                let mut text = Vec::new();
                // Pieces next to each other are one text.
                while let Some(quote @ (b'"' | b'\'')) = self.rest.first().copied() {
                    self.rest = &self.rest[1..];
                    self.quoted(quote, &mut text)?;
                    self.skip_space();
                }
                Ok(Node::Text(text))
            }
            _ => Ok(Node::Word(self.word()?)),
        }
    }

    fn quoted(&mut self, quote: u8, text: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let (byte, rest) = self.rest.split_first().ok_or_else(|| self.fault("a quote"))?;
            self.rest = rest;
            match *byte {
                byte if byte == quote => return Ok(()),
                b'\\' => self.escape(text)?,
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let (byte, rest) = self.rest.split_first().ok_or_else(|| self.fault("an escape"))?;
        let digits = |rest: &[u8], most: usize, radix: u32| {
            let count = rest.iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count();
            let number = u32::from_str_radix(&String::from_utf8_lossy(&rest[..count]), radix).unwrap_or(0);
            (number, count)
        };
        let mut push_char = |number: u32| {
            let c = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
            text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        };
        let used = match byte {
            b'0'..=b'7' => {
                let (number, count) = digits(self.rest, 3, 8);
                text.push(number as u8);
                count - 1
            }
            b'x' | b'X' => {
                let (number, count) = digits(rest, 2, 16);
                text.push(number as u8);
                count
            }
            b'u' => {
                let (number, count) = digits(rest, 4, 16);
                push_char(number);
                count
            }
            b'U' => {
                let (number, count) = digits(rest, 8, 16);
                push_char(number);
                count
            }
            other => {
                text.push(match other {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    other => *other,
                });
                0
            }
        };
        self.rest = &rest[used..];
        Ok(())
    }
}
