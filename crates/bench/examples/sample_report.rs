//! Shows what reports look like, with invented numbers, for work on the reports.
//!
//! Run: cargo run -p keepwatch-bench --example sample_report -- <folder>
//! Writes one.html and three.html there, besides the results they were made of, and prints the same as text.

use keepwatch_bench::{
    report,
    results::{
        Check, FORMAT, Figure, Latency, Load, Machine, Memory, Results, Row, Sample, Scenario, Server,
    },
};
use std::{error::Error, fs, path::PathBuf};

/// The differences between a made-up server and the first: in time, memory and throughput.
struct Profile {
    title: &'static str,
    version: &'static str,
    storage: &'static str,
    processes: &'static [&'static str],
    time: f64,
    memory: f64,
    throughput: f64,
    faults: u64,
}

const NATURES: [Profile; 3] = [
    Profile {
        title: "kube-apiserver, etcd",
        version: "v1.36.1",
        storage: "etcd 3.6.5",
        processes: &["kube-apiserver (812)", "etcd (790)"],
        time: 1.0,
        memory: 1.0,
        throughput: 1.0,
        faults: 0,
    },
    Profile {
        title: "keepwatch, embedded",
        version: "v1.36.0+keepwatch.0.1.0",
        storage: "embedded",
        processes: &["keepwatch (4711)"],
        time: 0.31,
        memory: 0.14,
        throughput: 2.6,
        faults: 0,
    },
    Profile {
        title: "keepwatch, etcd",
        version: "v1.36.0+keepwatch.0.1.0",
        storage: "etcd 3.6.5",
        processes: &["keepwatch (4804)", "etcd (4790)"],
        time: 0.62,
        memory: 0.36,
        throughput: 1.5,
        faults: 2,
    },
];

/// Numbers that look like noise and are the same every time.
struct Noise(u64);

impl Noise {
    /// Between 0 and 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }

