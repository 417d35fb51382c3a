//! The row of a pod, with one word for the state of all its containers.
//!
//! Init containers run one after another, so the first that has not completed determines the status. The others run at
//! the same time, and the first of them that does not run determines it. Sidecars are counted as ready and restarted
//! like the others.

use crate::table::{
    AGE, Column, NAME, row, text,
    words::{NONE, age, age_of, or},
};
use crate::{document::Fields, schema::Timestamp};
use serde_json::{Value, json};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "How many of its containers are ready"),
    text("Status", "What its containers do, in one word"),
    text("Restarts", "How often its containers were started again, and when last"),
    AGE,
    text("IP", "The address of the pod").wide(),
    text("Node", "The node that it runs on").wide(),
    text("Nominated Node", "The node where room is made for it").wide(),
    READINESS_GATES,
];

const READINESS_GATES: Column =
    text("Readiness Gates", "How many of the further conditions for its readiness are met").wide();

/// The condition in the row of a pod that has completed.
pub(super) fn completed(pod: &Value) -> Option<Value> {
    let phase = pod.text("status.phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

/// The cells of a pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let state = State::of(pod);
    let sidecars = pod.list("spec.initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = pod.list("spec.containers").len() + sidecars;
    let ip = pod.list("status.podIPs").first().map_or_else(|| pod.text("status.podIP"), |ip| ip.text("ip"));
    row![
        pod.name(),
        format!("{}/{total}", state.ready),
        state.word,
        state.restarts.text(now),
        age_of(pod, now),
        or(ip, NONE),
        or(pod.text("spec.nodeName"), NONE),
        or(pod.text("status.nominatedNodeName"), NONE),
        readiness_gates(pod),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.list("spec.readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let met = gates.iter().filter(|gate| pod.is_condition_true(gate.text("conditionType"))).count();
    format!("{met}/{}", gates.len())
}

/// Whether an init container is a sidecar, which keeps running.
fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

/// The state of all containers of a pod.
struct State {
    word: String,
    ready: usize,
    restarts: Restarts,
}

impl State {
    fn of(pod: &Value) -> State {
        let init = Initialization::of(pod);
        let mut state = match init.pending {
            Some(word) if !pod.is_condition_true("Initialized") => {
                State { word, ready: init.ready, restarts: init.restarts }
            }
            word => {
                let word = word.unwrap_or_else(|| phase(pod));
                running(pod, State { word, ready: init.ready, restarts: init.sidecar_restarts })
            }
        };
        if let Some(word) = deletion(pod) {
            state.word = word.to_owned();
        }
        state
    }
}

/// The reason or the phase in the status of a pod.
fn phase(pod: &Value) -> String {
    const GATED: &str = "SchedulingGated";
    let gated =
        |condition: &Value| condition.text("type") == "PodScheduled" && condition.text("reason") == GATED;
    if pod.list("status.conditions").iter().any(gated) {
        return GATED.to_owned();
    }
    or(pod.text("status.reason"), pod.text("status.phase")).to_owned()
}

fn deletion(pod: &Value) -> Option<&'static str> {
    let terminal = matches!(pod.text("status.phase"), "Succeeded" | "Failed");
    match pod.is_deleting() {
        true if pod.text("status.reason") == "NodeLost" => Some("Unknown"),
        true if !terminal => Some("Terminating"),
        _ => None,
    }
}

/// The progress of the init containers.
#[derive(Default)]
struct Initialization {
    /// The status of the first container that has not completed. Those after it are ignored.
    pending: Option<String>,
    /// The number of sidecars that are ready.
    ready: usize,
    restarts: Restarts,
    /// The restarts of the sidecars.
    sidecar_restarts: Restarts,
}

impl Initialization {
    fn of(pod: &Value) -> Initialization {
        let containers = pod.list("spec.initContainers");
        let mut init = Initialization::default();
        for (at, status) in pod.list("status.initContainerStatuses").iter().enumerate() {
            let name = status.text("name");
            let is_sidecar =
                containers.iter().any(|container| container.text("name") == name && is_sidecar(container));
            init.restarts.add(status);
            if is_sidecar {
                init.sidecar_restarts.add(status);
            }
            let terminated = status.field("state.terminated");
            if terminated.is_some_and(|terminated| terminated.number("exitCode") == 0) {
                continue;
            }
            if is_sidecar && status.flag("started") {
                init.ready += usize::from(status.flag("ready"));
                continue;
            }
            init.pending = Some(match (terminated, status.text("state.waiting.reason")) {
                (Some(terminated), _) => format!("Init:{}", termination_reason(terminated)),
                (None, "" | "PodInitializing") => format!("Init:{at}/{}", containers.len()),
                (None, reason) => format!("Init:{reason}"),
            });
            break;
        }
        init
    }
}

/// Adds the regular containers. The first that is waiting or has ended determines the status, so they are read
/// backwards.
fn running(pod: &Value, mut state: State) -> State {
    let mut any_runs = false;
    for status in pod.list("status.containerStatuses").iter().rev() {
        state.restarts.add(status);
        let waiting = status.text("state.waiting.reason");
        if !waiting.is_empty() {
            state.word = waiting.to_owned();
        } else if let Some(terminated) = status.field("state.terminated") {
            state.word = termination_reason(terminated);
        } else if status.flag("ready") && status.field("state.running").is_some() {
            any_runs = true;
            state.ready += 1;
        }
    }
    if state.word == "Completed" && any_runs {
        state.word = if pod.is_condition_true("Ready") { "Running" } else { "NotReady" }.to_owned();
    }
    state
}

/// The reason, signal or exit code with which a container ended.
fn termination_reason(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.number("signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The restarts of containers: their number, and the time of the last.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(status.number("restartCount"));
        self.last = self.last.max(status.time("lastState.terminated.finishedAt"));
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last {
            Some(_) if self.count != 0 => format!("{} ({} ago)", self.count, age(self.last, now)),
            _ => self.count.to_string(),
        }
    }
}
