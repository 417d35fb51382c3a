//! Reads a pattern as Go's `regexp/syntax` does and writes it in the syntax of crate `regex`.
//!
//! Kept true: errors come in the order in which Go finds them, with its texts.

use super::class;

/// The largest nesting depth of a pattern.
pub(super) const HEIGHT_MAX: u32 = 1000;
/// The largest repeat count, multiplied with the counts of the repeats around it.
const REPEAT_MAX: i64 = 1000;
/// The largest number of instructions.
const SIZE_MAX: i64 = (128 << 20) / 40;

/// The text of an error.
pub(super) fn error(fault: &str, at: &str) -> String {
    format!("error parsing regexp: {fault}: `{at}`")
}

/// The flags that `(?imsU)` sets.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_matches_newline: bool,
    lazy: bool,
}

impl Flags {
    /// The written expression, in a group that ignores case if the flags say so.
    pub(super) fn around(self, written: &str) -> String {
        if self.fold_case { format!("(?i:{written})") } else { written.to_owned() }
    }
}

/// An expression that was read.
struct Node {
    written: String,
    /// Of the tree of operators.
    height: u32,
    /// Instructions.
    size: i64,
    /// Every path of counts from here to the bottom, as the most that may stand above it.
    repeats: Repeats,
    /// Literal characters are joined with their neighbours, so they add no height.
    is_literal: bool,
}

/// The counts of repetitions below an expression: the outermost ones, each with those below it.
#[derive(Default)]
struct Repeats(Vec<(i64, Repeats)>);

impl Repeats {
    /// Whether nothing is repeated more than `most` times.
    fn fit(&self, most: i64) -> bool {
        self.0.iter().all(|(count, below)| {
            *count == 0 || (*count <= most && below.fit(if *count > 0 { most / count } else { most }))
        })
    }
}

impl Node {
    fn leaf(written: String, size: i64) -> Node {
        Node { written, height: 1, size, repeats: Repeats::default(), is_literal: false }
    }
}

/// A group that is not closed yet: the alternatives before the current one, and the current one.
struct Group {
    /// The flags to return to.
    flags: Flags,
    captures: bool,
    alternatives: Vec<Node>,
    current: Vec<Node>,
}

impl Group {
    fn new(flags: Flags, captures: bool) -> Group {
        Group { flags, captures, alternatives: Vec::new(), current: Vec::new() }
    }

    fn end_alternative(&mut self) {
        let nodes = std::mem::take(&mut self.current);
        self.alternatives.push(concatenate(nodes));
    }

    fn finish(mut self) -> Node {
        self.end_alternative();
        alternate(self.alternatives)
    }
}

fn concatenate(mut nodes: Vec<Node>) -> Node {
    if nodes.len() == 1
        && let Some(node) = nodes.pop()
    {
        return node;
    }
    let only_literals = nodes.iter().all(|node| node.is_literal);
    let (written, height, size, repeats) = join(nodes, "");
    let height = if only_literals { 1 } else { height + 1 };
    Node { written, height, size: size.max(1), repeats, is_literal: false }
}

fn alternate(mut nodes: Vec<Node>) -> Node {
    if nodes.len() == 1
        && let Some(node) = nodes.pop()
    {
        return node;
    }
    let branches = nodes.len() as i64 - 1;
    let (written, height, size, repeats) = join(nodes, "|");
    Node { written, height: height + 1, size: size.saturating_add(branches), repeats, is_literal: false }
}

fn join(nodes: Vec<Node>, separator: &str) -> (String, u32, i64, Repeats) {
    let mut joined = (String::new(), 0, 0i64, Repeats::default());
    for (index, node) in nodes.into_iter().enumerate() {
        if index > 0 {
            joined.0.push_str(separator);
        }
        joined.0.push_str(&node.written);
        joined.1 = joined.1.max(node.height);
        joined.2 = joined.2.saturating_add(node.size);
        joined.3.0.extend(node.repeats.0);
    }
    joined
}

/// The pattern in the syntax of crate `regex`.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut parser =
        Parser { pattern, flags: Flags::default(), groups: vec![Group::new(Flags::default(), false)] };
    let mut rest = pattern;
    let mut last_repeat = None;
    while !rest.is_empty() {
        let before = rest;
        let is_repeat;
        (rest, is_repeat) = parser.next(rest, last_repeat)?;
        last_repeat = is_repeat.then_some(before);
        parser.check_limits()?;
    }
    match parser.groups.pop() {
        Some(group) if parser.groups.is_empty() => Ok(parser.checked(group.finish())?.written),
        _ => Err(error("missing closing )", pattern)),
    }
}

