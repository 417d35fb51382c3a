//! Rows of pods.

use super::*;

/// Ready, status and restarts of a pod.
fn check_pod(pod: Value, expected: [&str; 3]) {
    let message = format!("{pod}");
    let row = row_of("core.v1.Pod", pod);
    assert_eq!(row.cells[1..4], expected.map(Value::from), "{message}");
}

#[test]
fn the_table_of_pods_has_their_nodes_and_addresses() {
    let containers = json!([{"name": "c", "image": "registry.example/app:1"}]);
    check(
        "core.v1.Pod",
        json!({"spec": {"containers": containers}, "status": {"phase": "Pending"}}),
        json!(["x", "0/1", "Pending", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
    );
    let conditions = json!([{"type": "a/b", "status": "True"}, {"type": "c/d", "status": "False"}]);
    check(
        "core.v1.Pod",
        json!({
            "spec": {"containers": containers, "nodeName": "n", "readinessGates":
                [{"conditionType": "a/b"}, {"conditionType": "c/d"}, {"conditionType": "e/f"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "nominatedNodeName": "m", "conditions": conditions, "containerStatuses":
                [{"name": "c", "ready": true, "state": {"running": {}}}]},
        }),
        json!(["x", "1/1", "Running", "0", "5m", "10.0.0.1", "n", "m", "1/3"]),
    );
}

#[test]
fn the_state_of_the_containers_is_the_status_of_the_pod() {
    let pod =
        |status: &Value| json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": status});
    let two = |phase: &str, a: Value, b: Value| {
        let status = |name: &str, mut status: Value| {
            status["name"] = name.into();
            status
        };
        pod(&json!({"phase": phase, "containerStatuses": [status("a", a), status("b", b)]}))
    };
    let runs = json!({"ready": true, "state": {"running": {"startedAt": CREATED}}});
    let waits = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let ended = |ending: Value| json!({"state": {"terminated": ending}});

    check_pod(two("Running", runs.clone(), runs.clone()), ["2/2", "Running", "0"]);
    check_pod(two("Running", runs.clone(), waits("CrashLoopBackOff")), ["1/2", "CrashLoopBackOff", "0"]);
    check_pod(two("Running", waits("ErrImagePull"), waits("CrashLoopBackOff")), ["0/2", "ErrImagePull", "0"]);
    check_pod(
        two("Pending", waits("ContainerCreating"), json!({"state": {"waiting": {}}})),
        ["0/2", "ContainerCreating", "0"],
    );
    let completed = ended(json!({"exitCode": 0, "reason": "Completed"}));
    check_pod(two("Succeeded", completed.clone(), completed.clone()), ["0/2", "Completed", "0"]);
    check_pod(
        two("Failed", ended(json!({"exitCode": 137, "reason": "OOMKilled"})), completed.clone()),
        ["0/2", "OOMKilled", "0"],
    );
    check_pod(two("Failed", ended(json!({"exitCode": 3})), runs.clone()), ["1/2", "ExitCode:3", "0"]);
    check_pod(
        two("Failed", ended(json!({"exitCode": 3, "signal": 9})), runs.clone()),
        ["1/2", "Signal:9", "0"],
    );

    let mut partly = two("Running", completed, runs);
    check_pod(partly.clone(), ["1/2", "NotReady", "0"]);
    partly["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check_pod(partly, ["1/2", "Running", "0"]);

    check_pod(pod(&json!({"phase": "Failed", "reason": "Evicted"})), ["0/2", "Evicted", "0"]);
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check_pod(pod(&json!({"phase": "Pending", "conditions": gated})), ["0/2", "SchedulingGated", "0"]);
}

#[test]
fn init_containers_are_shown_until_they_are_done() {
    let pod = |conditions: Value, init: Value| {
        json!({
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "conditions": conditions, "initContainerStatuses": init,
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]},
        })
    };
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let second = |state: Value| json!([done, {"name": "j", "state": state, "restartCount": 2}]);
    let check_init = |init: Value, word: &str, restarts: &str| {
        check_pod(pod(json!([]), init), ["0/1", word, restarts]);
    };
    check_init(json!([{"name": "i", "state": {"running": {}}}]), "Init:0/2", "0");
    check_init(json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]), "Init:0/2", "0");
    check_init(second(json!({"running": {}})), "Init:1/2", "2");
    check_init(second(json!({"waiting": {"reason": "CrashLoopBackOff"}})), "Init:CrashLoopBackOff", "2");
    check_init(second(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), "Init:Error", "2");
    check_init(second(json!({"terminated": {"exitCode": 4}})), "Init:ExitCode:4", "2");
    check_init(second(json!({"terminated": {"exitCode": 4, "signal": 15}})), "Init:Signal:15", "2");
    check_init(second(json!({"terminated": {"exitCode": 0}})), "PodInitializing", "0");
    let initialized = json!([{"type": "Initialized", "status": "True"}]);
    check_pod(pod(initialized, second(json!({"running": {}}))), ["0/1", "PodInitializing", "0"]);
}

#[test]
fn init_containers_that_stay_count_like_the_others() {
    let pod = |sidecar: Value, container: Value| {
        json!({
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [container]},
        })
    };
    let runs = json!({"name": "c", "ready": true, "restartCount": 1, "state": {"running": {}}});
    let sidecar = |started: bool, ready: bool| json!({"name": "s", "started": started, "ready": ready, "restartCount": 3, "state": {"running": {}}});
    check_pod(pod(sidecar(true, true), runs.clone()), ["2/2", "Running", "4"]);
    check_pod(pod(sidecar(true, false), runs.clone()), ["1/2", "Running", "4"]);
    check_pod(pod(sidecar(false, false), runs), ["0/2", "Init:0/1", "3"]);
}

