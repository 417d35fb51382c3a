//! Translates regular expressions of Go into those of the `regex` crate.
//!
//! They differ in special characters: classes like `\d` match only ASCII in Go, a bracket inside of brackets is a
//! literal, and so on. A pattern that Go refuses is refused, in the words of Go.

/// The reason why a text is no regular expression, and the part of it that is wrong.
pub(super) struct Fault<'a> {
    pub(super) why: &'static str,
    pub(super) at: &'a str,
}

/// The largest number of repetitions.
const REPEAT_MAX: u32 = 1000;

const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_RANGE: &str = "invalid character class range";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_NAME: &str = "invalid named capture";

type Step<'a> = Result<(), Fault<'a>>;

pub(super) fn translate(text: &str) -> Result<String, Fault<'_>> {
    let mut translation = Translation {
        whole: text,
        rest: text,
        out: String::new(),
        groups: Vec::new(),
        copies: 1,
        most: 1,
        last: Last::Nothing,
    };
    while !translation.rest.is_empty() {
        translation.step()?;
    }
    if !translation.groups.is_empty() {
        return Err(Fault { why: "missing closing )", at: text });
    }
    Ok(translation.out)
}

/// The item before the rest.
#[derive(Clone, Copy)]
enum Last {
    /// Nothing that can be repeated.
    Nothing,
    Something,
    /// A repetition that begins here.
    Repetition(usize),
}

struct Translation<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    /// For each open group, the copies that the largest item before it in its own group takes.
    groups: Vec<u32>,
    /// The copies that the item before the rest takes, and those of the largest item in the group.
    copies: u32,
    most: u32,
    last: Last,
}

impl<'a> Translation<'a> {
    fn at(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    /// The text between `start` and the rest.
    fn since(&self, start: usize) -> &'a str {
        &self.whole[start..self.at()]
    }

