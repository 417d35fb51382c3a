//! Finds values and fields in JSON without decoding it.
//!
//! A [`Scanner`] does not validate its input. It never panics, never moves backwards and never leaves its bytes, but
//! its results for malformed JSON are arbitrary: the caller checks what it uses with `serde_json`. Field names with
//! escapes are found too.

use std::borrow::Cow;

/// The input is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

type Scanned<T> = Result<T, Malformed>;

/// A position in JSON.
#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(json: &'a [u8]) -> Self {
        Scanner { json, at: 0 }
    }

    /// The current position.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not whitespace, without advancing.
    pub(crate) fn peek(&mut self) -> Scanned<u8> {
        loop {
            match self.json.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Malformed),
            }
        }
    }

    /// Advances past this byte if it is next.
    pub(crate) fn take(&mut self, byte: u8) -> Scanned<bool> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Advances past an opening bracket, which must be next.
    pub(crate) fn open(&mut self, bracket: u8) -> Scanned<()> {
        if self.take(bracket)? { Ok(()) } else { Err(Malformed) }
    }

    /// In an object: advances past the next field name, or past the end of the object.
    pub(crate) fn key(&mut self) -> Scanned<Option<Text<'a>>> {
        self.take(b',')?;
        if self.take(b'}')? {
            return Ok(None);
        }
        let key = self.text()?;
        self.open(b':')?;
        Ok(Some(key))
    }

    /// In an array: whether there is another element. Advances past the end of the array.
    pub(crate) fn element(&mut self) -> Scanned<bool> {
        self.take(b',')?;
        Ok(!self.take(b']')?)
    }

    /// Advances past a string.
    pub(crate) fn text(&mut self) -> Scanned<Text<'a>> {
        if self.peek()? != b'"' {
            return Err(Malformed);
        }
        let start = self.at;
        self.at = string_end(self.json, start)?;
        Ok(Text { quoted: &self.json[start..self.at], start })
    }

    /// Advances past a value and returns it if it is a string.
    pub(crate) fn text_or_other(&mut self) -> Scanned<Option<Text<'a>>> {
        if self.peek()? == b'"' {
            return self.text().map(Some);
        }
        self.value().map(|_| None)
    }

    /// Advances past a value.
    pub(crate) fn value(&mut self) -> Scanned<&'a [u8]> {
        let first = self.peek()?;
        let start = self.at;
        self.at = match first {
            b'"' => string_end(self.json, start)?,
            b'{' | b'[' => container_end(self.json, start)?,
            _ => scalar_end(self.json, start),
        };
        if self.at == start { Err(Malformed) } else { Ok(&self.json[start..self.at]) }
    }

    /// The bytes that `pass` advances over.
    pub(crate) fn span_of(&mut self, pass: impl FnOnce(&mut Self) -> Scanned<()>) -> Scanned<&'a [u8]> {
        self.peek()?;
        let start = self.at;
        pass(self)?;
        Ok(&self.json[start..self.at])
    }

    /// The length of every array from here on, in the order of their opening brackets. For malformed JSON the list is
    /// incomplete.
    pub(crate) fn array_lengths(mut self) -> Vec<u32> {
        let mut lengths: Vec<u32> = Vec::new();
        // For each open bracket the index of its array; nothing for an object.
        let mut open: Vec<Option<usize>> = Vec::new();
        while let Some(byte) = self.json.get(self.at) {
            match byte {
                b'"' => match string_end(self.json, self.at) {
                    Ok(end) => {
                        self.at = end;
                        continue;
                    }
                    Err(Malformed) => break,
                },
                b',' => {
                    if let Some(Some(array)) = open.last() {
                        lengths[*array] = lengths[*array].saturating_add(1);
                    }
                }
                b'{' => open.push(None),
                b'[' => {
                    self.at += 1;
                    let is_empty = self.peek() == Ok(b']');
                    open.push(Some(lengths.len()));
                    lengths.push(u32::from(!is_empty));
                    continue;
                }
                b'}' | b']' => {
                    open.pop();
                }
                _ => {}
            }
            self.at += 1;
        }
        lengths
    }

    /// In an object: advances to the value of this field and returns where its name begins.
    pub(crate) fn seek(&mut self, name: &str) -> Scanned<Option<usize>> {
        loop {
            let Some(key) = self.key()? else { return Ok(None) };
            if key.is(name) {
                return Ok(Some(key.start));
            }
            self.value()?;
        }
    }
}

