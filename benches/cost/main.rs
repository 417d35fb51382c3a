//! The hot paths, for `scripts/cost` to count the instructions of.
//!
//! `cost` lists them, each with its number of repetitions; `cost <path>` runs one of them, so that a tool that counts
//! the instructions of [`measured`], with all that it calls, counts this path and nothing else.
//!
//! Kept true: the same program does the same each time. There is one thread, input is made from numbers, and nothing
//! waits for a clock. Only the seeds of hash tables and the addresses of memory are random.

mod server;
mod objects;
mod script;
#[path = "../../crates/bench/src/custom.rs"]
#[allow(dead_code, reason = "the load on servers needs more of it")]
mod custom;
mod events;
mod dispatch;
mod lists;
mod creates;
mod custom_objects;
mod informers;

use std::hint::black_box;
use tokio::runtime::{Builder, Runtime};

/// A path that can be measured.
struct Path {
    name: &'static str,
    /// The number of repetitions before the measurement: until caches and histories are full.
    warm_up: usize,
    /// The number of repetitions that are measured.
    times: usize,
    /// Makes what so many repetitions need.
    prepare: fn(&Runtime, usize) -> Ready<'_>,
}

/// Repeats a path this number of times.
type Ready<'r> = Box<dyn FnMut(usize) + 'r>;

const PATHS: [Path; 16] = [
    Path { name: "event-json", warm_up: 600, times: 200, prepare: events::json },
    Path { name: "event-json-again", warm_up: 10, times: 1000, prepare: events::json_again },
    Path { name: "event-protobuf", warm_up: 20, times: 50, prepare: events::protobuf },
    Path { name: "event-metadata", warm_up: 20, times: 50, prepare: events::metadata },
    Path { name: "event-table", warm_up: 20, times: 50, prepare: events::table },
    Path { name: "dispatch-to-1", warm_up: 100, times: 1000, prepare: dispatch::to_one },
    Path { name: "dispatch-to-1000", warm_up: 20, times: 50, prepare: dispatch::to_all },
    Path { name: "dispatch-to-1-of-1000", warm_up: 100, times: 1000, prepare: dispatch::to_one_of_many },
    Path { name: "list-1000-pods", warm_up: 2, times: 5, prepare: lists::pods },
    Path { name: "create-config-map", warm_up: 50, times: 200, prepare: creates::config_maps },
    Path { name: "create-pod", warm_up: 20, times: 100, prepare: creates::pods },
    Path { name: "create-custom-object", warm_up: 20, times: 100, prepare: custom_objects::creates },
    Path { name: "patch-custom-object", warm_up: 20, times: 100, prepare: custom_objects::patches },
    Path { name: "custom-schema-parse", warm_up: 5, times: 20, prepare: custom_objects::schemas },
    Path { name: "informer-typed", warm_up: 50, times: 200, prepare: informers::typed },
    Path { name: "informer-lean", warm_up: 50, times: 200, prepare: informers::lean },
];

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        for path in &PATHS {
            println!("{} {}", path.name, path.times);
        }
        return;
    };
    let path = PATHS.iter().find(|path| path.name == name).expect("there is a path of that name");
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let mut ready = (path.prepare)(&runtime, path.warm_up + path.times);
    ready(path.warm_up);
    measured(&mut *ready, path.times);
    // Skips the destructors, which would take long.
    std::process::exit(0);
}

/// The measured function. `scripts/cost` finds it by its name.
#[inline(never)]
fn measured(ready: &mut dyn FnMut(usize), times: usize) {
    ready(black_box(times));
    // A statement after the call above, so that it is not a tail call.
    black_box(());
}
