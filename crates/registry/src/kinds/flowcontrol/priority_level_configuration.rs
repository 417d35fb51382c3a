//! PriorityLevelConfiguration.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::flowcontrol::flow_schema::{conditions, status},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, age_of},
    },
    validation::{ITSELF, Step},
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
    /// Sets the default shares, queues and lendable percentages.
    fn set_defaults(&self, object: &mut Object) {
        let Some(spec) = object.object_mut("spec") else { return };
        if let Some(exempt) = spec.object_mut("exempt") {
            exempt.set_default("nominalConcurrencyShares", 0);
            exempt.set_default("lendablePercent", 0);
        }
        if let Some(limited) = spec.object_mut("limited") {
            limited.set_default("nominalConcurrencyShares", 30);
            limited.set_default("lendablePercent", 0);
            if let Some(queuing) =
                limited.object_mut("limitResponse").and_then(|response| response.object_mut("queuing"))
            {
                queuing.set_if_zero("queues", 64);
                queuing.set_if_zero("handSize", 8);
                queuing.set_if_zero("queueLengthLimit", 50);
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// Validates the type and the settings that belong to it.
    fn validate(&self, level: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = level.at("spec");
        let (ty, limited, exempt) = (spec.at("type"), spec.at("limited"), spec.at("exempt"));
        if (level.at("metadata").text("name") == "exempt") != (ty.as_text() == "Exempt") {
            errors.invalid(&ty, ty.as_text(), "must be 'Exempt' if and only if `name` is 'exempt'");
        }
        match ty.as_text() {
            "Exempt" => {
                if limited.exists() {
                    errors.forbidden(&limited, "must be nil if the type is not Limited");
                }
                shares(&exempt, errors);
                lendable(&exempt, errors);
            }
            "Limited" => {
                if exempt.exists() {
                    errors.forbidden(&exempt, "must be nil if the type is Limited");
                }
                if !limited.exists() {
                    errors.required(&limited, "must not be empty when type is Limited");
                    return conditions(level, errors);
                }
                shares(&limited, errors);
                limit_response(&limited.at("limitResponse"), errors);
                lendable(&limited, errors);
                let borrowed = limited.at("borrowingLimitPercent");
                if let Some(percent) = borrowed.as_number().filter(|percent| *percent < 0) {
                    errors.invalid(&borrowed, percent, "if specified, must be a non-negative integer");
                }
            }
            _ => errors.one_of(&ty, &["Exempt", "Limited"]),
        }
        conditions(level, errors);
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        status(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, level: &Value, now: Timestamp) -> Vec<Value> {
        let number = |given: Option<&Value>, field| {
            given.map_or(Value::from(NONE), |given| given.number(field).into())
        };
        let limited = level.field("spec.limited");
        let queuing = level.field("spec.limited.limitResponse.queuing");
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

fn shares(of: &Node, errors: &mut FieldErrors) {
    let shares = of.at("nominalConcurrencyShares");
    if let Some(number) = shares.as_number().filter(|number| *number < 0) {
        errors.invalid(&shares, number, "must be a non-negative integer");
    }
}

fn lendable(of: &Node, errors: &mut FieldErrors) {
    errors.in_range(&of.at("lendablePercent"), 0, 100);
}

fn limit_response(response: &Node, errors: &mut FieldErrors) {
    let (ty, queuing) = (response.at("type"), response.at("queuing"));
    match ty.as_text() {
        "Reject" if queuing.exists() => {
            errors.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        "Queue" if !queuing.exists() => {
            errors.required(&queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => queues(&queuing, errors),
        _ => errors.one_of(&ty, &["Queue", "Reject"]),
    }
}

fn queues(queuing: &Node, errors: &mut FieldErrors) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|name| queuing.number(name));
    if length <= 0 {
        errors.invalid(&queuing.at("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&queuing.at("queues"), queues, "must be positive");
    } else if queues > QUEUES_MAX {
        errors.invalid(&queuing.at("queues"), queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    let at = queuing.at("handSize");
    if hand <= 0 {
        errors.invalid(&at, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&at, hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS_MAX {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        errors.invalid(&at, hand, &detail);
    }
}

/// The number of bits of a hash that shuffle sharding needs to choose `hand` of the queues.
fn entropy_bits(queues: i64, hand: i64) -> u32 {
    (((queues as f64).log2() * hand as f64).ceil()).min(f64::from(u32::MAX)) as u32
}
