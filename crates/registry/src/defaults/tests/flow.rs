//! Priority and fairness of requests.

use crate::defaults::tests::check;
use serde_json::json;

const LEVEL: &str = "flowcontrol.v1.PriorityLevelConfiguration";

#[test]
fn a_flow_schema_has_a_default_precedence() {
    for (given, wanted) in [(json!({}), 1000), (json!({"matchingPrecedence": 5}), 5)] {
        check("flowcontrol.v1.FlowSchema", json!({"spec": given}), "/spec/matchingPrecedence", json!(wanted));
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
