//! Regular expressions of Go (RE2) on top of crate `regex`, which has the same semantics but another syntax.
//!
//! A pattern is parsed as Go parses it, with Go's errors, and written anew in the syntax of the crate: flags, classes
//! and escapes become explicit, groups capture nothing. Matching takes time linear in the text.
//!
//! Known difference: a pattern that needs more than [`PROGRAM_BYTES_MAX`] is refused as too large, where Go allows more.

mod class;
mod parser;

use regex::{Regex, RegexBuilder};

/// The largest compiled pattern, in bytes.
const PROGRAM_BYTES_MAX: usize = 32 << 20;
/// The largest one of those that are compiled for each evaluation, because they come from the object. Compiling takes a
/// few milliseconds for each megabyte.
const RUN_TIME_PROGRAM_BYTES_MAX: usize = 512 << 10;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        Pattern::within(pattern, PROGRAM_BYTES_MAX)
    }

    /// Compiles a pattern during an evaluation. It may be smaller than one that is compiled once.
    pub fn at_run_time(pattern: &str) -> Result<Pattern, String> {
        Pattern::within(pattern, RUN_TIME_PROGRAM_BYTES_MAX)
    }

    fn within(pattern: &str, bytes_max: usize) -> Result<Pattern, String> {
        let translated = parser::translate(pattern)?;
        RegexBuilder::new(&translated)
            .size_limit(bytes_max)
            .nest_limit(parser::HEIGHT_MAX * 4)
            .build()
            .map(Pattern)
            .map_err(|_| parser::error("expression too large", pattern))
    }

    /// Whether any part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// `find`: the first match, or an empty text.
    pub fn find<'a>(&self, text: &'a str) -> &'a str {
        self.0.find(text).map_or("", |found| found.as_str())
    }

    /// `findAll`: the first `count` matches, or all if it is negative.
    pub fn find_all<'a>(&self, text: &'a str, count: i64) -> Vec<&'a str> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.0.find_iter(text).take(count).map(|found| found.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, found) in [
            ("^a.b$", "a\nb", None),
            ("(?s)^a.b$", "a\nb", Some("a\nb")),
            ("(?m)^b$", "a\nb\nc", Some("b")),
            ("b$", "b\n", None),
            ("(?i)K", "\u{212a}", Some("\u{212a}")),
            ("(?i:a)B", "AB", Some("AB")),
            ("(?i)a(?-i)B", "Ab", None),
            ("(?U)a+", "aaa", Some("a")),
            ("(?U)a+?", "aaa", Some("aaa")),
            ("a|ab", "ab", Some("a")),
            (r"\Q.*\E+", "x.**", Some(".**")),
            (r"\Q.*", ".*", Some(".*")),
            (r"\d+", "٣3", Some("3")),
            (r"\s", "\u{b}", None),
            (r"\w+", "éa_1", Some("a_1")),
            (r"\bé", "é", None),
            (r"[\d\-x]+", "1-x", Some("1-x")),
            (r"[[:alpha:]]+[[:^alpha:]]", "ab1", Some("ab1")),
            (r"[^\n]", "\n", None),
            (r"[]a]+", "]a", Some("]a")),
            (r"[^]a]", "]b", Some("b")),
            (r"[a\]]+", "a]", Some("a]")),
            (r"[a&&b~~c]+", "&&", Some("&&")),
            (r"[[a]", "[", Some("[")),
            (r"\pL\p{Greek}\PN\p{^Lu}", "aΑbb", Some("aΑbb")),
            (r"\x41\x{1F600}\101\012?", "A😀A", Some("A😀A")),
            (r"a{,2}", "a{,2}", Some("a{,2}")),
            (r"a{2}{", "aa{", Some("aa{")),
            (r"a{01}", "a{01}", Some("a{01}")),
            (r"x{0}", "x", Some("")),
            (r"(a|)(|b)()", "b", Some("")),
            (r"(?P<n>a)(?<m>b)", "ab", Some("ab")),
            (r"^*a", "ba", Some("a")),
            (r"\z", "a", Some("")),
            (r"[\x{D800}-\x{DFFF}]", "a", None),
            (r"\x{D800}", "a", None),
            (r"[^\x00-\x{10FFFF}]", "a", None),
            (r"\B", "a", None),
            (r"#\ a", "# a", Some("# a")),
        ] {
            let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(compiled.0.find(text).map(|found| found.as_str()), found, "{pattern} {text:?}");
            assert_eq!(compiled.is_match(text), found.is_some());
            assert_eq!(compiled.find(text), found.unwrap_or(""));
        }
    }

    #[test]
    fn all_matches_are_found_in_order() {
        for (pattern, text, count, found) in [
            ("[0-9]", "1 2 3", -1, &["1", "2", "3"][..]),
            ("[0-9]", "1 2 3", 2, &["1", "2"]),
            ("[0-9]", "1 2 3", 0, &[]),
            ("a*", "baac", -1, &["", "aa", ""]),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().find_all(text, count), found, "{pattern}");
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        for (pattern, fault, at) in [
            ("[", "missing closing ]", "["),
            ("a[b-", "missing closing ]", "[b-"),
            ("[]", "missing closing ]", "[]"),
            ("[z-a]", "invalid character class range", "z-a"),
            ("[c--d]", "invalid character class range", "c--"),
            ("[a-\\d]", "invalid escape sequence", "\\d"),
            ("[[:foo:]]", "invalid character class range", "[:foo:]"),
            ("\\p{Foo}", "invalid character class range", "\\p{Foo}"),
            ("\\pX", "invalid character class range", "\\pX"),
            ("\\p{Alphabetic}", "invalid character class range", "\\p{Alphabetic}"),
            ("\\p{L", "invalid character class range", "\\p{L"),
            ("(a", "missing closing )", "(a"),
            ("a)", "unexpected )", "a)"),
            ("*", "missing argument to repetition operator", "*"),
            ("(+)", "missing argument to repetition operator", "+"),
            ("a|*", "missing argument to repetition operator", "*"),
            ("(?i)*", "missing argument to repetition operator", "*"),
            ("{2}", "missing argument to repetition operator", "{2}"),
            ("a**", "invalid nested repetition operator", "**"),
            ("a+{2}", "invalid nested repetition operator", "+{2}"),
            ("a*??", "invalid nested repetition operator", "*??"),
            ("a{1001}", "invalid repeat count", "{1001}"),
            ("a{2,1}", "invalid repeat count", "{2,1}"),
            ("a{99999999999}", "invalid repeat count", "{99999999999}"),
            ("(a{100}){11}", "invalid repeat count", "{11}"),
            ("((a{10}){10}){10}", "", ""),
            ("((a{10}){10}){11}", "invalid repeat count", "{11}"),
            ("\\", "trailing backslash at end of expression", ""),
            ("\\C", "invalid escape sequence", "\\C"),
            ("\\8", "invalid escape sequence", "\\8"),
            ("\\1", "invalid escape sequence", "\\1"),
            ("\\q", "invalid escape sequence", "\\q"),
            ("\\é", "invalid escape sequence", "\\é"),
            ("\\x{110000}", "invalid escape sequence", "\\x{110000"),
            ("\\x{}", "invalid escape sequence", "\\x{}"),
            ("\\xg", "invalid escape sequence", "\\xg"),
            ("(?=a)", "invalid or unsupported Perl syntax", "(?="),
            ("(?<!a)", "invalid named capture", "(?<!a)"),
            ("(?i", "invalid or unsupported Perl syntax", "(?i"),
            ("(?i-)", "invalid or unsupported Perl syntax", "(?i-)"),
            ("(?P<a b>x)", "invalid named capture", "(?P<a b>"),
            ("(?P<a", "invalid named capture", "(?P<a"),
            ("(?P=a)", "invalid or unsupported Perl syntax", "(?P"),
            ("(?x)a", "invalid or unsupported Perl syntax", "(?x"),
        ] {
            let expected = match fault {
                "" => None,
                fault => Some(format!("error parsing regexp: {fault}: `{at}`")),
            };
            assert_eq!(Pattern::new(pattern).err(), expected, "{pattern}");
        }
        let deep = format!("{}{}", "(".repeat(1001), ")".repeat(1001));
        assert!(
            Pattern::new(&deep)
                .unwrap_err()
                .starts_with("error parsing regexp: expression nests too deeply: `((")
        );
        assert!(Pattern::new(&format!("{}{}", "(".repeat(900), ")".repeat(900))).is_ok());
    }
}
