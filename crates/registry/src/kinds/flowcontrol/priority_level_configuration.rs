//! PriorityLevelConfiguration.

use crate::{
    defaults::fields::{Object, child, set_default, set_if_zero},
    kind::{Generation, Kind, Subresource},
    kinds::flowcontrol::flow_schema::{conditions, status},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{NONE, age_of},
    },
    validation::{
        ITSELF, Step,
        document::{Faults, Node},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "flowcontrol.apiserver.k8s.io",
        "flowcontrol.v1.PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    )
    .cluster_scoped()
    .subresources([Subresource::status()])
    .generation(Generation::Spec)
    .status_keeps_metadata()
    .strategy(PriorityLevelConfigurationStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Type", "Whether its requests are limited"),
    text("NominalConcurrencyShares", "Its share of the requests that are served at once"),
    text("Queues", "How many queues it has"),
    text("HandSize", "How many queues a flow is dealt"),
    text("QueueLengthLimit", "How many requests may wait in a queue"),
    AGE,
];

struct PriorityLevelConfigurationStrategy;

impl Strategy for PriorityLevelConfigurationStrategy {
    /// How many requests of one priority run and wait.
    fn set_defaults(&self, object: &mut Object) {
        let Some(spec) = child(object, "spec") else { return };
        if let Some(exempt) = child(spec, "exempt") {
            set_default(exempt, "nominalConcurrencyShares", 0);
            set_default(exempt, "lendablePercent", 0);
        }
        if let Some(limited) = child(spec, "limited") {
            set_default(limited, "nominalConcurrencyShares", 30);
            set_default(limited, "lendablePercent", 0);
            if let Some(queuing) =
                child(limited, "limitResponse").and_then(|response| child(response, "queuing"))
            {
                set_if_zero(queuing, "queues", 64);
                set_if_zero(queuing, "handSize", 8);
                set_if_zero(queuing, "queueLengthLimit", 50);
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// How many requests run at once.
    fn validate(&self, level: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = level.at("spec");
        let (ty, limited, exempt) = (spec.at("type"), spec.at("limited"), spec.at("exempt"));
        if (level.at("metadata").text_of("name") == "exempt") != (ty.text() == "Exempt") {
            faults.invalid(&ty, ty.text(), "must be 'Exempt' if and only if `name` is 'exempt'");
        }
        match ty.text() {
            "Exempt" => {
                if limited.exists() {
                    faults.forbidden(&limited, "must be nil if the type is not Limited");
                }
                shares(&exempt, faults);
                lendable(&exempt, faults);
            }
            "Limited" => {
                if exempt.exists() {
                    faults.forbidden(&exempt, "must be nil if the type is Limited");
                }
                if !limited.exists() {
                    faults.required(&limited, "must not be empty when type is Limited");
                    return conditions(level, faults);
                }
                shares(&limited, faults);
                limit_response(&limited.at("limitResponse"), faults);
                lendable(&limited, faults);
                let borrowed = limited.at("borrowingLimitPercent");
                if let Some(percent) = borrowed.number().filter(|percent| *percent < 0) {
                    faults.invalid(&borrowed, percent, "if specified, must be a non-negative integer");
                }
            }
            _ => faults.one_of(&ty, &["Exempt", "Limited"]),
        }
        conditions(level, faults);
    }

    fn validate_status(&self, new: &Node, old: &Node, faults: &mut Faults) {
        status(new, old, faults)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, level: &Value, now: Timestamp) -> Vec<Value> {
        let number = |given: Option<&Value>, field| {
            given.map_or(Value::from(NONE), |given| given.number(field).into())
        };
        let limited = level.set("spec.limited");
        let queuing = level.set("spec.limited.limitResponse.queuing");
        row![
            level.name(),
            level.text("spec.type"),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            age_of(level, now),
        ]
    }
}

const QUEUES_MAX: i64 = 10_000_000;

const HASH_BITS_MAX: u32 = 60;

fn shares(of: &Node, faults: &mut Faults) {
    let shares = of.at("nominalConcurrencyShares");
    if let Some(number) = shares.number().filter(|number| *number < 0) {
        faults.invalid(&shares, number, "must be a non-negative integer");
    }
}

fn lendable(of: &Node, faults: &mut Faults) {
    faults.in_range(&of.at("lendablePercent"), 0, 100);
}

fn limit_response(response: &Node, faults: &mut Faults) {
    let (ty, queuing) = (response.at("type"), response.at("queuing"));
    match ty.text() {
        "Reject" if queuing.exists() => {
            faults.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        "Queue" if !queuing.exists() => {
            faults.required(&queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => queues(&queuing, faults),
        _ => faults.one_of(&ty, &["Queue", "Reject"]),
    }
}

fn queues(queuing: &Node, faults: &mut Faults) {
    let [length, queues, hand] =
        ["queueLengthLimit", "queues", "handSize"].map(|name| queuing.number_of(name));
    if length <= 0 {
        faults.invalid(&queuing.at("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        faults.invalid(&queuing.at("queues"), queues, "must be positive");
    } else if queues > QUEUES_MAX {
        faults.invalid(&queuing.at("queues"), queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    let at = queuing.at("handSize");
    if hand <= 0 {
        faults.invalid(&at, hand, "must be positive");
    } else if hand > queues {
        faults.invalid(&at, hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS_MAX {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        faults.invalid(&at, hand, &detail);
    }
}

/// How many bits of a hash it takes to deal a hand from that many queues.
fn entropy_bits(queues: i64, hand: i64) -> u32 {
    (((queues as f64).log2() * hand as f64).ceil()).min(f64::from(u32::MAX)) as u32
}
