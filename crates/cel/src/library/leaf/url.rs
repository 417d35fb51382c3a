//! Absolute URIs and absolute paths as Go's package `net/url` reads them.
//!
//! A text must first be one that a request may have (`url.ParseRequestURI`); then its parts are read as those of any URL
//! (`url.Parse`), which differs in fragments and in paths that begin with two slashes.

use std::fmt;

use keepwatch_apimachinery::Quoted;

use super::network::{self, Ip};

/// An absolute URI or an absolute path. Two are equal if they are written the same.
#[derive(Clone, Debug)]
pub struct Url {
    scheme: String,
    /// The text after the scheme when it does not begin with a slash.
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Unescaped, with port and brackets.
    host: Vec<u8>,
    /// Unescaped.
    path: Vec<u8>,
    /// As it was written, if escaping the path again would not give that.
    raw_path: String,
    raw_query: String,
    has_empty_query: bool,
    omits_host: bool,
    /// Unescaped.
    fragment: Vec<u8>,
    /// As it was written, if escaping the fragment again would not give that.
    raw_fragment: String,
}

/// The part of a URL in which a text stands. It decides which characters must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

impl Part {
    fn must_escape(self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            return false;
        }
        let plain: &[u8] = match self {
            Part::Path => b"$&+,/:;=@",
            Part::User => b"$&+,;=",
            Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
            Part::Query => b"",
            Part::Fragment => b"!$&()*+,/:;=?@",
        };
        !plain.contains(&byte)
    }
}

/// Whether the text is an absolute URI or an absolute path, as a request has it; else the error.
pub fn check(text: &str) -> Result<(), String> {
    parse(text, true).map(|_| ()).map_err(|error| format!("parse {}: {error}", Quoted(text)))
}

impl Url {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Url, String> {
        check(text)?;
        let (start, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse(start, false).map_err(|error| format!("parse {}: {error}", Quoted(start)))?;
        url.fragment =
            unescape(fragment, Part::Fragment).map_err(|error| format!("parse {}: {error}", Quoted(text)))?;
        if escape(&url.fragment, Part::Fragment) != fragment {
            url.raw_fragment = fragment.to_owned();
        }
        Ok(url)
    }

    /// `getScheme()`, in small letters.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// `getHost()`: with port and brackets.
    pub fn host(&self) -> String {
        lossy(&self.host)
    }

    /// `getHostname()`: without port and brackets.
    pub fn hostname(&self) -> String {
        let host = self.split_port().0;
        let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
        lossy(inner)
    }

    /// `getPort()`, or an empty text.
    pub fn port(&self) -> String {
        lossy(self.split_port().1)
    }

    fn split_port(&self) -> (&[u8], &[u8]) {
        match self.host.iter().rposition(|byte| *byte == b':') {
            Some(colon) if self.host[colon + 1..].iter().all(u8::is_ascii_digit) => {
                (&self.host[..colon], &self.host[colon + 1..])
            }
            _ => (&self.host, b""),
        }
    }

    /// `getEscapedPath()`.
    pub fn escaped_path(&self) -> String {
        if !self.raw_path.is_empty()
            && self
                .raw_path
                .bytes()
                .all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !Part::Path.must_escape(byte))
        {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".to_owned() } else { escape(&self.path, Part::Path) }
    }

    /// `getQuery()`: the values of every name, in the order of their first appearance. What cannot be read is left out.
    pub fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut values: Vec<(String, Vec<String>)> = Vec::new();
        if self.raw_query.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX {
            return values;
        }
        for parameter in
            self.raw_query.split('&').filter(|parameter| !parameter.is_empty() && !parameter.contains(';'))
        {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (Ok(name), Ok(value)) = (unescape(name, Part::Query), unescape(value, Part::Query)) else {
                continue;
            };
            let (name, value) = (lossy(&name), lossy(&value));
            match values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.push(value),
                None => values.push((name, vec![value])),
            }
        }
        values
    }
}

/// Go reads no query with more parameters.
const PARAMETERS_MAX: usize = 10_000;