struct Parser<'a> {
    pattern: &'a str,
    flags: Flags,
    groups: Vec<Group>,
}

impl<'a> Parser<'a> {
    /// Reads one thing. Returns the text behind it, and whether it was a repetition.
    fn next(&mut self, text: &'a str, last_repeat: Option<&'a str>) -> Result<(&'a str, bool), String> {
        let first = text.as_bytes()[0];
        let behind = &text[first_length(text)..];
        match first {
            b'(' if behind.starts_with('?') => return Ok((self.perl_group(text)?, false)),
            b'(' => self.groups.push(Group::new(self.flags, true)),
            b'|' => self.group().end_alternative(),
            b')' => self.close_group()?,
            b'^' => self.push_leaf(if self.flags.multi_line { "(?m:^)" } else { "\\A" }),
            b'$' => self.push_leaf(if self.flags.multi_line { "(?m:$)" } else { "\\z" }),
            b'.' => self.push_leaf(if self.flags.dot_matches_newline { "(?s:.)" } else { "(?-s:.)" }),
            b'[' => {
                let (class, behind) = class::bracketed(text, self.flags)?;
                self.push_leaf(&class);
                return Ok((behind, false));
            }
            b'*' | b'+' | b'?' => {
                let repeat = match first {
                    b'*' => Repeat { written: "*", min: 0, max: None, counted: false },
                    b'+' => Repeat { written: "+", min: 1, max: None, counted: false },
                    _ => Repeat { written: "?", min: 0, max: Some(1), counted: false },
                };
                return Ok((self.repeat(repeat, text, behind, last_repeat)?, true));
            }
            b'{' => match parse_counts(text) {
                None => self.push_literal(u32::from('{')),
                Some((counts, behind)) => {
                    return Ok((self.repeat_counted(counts, text, behind, last_repeat)?, true));
                }
            },
            b'\\' => return Ok((self.backslash(text)?, false)),
            _ => self.push_literal(text.chars().next().map_or(0, u32::from)),
        }
        Ok((behind, false))
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the outermost group is only taken at the end")
    }

    fn push(&mut self, node: Node) {
        self.group().current.push(node);
    }

    fn push_leaf(&mut self, written: &str) {
        self.push(Node::leaf(written.to_owned(), 1));
    }

    fn push_literal(&mut self, code: u32) {
        let mut written = String::new();
        class::push_range(&mut written, code, code);
        if written.is_empty() {
            // A surrogate, which no text has.
            written.push_str("[^\\x00-\\x{10FFFF}]");
        }
        let node = Node { is_literal: true, ..Node::leaf(self.flags.around(&written), 1) };
        self.push(node);
    }

    fn close_group(&mut self) -> Result<(), String> {
        if self.groups.len() < 2 {
            return Err(error("unexpected )", self.pattern));
        }
        let group = self.groups.pop().expect("there are two");
        let (flags, captures) = (group.flags, group.captures);
        let inner = self.checked(group.finish())?;
        self.flags = flags;
        let written = format!("(?:{})", inner.written);
        let node = if captures {
            Node {
                written,
                height: inner.height + 1,
                size: inner.size.saturating_add(2),
                repeats: inner.repeats,
                is_literal: false,
            }
        } else {
            Node { written, is_literal: false, ..inner }
        };
        let node = self.checked(node)?;
        self.push(node);
        Ok(())
    }

    fn checked(&self, node: Node) -> Result<Node, String> {
        if node.size > SIZE_MAX {
            return Err(error("expression too large", self.pattern));
        }
        if node.height > HEIGHT_MAX {
            return Err(error("expression nests too deeply", self.pattern));
        }
        Ok(node)
    }

    /// Groups that are open do not count, but they must not pile up without end.
    fn check_limits(&self) -> Result<(), String> {
        if self.groups.len() > GROUPS_MAX {
            return Err(error("expression nests too deeply", self.pattern));
        }
        Ok(())
    }