    /// About this much.
    fn about(&mut self, value: f64) -> f64 {
        value * (0.9 + 0.2 * self.next())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("give the folder to write to")?.into();
    fs::create_dir_all(&folder)?;
    let all: Vec<_> =
        NATURES.iter().zip(1..).map(|(nature, seed)| results(nature, &mut Noise(seed))).collect();
    for (results, number) in all.iter().zip(1..) {
        fs::write(folder.join(format!("{number}.json")), serde_json::to_vec_pretty(results)?)?;
    }
    fs::write(folder.join("one.html"), report::page(&all[1..2]))?;
    fs::write(folder.join("three.html"), report::page(&all))?;
    for width in [60, 80, 140] {
        println!("{}\n{}", "=".repeat(width), report::table(&all[1], width));
        println!("{}\n{}", "=".repeat(width), report::comparison_table(&report::compare(&all), width));
    }
    Ok(())
}

fn results(nature: &Profile, noise: &mut Noise) -> Results {
    let scenarios = vec![
        writes(nature, noise),
        lists(nature, noise),
        fanout(nature, noise),
        idle(nature, noise),
        resume(nature, noise),
    ];
    Results {
        format: FORMAT,
        title: nature.title.to_owned(),
        command: format!(
            "keepwatch bench --kubeconfig admin.kubeconfig --name '{}' --objects 10000 --watchers 1000 --duration 30s",
            nature.title
        ),
        measured_by: "0.1.0".to_owned(),
        began: "2026-11-16T06:08:12Z".to_owned(),
        server: Server {
            url: "https://127.0.0.1:6443".to_owned(),
            version: nature.version.to_owned(),
            storage: Some(nature.storage.to_owned()),
            processes: nature.processes.iter().map(|process| (*process).to_owned()).collect(),
        },
        machine: Machine {
            processor: "AMD EPYC 7763 64-Core Processor".to_owned(),
            cores: 4,
            memory_bytes: 16 << 30,
            system: "Linux 6.1.0-28-amd64".to_owned(),
        },
        load: Load {
            kind: Some("pods".to_owned()),
            objects: 10_000,
            object_bytes: 2048,
            namespaces: 20,
            watchers: 1000,
            informers: None,
            slow_share: None,
            slow_bytes: None,
            concurrency: 16,
            rate: None,
            seconds: 30.0,
            protocol: "HTTP/2".to_owned(),
            is_tls: true,
        },
        timeline: timeline(nature, &scenarios, noise),
        scenarios,
    }
}

fn writes(nature: &Profile, noise: &mut Noise) -> Scenario {
    let rows = [("create", 2_100.0, 5_200.0), ("update", 2_400.0, 4_900.0), ("delete", 2_900.0, 3_600.0)];
    let rows =
        rows.map(|(name, pace, micros)| row(nature, noise, (name, "request"), pace, micros, micros * 0.08));
    let check = check("every write got a revision of its own, in order", 221_000, 0);
    scenario(
        ("writes", "Creates, updates and deletes objects, as fast as 16 clients can."),
        2_000,
        rows.into(),
        check,
    )
}

fn lists(nature: &Profile, noise: &mut Noise) -> Scenario {
    let rows = [
        ("list, resourceVersion=0", 14.0, 290_000.0),
        ("list, consistent", 11.0, 340_000.0),
        ("list, pages of 500", 9.0, 410_000.0),
        ("list, one namespace", 260.0, 14_000.0),
    ];
    let rows =
        rows.map(|(name, pace, micros)| row(nature, noise, (name, "list"), pace, micros, micros * 0.12));
    let check = check("every list held all objects of one revision", 9_120, 0);
    let names = ("lists", "Lists 10,000 objects in all the ways that clients do, while others write.");
    scenario(names, 36_000, rows.into(), check)
}

fn fanout(nature: &Profile, noise: &mut Noise) -> Scenario {
    let mut row = row(nature, noise, ("events to 1,000 watchers", "event"), 61_000.0, 38_000.0, 9.0);
    row.figures = vec![
        figure("writes a second", 61.0 * nature.throughput, "", Some(false)),
        figure("bytes sent for an event", 2_310.0, "bytes", Some(true)),
    ];
    let mut writes = self::row(nature, noise, ("writes meanwhile", "write"), 61.0, 5_400.0, 0.0);
    (writes.cpu_micros_each, writes.memory) = (None, None);
    let check = check("every watcher saw every event once, in order", row.count, nature.faults);
    scenario(
        ("fanout", "Writes while 1,000 clients watch, and measures how late each event comes."),
        70_000,
        vec![row, writes],
        check,
    )
}

fn idle(nature: &Profile, noise: &mut Noise) -> Scenario {
    let mut row = row(nature, noise, ("open watches", "watch"), 420.0, 6_100.0, 310.0);
    row.figures = vec![figure("memory for a watcher", 61_000.0 * nature.memory, "bytes", Some(true))];
    let check = check("every watch opened, and stayed open", 10_000, 0);
    scenario(
        ("idle", "Opens 10,000 watches that see nothing, and looks what they take."),
        104_000,
        vec![row],
        check,
    )
}

/// The first server has nothing to show here.
fn resume(nature: &Profile, noise: &mut Noise) -> Scenario {
    let mut rows = vec![row(nature, noise, ("resume after a cut", "watch"), 900.0, 3_100.0, 120.0)];
    if nature.throughput > 1.0 {
        rows.push(row(nature, noise, ("resume from a bookmark", "watch"), 1_100.0, 2_100.0, 90.0));
    }
    rows.iter_mut().for_each(|row| row.memory = None);
    let check = check("no event was missed or repeated across the cut", 84_000, 0);
    scenario(
        ("resume", "Cuts all connections, and has clients go on from where they were."),
        138_000,
        rows,
        check,
    )
}

fn row(nature: &Profile, noise: &mut Noise, names: (&str, &str), pace: f64, micros: f64, cpu: f64) -> Row {
    let pace = noise.about(pace * nature.throughput);
    let before = noise.about(480.0 * nature.memory) as u64;
    let after = before + noise.about(120.0 * nature.memory) as u64;
    Row {
        name: names.0.to_owned(),
        unit: names.1.to_owned(),
        count: (pace * 30.0) as u64,
        failed: 0,
        seconds: 30.0,
        latency: Some(latency(noise, (pace * 30.0) as u64, micros * nature.time)),
        cpu_micros_each: Some(noise.about(cpu * nature.time)),
        memory: Some(Memory {
            before_bytes: before << 20,
            after_bytes: after << 20,
            peak_bytes: (after + 9) << 20,
        }),
        figures: Vec::new(),
    }
}

fn latency(noise: &mut Noise, count: u64, middle: f64) -> Latency {
    let tail = 0.4 + 0.3 * noise.next();
    let most = 1.0 - 1.0 / count.max(2) as f64;
    let at = |share: f64| middle * (-(1.0 - share.min(most)).log2()).powf(tail + 0.6) * (0.7 + 0.3 * share);
    let shares = (1..=60).map(|step| 1.0 - 10f64.powf(-f64::from(step) / 12.0)).filter(|share| *share < most);
    let curve: Vec<_> = shares.chain([1.0]).map(|share| (share, at(share))).collect();
    let [p50, p90, p99, p999, max] = [0.5, 0.9, 0.99, 0.999, 1.0].map(at);
    Latency { count, mean: p50 * 1.2, p50, p90, p99, p999, max, curve }
}

fn figure(name: &str, value: f64, unit: &str, less_is_better: Option<bool>) -> Figure {
    Figure { name: name.to_owned(), value, unit: unit.to_owned(), less_is_better }
}

fn check(claim: &str, checked: u64, faults: u64) -> Check {
    let first_fault = (faults > 0).then(|| "watcher 412 saw revision 88123 after 88124".to_owned());
    Check { claim: claim.to_owned(), checked, faults, first_fault }
}

fn scenario((name, about): (&str, &str), began_ms: u64, rows: Vec<Row>, check: Check) -> Scenario {
    let (name, about) = (name.to_owned(), about.to_owned());
    Scenario { name, about, began_ms, ended_ms: began_ms + 32_000, rows, checks: vec![check] }
}

fn timeline(nature: &Profile, scenarios: &[Scenario], noise: &mut Noise) -> Vec<Sample> {
    let mut resident = 210.0 * nature.memory;
    let sample = |number: u64| {
        let at_ms = number * 250;
        let current = scenarios.iter().position(|each| (each.began_ms..=each.ended_ms).contains(&at_ms));
        let busy = current.map_or(0.03, |place| [1.6, 2.4, 3.1, 0.4, 1.2][place]);
        let pace = current.map_or(0.0, |place| [7_400.0, 300.0, 61_000.0, 420.0, 2_000.0][place]);
        resident += (busy * 0.9 - (resident / nature.memory / 700.0)) * nature.memory * noise.next();
        Sample {
            at_ms,
            cores: Some(noise.about(busy * nature.time.sqrt())),
            resident_bytes: Some((resident * 1_048_576.0) as u64),
            per_second: noise.about(pace * nature.throughput),
        }
    };
    (0..690).map(sample).collect()
}
