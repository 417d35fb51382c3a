//! Texts of a result file, made fit for a terminal or for a page.
//!
//! Kept true by [`plain`]: a text from a file stays on its line, and cannot move the cursor, change colours or turn
//! the direction of writing. By [`escaped`]: on a page it is text, never markup.

use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;

/// A text without control characters.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_active(c) { '\u{fffd}' } else { c }).collect())
}

fn is_active(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text, escaped for HTML and its attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// The number of terminal columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// As much of a text as fits into so many columns.
pub fn clipped(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let (mut cut, _) = split_at_column(text, width.saturating_sub(1));
    cut.extend((width > 0).then_some('…'));
    Cow::Owned(cut)
}

/// A text in a column of this width, at its left side or at its right.
pub(super) fn padded(text: &str, width: usize, is_right: bool) -> String {
    let text = clipped(text, width);
    let missing = " ".repeat(width.saturating_sub(columns(&text)));
    if is_right { format!("{missing}{text}") } else { format!("{text}{missing}") }
}

/// A text in lines of at most this width, broken between words where that is possible. Lines after the first begin with
/// `indent` blanks.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let margin = " ".repeat(indent);
    let mut lines = vec![String::new()];
    let mut is_fresh = true;
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if !is_fresh && columns(line) + 1 + columns(word) > width {
            lines.push(margin.clone());
        } else if !is_fresh {
            line.push(' ');
        }
        append_broken(&mut lines, word, width, &margin);
        is_fresh = false;
    }
    lines
}

/// Appends a word to the last line; one that is wider than a line is continued on further lines.
fn append_broken(lines: &mut Vec<String>, word: &str, width: usize, margin: &str) {
    let mut rest = word.to_owned();
    loop {
        let line = lines.last_mut().expect("there is a first line");
        // At least as wide as the widest character, so that every round makes progress.
        let room = width.saturating_sub(columns(line)).max(2);
        let (fits, beyond) = split_at_column(&rest, room);
        line.push_str(&fits);
        if beyond.is_empty() || fits.is_empty() {
            line.push_str(&beyond);
            return;
        }
        rest = beyond;
        lines.push(margin.to_owned());
    }
}

/// The beginning of a text that fits into so many columns, and the rest.
fn split_at_column(text: &str, width: usize) -> (String, String) {
    let mut taken = 0;
    let is_beyond = |c: char| {
        taken += c.width().unwrap_or(0);
        taken > width
    };
    let (fits, beyond) = text.split_at(text.find(is_beyond).unwrap_or(text.len()));
    (fits.to_owned(), beyond.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_in_the_page() {
        assert_eq!(
            escaped("<script>alert(\"1\")</script>"),
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"
        );
        assert_eq!(escaped("a & b's"), "a &amp; b&#39;s");
        assert_eq!(plain("a\x1b[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(plain("größe 大"), "größe 大");
    }

    #[test]
    fn text_that_does_not_fit_is_cut_at_the_end() {
        for (text, width, expected) in
            [("web", 3, "web"), ("web-0", 3, "we…"), ("大大", 3, "大…"), ("大大", 4, "大大"), ("a", 0, "")]
        {
            assert_eq!(clipped(text, width), expected, "{text} {width}");
        }
        assert_eq!(padded("大", 4, false), "大  ");
        assert_eq!(padded("大", 4, true), "  大");
    }

    #[test]
    fn lines_break_between_words_or_where_they_must() {
        assert_eq!(wrapped("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrapped("one two three", 80, 2), ["one two three"]);
        assert_eq!(wrapped("abcdefghij kl", 4, 1), ["abcd", " efg", " hij", " kl"]);
        assert_eq!(wrapped("大大大", 4, 0), ["大大", "大"]);
        assert_eq!(wrapped("大大", 0, 0), ["大", "大"]);
        assert_eq!(wrapped("", 10, 2), [""]);
    }
}
