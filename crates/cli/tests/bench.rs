//! `keepwatch bench`, the program itself: at servers that it starts, and at one that a kubeconfig names.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use keepwatch::Server;
use keepwatch_bench::results::{Results, Row, Scenario};
use kube::{Api, ResourceExt, api::ListParams};
use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// As little load as shows that something was done.
const SMALL: &str = "--objects 60 --size 4000 --namespaces 2 --watchers 12 --informers 2 --concurrency 4 --rate 40 --definitions 20 --duration 1s";
/// The time in which anything that must happen has to. Machines that run tests are slow at times.
const SOON: Duration = Duration::from_secs(60);

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keepwatch"));
    command.arg("bench").args(arguments.split_whitespace()).env_remove("KUBECONFIG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// The results of a run, which must have no faults.
fn results(arguments: &str) -> Results {
    let output = command(&format!("{arguments} {SMALL} --json -")).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", said(&output));
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    for scenario in &results.scenarios {
        for check in &scenario.checks {
            assert_eq!(check.faults, 0, "{arguments}, {}: {check:?}", scenario.name);
        }
        assert!(scenario.rows.iter().all(|row| row.failed == 0), "{arguments}: {:?}", scenario.rows);
    }
    results
}

/// The number of pages that the server read from its store, because its watch cache lacked what slow watchers missed.
fn pages_read(slow: &Row) -> f64 {
    let figure = slow.figures.iter().find(|figure| figure.name == "read from the store's history");
    figure.map_or(0.0, |figure| figure.value)
}

fn scenario<'a>(results: &'a Results, name: &str) -> &'a Scenario {
    results.scenarios.iter().find(|scenario| scenario.name == name).unwrap()
}

fn names(results: &Results) -> Vec<&str> {
    results.scenarios.iter().map(|scenario| scenario.name.as_str()).collect()
}

#[test]
fn a_tour_of_everything_is_measured_and_verified() {
    let results = results("");
    let expected = [
        "fill",
        "start",
        "memory",
        "idle",
        "list",
        "fan-out",
        "selective",
        "slow",
        "stalled",
        "resume",
        "write",
        "churn",
        "sync",
        "mixed",
        "definitions",
    ];
    assert_eq!(names(&results), expected);
    assert_eq!((results.title.as_str(), results.server.processes.len()), ("keepwatch, memory", 1));
    let rows = || results.scenarios.iter().flat_map(|scenario| &scenario.rows);
    assert!(rows().all(|row| row.count > 0), "{:?}", rows().find(|row| row.count == 0));
    assert!(rows().any(|row| row.cpu_micros_each.is_some_and(|cpu| cpu > 0.0)));
    assert!(rows().all(|row| row.latency.as_ref().is_none_or(|it| it.p50 <= it.p99 && it.p99 <= it.max)));
    assert!(
        results.timeline.len() > 5 && results.timeline.iter().all(|sample| sample.resident_bytes.is_some())
    );
    // Twelve watchers, forty changes a second, for a second.
    let fan_out = scenario(&results, "fan-out");
    assert_eq!((fan_out.rows[0].count, fan_out.checks[0].checked), (480, 480));
    // Every object that changes has a watcher.
    let selective = &scenario(&results, "selective").rows;
    assert_eq!((selective[1].count, selective[2].count), (40, 40));
    // The slow ones were so far behind that the watch cache did not have what they missed.
    let slow = &scenario(&results, "slow").rows[1];
    assert!(pages_read(slow) > 0.0, "{slow:?}");
    let stalled = &scenario(&results, "stalled").rows[2];
    assert!(pages_read(stalled) > 0.0, "{stalled:?}");
    assert_eq!(stalled.count, 12 * 6000);
    let resumed = &scenario(&results, "resume").rows[0];
    assert_eq!(resumed.count, 12 * 500);
}

#[test]
fn with_every_protocol_all_watchers_receive_all_events() {
    for arguments in [
        "fan-out resume slow --protocol http2",
        "fan-out resume slow --protocol websocket",
        "fan-out list --tls=false",
        "fan-out --protocol websocket --tls=false",
        "write fan-out --storage embedded",
    ] {
        let results = results(arguments);
        assert_eq!(results.load.is_tls, !arguments.contains("tls=false"), "{arguments}");
        assert_eq!(scenario(&results, "fan-out").rows[0].count, 480, "{arguments}");
        if let Some(slow) = results.scenarios.iter().find(|scenario| scenario.name == "slow") {
            assert!(pages_read(&slow.rows[1]) > 0.0, "{arguments}: {:?}", slow.rows);
        }
    }
}