    fn fault_since(&self, why: &'static str, start: usize) -> Fault<'a> {
        Fault { why, at: self.since(start) }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn take_prefix(&mut self, prefix: &str) -> bool {
        let behind = self.rest.strip_prefix(prefix);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn literal(&mut self, c: char) {
        // Hexadecimal, because the characters that need an escape differ inside and outside of brackets.
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c);
        } else {
            self.out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
        }
    }

    fn step(&mut self) -> Step<'a> {
        let start = self.at();
        let Some(c) = self.take() else { return Ok(()) };
        match c {
            '(' if self.rest.starts_with('?') => return self.perl_group(start),
            '(' => {
                self.open();
                self.out.push('(');
                self.last = Last::Nothing;
                return Ok(());
            }
            ')' if self.groups.is_empty() => return Err(Fault { why: "unexpected )", at: self.whole }),
            ')' => {
                self.out.push(')');
                self.copies = self.most;
                self.most = self.most.max(self.groups.pop().unwrap_or(1));
                self.last = Last::Something;
                return Ok(());
            }
            '|' => {
                self.out.push('|');
                self.last = Last::Nothing;
                return Ok(());
            }
            '*' | '+' | '?' => return self.repetition(start),
            '{' => match self.count() {
                Some((least, most)) => {
                    if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX || most < least) {
                        return Err(self.fault_since("invalid repeat count", start));
                    }
                    let end = self.rest;
                    self.repetition(start)?;
                    self.copies = self.copies.saturating_mul(most.unwrap_or(least).max(1));
                    self.most = self.most.max(self.copies);
                    if self.copies > REPEAT_MAX {
                        let at = &self.whole[start..self.whole.len() - end.len()];
                        return Err(Fault { why: "invalid repeat count", at });
                    }
                    return Ok(());
                }
                None => self.literal('{'),
            },
            '[' => self.class(start)?,
            '\\' => self.escape(start)?,
            '.' | '^' | '$' => self.out.push(c),
            c => self.literal(c),
        }
        self.copies = 1;
        self.last = Last::Something;
        Ok(())
    }

    fn open(&mut self) {
        self.groups.push(self.most);
        self.most = 1;
    }

    /// Reads `{2}`, `{2,}` or `{2,3}` after the brace. None if the text is no such repetition; the brace is then a
    /// literal.
    fn count(&mut self) -> Option<(u32, Option<u32>)> {
        let (inner, behind) = self.rest.split_once('}')?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            is_number.then(|| digits.parse().unwrap_or(u32::MAX))
        };
        let (least, most) = match inner.split_once(',') {
            None => number(inner).map(|times| (times, Some(times)))?,
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        self.rest = behind;
        Some((least, most))
    }

    fn repetition(&mut self, start: usize) -> Step<'a> {
        let operator = self.since(start);
        let lazy = self.take_prefix("?");
        match self.last {
            Last::Nothing => {
                return Err(Fault { why: "missing argument to repetition operator", at: operator });
            }
            Last::Repetition(first) => {
                return Err(self.fault_since("invalid nested repetition operator", first));
            }
            Last::Something => {}
        }
        self.out.push_str(operator);
        if lazy {
            self.out.push('?');
        }
        self.last = Last::Repetition(start);
        Ok(())
    }

    fn perl_group(&mut self, start: usize) -> Step<'a> {
        self.last = Last::Nothing;
        if self.take_prefix("?P<") || self.take_prefix("?<") {
            let Some((name, behind)) = self.rest.split_once('>') else {
                return Err(Fault { why: BAD_NAME, at: &self.whole[start..] });
            };
            self.rest = behind;
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(self.fault_since(BAD_NAME, start));
            }
            // Captured text is never used, so the group loses its name.
            self.open();
            self.out.push('(');
            return Ok(());
        }
        self.take();
        let (mut is_negated, mut has_flag) = (false, false);
        loop {
            match self.take() {
                Some('i' | 'm' | 's' | 'U') => has_flag = true,
                Some('-') if !is_negated => (is_negated, has_flag) = (true, false),
                Some(end @ (':' | ')')) if has_flag || !is_negated => {
                    let group = self.since(start);
                    // Go accepts an empty list of flags, which the library does not.
                    self.out.push_str(if group == "(?)" { "" } else { group });
                    if end == ':' {
                        self.open();
                    }
                    return Ok(());
                }
                _ => return Err(self.fault_since(BAD_PERL, start)),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Step<'a> {
        let Some(c) = self.rest.chars().next() else {
            return Err(Fault { why: "trailing backslash at end of expression", at: "" });
        };
        let same = match c {
            'A' => r"\A",
            'z' => r"\z",
            'b' => r"(?-u:\b)",
            'B' => r"(?-u:\B)",
            'Q' => {
                self.take();
                let (quoted, behind) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                self.rest = behind;
                quoted.chars().for_each(|c| self.literal(c));
                return Ok(());
            }
            _ => {
                if let Some(class) = self.named_class(start)? {
                    self.out.push_str(&format!("[{class}]"));
                } else {
                    let c = self.escaped(start)?;
                    self.literal(c);
                }
                return Ok(());
            }
        };
        self.take();
        self.out.push_str(same);
        Ok(())
    }

    /// Reads `\d` or `\pL` after the backslash, as the inside of a class. None if it is neither.
    fn named_class(&mut self, start: usize) -> Result<Option<String>, Fault<'a>> {
        let Some(c) = self.rest.chars().next() else { return Ok(None) };
        let class = match c {
            'd' => "0-9",
            's' => r"\t\n\x0c\r\x20",
            'w' => "0-9A-Za-z_",
            'D' => "[^0-9]",
            'S' => r"[^\t\n\x0c\r\x20]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => {
                self.take();
                return self.script(start, c == 'P').map(Some);
            }
            _ => return Ok(None),
        };
        self.take();
        Ok(Some(class.to_owned()))
    }

    fn script(&mut self, start: usize, is_negated: bool) -> Result<String, Fault<'a>> {
        let name = if self.take_prefix("{") {
            let Some((name, behind)) = self.rest.split_once('}') else {
                return Err(Fault { why: BAD_RANGE, at: &self.whole[start..] });
            };
            self.rest = behind;
            name
        } else {
            let before = self.at();
            self.take();
            self.since(before)
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, !is_negated),
            None => (name, is_negated),
        };
        let class = format!(r"\{}{{{name}}}", if is_negated { 'P' } else { 'p' });
        let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        if !is_plain
            || !name.starts_with(|c: char| c.is_ascii_uppercase())
            || regex::Regex::new(&class).is_err()
        {
            return Err(self.fault_since(BAD_RANGE, start));
        }
        Ok(class)
    }

    /// Reads the character that an escape means, after the backslash.
    fn escaped(&mut self, start: usize) -> Result<char, Fault<'a>> {
        let Some(c) = self.take() else {
            return Err(Fault { why: "trailing backslash at end of expression", at: "" });
        };
        let code = match c {
            'a' => 7,
            'f' => 0xc,
            'n' => 0xa,
            'r' => 0xd,
            't' => 9,
            'v' => 0xb,
            '0'..='7' => {
                let octal = |c: &char| ('0'..='7').contains(c);
                if c != '0' && !self.rest.chars().next().is_some_and(|c| octal(&c)) {
                    return Err(self.fault_since(BAD_ESCAPE, start));
                }
                let more = self.rest.chars().take_while(octal).take(2).count();
                let digits = &self.whole[self.at() - 1..self.at() + more];
                self.rest = &self.rest[more..];
                u32::from_str_radix(digits, 8).unwrap_or(u32::MAX)
            }
            'x' => self.hexadecimal(),
            c if c.is_ascii_punctuation() => u32::from(c),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
            _ => u32::MAX,
        };
        char::from_u32(code).ok_or_else(|| self.fault_since(BAD_ESCAPE, start))
    }

    /// Too large a number if there is none.
    fn hexadecimal(&mut self) -> u32 {
        let (digits, behind) = match self.rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').unwrap_or(("", self.rest)),
            None => self.rest.split_at_checked(2).unwrap_or(("", self.rest)),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            self.take();
            return u32::MAX;
        }
        self.rest = behind;
        u32::from_str_radix(digits, 16).unwrap_or(u32::MAX)
    }

    fn class(&mut self, start: usize) -> Step<'a> {
        let missing = Fault { why: "missing closing ]", at: &self.whole[start..] };
        self.out.push('[');
        if self.take_prefix("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            if self.rest.is_empty() {
                return Err(missing);
            }
            if !is_first && self.take_prefix("]") {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if let Some((name, behind)) =
                self.rest.strip_prefix("[:").and_then(|inner| inner.split_once(":]"))
            {
                let whole = &self.rest[..name.len() + 4];
                if regex::Regex::new(&format!("[{whole}]")).is_err() {
                    return Err(Fault { why: BAD_RANGE, at: whole });
                }
                self.out.push_str(whole);
                self.rest = behind;
                continue;
            }
            let before = self.at();
            if self.take_prefix("\\") {
                if let Some(class) = self.named_class(before)? {
                    self.out.push_str(&class);
                    continue;
                }
                self.rest = &self.whole[before..];
            }
            let first = self.class_char(start)?;
            let mut last = first;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.take();
                last = self.class_char(start)?;
                if last < first {
                    return Err(self.fault_since(BAD_RANGE, before));
                }
            }
            self.out.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(first), u32::from(last)));
        }
    }

    fn class_char(&mut self, start: usize) -> Result<char, Fault<'a>> {
        let before = self.at();
        match self.take() {
            Some('\\') => self.escaped(before),
            Some(c) => Ok(c),
            None => Err(Fault { why: "missing closing ]", at: &self.whole[start..] }),
        }
    }
}