/// A string with its quotes, as it is in the JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    quoted: &'a [u8],
    start: usize,
}

impl<'a> Text<'a> {
    /// The bytes between the quotes.
    pub(crate) fn raw(self) -> &'a [u8] {
        &self.quoted[1..self.quoted.len() - 1]
    }

    /// The decoded string.
    pub(crate) fn read(self) -> Option<Cow<'a, str>> {
        if self.is_escaped() {
            return serde_json::from_slice(self.quoted).ok().map(Cow::Owned);
        }
        std::str::from_utf8(self.raw()).ok().map(Cow::Borrowed)
    }

    /// Whether the decoded string is this text.
    pub(crate) fn is(self, text: &str) -> bool {
        self.raw() == text.as_bytes() || self.is_escaped() && self.read().is_some_and(|read| read == text)
    }

    fn is_escaped(self) -> bool {
        memchr::memchr(b'\\', self.raw()).is_some()
    }
}

/// The position after the string that starts here.
fn string_end(json: &[u8], start: usize) -> Scanned<usize> {
    let mut at = start + 1;
    loop {
        at += quote_or_backslash(json.get(at..).ok_or(Malformed)?).ok_or(Malformed)?;
        if json[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// The position of the first quote or backslash. Most strings are so short that `memchr2` would cost more.
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ (LOW_BITS * u64::from(b'"')))
            | zero_bytes(word ^ (LOW_BITS * u64::from(b'\\')));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let is_either = |byte: &u8| matches!(byte, b'"' | b'\\');
    rest.iter().position(is_either).map(|found| words.len() * 8 + found)
}

const LOW_BITS: u64 = u64::MAX / 255;

/// The high bit of the lowest zero byte, and possibly of some above it.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

/// The position after the object or array that starts here.
fn container_end(json: &[u8], start: usize) -> Scanned<usize> {
    let mut at = start;
    let mut depth = 0;
    loop {
        match json.get(at) {
            Some(b'"') => {
                at = string_end(json, at)?;
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => depth -= 1,
            Some(_) => {}
            None => return Err(Malformed),
        }
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
    }
}

/// The position after the number or literal that starts here.
fn scalar_end(json: &[u8], start: usize) -> usize {
    let is_over = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\t' | b'\n' | b'\r');
    json[start..].iter().position(is_over).map_or(json.len(), |length| start + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(json: &str) -> Option<&[u8]> {
        Scanner::new(json.as_bytes()).value().ok()
    }

    #[test]
    fn the_end_of_a_value_is_found() {
        for (json, expected) in [
            (r#" {"a":[1,"}]\"",{}]} ,"#, r#"{"a":[1,"}]\"",{}]}"#),
            (r#""a\\" "b""#, r#""a\\""#),
            ("12.5e3,", "12.5e3"),
            ("null}", "null"),
            ("[] []", "[]"),
        ] {
            assert_eq!(value(json), Some(expected.as_bytes()), "{json}");
        }
        for json in ["", " ", "{", r#"{"a""#, r#""a"#, r#""a\"#, "}", ","] {
            assert_eq!(value(json), None, "{json}");
        }
    }

    #[test]
    fn a_field_is_found_even_if_its_name_contains_escapes() {
        let json = r#"{ "a" : {"kind":1}, "\u006bind" : "x\ty" }"#;
        let mut scanner = Scanner::new(json.as_bytes());
        scanner.open(b'{').unwrap();
        let start = scanner.seek("kind").unwrap().unwrap();
        assert!(json[start..].starts_with(r#""\u006b"#));
        assert_eq!(scanner.text().unwrap().read().unwrap(), "x\ty");
        assert_eq!(scanner.seek("more"), Ok(None));
    }

    proptest! {
        #[test]
        fn scanning_ends_for_any_input(json in r#"[\[\]{}":,\\a1 ]{0,40}"#) {
            let mut scanner = Scanner::new(json.as_bytes());
            while scanner.value().is_ok() {}
            let mut scanner = Scanner::new(json.as_bytes());
            if scanner.open(b'{').is_ok() {
                while let Ok(Some(key)) = scanner.key() {
                    let _ = (key.read(), scanner.value());
                }
            }
        }
    }
}