#[test]
fn servers_start_empty_and_with_what_they_stored() {
    let results = results("start memory --storage embedded");
    let counts: Vec<_> = scenario(&results, "start").rows.iter().map(|row| (&*row.name, row.count)).collect();
    let expected = [
        ("first start, which issues certificates", 10),
        ("start in the same directory", 10),
        ("start with 60 objects", 10),
    ];
    assert_eq!(counts, expected);
    let held = &scenario(&results, "memory").rows;
    let names: Vec<_> = held.iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["no objects", "60 objects, just created", "60 objects, read at the start"]);
    let resident = |row: &Row| row.memory.map_or(0.0, |memory| memory.after_bytes as f64);
    assert!(held.iter().all(|row| (1.0..resident(row)).contains(&row.figures[0].value)), "{held:?}");
}

#[test]
fn pods_are_a_load_like_config_maps() {
    let results = results("list write fan-out sync --kind pods");
    assert_eq!(results.load.kind.as_deref(), Some("pods"));
    assert_eq!(scenario(&results, "fan-out").rows[0].count, 480);
    assert!(scenario(&results, "write").rows.iter().all(|row| row.count > 0));
}

#[test]
fn a_table_is_printed_a_page_written_and_results_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for name in ["one", "two"] {
        let output = command(&format!(
            "list {SMALL} --name {name}'s --json {} --report {}",
            path(&format!("{name}.json")),
            path("page.html")
        ));
        let output = { output }.output().unwrap();
        let text = said(&output);
        assert!(output.status.success() && text.contains("resourceVersion=0"), "{text}");
    }
    let one = keepwatch_bench::report::read(path("one.json")).unwrap();
    assert!(one.title == "one's" && one.command.contains(r" --name 'one'\''s' --json "), "{}", one.command);
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("two"));
    let output = command(&format!(
        "--compare {} {} --report {}",
        path("one.json"),
        path("two.json"),
        path("both.html")
    ));
    let output = { output }.output().unwrap();
    let text = said(&output);
    assert!(
        output.status.success() && text.contains("one") && text.contains("two") && text.contains(" x"),
        "{text}"
    );
    assert!(std::fs::read_to_string(path("both.html")).unwrap().contains("one"));

    let again = path("again.json");
    std::fs::copy(path("one.json"), &again).unwrap();
    let output = command(&format!("--compare {} {again} --report {}", path("one.json"), path("both.html")));
    let text = said(&{ output }.output().unwrap());
    let page = std::fs::read_to_string(path("both.html")).unwrap();
    assert!(text.contains("one's (one.json)") && text.contains("one's (again.json)"), "{text}");
    assert!(page.contains("one&#39;s (one.json)") && page.contains("one&#39;s (again.json)"));

    std::fs::write(path("bad.json"), "{}").unwrap();
    let output = command(&format!("--compare {} {}", path("one.json"), path("bad.json"))).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("bad.json"), "{}", said(&output));
}

struct World {
    server: Server,
    kubeconfig: String,
    _directory: tempfile::TempDir,
}

async fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::builder().memory().start().await.unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    World { server, kubeconfig: kubeconfig.display().to_string(), _directory: directory }
}

