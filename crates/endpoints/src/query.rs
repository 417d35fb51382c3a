//! The parameters behind the path.

use keepwatch_apimachinery::status::Status;
use std::time::Duration;

/// Decoded parameters, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes what stands behind the question mark. A parameter with a semicolon or a broken escape is none.
    pub fn parse(text: &str) -> Query {
        let whole = text.split('&').filter(|pair| !pair.contains(';') && has_whole_escapes(pair));
        Query(whole.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()).into_owned()).collect())
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Whether a parameter is there and says yes.
    pub fn says(&self, name: &str) -> bool {
        self.first(name).is_some_and(keepwatch_apimachinery::list_options::is_true)
    }

    /// The timeout of the client, if that is less than `max`.
    pub fn timeout(&self, max: Duration) -> Result<Duration, Status> {
        let Some(text) = self.first("timeout").filter(|text| !text.is_empty()) else { return Ok(max) };
        let asked = go_duration(text).map_err(|why| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        })?;
        Ok(if asked.is_zero() { max } else { asked.min(max) })
    }
}

/// Whether every percent sign is followed by two digits.
pub(crate) fn has_whole_escapes(text: &str) -> bool {
    let is_digits = |digits: &str| digits.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.split('%').skip(1).all(is_digits)
}

/// Reads a duration as Go writes them: `1m30s`, `250ms`. Less than nothing counts as nothing.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    /// Go counts nanoseconds in 63 bits.
    const MAX_SECONDS: f64 = i64::MAX as f64 / 1e9;
    let invalid = || format!("time: invalid duration \"{text}\"");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" => return Err(format!("time: missing unit in duration \"{text}\"")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            other => return Err(format!("time: unknown unit \"{other}\" in duration \"{text}\"")),
        };
        rest = &rest[letters..];
        seconds += number * unit;
    }
    if seconds > MAX_SECONDS {
        return Err(invalid());
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = Query::parse("a=1&a=2&b=x%3Dy+z&watch");
        assert_eq!((query.first("a"), query.first("b"), query.first("c")), (Some("1"), Some("x=y z"), None));
        assert!(query.says("watch") && !query.says("c"));
        let query = Query::parse("a=%zz&b=%4&c=1;d&e=%41&f=<>\"");
        assert_eq!(query.pairs(), [("e", "A"), ("f", "<>\"")]);
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in
            [("5s", 5000), ("1m30s", 90_000), ("250ms", 250), ("1.5h", 5_400_000), ("0", 0), ("-3s", 0)]
        {
            assert_eq!(go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, why) in [
            ("abc", "time: invalid duration \"abc\""),
            ("", "time: invalid duration \"\""),
            ("5", "time: missing unit in duration \"5\""),
            ("9999999999999h", "time: invalid duration \"9999999999999h\""),
            (".s", "time: invalid duration \".s\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
        ] {
            assert_eq!(go_duration(text), Err(why.to_owned()));
        }
    }
}
