//! Literals of generated expressions.

use rand::prelude::*;

use super::types::pick;

/// Text that means something to a function, by the letter it has in templates. `None`: the letter stands for no text.
pub(crate) fn special(letter: char) -> Option<&'static [&'static str]> {
    Some(match letter {
        // A span of time.
        'R' => {
            &["1h", "1h30m", "-1.5s", "300ms", "0", "1x", "", "9223372036s", "1ns", "2540400h", "1us", "x"]
        }
        // A time.
        'Z' => &[
            "2023-01-02T03:04:05.678Z",
            "2024-02-29T23:59:59+05:30",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "1969-12-31T23:59:59.999999999-08:00",
            "2023",
            "2023-13-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
        ],
        // A time zone.
        'z' => &[
            "UTC",
            "+02:00",
            "-5:30",
            "America/New_York",
            "Asia/Kolkata",
            "Nope/Zone",
            "",
            "x:1",
            "14:00",
            "Local",
        ],
        // A regular expression.
        'X' => &[
            "^a.*$",
            "[0-9]+",
            "a|b",
            "",
            "(a+)+b",
            "[",
            "a**",
            "(?i)HELLO",
            "\\\\d{2,3}",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "\\\\pL+",
            "(x",
            "a{1001}",
            ".",
            "(?s).",
            "^$",
        ],
        // A URL.
        'U' => &[
            "https://u:p@example.com:80/a%20b?k=1#f",
            "/path?x=y",
            "../rel",
            "http://[::1]:8080/",
            "https://a:b:c/",
            "",
            "mailto:a@b",
            "https://e.com/a b",
            "//host/p",
            "https://example.com/%zz",
        ],
        // A quantity.
        'Q' => &[
            "1",
            "1.5Gi",
            "100m",
            "-5",
            "1e3",
            "200K",
            "x",
            "",
            "0.5",
            "9223372036854775807",
            "1Ki",
            "99999999999999999999",
            "50k",
            "1000m",
            "0",
            "5E",
        ],
        // An address.
        'I' => &[
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "192.168.0.7",
            "2001:DB8::ABCD",
            "127.0.0.256",
            "fe80::1%eth0",
            "::ffff:1.2.3.4",
            "x",
            "0.0.0.0",
            "255.255.255.255",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
        ],
        // A network.
        'K' => &[
            "10.0.0.0/8",
            "192.168.0.1/24",
            "::/0",
            "2001:db8::/32",
            "192.168.0.0/33",
            "x",
            "10.0.0.0",
            "::ffff:1.2.3.4/100",
            "192.168.0.0/16",
            "127.0.0.1/32",
            "0.0.0.0/0",
        ],
        // A version.
        'V' => {
            &["1.2.3", "1.10.0", "v1.2", "1.0.0-alpha.1", "1.0.0+b", "1.0", "01.2.3", "x", "", "2.0.0-rc.1+x"]
        }
        // A name of some format.
        'w' => &[
            "my-name",
            "a.b",
            "My_name",
            "",
            "example.com/x",
            "1a",
            "a-",
            "123e4567-e89b-12d3-a456-426614174000",
            "aGk=",
            "2024-02-29",
            "2021-01-01T00:00:00Z",
            "https://a/b",
            "../x",
            "x y",
        ],
        // A key of the maps.
        'k' => &["a", "b", "zz", "a-b"],
        // A number as text.
        'm' => &[
            "1",
            "-5",
            "1.5",
            "x",
            "",
            "1e3",
            "9223372036854775808",
            "18446744073709551615",
            "0x10",
            "NaN",
            "inf",
        ],
        // A format string.
        'F' => &[
            "%s", "%d", "%f", "%.2f", "%e", "%b", "%x", "%X", "%o", "a%%b %s", "%q", "%s %s", "none", "%",
            "%.s",
        ],
        _ => return None,
    })
}

const STRINGS: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "hello",
    "hello hello",
    "é😀",
    " a ",
    "1",
    "x,y,z",
    "a.b",
    "TacoCÆt",
    "my-name",
    "A",
    "abc",
    "-",
    "the quick brown fox jumps over the lazy dog",
    "%s",
    "127.0.0.1",
    "1Gi",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
];
const INTS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3",
    "5",
    "10",
    "100",
    "-7",
    "9223372036854775807",
    "-9223372036854775808",
    "0x1F",
];
const UINTS: &[&str] = &["0u", "1u", "2u", "7u", "100u", "18446744073709551615u"];
const DOUBLES: &[&str] =
    &["0.0", "1.0", "1.5", "-2.5", "0.1", "1e3", "1e21", "1e-7", "123456789.125", "1e308", "-0.0", ".5"];
const BYTES: &[&str] =
    &["b''", "b'a'", "b'abc'", "b'\\xff'", "b'\\u00e9'", "b'é'", "b'\\000\\001'", "b'hello world, hello'"];

/// A literal in quotes.
pub(crate) fn quoted(text: &str, random: &mut StdRng) -> String {
    // Most texts of the tables contain no quotes and no escapes but doubled backslashes.
    if random.random_bool(0.9) { format!("'{text}'") } else { format!("\"{text}\"") }
}

pub(crate) fn string(random: &mut StdRng) -> String {
    let text = pick(STRINGS, random);
    quoted(text, random)
}

pub(crate) fn int(random: &mut StdRng) -> String {
    pick(INTS, random).to_owned()
}

/// An index or a count.
pub(crate) fn small_int(random: &mut StdRng) -> String {
    pick(&["0", "1", "2", "3", "-1", "5"], random).to_owned()
}

pub(crate) fn uint(random: &mut StdRng) -> String {
    pick(UINTS, random).to_owned()
}

pub(crate) fn double(random: &mut StdRng) -> String {
    pick(DOUBLES, random).to_owned()
}

pub(crate) fn bytes(random: &mut StdRng) -> String {
    pick(BYTES, random).to_owned()
}