/// Text of bytes that escapes made; bytes that are not UTF-8 become replacement characters.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl PartialEq for Url {
    fn eq(&self, other: &Url) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if !self.opaque.is_empty() {
            text.push_str(&self.opaque);
        } else {
            self.write_authority(&mut text);
            let mut path = self.escaped_path();
            if self.omits_host && path.starts_with("//") {
                // A path must not look like a host.
                path.replace_range(..1, "%2F");
            }
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                text.push('/');
            }
            if text.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                text.push_str("./");
            }
            text.push_str(&path);
        }
        if self.has_empty_query || !self.raw_query.is_empty() {
            text.push('?');
            text.push_str(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            if !self.raw_fragment.is_empty() && is_escaped(&self.raw_fragment, Part::Fragment) {
                text.push_str(&self.raw_fragment);
            } else {
                text.push_str(&escape(&self.fragment, Part::Fragment));
            }
        }
        f.write_str(&text)
    }
}

impl Url {
    fn write_authority(&self, text: &mut String) {
        if self.omits_host || (self.scheme.is_empty() && self.host.is_empty() && self.user.is_none()) {
            return;
        }
        if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
            text.push_str("//");
        }
        if let Some((name, password)) = &self.user {
            text.push_str(&escape(name, Part::User));
            if let Some(password) = password {
                text.push(':');
                text.push_str(&escape(password, Part::User));
            }
            text.push('@');
        }
        text.push_str(&escape(&self.host, Part::Host));
    }
}

/// Whether the text can stay as it is: nothing in it has to be escaped.
fn is_escaped(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !part.must_escape(byte))
}

fn parse(text: &str, of_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    let mut url = Url {
        scheme: String::new(),
        opaque: String::new(),
        user: None,
        host: Vec::new(),
        path: Vec::new(),
        raw_path: String::new(),
        raw_query: String::new(),
        has_empty_query: false,
        omits_host: false,
        fragment: Vec::new(),
        raw_fragment: String::new(),
    };
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    url.has_empty_query = query == Some("");
    url.raw_query = query.unwrap_or_default().to_owned();
    if !rest.starts_with('/') {
        if url.scheme.is_empty() {
            return Err("invalid URI for request".to_owned());
        }
        url.opaque = rest.to_owned();
        return Ok(url);
    }
    let may_have_host = !url.scheme.is_empty() || (!of_request && !rest.starts_with("///"));
    match rest.strip_prefix("//").filter(|_| may_have_host) {
        Some(behind) => {
            let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            rest = path;
            parse_authority(&mut url, authority)?;
        }
        None => url.omits_host = !url.scheme.is_empty(),
    }
    url.path = unescape(rest, Part::Path)?;
    if escape(&url.path, Part::Path) != rest {
        url.raw_path = rest.to_owned();
    }
    Ok(url)
}

/// The scheme, if there is one, and the text behind its colon.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn parse_authority(url: &mut Url, authority: &str) -> Result<(), String> {
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    url.host = parse_host(&url.scheme, host)?;
    let Some(user) = user else { return Ok(()) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(plain) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) =
        user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let name = unescape(name, Part::User)?;
    url.user = Some((name, password.map(|password| unescape(password, Part::User)).transpose()?));
    Ok(())
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => parse_bracketed_host(host),
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            // Lists of hosts with ports are read where the scheme is not one of the web.
            let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
            check_port(colon.map_or("", |colon| &host[colon..]))?;
            unescape(host, Part::Host)
        }
    }
}

/// An IPv6 address in brackets, with a zone behind `%25`.
fn parse_bracketed_host(host: &str) -> Result<Vec<u8>, String> {
    let close = host.rfind(']').ok_or("missing ']' in host")?;
    let (inner, port) = (&host[1..close], &host[close + 1..]);
    check_port(port)?;
    let mut name = match inner.find("%25") {
        Some(zone) => {
            let mut name = unescape(&inner[..zone], Part::Host)?;
            name.extend(unescape(&inner[zone..], Part::Zone)?);
            name
        }
        None => unescape(inner, Part::Host)?,
    };
    let (ip, _) = network::parse_address(&lossy(&name)).map_err(|error| format!("invalid host: {error}"))?;
    if matches!(ip, Ip::V4(_)) {
        return Err("invalid IP-literal".to_owned());
    }
    name.insert(0, b'[');
    name.push(b']');
    name.extend(unescape(port, Part::Host)?);
    Ok(name)
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':');
    if port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", Quoted(port)))
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if part.must_escape(*byte) {
            text.push_str(&format!("%{byte:02X}"));
        } else {
            text.push(char::from(*byte));
        }
    }
    text
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'%' => {
                out.push(unescape_byte(text, index, part)?);
                index += 2;
            }
            b'+' if part == Part::Query => out.push(b' '),
            byte if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && part.must_escape(*byte) => {
                let shown = char::from(*byte).to_string();
                return Err(format!("invalid character {} in host name", Quoted(&shown)));
            }
            byte => out.push(*byte),
        }
        index += 1;
    }
    Ok(out)
}

