//! The table on a terminal, drawn again whenever something has changed, and at least every second.
//!
//! Kept true by [`Screen`], even if the program panics: afterwards the terminal has its former contents and its cursor.

use super::{
    Subject,
    session::{Session, Update},
    status_change,
    table::{Head, Line, Rows, Size, Style},
    text::columns,
};
use crate::flags::Failure;
use jiff::Timestamp;
use std::{
    io::{self, Write, stdout},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

/// The minimum time between two frames.
const PAUSE: Duration = Duration::from_millis(100);
/// The interval at which ages are updated.
const TICK: Duration = Duration::from_secs(1);

/// Switches to the alternate screen, hides the cursor, and turns line wrapping off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Shows the table until this is dropped or the terminal fails.
pub(super) async fn run(mut session: Session, subject: &Subject) -> Result<(), Failure> {
    let failed = |error| Failure::runtime_error(format!("the terminal cannot be used: {error}"));
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen = Screen::enter(subject.resource.is_namespaced).map_err(failed)?;
    let mut drawn = Instant::now();
    let mut is_stale = true;
    loop {
        tokio::select! {
            biased;
            () = sleep_until(drawn + PAUSE), if is_stale => {
                screen.draw(&session, subject).map_err(failed)?;
                (drawn, is_stale) = (Instant::now(), false);
            }
            _ = resized.recv() => is_stale = true,
            _ = tick.tick() => is_stale = true,
            update = session.next() => {
                is_stale = true;
                if let Update::Event(event) = update? {
                    screen.rows.take(&event, Timestamp::now());
                }
            }
        }
    }
}

/// A terminal that shows the table. Dropping it restores the terminal and prints a line with the last state.
struct Screen {
    rows: Rows,
    has_colours: bool,
    farewell: String,
}

impl Screen {
    fn enter(has_namespaces: bool) -> io::Result<Screen> {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let screen = Screen { rows: Rows::new(has_namespaces), has_colours, farewell: String::new() };
        put(ENTER)?;
        Ok(screen)
    }

    fn draw(&mut self, session: &Session, subject: &Subject) -> io::Result<()> {
        let now = Timestamp::now();
        self.rows.forget(now);
        let (state, is_well) = status_change::state(session.watched(), Instant::now());
        let head = Head { title: subject.title(), version: session.version(), state, is_well };
        let size = size();
        let lines = self.rows.lines(&head, size, now);
        self.farewell = lines.first().map(|line| line.text.clone()).unwrap_or_default();
        put(&frame(&lines, size, self.has_colours))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = put(&format!("{LEAVE}{}\r\n", self.farewell));
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, lines) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    Size { columns: columns.into(), lines: lines.into() }
}

/// The escape sequences and text that make a terminal show these lines and nothing else. Nothing is cleared before its
/// replacement is written, so nothing flickers; and nothing after a line of full width, where the cursor is on the last
/// character.
fn frame(lines: &[Line], size: Size, has_colours: bool) -> String {
    let mut frame = String::from("\x1b[H");
    for (number, Line { style, text }) in lines.iter().enumerate() {
        if number > 0 {
            frame += "\r\n";
        }
        match colour(*style).filter(|_| has_colours) {
            Some(colour) => frame += &format!("\x1b[{colour}m{text}\x1b[0m"),
            None => frame += text,
        }
        if columns(text) < size.columns {
            frame += "\x1b[K";
        }
    }
    if lines.len() < size.lines {
        frame += "\r\n\x1b[J";
    }
    frame
}

fn colour(style: Style) -> Option<&'static str> {
    match style {
        Style::Title | Style::Heading => Some("1"),
        Style::Trouble => Some("1;31"),
        Style::Added => Some("32"),
        Style::Modified => Some("33"),
        Style::Deleted => Some("31"),
        Style::Dim => Some("2"),
        Style::Plain => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_leaves_nothing_of_the_one_before() {
        let line = |style, text: &str| Line { style, text: text.to_owned() };
        let lines = [line(Style::Title, "pods"), line(Style::Plain, "a")];
        let size = Size { columns: 4, lines: 3 };
        assert_eq!(frame(&lines, size, true), "\x1b[H\x1b[1mpods\x1b[0m\r\na\x1b[K\r\n\x1b[J");
        assert_eq!(frame(&lines, size, false), "\x1b[Hpods\r\na\x1b[K\r\n\x1b[J");
        assert_eq!(frame(&lines, Size { columns: 9, lines: 2 }, false), "\x1b[Hpods\x1b[K\r\na\x1b[K");
    }
}
