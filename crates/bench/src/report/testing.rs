//! Results for tests.

use crate::results::{
    Check, FORMAT, Figure, Latency, Load, Machine, Memory, Results, Row, Sample, Scenario, Server,
};

/// A small run: two scenarios, of which the first has a row with everything and one with nothing.
pub(super) fn results(title: &str) -> Results {
    Results {
        format: FORMAT,
        title: title.to_owned(),
        command: "keepwatch bench --duration 30s".to_owned(),
        measured_by: "0.1.0".to_owned(),
        began: "2026-01-02T03:04:05Z".to_owned(),
        server: Server {
            url: "https://127.0.0.1:6443".to_owned(),
            version: "v1.36.0".to_owned(),
            storage: Some("embedded".to_owned()),
            processes: vec!["keepwatch (4711)".to_owned()],
        },
        machine: Machine {
            processor: "Some processor".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            system: "Linux 6.1".to_owned(),
        },
        load: Load {
            kind: None,
            objects: 10_000,
            object_bytes: 1024,
            namespaces: 10,
            watchers: 1000,
            informers: Some(20),
            slow_share: Some(0.2),
            slow_bytes: Some(20_000.0),
            concurrency: 8,
            rate: None,
            seconds: 30.0,
            protocol: "HTTP/2".to_owned(),
            is_tls: true,
        },
        scenarios: vec![fanout(), create()],
        timeline: (0..60).map(sample).collect(),
    }
}

fn fanout() -> Scenario {
    let events = Row {
        name: "events".to_owned(),
        unit: "event".to_owned(),
        count: 120_000,
        seconds: 10.0,
        latency: Some(latency()),
        cpu_micros_each: Some(12.5),
        memory: Some(Memory { before_bytes: 38 << 20, after_bytes: 123 << 19, peak_bytes: 64 << 20 }),
        figures: vec![Figure {
            name: "memory for a watcher".to_owned(),
            value: 12_595.0,
            unit: "bytes".to_owned(),
            less_is_better: Some(true),
        }],
        ..Row::default()
    };
    let lists = Row {
        name: "lists, 大きい".to_owned(),
        unit: "list".to_owned(),
        count: 10,
        seconds: 10.02,
        ..Row::default()
    };
    Scenario {
        name: "fanout".to_owned(),
        about: "Writes while many watch.".to_owned(),
        began_ms: 1000,
        ended_ms: 11_000,
        rows: vec![events, lists],
        checks: vec![check(120_000, 0)],
    }
}

fn create() -> Scenario {
    let row = Row { name: "creates".to_owned(), unit: "request".to_owned(), count: 7, ..Row::default() };
    Scenario {
        name: "create".to_owned(),
        about: "Creates objects.".to_owned(),
        began_ms: 12_000,
        ended_ms: 20_000,
        rows: vec![row],
        checks: Vec::new(),
    }
}

pub(super) fn latency() -> Latency {
    let curve = vec![(0.5, 1_200.0), (0.9, 4_000.0), (0.99, 8_500.0), (1.0, 250_000.0)];
    let (p50, p90, p99, p999, max) = (1_200.0, 4_000.0, 8_500.0, 50_000.0, 250_000.0);
    Latency { count: 120_000, mean: 1_500.0, p50, p90, p99, p999, max, curve }
}

/// A check with so many occasions and so many faults.
pub(super) fn check(checked: u64, faults: u64) -> Check {
    Check {
        claim: "every watcher saw every event once, in order".to_owned(),
        checked,
        faults,
        first_fault: (faults > 0).then(|| "watcher 7 saw version 12 after 13".to_owned()),
    }
}

fn sample(second: u64) -> Sample {
    let cores = Some((second % 7) as f64 / 4.0);
    Sample { at_ms: second * 500, cores, resident_bytes: Some((40 + second) << 20), per_second: 1_000.0 }
}
