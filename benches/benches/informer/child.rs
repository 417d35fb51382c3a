//! The clients that are measured: each is a process of its own, so that its time and memory are its own.
//!
//! Kept true: a client ends when it is dropped.

use crate::{
    clients::{self, Kind, Listeners},
    process::{Server, kilobytes},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

pub(crate) struct Measured {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Its resident memory before it does anything.
    idle: u64,
}

/// The costs of the first sync.
pub(crate) struct Synced {
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

impl Measured {
    /// Starts a client of a server with so many pods. It does nothing yet.
    pub(crate) fn start(server: &Server, kind: Kind, audience: Listeners, pods: usize) -> Measured {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.args([clients::MODE, &format!("{kind:?}"), &format!("{audience:?}")]);
        command.arg(server.directory.path()).arg(pods.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut measured = Measured { child, orders, answers, idle: 0 };
        assert_eq!(measured.answer(), "ready");
        measured.idle = measured.resident();
        measured
    }

    /// Lets it sync.
    pub(crate) fn sync(&mut self) -> Synced {
        let [cpu, wall] = self.ask("sync");
        Synced { cpu_seconds: cpu / 1e6, wall_seconds: wall / 1e6 }
    }

    /// Begins the measurement of events.
    pub(crate) fn mark(&mut self) {
        self.order("mark");
        assert_eq!(self.answer(), "marked");
    }

    /// Waits until all listeners have received a version. Returns the CPU time since the mark in microseconds, and the
    /// number of events that they received.
    pub(crate) fn until(&mut self, version: u64) -> (f64, usize) {
        let [cpu, events] = self.ask(&format!("until {version}"));
        (cpu, events as usize)
    }

    /// The time to find a pod by its name, and those on a node, in nanoseconds.
    pub(crate) fn lookups(&mut self) -> [f64; 2] {
        self.ask("lookups")
    }

    /// Its resident memory, minus that before it did anything.
    pub(crate) fn held(&self) -> u64 {
        self.resident().saturating_sub(self.idle)
    }

    /// The maximum of that.
    pub(crate) fn peak(&self) -> u64 {
        kilobytes(&self.proc_file("status"), "VmHWM:").saturating_sub(self.idle)
    }

    fn resident(&self) -> u64 {
        kilobytes(&self.proc_file("smaps_rollup"), "Rss:")
    }

    fn proc_file(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id()))
            .expect("it is Linux, and the child runs")
    }

    fn ask<const N: usize>(&mut self, order: &str) -> [f64; N] {
        self.order(order);
        let answer = self.answer();
        let numbers: Vec<f64> = answer.split(' ').map(|number| number.parse().expect("a number")).collect();
        numbers.try_into().expect("as many as one asks for")
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it reads");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        assert!(!line.is_empty(), "the client ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
