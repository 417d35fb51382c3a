//! The results of a run, as they are written to a file and read from it again.
//!
//! Plain data. Times are in microseconds unless a name has another unit, sizes in bytes. An absent field was not
//! measured, which differs from zero.

use serde::{Deserialize, Serialize};

/// The version of the file format.
pub const FORMAT: u32 = 1;

/// One run: some scenarios at one server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// The heading of its column in a comparison.
    pub title: String,
    /// The command line.
    pub command: String,
    /// The version of the program that measured.
    pub measured_by: String,
    /// The time at which it began, as in RFC 3339.
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
    /// The storage of its objects, if it is known.
    pub storage: Option<String>,
    /// The processes whose time and memory were measured, as `keepwatch (4711)`; none if they were not.
    pub processes: Vec<String>,
}

/// The machine that the load came from; the server may have been elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Machine {
    /// The name of the processor.
    pub processor: String,
    /// The number of hardware threads.
    pub cores: usize,
    /// The size of its memory.
    pub memory_bytes: u64,
    /// The kernel and its version.
    pub system: String,
}

/// The amounts of objects, clients and requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Load {
    /// The kind of the objects, such as `pods`, if it is known.
    #[serde(default)]
    pub kind: Option<String>,
    /// The number of objects.
    pub objects: usize,
    /// The size of each.
    pub object_bytes: usize,
    /// The number of namespaces that they are spread over.
    pub namespaces: usize,
    /// The number of watchers.
    pub watchers: usize,
    /// The number of informers that sync at once, if it is known.
    #[serde(default)]
    pub informers: Option<usize>,
    /// The share of slow watchers in the scenario `slow`, and the number of bytes per second that they read, if it is
    /// known.
    #[serde(default)]
    pub slow_share: Option<f64>,
    /// See `slow_share`.
    #[serde(default)]
    pub slow_bytes: Option<f64>,
    /// The number of clients that write or list at a time.
    pub concurrency: usize,
    /// The number of writes per second where the pace matters; as many as possible if absent.
    pub rate: Option<f64>,
    /// The duration of a scenario.
    pub seconds: f64,
    /// `HTTP/1.1`, `HTTP/2` or `WebSocket`.
    pub protocol: String,
    /// Whether it was encrypted.
    pub is_tls: bool,
}

/// One kind of load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: String,
    /// A sentence that describes it.
    pub about: String,
    /// The time at which it began, since the beginning of the run.
    pub began_ms: u64,
    /// The time at which it ended.
    pub ended_ms: u64,
    /// The measurements, one line each.
    pub rows: Vec<Row>,
    /// The checks.
    pub checks: Vec<Check>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Row {
    /// Its name, such as `list, resourceVersion=0`.
    pub name: String,
    /// The unit of the counts, as `event`.
    pub unit: String,
    /// The number of successes.
    pub count: u64,
    /// The number of failures.
    pub failed: u64,
    /// The duration of all of it.
    pub seconds: f64,
    /// The latency of each; if [they are late](Row::is_lateness), the lateness.
    pub latency: Option<Latency>,
    /// The server's CPU time for each.
    pub cpu_micros_each: Option<f64>,
    /// The server's resident memory.
    pub memory: Option<Memory>,
    /// Other numbers.
    pub figures: Vec<Figure>,
}

impl Row {
    /// The number of successes per second.
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.count as f64 / self.seconds } else { 0.0 }
    }

    /// Whether the latencies are lateness: an event has no duration, it is delivered some time after its write was
    /// sent.
    pub fn is_lateness(&self) -> bool {
        self.unit == "event"
    }
}

/// Latencies or lateness, in microseconds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Latency {
    /// The number of values.
    pub count: u64,
    /// The mean.
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
    /// The curve: for rising shares between 0 and 1, the maximum of that share of the values.
    pub curve: Vec<(f64, f64)>,
}

/// Resident memory of the server's processes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Memory {
    /// At the beginning of the row.
    pub before_bytes: u64,
    /// At the end of the row.
    pub after_bytes: u64,
    /// The maximum of the samples.
    pub peak_bytes: u64,
}

/// A further number.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figure {
    /// Its name, such as `memory for a watcher`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit: `bytes`, `µs`, `events` and so on; empty for mere numbers.
    pub unit: String,
    /// Whether less is better; absent if it is neither good nor bad.
    pub less_is_better: Option<bool>,
}

/// A claim that was checked during the measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Check {
    /// The claim that holds if there are no faults, such as `every watcher saw every event once, in order`.
    pub claim: String,
    /// The number of occasions on which the claim was checked.
    pub checked: u64,
    /// The number of occasions on which it did not hold.
    pub faults: u64,
    /// The first fault, as text.
    pub first_fault: Option<String>,
}

/// A sample of the server's processes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Sample {
    /// The time of the sample, since the beginning of the run.
    pub at_ms: u64,
    /// The average number of cores that they used since the sample before; absent if the processes are not known.
    pub cores: Option<f64>,
    /// Their resident memory.
    pub resident_bytes: Option<u64>,
    /// The number of requests answered or events received per second, since the sample before.
    pub per_second: f64,
}
