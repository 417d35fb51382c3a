//! Results that no run would write, but that can be read: reports of all of them can be made.

use super::{compare, comparison_table, page, table, testing, text::columns};
use crate::results::{Check, Figure, Latency, Load, Machine, Memory, Results, Row, Sample, Scenario, Server};

const NUMBERS: [f64; 14] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    999.5,
    1e6,
    12_345.678,
    1e15,
    5e-324,
    1e-300,
    f64::MIN_POSITIVE,
    1e300,
    f64::MAX,
    -f64::MAX,
];
const COUNTS: [u64; 8] = [0, 1, 2, 999, 1_000_000, u64::MAX / 2, u64::MAX - 1, u64::MAX];
const TEXTS: [&str; 10] = [
    "",
    " ",
    "a",
    "two words",
    "<script>\"'&",
    "大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい大きい",
    "a-word-that-is-longer-than-any-line-of-a-terminal-which-has-no-more-than-a-hundred-and-forty-columns-and-has-no-blank-where-it-could-be-broken",
    "\x1b[2J\n\u{202e}",
    "bytes",
    "µs",
];

/// Picks unusual values, the same for the same seed.
struct Unusual(u64);

impl Unusual {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn number(&mut self) -> f64 {
        NUMBERS[self.below(NUMBERS.len())]
    }

    fn count(&mut self) -> u64 {
        COUNTS[self.below(COUNTS.len())]
    }

    fn text(&mut self) -> String {
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    fn maybe<T>(&mut self, make: fn(&mut Unusual) -> T) -> Option<T> {
        (self.below(3) > 0).then(|| make(self))
    }

    fn some<T>(&mut self, make: fn(&mut Unusual) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    fn results(&mut self) -> Results {
        Results {
            title: self.text(),
            command: self.text(),
            measured_by: self.text(),
            began: self.text(),
            server: Server {
                url: self.text(),
                version: self.text(),
                storage: self.maybe(Unusual::text),
                processes: self.some(Unusual::text),
            },
            machine: Machine {
                processor: self.text(),
                cores: self.count() as usize,
                memory_bytes: self.count(),
                system: self.text(),
            },
            load: Load {
                objects: self.count() as usize,
                slow_share: self.maybe(Unusual::number),
                slow_bytes: self.maybe(Unusual::number),
                rate: self.maybe(Unusual::number),
                seconds: self.number(),
                protocol: self.text(),
                ..Load::default()
            },
            scenarios: self.some(Unusual::scenario),
            timeline: self.some(Unusual::sample),
            ..testing::results("")
        }
    }

    fn scenario(&mut self) -> Scenario {
        Scenario {
            name: self.text(),
            about: self.text(),
            began_ms: self.count(),
            ended_ms: self.count(),
            rows: self.some(Unusual::row),
            checks: self.some(Unusual::check),
        }
    }

    fn row(&mut self) -> Row {
        Row {
            name: self.text(),
            unit: self.text(),
            count: self.count(),
            failed: self.count(),
            seconds: self.number(),
            latency: self.maybe(Unusual::latency),
            cpu_micros_each: self.maybe(Unusual::number),
            memory: self.maybe(Unusual::memory),
            figures: self.some(Unusual::figure),
        }
    }

    fn latency(&mut self) -> Latency {
        Latency {
            count: self.count(),
            mean: self.number(),
            p50: self.number(),
            p90: self.number(),
            p99: self.number(),
            p999: self.number(),
            max: self.number(),
            curve: self.some(|unusual| (unusual.number(), unusual.number())),
        }
    }

    fn memory(&mut self) -> Memory {
        Memory { before_bytes: self.count(), after_bytes: self.count(), peak_bytes: self.count() }
    }

    fn figure(&mut self) -> Figure {
        Figure {
            name: self.text(),
            value: self.number(),
            unit: self.text(),
            less_is_better: self.maybe(|unusual| unusual.below(2) == 0),
        }
    }

    fn check(&mut self) -> Check {
        Check {
            claim: self.text(),
            checked: self.count(),
            faults: self.count(),
            first_fault: self.maybe(Unusual::text),
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            at_ms: self.count(),
            cores: self.maybe(Unusual::number),
            resident_bytes: self.maybe(Unusual::count),
            per_second: self.number(),
        }
    }
}

fn read_again(results: &Results) -> Results {
    serde_json::from_str(&serde_json::to_string(results).unwrap()).unwrap()
}

#[test]
fn every_result_that_can_be_read_has_a_report() {
    for seed in 0..400 {
        let mut unusual = Unusual(seed);
        let all: Vec<_> = (0..unusual.below(4)).map(|_| read_again(&unusual.results())).collect();
        for width in [0, 60, 80, 140] {
            let texts = all.iter().map(|results| table(results, width));
            for text in texts.chain([comparison_table(&compare(&all), width)]) {
                let widest = text.lines().map(columns).max().unwrap_or_default();
                assert!(widest <= width.max(60), "seed {seed}: {widest} columns of {width}\n{text}");
            }
        }
        let page = page(&all);
        for none in ["NaN", "inf\"", "<script", "\x1b"] {
            assert!(!page.contains(none), "seed {seed}: there is {none:?}");
        }
    }
}
