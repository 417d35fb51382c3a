//! Priority and fairness of requests.

use super::fields::{Object, child, child_or_new, set_default, set_if_zero};

/// Which requests belong together.
pub(super) fn flow_schema(object: &mut Object) {
    set_if_zero(child_or_new(object, "spec"), "matchingPrecedence", 1000);
}

/// How many requests of one priority run and wait.
pub(super) fn priority_level(object: &mut Object) {
    let Some(spec) = child(object, "spec") else { return };
    if let Some(exempt) = child(spec, "exempt") {
        set_default(exempt, "nominalConcurrencyShares", 0);
        set_default(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = child(spec, "limited") {
        set_default(limited, "nominalConcurrencyShares", 30);
        set_default(limited, "lendablePercent", 0);
        if let Some(queuing) = child(limited, "limitResponse").and_then(|response| child(response, "queuing"))
        {
            set_if_zero(queuing, "queues", 64);
            set_if_zero(queuing, "handSize", 8);
            set_if_zero(queuing, "queueLengthLimit", 50);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::testing::check;
    use serde_json::json;

    const LEVEL: &str = "flowcontrol.v1.PriorityLevelConfiguration";

    #[test]
    fn a_flow_comes_after_those_that_say_their_place() {
        for (given, wanted) in [(json!({}), 1000), (json!({"matchingPrecedence": 5}), 5)] {
            check(
                "flowcontrol.v1.FlowSchema",
                json!({"spec": given}),
                "/spec/matchingPrecedence",
                json!(wanted),
            );
        }
    }

    #[test]
    fn a_limited_level_has_shares_and_queues() {
        check(
            LEVEL,
            json!({"spec": {"type": "Limited", "limited": {
                "limitResponse": {"type": "Queue", "queuing": {"queues": 1}},
            }}}),
            "/spec",
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 30, "lendablePercent": 0,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 8, "queueLengthLimit": 50}},
            }}),
        );
        check(
            LEVEL,
            json!({"spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"},
            }}}),
            "/spec/limited",
            json!({"nominalConcurrencyShares": 0, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}),
        );
    }

    #[test]
    fn an_exempt_level_needs_no_shares() {
        check(
            LEVEL,
            json!({"spec": {"type": "Exempt", "exempt": {}}}),
            "/spec",
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
        );
        check(LEVEL, json!({"spec": {"type": "Exempt"}}), "/spec", json!({"type": "Exempt"}));
    }
}