impl World {
    /// Whether nothing is left of any run.
    async fn is_clean(&self) -> bool {
        let client = self.server.client().await.unwrap();
        let everything = ListParams::default();
        let maps = Api::<ConfigMap>::all(client.clone()).list(&everything).await.unwrap();
        let namespaces = Api::<Namespace>::all(client).list(&everything).await.unwrap();
        let is_ours = |name: String| name.starts_with("kwb-");
        !maps.iter().any(|map| is_ours(map.name_any()))
            && !namespaces.iter().any(|own| is_ours(own.name_any()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_already_is_measured_and_left_as_it_was() {
    let world = world().await;
    let arguments =
        format!("mixed mixed sync --kubeconfig {} --pid {}", world.kubeconfig, std::process::id());
    let results = tokio::task::spawn_blocking(move || results(&arguments)).await.unwrap();
    assert_eq!((results.server.storage.as_deref(), results.server.processes.len()), (None, 1));
    assert_eq!(names(&results), ["mixed", "mixed", "sync"]);
    let cleaned = results.scenarios[2].checks.last().unwrap();
    assert_eq!((cleaned.claim.as_str(), cleaned.checked), ("what was created was deleted", 2));
    assert!(world.is_clean().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_interrupted_cleans_up_and_shows_what_it_has() {
    let world = world().await;
    let arguments = format!("list idle {SMALL} --duration 300s --kubeconfig {} --json -", world.kubeconfig);
    let arguments = arguments.replace("--duration 1s", "");
    let child = command(&arguments).spawn().unwrap();
    let client = world.server.client().await.unwrap();
    let began = Instant::now();
    while Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len() < 60 {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    let checks = &results.scenarios.last().unwrap().checks;
    assert_eq!(checks[0].first_fault.as_deref(), Some("it was interrupted"));
    assert_eq!(output.status.code(), Some(1), "it is not whole");
    assert!(world.is_clean().await);
}

/// As a terminal sends it: to the program and to the server that it started.
#[test]
fn a_run_that_is_interrupted_on_a_terminal_shows_what_it_has() {
    use std::os::unix::process::CommandExt;
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        format!("fill idle {SMALL} --duration 300s --data-dir {} --json -", directory.path().display());
    let child = command(&arguments.replace("--duration 1s", "")).process_group(0).spawn().unwrap();
    let began = Instant::now();
    while !directory.path().join("admin.kubeconfig").exists() {
        assert!(began.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    assert!(
        Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&results), ["fill", "idle"], "{}", said(&output));
    assert_eq!(results.scenarios[0].rows[0].count, 60);
}

/// The measurements before a server died are not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_is_reported_with_what_was_measured_before() {
    let world = world().await;
    let arguments = format!("fill write {SMALL} --duration 20s --kubeconfig {} --json -", world.kubeconfig);
    let child = command(&arguments.replace("--duration 1s", "")).spawn().unwrap();
    let client = world.server.client().await.unwrap();
    let began = Instant::now();
    while Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len() < 100
    {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.server.stop().await;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((names(&results), output.status.code()), (vec!["fill", "write"], Some(1)));
    let checks = &results.scenarios[1].checks;
    assert!(checks[0].first_fault.is_some());
    let left = checks.last().unwrap().first_fault.as_deref().unwrap();
    assert!(left.starts_with("look for namespaces kwb-") && left.contains("cannot be reached"), "{left}");
}

/// No client can write at this rate. The unsent requests are reported, and the run does not take much longer than
/// planned.
#[test]
fn a_pace_that_cannot_be_kept_is_reported() {
    let arguments = format!("fan-out {SMALL} --rate 1000000 --json -").replace("--rate 40", "");
    let output = command(&arguments).output().unwrap();
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    let writes = &results.scenarios[0].rows[1];
    let unsent = writes.figures.iter().find(|figure| figure.name.starts_with("not sent")).unwrap();
    assert_eq!(unsent.value as u64 + writes.count, 1_000_000);
    assert!(output.status.success(), "{}", said(&output));
}

/// The end of a terminal stops a run, unless the signal is ignored.
#[test]
fn a_run_ends_with_its_terminal_unless_it_ignores_the_signal() {
    for (word, is_cut) in [("exec", true), ("trap '' HUP; exec", false)] {
        let program = env!("CARGO_BIN_EXE_keepwatch");
        let line = format!("{word} {program} bench fill idle {SMALL} --duration 6s --json -");
        let directory = tempfile::tempdir().unwrap();
        let line = format!("{line} --data-dir {}", directory.path().display()).replace("--duration 1s", "");
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while !directory.path().join("admin.kubeconfig").exists() {
            assert!(began.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_secs(2));
        assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(is_cut)), "{line}: {}", said(&output));
    }
}

#[test]
fn a_server_that_cannot_be_measured_is_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = directory.path().join("nobody");
    write_kubeconfig(&nobody, "https://127.0.0.1:1");
    let proxied = directory.path().join("proxied");
    write_kubeconfig(&proxied, "https://127.0.0.1:1\", proxy-url: \"http://127.0.0.1:2");
    for (arguments, code, expected) in [
        (format!("list --kubeconfig {}", nobody.display()), 1, "cannot be reached"),
        ("list --protocol http2 --tls=false".to_owned(), 2, "http2 is agreed on by TLS"),
        (format!("list --kubeconfig {} --pid 4294967295", nobody.display()), 1, "cannot be measured"),
        (format!("list --kubeconfig {}", proxied.display()), 1, "asks for the proxy http://127.0.0.1:2/"),
        ("list --storage etcd --etcd-servers http://127.0.0.1:1".to_owned(), 1, "did not start"),
        ("lists".to_owned(), 2, "there is no scenario"),
        (
            "list --json /nowhere/x.json --objects 1 --duration 1s".to_owned(),
            2,
            "--json: cannot write /nowhere/x.json",
        ),
    ] {
        let output = command(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.lines().count()), (Some(code), 1), "{arguments}: {text}");
        assert!(text.starts_with("keepwatch: ") && text.contains(expected), "{arguments}: {text}");
    }
}

#[test]
fn files_keep_what_they_have_until_there_is_something_else() {
    let directory = tempfile::tempdir().unwrap();
    let (nobody, kept) = (directory.path().join("nobody"), directory.path().join("kept.json"));
    write_kubeconfig(&nobody, "https://127.0.0.1:1");
    std::fs::write(&kept, "kept").unwrap();
    let arguments = format!("list --kubeconfig {} --json {}", nobody.display(), kept.display());
    assert_eq!(command(&arguments).output().unwrap().status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
}

fn write_kubeconfig(path: &Path, server: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster: {{server: \"{server}\"}}\n\
         users:\n- name: a\n  user: {{}}\ncontexts:\n- name: a\n  context: {{cluster: a, user: a}}\n"
    );
    std::fs::write(path, text).unwrap();
}