    /// Flags, a group without a number, or a group with a name.
    fn perl_group(&mut self, text: &'a str) -> Result<&'a str, String> {
        let name_start = match text.as_bytes() {
            [_, _, b'P', b'<', _, ..] => Some(4),
            [_, _, b'<', _, ..] => Some(3),
            _ => None,
        };
        if let Some(start) = name_start {
            let end = text.find('>').ok_or_else(|| error("invalid named capture", text))?;
            let name = text.get(start..end).unwrap_or("");
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(error("invalid named capture", &text[..=end]));
            }
            self.groups.push(Group::new(self.flags, true));
            return Ok(&text[end + 1..]);
        }
        let mut flags = self.flags;
        let (mut value, mut saw_flag) = (true, false);
        let mut end = text.len();
        for (at, c) in text.char_indices().skip(2) {
            end = at + c.len_utf8();
            match c {
                'i' => flags.fold_case = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_matches_newline = value,
                'U' => flags.lazy = value,
                '-' if value => {
                    (value, saw_flag) = (false, false);
                    continue;
                }
                ':' | ')' if value || saw_flag => {
                    if c == ':' {
                        self.groups.push(Group::new(self.flags, false));
                    }
                    self.flags = flags;
                    return Ok(&text[end..]);
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err(error("invalid or unsupported Perl syntax", &text[..end]))
    }

    fn repeat_counted(
        &mut self,
        counts: Option<(i64, Option<i64>)>,
        text: &'a str,
        behind: &'a str,
        last_repeat: Option<&'a str>,
    ) -> Result<&'a str, String> {
        let shown = &text[..text.len() - behind.len()];
        let valid = counts.filter(|(min, max)| {
            *min <= REPEAT_MAX && max.is_none_or(|max| max <= REPEAT_MAX && *min <= max)
        });
        let (min, max) = valid.ok_or_else(|| error("invalid repeat count", shown))?;
        self.repeat(Repeat { written: shown, min, max, counted: true }, text, behind, last_repeat)
    }

    /// Repeats the last expression. Returns the text behind the repetition.
    fn repeat(
        &mut self,
        repeat: Repeat<'_>,
        text: &'a str,
        behind: &'a str,
        last_repeat: Option<&'a str>,
    ) -> Result<&'a str, String> {
        let (lazy, behind) = match behind.strip_prefix('?') {
            Some(rest) => (!self.flags.lazy, rest),
            None => (self.flags.lazy, behind),
        };
        if let Some(last) = last_repeat {
            return Err(error("invalid nested repetition operator", &last[..last.len() - behind.len()]));
        }
        let shown = &text[..text.len() - behind.len()];
        let Some(inner) = self.group().current.pop() else {
            return Err(error("missing argument to repetition operator", shown));
        };
        let node = self.checked(repeat.apply(inner, lazy))?;
        if repeat.counted
            && (repeat.min >= 2 || repeat.max.is_some_and(|max| max >= 2))
            && !node.repeats.fit(REPEAT_MAX)
        {
            return Err(error("invalid repeat count", shown));
        }
        self.push(node);
        Ok(behind)
    }

    fn backslash(&mut self, text: &'a str) -> Result<&'a str, String> {
        let letter = text.as_bytes().get(1).copied();
        let behind = text.get(2..).unwrap_or("");
        match letter {
            Some(b'A') => self.push_leaf("\\A"),
            Some(b'z') => self.push_leaf("\\z"),
            // Words are ASCII.
            Some(b'b') => self.push_leaf("(?-u:\\b)"),
            Some(b'B') => self.push_leaf("(?-u:\\B)"),
            Some(b'C') => return Err(error("invalid escape sequence", &text[..2])),
            Some(b'Q') => {
                let (literal, behind) = behind.split_once("\\E").unwrap_or((behind, ""));
                literal.chars().for_each(|c| self.push_literal(u32::from(c)));
                return Ok(behind);
            }
            Some(letter) => {
                if let Some((class, behind)) = class::unicode_class(text)? {
                    self.push_leaf(&self.flags.around(&class));
                    return Ok(behind);
                }
                if let Some(class) = class::perl_class(letter) {
                    self.push_leaf(&self.flags.around(class));
                    return Ok(behind);
                }
                return self.escaped_literal(text);
            }
            None => return self.escaped_literal(text),
        }
        Ok(behind)
    }

    fn escaped_literal(&mut self, text: &'a str) -> Result<&'a str, String> {
        let (code, behind) = escape(text)?;
        self.push_literal(code);
        Ok(behind)
    }
}

/// The largest number of open groups: more than can be closed without nesting too deeply.
const GROUPS_MAX: usize = 4 * HEIGHT_MAX as usize;

fn first_length(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

struct Repeat<'a> {
    written: &'a str,
    min: i64,
    max: Option<i64>,
    counted: bool,
}

impl Repeat<'_> {
    fn apply(&self, inner: Node, lazy: bool) -> Node {
        let written = format!("(?:{}){}{}", inner.written, self.written, if lazy { "?" } else { "" });
        let size = match (self.counted, self.max) {
            (false, Some(_)) => inner.size.saturating_add(1),
            (false, None) => inner.size.saturating_add(2 - self.min),
            (true, None) if self.min == 0 => inner.size.saturating_add(2),
            (true, None) => inner.size.saturating_mul(self.min).saturating_add(1),
            (true, Some(max)) => inner.size.saturating_mul(max).saturating_add(max - self.min),
        };
        let repeats = if self.counted {
            Repeats(vec![(self.max.unwrap_or(self.min), inner.repeats)])
        } else {
            inner.repeats
        };
        Node { written, height: inner.height + 1, size: size.max(1), repeats, is_literal: false }
    }
}

/// The least and the most of a repetition; `None` if a number is too large to read.
type Counts = Option<(i64, Option<i64>)>;

/// `{2}`, `{2,}` or `{2,3}` at the beginning of the text, and the text behind it. Anything else is text.
fn parse_counts(text: &str) -> Option<(Counts, &str)> {
    let (min, rest) = parse_count(text.strip_prefix('{')?)?;
    if let Some(behind) = rest.strip_prefix('}') {
        return Some((min.map(|min| (min, Some(min))), behind));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(behind) = rest.strip_prefix('}') {
        return Some((min.map(|min| (min, None)), behind));
    }
    let (max, rest) = parse_count(rest)?;
    let behind = rest.strip_prefix('}')?;
    Some((min.zip(max).map(|(min, max)| (min, Some(max))), behind))
}

/// A number without leading zeros, and the text behind it.
fn parse_count(text: &str) -> Option<(Option<i64>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let digits = &text[..end];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), &text[end..]))
}

