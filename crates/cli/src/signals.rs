//! The signals that end the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the program. Created before the program prints that it runs: until then a signal kills it.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: None,
        })
    }

    /// Also handles the end of the terminal, unless the program was started to ignore it, as by `nohup`.
    pub(crate) fn with_hang_up(self) -> std::io::Result<Signals> {
        let minds = !is_ignored(SignalKind::hangup());
        Ok(Signals { hang_up: minds.then(|| signal(SignalKind::hangup())).transpose()?, ..self })
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// Whether a signal is ignored, from `/proc`; elsewhere none counts as ignored.
fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}
