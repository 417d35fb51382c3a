//! Writes events and status changes to standard output, until it is closed.
//!
//! A slow reader delays only itself: the informer keeps the events meanwhile, and merges those of one object.

use super::session::{Session, Update};
use crate::flags::Failure;
use futures::FutureExt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncWriteExt, Stdout},
    time::interval,
};

/// The approximate number of bytes written at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The interval at which a closed output is detected while there is nothing to write.
const LOOK: Duration = Duration::from_secs(1);

/// Ends without an error when the output is closed.
pub(super) async fn run(mut session: Session, text: impl Fn(&Update) -> String) -> Result<(), Failure> {
    let mut output = tokio::io::stdout();
    let output_closed = output_closed();
    tokio::pin!(output_closed);
    loop {
        let (chunk, end) = tokio::select! {
            happened = chunk(&mut session, &text) => happened,
            () = &mut output_closed => return Ok(()),
        };
        match write(&mut output, &chunk).await {
            Ok(()) => end?,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                return Err(Failure::runtime_error(format!("standard output cannot be written: {error}")));
            }
        }
    }
}

/// Waits for the next update, and returns the text of all that are available by then.
async fn chunk(session: &mut Session, text: impl Fn(&Update) -> String) -> (String, Result<(), Failure>) {
    let mut chunk = String::new();
    let mut next = Some(session.next().await);
    while let Some(update) = next {
        match update {
            Ok(update) => chunk += &text(&update),
            Err(failure) => return (chunk, Err(failure)),
        }
        next = if chunk.len() < CHUNK_BYTES { session.next().now_or_never() } else { None };
    }
    (chunk, Ok(()))
}

async fn write(output: &mut Stdout, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes()).await?;
    output.flush().await
}

/// Waits until the output is closed, which for pipes can be detected before anything is written.
async fn output_closed() {
    let mut look = interval(LOOK);
    while !is_output_closed() {
        look.tick().await;
    }
}

fn is_output_closed() -> bool {
    let output = io::stdout();
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}