/// The byte that the escape at `index` stands for.
fn unescape_byte(text: &str, index: usize, part: Part) -> Result<u8, String> {
    let bytes = &text.as_bytes()[index..];
    let shown = lossy(&bytes[..bytes.len().min(3)]);
    let invalid = || format!("invalid URL escape {}", Quoted(&shown));
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(1), digit(2)) else { return Err(invalid()) };
    let byte = (high * 16 + low) as u8;
    let allowed = match part {
        // Only bytes outside ASCII may be escaped in a host, and the percent sign before a zone.
        Part::Host => high >= 8 || &bytes[..3] == b"%25",
        Part::Zone => &bytes[..3] == b"%25" || byte == b' ' || !Part::Host.must_escape(byte),
        _ => true,
    };
    if allowed { Ok(byte) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let url = Url::parse("HTTPS://u:p@example.com:80/a%20b?k=1&k=2&x=a+b%21&;&y#f").unwrap();
        assert_eq!(
            (url.scheme(), url.host(), url.hostname(), url.port()),
            ("https", "example.com:80".into(), "example.com".into(), "80".into())
        );
        assert_eq!(url.escaped_path(), "/a%20b");
        let pair =
            |name: &str, values: &[&str]| (name.to_owned(), values.iter().map(|v| v.to_string()).collect());
        let query: Vec<(String, Vec<String>)> =
            vec![pair("k", &["1", "2"]), pair("x", &["a b!"]), pair("y", &[""])];
        assert_eq!(url.query(), query);
        let url = Url::parse("https://[::1]:8080/").unwrap();
        assert_eq!(
            (url.host(), url.hostname(), url.port()),
            ("[::1]:8080".into(), "::1".into(), "8080".into())
        );
    }

    #[test]
    fn urls_are_written_canonically() {
        for (text, written) in [
            ("/a b", "/a%20b"),
            ("https://e.com/a%2fb", "https://e.com/a%2fb"),
            ("https://e.com/a%2Fb c", "https://e.com/a/b%20c"),
            ("mailto:a@b", "mailto:a@b"),
            ("http:/a", "http:/a"),
            ("http:////a", "http:////a"),
            ("http://a?", "http://a?"),
            ("http://[fe80::1%25en0]:1/", "http://[fe80::1%25en0]:1/"),
            ("*", "*"),
            ("//a:1/", "//a:1/"),
            ("///a", "///a"),
            ("/a#%41b c%2f!$&*()@", "/a#Ab%20c/!$&*()@"),
            ("/a#%2f", "/a#%2f"),
            ("x:#", "x:"),
        ] {
            assert_eq!(Url::parse(text).unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_no_absolute_url_is_an_error() {
        for (text, error) in [
            ("../rel", "invalid URI for request"),
            ("", "empty url"),
            ("a", "invalid URI for request"),
            (":a", "missing protocol scheme"),
            ("/a\tb", "net/url: invalid control character in URL"),
            ("https://a:b:c/", "invalid port \":b:c\" after host"),
            ("https://a:x/", "invalid port \":x\" after host"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a%41/", "invalid URL escape \"%41\""),
            ("/%zz", "invalid URL escape \"%zz\""),
            ("/%z", "invalid URL escape \"%z\""),
            ("https://[::1/", "missing ']' in host"),
            ("https://[1.2.3.4]/", "invalid IP-literal"),
            ("https://a[::1]/", "invalid IP-literal"),
            ("https://[x]/", "invalid host: ParseAddr(\"x\"): unable to parse IP"),
            ("https://a b@c/", "net/url: invalid userinfo"),
            ("//a:b/", "invalid port \":b\" after host"),
            ("/a#%zz", "invalid URL escape \"%zz\""),
            ("*#x", "invalid URI for request"),
        ] {
            assert_eq!(Url::parse(text).unwrap_err(), format!("parse {text:?}: {error}"));
        }
    }
}