/// The code point that the escape at the beginning of the text stands for, and the text behind it.
pub(super) fn escape(text: &str) -> Result<(u32, &str), String> {
    let Some(c) = text.chars().nth(1) else {
        return Err(error("trailing backslash at end of expression", ""));
    };
    let rest = &text[1 + c.len_utf8()..];
    let invalid = |rest: &str| Err(error("invalid escape sequence", &text[..text.len() - rest.len()]));
    let code = match c {
        '1'..='7' if !rest.starts_with(|c: char| ('0'..='7').contains(&c)) => return invalid(rest),
        '0'..='7' => {
            let digits = rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            let code = u32::from_str_radix(&text[1..2 + digits], 8).unwrap_or(0);
            return Ok((code, &rest[digits..]));
        }
        'x' => return hex_escape(text, rest),
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
        _ => return invalid(rest),
    };
    Ok((code, rest))
}

/// `\x41` or `\x{1F600}`, of which `rest` is the text behind the x.
fn hex_escape<'a>(text: &'a str, rest: &'a str) -> Result<(u32, &'a str), String> {
    let invalid = |rest: &str| Err(error("invalid escape sequence", &text[..text.len() - rest.len()]));
    let mut characters = rest.chars();
    match characters.next() {
        None => invalid(rest),
        Some('{') => {
            let mut code = 0u32;
            let mut digits = 0;
            loop {
                match characters.next() {
                    Some('}') if digits > 0 => return Ok((code, characters.as_str())),
                    Some(c) => match c.to_digit(16).map(|digit| code * 16 + digit) {
                        Some(next) if next <= u32::from(char::MAX) => (code, digits) = (next, digits + 1),
                        _ => return invalid(characters.as_str()),
                    },
                    None => return invalid(""),
                }
            }
        }
        Some(high) => match (high.to_digit(16), characters.next().and_then(|low| low.to_digit(16))) {
            (Some(high), Some(low)) => Ok((high * 16 + low, characters.as_str())),
            _ => invalid(characters.as_str()),
        },
    }
}
