//! The text of cells that many kinds have: ages, labels, containers, lists too long to show.

use crate::{document::Fields, schema::Timestamp};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The text for an absent value.
pub(crate) const NONE: &str = "<none>";
/// The text for a setting that is not set.
pub(crate) const UNSET: &str = "<unset>";
/// The text for an unknown value.
pub(crate) const UNKNOWN: &str = "<unknown>";

/// The time since another, in the one or two largest units that matter: `5m30s`, `3d`; `<unknown>` if it is absent.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(|| UNKNOWN.to_owned(), |since| duration(now.duration_since(since).as_secs()))
}

/// A number of seconds in the one or two largest units that matter. Clocks differ, so that one second below zero counts
/// as none; what is further below is `<invalid>`.
pub fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if minutes < 2 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if days < 2 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// The age of an object.
pub(crate) fn age_of(document: &Value, now: Timestamp) -> String {
    age(document.time("metadata.creationTimestamp"), now)
}

/// A text, or another if it is empty.
pub(crate) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// Texts one after another.
pub(crate) fn joined<'a>(texts: impl Iterator<Item = &'a str>, between: &str) -> String {
    let mut all = String::new();
    for (at, text) in texts.enumerate() {
        if at > 0 {
            all.push_str(between);
        }
        all.push_str(text);
    }
    all
}

/// The first items of a list and how many more there are: `a,b,c + 2 more...`.
pub(crate) fn few<T>(
    mut items: impl Iterator<Item = T>,
    shown_max: usize,
    between: &str,
    spell: impl Fn(T) -> String,
) -> String {
    let shown: Vec<String> = items.by_ref().take(shown_max).map(spell).collect();
    let mut shown = shown.join(between);
    match items.count() {
        0 => shown,
        more => {
            let _ = write!(shown, " + {more} more...");
            shown
        }
    }
}

/// The names and the images of the containers of a pod.
pub(crate) fn containers(document: &Value, path: &str) -> (String, String) {
    let containers = document.list(path);
    let all = |field| joined(containers.iter().map(|container| container.text(field)), ",");
    (all("name"), all("image"))
}

/// Labels, by name: `app=web,tier=front`.
pub(crate) fn labels(labels: Option<&Map<String, Value>>) -> String {
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return NONE.to_owned() };
    let pairs: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.join(",")
}

/// A label selector by label: `app=web,tier in (back,front)`; empty if it has no requirements.
pub(crate) fn selector(document: &Value, path: &str) -> String {
    let Some(selector) = document.field(path) else { return String::new() };
    let labels = selector.object("matchLabels");
    let equal = labels.into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        (key.as_str(), format!("{key}={value}"))
    });
    let expressions = selector.list("matchExpressions").iter();
    let expressions = expressions.map(|expression| (expression.text("key"), requirement(expression)));
    let mut terms: Vec<(&str, String)> = equal.chain(expressions).collect();
    terms.sort_by_key(|(key, _)| *key);
    joined(terms.iter().map(|(_, term)| term.as_str()), ",")
}

fn requirement(expression: &Value) -> String {
    let key = expression.text("key");
    let values = || {
        let mut values: Vec<&str> = expression.texts("values").collect();
        values.sort_unstable();
        values.join(",")
    };
    match expression.text("operator") {
        "In" => format!("{key} in ({})", values()),
        "NotIn" => format!("{key} notin ({})", values()),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

/// A label selector by label, or `<none>` if it has no requirements.
pub(crate) fn selector_or_none(document: &Value, path: &str) -> String {
    let selector = selector(document, path);
    if selector.is_empty() { NONE.to_owned() } else { selector }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_have_the_units_that_matter() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, expected) in [
            (i64::MIN, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 1, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + DAY, "8y"),
            (i64::MAX, "292471208677y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn an_age_counts_whole_seconds_and_forgives_clocks_that_differ() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-01T00:00:10.5Z");
        assert_eq!(age(Some(at("2026-01-01T00:00:00Z")), now), "10s");
        assert_eq!(age(Some(at("2026-01-01T00:00:12Z")), now), "0s");
        assert_eq!(age(Some(at("2026-01-01T00:00:13Z")), now), "<invalid>");
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(Some(Timestamp::MIN), Timestamp::MAX), "20012y");
    }

    #[test]
    fn selectors_are_listed_label_by_label() {
        let document = json!({"some": {"matchLabels": {"b": "1", "d": ""}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "a", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist"},
        ]}, "empty": {}});
        assert_eq!(selector(&document, "some"), "a notin (z),b=1,c in (x,y),d=,e,!f");
        assert_eq!(
            (selector(&document, "empty"), selector_or_none(&document, "absent")),
            ("".into(), NONE.into())
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let expected = |items: &[&str]| few(items.iter(), 3, ",", |item| item.to_string());
        assert_eq!(expected(&[]), "");
        assert_eq!(expected(&["a", "b", "c"]), "a,b,c");
        assert_eq!(expected(&["a", "b", "c", "d", "e"]), "a,b,c + 2 more...");
    }
}
