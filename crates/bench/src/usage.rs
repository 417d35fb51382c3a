//! The CPU time and memory of the server's processes, from `/proc`.

use crate::{
    Failure,
    results::{Machine, Sample},
};
use parking_lot::Mutex;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio_util::task::AbortOnDropHandle;

/// The time between two samples.
const SAMPLE: Duration = Duration::from_millis(250);

/// The processes that are measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    ids: Vec<u32>,
}

/// Their CPU time and memory until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    /// The anonymous part of it: the memory that the processes have allocated.
    pub(crate) anonymous_bytes: u64,
}

impl Processes {
    pub(crate) fn new(ids: Vec<u32>) -> Result<Self, Failure> {
        let processes = Processes { ids };
        for id in &processes.ids {
            name_of(*id).map_err(Failure::at(format!("process {id} cannot be measured")))?;
        }
        Ok(processes)
    }

    /// Names of the processes, as `keepwatch (4711)`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.ids.iter().map(|id| format!("{} ({id})", name_of(*id).unwrap_or_default())).collect()
    }

    /// The usage; absent if there are no processes, or one of them is gone.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if self.ids.is_empty() {
            return None;
        }
        let mut all = Usage::default();
        for id in &self.ids {
            all.cpu += cpu(*id)?;
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            all.resident_bytes += bytes_of(&status, "VmRSS:")?;
            all.anonymous_bytes += bytes_of(&status, "RssAnon:")?;
        }
        Some(all)
    }
}

fn name_of(id: u32) -> std::io::Result<String> {
    Ok(fs::read_to_string(format!("/proc/{id}/comm"))?.trim().to_owned())
}

/// The CPU time by the process's own clock, which counts nanoseconds; `/proc/<pid>/stat` has hundredths of a second.
#[cfg(target_os = "linux")]
fn cpu(id: u32) -> Option<Duration> {
    use nix::{
        time::{clock_getcpuclockid, clock_gettime},
        unistd::Pid,
    };
    let clock = clock_getcpuclockid(Pid::from_raw(id.try_into().ok()?)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn cpu(_: u32) -> Option<Duration> {
    None
}

/// A line of `/proc/<pid>/status`.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Samples the processes until it is dropped.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    _looking: AbortOnDropHandle<()>,
}

struct Shared {
    processes: Processes,
    began: Instant,
    /// Counts answered requests and received events.
    done: AtomicU64,
    peak_bytes: AtomicU64,
    timeline: Mutex<Vec<Sample>>,
}

impl Sampler {
    pub(crate) fn start(processes: Processes, began: Instant) -> Self {
        let (done, peak_bytes) = Default::default();
        let shared = Arc::new(Shared { processes, began, done, peak_bytes, timeline: Mutex::default() });
        let looking = tokio::spawn(sample_repeatedly(Arc::clone(&shared)));
        Sampler { shared, _looking: AbortOnDropHandle::new(looking) }
    }

    pub(crate) fn done(&self, count: u64) {
        self.shared.done.fetch_add(count, Relaxed);
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.shared.processes.usage()
    }

    pub(crate) fn reset_peak(&self) {
        self.shared.peak_bytes.store(0, Relaxed);
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.shared.peak_bytes.load(Relaxed)
    }

    pub(crate) fn timeline(&self) -> Vec<Sample> {
        self.shared.timeline.lock().clone()
    }
}

async fn sample_repeatedly(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(SAMPLE);
    let (mut before, mut done, mut at) = (shared.processes.usage(), 0, shared.began);
    loop {
        ticks.tick().await;
        let (usage, now, now_done) = (shared.processes.usage(), Instant::now(), shared.done.load(Relaxed));
        let seconds = now.duration_since(at).as_secs_f64();
        if seconds < SAMPLE.as_secs_f64() / 2.0 {
            continue;
        }
        let cores = before
            .zip(usage)
            .map(|(before, usage)| usage.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds);
        let resident_bytes = usage.map(|usage| usage.resident_bytes);
        shared.peak_bytes.fetch_max(resident_bytes.unwrap_or_default(), Relaxed);
        shared.timeline.lock().push(Sample {
            at_ms: now.duration_since(shared.began).as_millis() as u64,
            cores,
            resident_bytes,
            per_second: (now_done - done) as f64 / seconds,
        });
        (before, done, at) = (usage, now_done, now);
    }
}

/// The machine that this runs on, as far as the system reports it.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim_start_matches([' ', '\t', ':']).trim().to_owned()).unwrap_or_default()
    };
    let memory = after(&read("/proc/meminfo"), "MemTotal:");
    let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
    Machine {
        processor: after(&read("/proc/cpuinfo"), "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: kilobytes * 1024,
        system: format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_read() {
        assert_eq!(bytes_of("Name:\ta\nVmRSS:\t   1024 kB\n", "VmRSS:"), Some(1 << 20));
        assert_eq!(bytes_of("Name:\ta\n", "VmRSS:"), None);
    }

    #[test]
    fn this_very_process_can_be_measured_and_one_that_is_not_there_cannot() {
        let own = Processes::new(vec![std::process::id()]).unwrap();
        let before = own.usage().unwrap();
        assert!(before.resident_bytes > 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
        let took = own.usage().unwrap().cpu - before.cpu;
        assert!(took > Duration::from_micros(100) && took < Duration::from_secs(60), "{took:?}");
        assert_ne!(took.subsec_nanos() % 1_000_000, 0, "it is counted finely");
        assert!(own.names()[0].ends_with(&format!("({})", std::process::id())));
        let failure = Processes::new(vec![u32::MAX]).unwrap_err();
        assert!(failure.to_string().starts_with("process 4294967295 cannot be measured"));
        assert!(Processes::default().usage().is_none());
    }
}
