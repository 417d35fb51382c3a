//! All objects as a table, as plain data: the objects, and their lines on a terminal of a given size.
//!
//! Kept true: no line is wider than the terminal, there are no more lines than it has, and no text contains control
//! characters.

use super::{
    session::StoredObject,
    summary,
    text::{age, clipped, columns, padded, plain},
};
use jiff::Timestamp;
use keepwatch_informer::{Event, Object, ObjectKey, object::compare_versions};
use std::{cmp::Ordering, collections::BTreeMap};

/// The time for which a change is highlighted and a deleted object is still shown.
const RECENT_SECONDS: i64 = 5;
const GAP: usize = 3;
/// Names are cut to fewer characters only if nothing else helps.
const NAME_MIN: usize = 12;
/// The number of lines that are not objects: the title, and the headings of the columns.
const HEAD_LINES: usize = 2;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// The type of a line, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Title,
    Trouble,
    Heading,
    Plain,
    Added,
    Modified,
    Deleted,
    Dim,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// The lines above the table.
pub(super) struct Head {
    /// As `pods in default`.
    pub(super) title: String,
    pub(super) version: String,
    /// The state of the watch.
    pub(super) state: String,
    pub(super) is_well: bool,
}

/// The objects.
pub(super) struct Rows {
    rows: BTreeMap<ObjectKey, Row>,
    has_namespaces: bool,
}

struct Row {
    status: String,
    created: Option<Timestamp>,
    version: String,
    /// The last change and its time; absent if it was before the start.
    last: Option<(Change, Timestamp)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Modified => "changed",
            Change::Deleted => "deleted",
        }
    }

    fn style(self) -> Style {
        match self {
            Change::Added => Style::Added,
            Change::Modified => Style::Modified,
            Change::Deleted => Style::Deleted,
        }
    }
}

impl Row {
    fn is_deleted(&self) -> bool {
        matches!(self.last, Some((Change::Deleted, _)))
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        self.last.is_some_and(|(_, at)| now.as_second() - at.as_second() < RECENT_SECONDS)
    }

    fn style(&self, now: Timestamp) -> Style {
        match self.last {
            Some((change, _)) if self.is_recent(now) => change.style(),
            _ => Style::Plain,
        }
    }

    /// Orders the last changed first.
    fn by_recency(&self, other: &Row) -> Ordering {
        let at = |row: &Row| row.last.map(|(_, at)| at);
        let versions = || compare_versions(&other.version, &self.version).unwrap_or(Ordering::Equal);
        at(other).cmp(&at(self)).then_with(versions)
    }

    fn cells(&self, key: &ObjectKey, now: Timestamp) -> [String; 5] {
        let changed = self.last.map(|(change, at)| format!("{} {} ago", change.word(), age(at, now)));
        [
            plain(key.namespace()).into_owned(),
            plain(&key.name).into_owned(),
            if self.is_deleted() { "Deleted".to_owned() } else { plain(&self.status).into_owned() },
            self.created.map(|created| age(created, now)).unwrap_or_default(),
            changed.unwrap_or_default(),
        ]
    }
}

impl Rows {
    pub(super) fn new(has_namespaces: bool) -> Rows {
        Rows { rows: BTreeMap::new(), has_namespaces }
    }

    /// The number of objects.
    pub(super) fn count(&self) -> usize {
        self.rows.values().filter(|row| !row.is_deleted()).count()
    }

    pub(super) fn take(&mut self, event: &Event<StoredObject>, now: Timestamp) {
        let last = match event {
            Event::Added { initial: true, .. } => None,
            Event::Added { .. } => Some((Change::Added, now)),
            Event::Updated { .. } => Some((Change::Modified, now)),
            _ => Some((Change::Deleted, now)),
        };
        let object = event.object();
        let row = Row {
            status: summary::status(object),
            created: summary::created(object),
            version: object.revision().to_owned(),
            last,
        };
        self.rows.insert(object.key(), row);
    }

    /// Removes objects that were deleted a while ago.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.rows.retain(|_, row| !row.is_deleted() || row.is_recent(now));
    }

    /// The lines on a terminal of this size. If not all objects fit, those that changed last are included.
    pub(super) fn lines(&self, head: &Head, size: Size, now: Timestamp) -> Vec<Line> {
        let room = size.lines.saturating_sub(HEAD_LINES);
        let mut shown: Vec<_> = self.rows.iter().collect();
        let hidden = if shown.len() > room { shown.len() - room.saturating_sub(1) } else { 0 };
        if hidden > 0 {
            shown.sort_by(|(_, one), (_, other)| one.by_recency(other));
            shown.truncate(room.saturating_sub(1));
        }
        let cells: Vec<_> = shown.iter().map(|(key, row)| (row.style(now), row.cells(key, now))).collect();
        let widths = self.widths(&cells, size.columns);
        let mut lines = vec![self.title(head), line(Style::Heading, &self.row(&HEADINGS, &widths))];
        lines.extend(cells.iter().map(|(style, cells)| line(*style, &self.row(cells, &widths))));
        if hidden > 0 {
            lines.push(line(Style::Dim, &format!("… and {hidden} more, which changed before these")));
        }
        lines.truncate(size.lines);
        for line in &mut lines {
            line.text = clipped(line.text.trim_end(), size.columns).into_owned();
        }
        lines
    }

    fn title(&self, head: &Head) -> Line {
        let at = match &*head.version {
            "" => String::new(),
            version => format!(" at version {}", plain(version)),
        };
        let text = format!("{}: {}{at} · {}", plain(&head.title), self.count(), plain(&head.state));
        line(if head.is_well { Style::Title } else { Style::Trouble }, &text)
    }

    /// The width of each column, so that all fit if names are cut.
    fn widths(&self, cells: &[(Style, [String; 5])], room: usize) -> [usize; 5] {
        let mut widths = HEADINGS.map(str::len);
        for (_, row) in cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        let others = |widths: &[usize; 5]| {
            let first = if self.has_namespaces { widths[0] + GAP } else { 0 };
            first + widths[2..].iter().map(|width| width + GAP).sum::<usize>()
        };
        widths[1] = widths[1].min(room.saturating_sub(others(&widths)).max(NAME_MIN));
        widths
    }

    fn row<T: AsRef<str>>(&self, cells: &[T; 5], widths: &[usize; 5]) -> String {
        let first = if self.has_namespaces { 0 } else { 1 };
        let padded = cells.iter().zip(widths).skip(first).map(|(cell, width)| padded(cell.as_ref(), *width));
        padded.collect::<Vec<_>>().join(&" ".repeat(GAP))
    }
}

