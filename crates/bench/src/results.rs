//! The results of a run, as they are written to a file and read from it again.
//!
//! Plain data. Times are in microseconds unless a name says otherwise, sizes in bytes. A field that is absent was not
//! measured, which is something else than zero.

use serde::{Deserialize, Serialize};

/// The form of the files that are written now.
pub const FORMAT: u32 = 1;

/// One run: some scenarios at one server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// The heading of its column where several are compared.
    pub title: String,
    /// The command line.
    pub command: String,
    /// The version of the program that measured.
    pub measured_by: String,
    /// When it began, as in RFC 3339.
    pub began: String,
    /// The server that was measured.
    pub server: Server,
    /// The machine that the load came from.
    pub machine: Machine,
    /// The load.
    pub load: Load,
    /// The scenarios, in the order in which they ran.
    pub scenarios: Vec<Scenario>,
    /// The server's processes over the whole run, together.
    pub timeline: Vec<Sample>,
}

/// The server that was measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Server {
    /// Its address.
    pub url: String,
    /// The version that it reports.
    pub version: String,
    /// Where it keeps its objects, if that is known.
    pub storage: Option<String>,
    /// The processes whose time and memory were measured, as `keepwatch (4711)`; none if they were not.
    pub processes: Vec<String>,
}

/// The machine that the load came from; the server may have been elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Machine {
    /// As the processor names itself.
    pub processor: String,
    /// How many can run at a time.
    pub cores: usize,
    /// How much memory it has.
    pub memory_bytes: u64,
    /// The kernel and its version.
    pub system: String,
}

/// How much of everything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Load {
    /// The kind of the objects, such as `pods`, if it is known.
    #[serde(default)]
    pub kind: Option<String>,
    /// How many objects there are.
    pub objects: usize,
    /// How large each is.
    pub object_bytes: usize,
    /// Over how many namespaces they are spread.
    pub namespaces: usize,
    /// How many watch.
    pub watchers: usize,
    /// How many informers fetch everything at once, if that is known.
    #[serde(default)]
    pub informers: Option<usize>,
    /// The share of slow watchers in the scenario `slow`, and how many bytes per second they read, if that is known.
    #[serde(default)]
    pub slow_share: Option<f64>,
    /// See `slow_share`.
    #[serde(default)]
    pub slow_bytes: Option<f64>,
    /// How many write or list at a time.
    pub concurrency: usize,
    /// How many writes a second there are where the pace matters; as many as possible if absent.
    pub rate: Option<f64>,
    /// How long a scenario goes on.
    pub seconds: f64,
    /// `HTTP/1.1`, `HTTP/2` or `WebSocket`.
    pub protocol: String,
    /// Whether it was encrypted.
    pub is_tls: bool,
}

/// One kind of load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Scenario {
    /// As it is named on the command line.
    pub name: String,
    /// A sentence that describes it.
    pub about: String,
    /// When it began, since the run did.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// The measurements, one line each.
    pub rows: Vec<Row>,
    /// The checks.
    pub checks: Vec<Check>,
}

/// One thing that was measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Row {
    /// Its name, such as `list, resourceVersion=0`.
    pub name: String,
    /// Of what there were so many, as `event`.
    pub unit: String,
    /// How many went well.
    pub count: u64,
    /// How many did not.
    pub failed: u64,
    /// How long all of it took.
    pub seconds: f64,
    /// How long each took; if [they came late](Row::is_lateness), how late.
    pub latency: Option<Latency>,
    /// The server's CPU time for each.
    pub cpu_micros_each: Option<f64>,
    /// The server's resident memory.
    pub memory: Option<Memory>,
    /// Other numbers.
    pub figures: Vec<Figure>,
}

impl Row {
    /// How many there were in a second.
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.count as f64 / self.seconds } else { 0.0 }
    }

    /// Whether latencies say how late something came: an event has no duration, it is delivered some time after its write was
    /// sent.
    pub fn is_lateness(&self) -> bool {
        self.unit == "event"
    }
}

/// How long things took, or how late they came, in microseconds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Latency {
    /// Of how many.
    pub count: u64,
    /// On average.
    pub mean: f64,
    /// Half of them no longer than this.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// Ninety-nine of a hundred.
    pub p99: f64,
    /// All but one of a thousand.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// For rising shares between 0 and 1 of all of them, what that share has at the most: a curve.
    pub curve: Vec<(f64, f64)>,
}

/// Resident memory of the server's processes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Memory {
    /// When the row began.
    pub before_bytes: u64,
    /// When it was over.
    pub after_bytes: u64,
    /// The most there was, as far as it was looked.
    pub peak_bytes: u64,
}

/// A number of its own kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figure {
    /// Its name, such as `memory for a watcher`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit: `bytes`, `µs`, `events` and so on; empty for mere numbers.
    pub unit: String,
    /// Whether less of it is better; nothing if it is neither good nor bad.
    pub less_is_better: Option<bool>,
}

/// Something that was verified while it was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Check {
    /// The claim that holds if there are no faults, such as `every watcher saw every event once, in order`.
    pub claim: String,
    /// On how many occasions it was looked at.
    pub checked: u64,
    /// On how many it did not hold.
    pub faults: u64,
    /// The first of them, in words.
    pub first_fault: Option<String>,
}

/// A sample of the server's processes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Sample {
    /// When, since the run began.
    pub at_ms: u64,
    /// How many cores they used since the sample before; absent if the processes are not known.
    pub cores: Option<f64>,
    /// Their resident memory.
    pub resident_bytes: Option<u64>,
    /// How many requests were answered or events came a second, since the sample before.
    pub per_second: f64,
}