#[test]
fn restarts_show_how_long_ago_the_last_was() {
    let restarted = |count: i32, at: &str| {
        json!({"name": "c", "ready": true, "restartCount": count, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at}}})
    };
    let pod = |statuses: Value| json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running", "containerStatuses": statuses}});
    let one = pod(json!([restarted(2, "2026-01-01T00:04:00Z")]));
    check_pod(one, ["1/1", "Running", "2 (60s ago)"]);
    let two = pod(json!([restarted(2, "2026-01-01T00:04:00Z"), restarted(1, "2026-01-01T00:02:30Z")]));
    check_pod(two, ["2/1", "Running", "3 (60s ago)"]);
    check_pod(pod(json!([restarted(0, "2026-01-01T00:04:00Z")])), ["1/1", "Running", "0"]);
}

#[test]
fn a_pod_that_is_being_deleted_is_terminating_unless_it_has_ended() {
    let pod = |phase: &str, reason: &str| {
        json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": phase, "reason": reason}})
    };
    check_pod(pod("Running", ""), ["0/1", "Terminating", "0"]);
    check_pod(pod("Running", "NodeLost"), ["0/1", "Unknown", "0"]);
    check_pod(pod("Succeeded", ""), ["0/1", "Succeeded", "0"]);
    check_pod(pod("Failed", "Evicted"), ["0/1", "Evicted", "0"]);
}

#[test]
fn only_pods_that_have_ended_have_a_condition() {
    let conditions = |ty: &str, phase: &str| row_of(ty, json!({"status": {"phase": phase}})).conditions;
    let condition = |reason: &str, message: &str| {
        Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
    };
    let succeeded = condition("Succeeded", "The pod has completed successfully.");
    assert_eq!(conditions("core.v1.Pod", "Succeeded"), succeeded);
    assert_eq!(conditions("core.v1.Pod", "Failed"), condition("Failed", "The pod failed."));
    assert_eq!(conditions("core.v1.Pod", "Running"), None);
    assert_eq!(conditions("core.v1.Namespace", "Failed"), None);
}