const HEADINGS: [&str; 5] = ["NAMESPACE", "NAME", "STATUS", "AGE", "CHANGED"];

fn line(style: Style, text: &str) -> Line {
    Line { style, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(name: &str, version: usize, phase: &str) -> Arc<StoredObject> {
        let created = at(NOW - 90);
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","resourceVersion":"{version}",
            "creationTimestamp":"{created}"}},"status":{{"phase":"{phase}"}}}}"#
        );
        Arc::new(StoredObject::new(json.as_bytes()).unwrap())
    }

    fn initial(name: &str, version: usize) -> Event<StoredObject> {
        Event::Added { obj: object(name, version, "Running"), initial: true }
    }

    fn rows(events: &[Event<StoredObject>], when: i64) -> Rows {
        let mut rows = Rows::new(true);
        events.iter().for_each(|event| rows.take(event, at(when)));
        rows
    }

    fn head() -> Head {
        let (title, state) = ("pods in default".to_owned(), "watching from 7".to_owned());
        Head { title, version: "9".to_owned(), state, is_well: true }
    }

    fn shown(rows: &Rows, columns: usize, lines: usize) -> Vec<String> {
        let lines = rows.lines(&head(), Size { columns, lines }, at(NOW));
        lines.into_iter().map(|line| format!("{:?} {}", line.style, line.text)).collect()
    }

    #[test]
    fn objects_are_sorted_and_recent_changes_are_highlighted() {
        let mut rows = rows(&[initial("web-1", 2), initial("web-0", 1), initial("old", 3)], NOW - 60);
        rows.take(&Event::Added { obj: object("new", 4, "Pending"), initial: false }, at(NOW - 2));
        rows.take(
            &Event::Deleted { obj: object("old", 5, "Running"), final_state_unknown: false },
            at(NOW - 1),
        );
        assert_eq!(
            shown(&rows, 80, 24),
            [
                "Title pods in default: 3 at version 9 · watching from 7",
                "Heading NAMESPACE   NAME    STATUS    AGE   CHANGED",
                "Added default     new     Pending   90s   added 2s ago",
                "Deleted default     old     Deleted   90s   deleted 1s ago",
                "Plain default     web-0   Running   90s",
                "Plain default     web-1   Running   90s",
            ]
        );
        rows.forget(at(NOW));
        assert_eq!(rows.rows.len(), 4);
        rows.forget(at(NOW + RECENT_SECONDS));
        assert_eq!(rows.rows.len(), 3);
    }

    #[test]
    fn of_many_objects_those_are_shown_that_changed_last() {
        let events: Vec<_> = (0..100).map(|number| initial(&format!("web-{number}"), number + 1)).collect();
        let mut rows = rows(&events, NOW - 60);
        let (old, new) = (object("web-50", 51, "Running"), object("web-50", 200, "Failed"));
        let cause = keepwatch_informer::Cause::Watch;
        rows.take(&Event::Updated { old, new, cause }, at(NOW - 10));
        assert_eq!(
            shown(&rows, 80, 6)[2..],
            [
                "Plain default     web-50   Failed    90s   changed 10s ago",
                "Plain default     web-99   Running   90s",
                "Plain default     web-98   Running   90s",
                "Dim … and 97 more, which changed before these",
            ]
        );
        assert_eq!(shown(&rows, 80, 102).len(), 102);
    }

    #[test]
    fn nothing_is_wider_or_longer_than_the_terminal() {
        let long = "n".repeat(300);
        let events = [initial(&long, 1), initial("a\\u001b[31m\\nb", 2), initial("大きい", 3)];
        let rows = rows(&events, NOW);
        for width in 0..90 {
            for height in 0..6 {
                let lines = rows.lines(&head(), Size { columns: width, lines: height }, at(NOW));
                assert!(lines.len() <= height);
                for line in lines {
                    assert!(columns(&line.text) <= width, "{line:?}");
                    assert!(!line.text.contains(char::is_control), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn a_long_name_is_cut_so_that_the_other_columns_fit() {
        let rows = rows(&[initial(&"n".repeat(300), 1)], NOW);
        assert_eq!(shown(&rows, 60, 24)[2], format!("Plain default     {}…   Running   90s", "n".repeat(21)));
    }

    #[test]
    fn objects_without_a_namespace_show_none() {
        let mut rows = Rows::new(false);
        let node = StoredObject::new(br#"{"metadata":{"name":"n1","resourceVersion":"1"}}"#).unwrap();
        rows.take(&Event::Added { obj: Arc::new(node), initial: true }, at(NOW));
        assert_eq!(shown(&rows, 80, 24)[1..], ["Heading NAME   STATUS   AGE   CHANGED", "Plain n1"]);
    }
}
