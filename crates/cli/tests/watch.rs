//! `keepwatch watch`, the program itself, at a server in this process.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use keepwatch::{Builder, Server};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// The time in which anything that must happen has to. Machines that run tests are slow at times.
const SOON: Duration = Duration::from_secs(30);

/// A server, a client of it, and a kubeconfig in a file.
struct World {
    server: Server,
    client: Client,
    kubeconfig: PathBuf,
    _directory: tempfile::TempDir,
}

impl World {
    async fn start() -> World {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::builder().memory().start().await.unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        let client = server.client().await.unwrap();
        World { server, client, kubeconfig, _directory: directory }
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    fn watch(&self, arguments: &str) -> Watching {
        Watching::start(&self.kubeconfig, arguments)
    }
}

fn command(kubeconfig: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keepwatch"));
    command.arg("watch").args(arguments.split_whitespace()).env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code and the error of the program, if it ends by itself.
fn refused(kubeconfig: &Path, arguments: &str) -> (i32, String) {
    let output = command(kubeconfig, arguments).output().unwrap();
    assert!(output.stdout.is_empty(), "{arguments}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("keepwatch: ") && said.lines().count() == 1, "{arguments}: {said}");
    (output.status.code().unwrap(), said)
}

/// The program at work, which ends with the test.
struct Watching {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watching {
    fn start(kubeconfig: &Path, arguments: &str) -> Watching {
        let mut child = command(kubeconfig, arguments).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (send, lines) = mpsc::channel(1024);
        std::thread::spawn(move || read(output, &send));
        Watching { child, lines }
    }

    /// The next line, without its time.
    async fn line(&mut self) -> String {
        let line = match tokio::time::timeout(SOON, self.lines.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => panic!("it ended: {}", self.said()),
            Err(_) => panic!("no line came"),
        };
        match (line.strip_prefix("# "), line.split_once(' ')) {
            (Some(line), _) => format!("# {}", line.rsplit_once(", ").unwrap().0),
            (None, Some((time, event))) if time.ends_with('Z') => event.to_owned(),
            _ => line,
        }
    }

    /// Reads on to a line that begins so.
    async fn line_with(&mut self, beginning: &str) -> String {
        loop {
            let line = self.line().await;
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < SOON, "it does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

fn read(output: ChildStdout, send: &mpsc::Sender<String>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if send.blocking_send(line).is_err() {
            return;
        }
    }
}

fn config_map(name: &str, labels: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

/// Returns its version.
async fn create(maps: &Api<ConfigMap>, name: &str) -> String {
    maps.create(&PostParams::default(), &config_map(name, json!({})))
        .await
        .unwrap()
        .resource_version()
        .unwrap()
}

async fn patch(maps: &Api<ConfigMap>, name: &str, patch: Value) -> String {
    let patched = maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    patched.resource_version().unwrap()
}

async fn delete(maps: &Api<ConfigMap>, name: &str) {
    maps.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn every_event_is_a_line() {
    let world = World::start().await;
    let maps = world.maps("default");
    let first = create(&maps, "a").await;
    let mut watching = world.watch("configmaps");
    assert_eq!(watching.line().await, format!("LISTED default/a version={first}"));
    let synced = watching.line().await;
    assert!(synced.starts_with("# synced 1 configmap at version "), "{synced}");

    let added = create(&maps, "b").await;
    assert_eq!(watching.line().await, format!("ADDED default/b version={added}"));
    let patched = patch(&maps, "b", json!({"data": {"x": "1"}})).await;
    assert_eq!(watching.line().await, format!("MODIFIED default/b version={patched}"));
    delete(&maps, "b").await;
    assert!(watching.line().await.starts_with("DELETED default/b version="));

    watching.signal("TERM");
    assert_eq!(watching.ended().await.code(), Some(0));
    assert_eq!(watching.said(), "");
}

#[tokio::test]
async fn a_pod_has_its_status() {
    let world = World::start().await;
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let mut watching = world.watch("po web-0");
    watching.line_with("# synced 0 pods").await;
    for name in ["other", "web-0"] {
        let pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let line = watching.line().await;
    assert!(line.starts_with("ADDED default/web-0 status=Pending version="), "{line}");
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("web-0", &PatchParams::default(), &running).await.unwrap();
    let line = watching.line().await;
    assert!(line.starts_with("MODIFIED default/web-0 status=Running version="), "{line}");
}

#[tokio::test]
async fn json_output_has_objects_and_status_changes() {
    let world = World::start().await;
    let maps = world.maps("default");
    create(&maps, "a").await;
    let mut watching = world.watch("cm -o json");
    let listed = watching.json().await;
    assert_eq!((&listed["type"], &listed["initial"]), (&json!("ADDED"), &json!(true)));
    let object = &listed["object"];
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(object["metadata"]["name"], "a");
    let synced = watching.json().await;
    assert_eq!((&synced["type"], &synced["state"]), (&json!("STATUS"), &json!("synced")));
    assert_eq!(synced["count"], 1);
    assert!(synced["version"].is_string());

    patch(&maps, "a", json!({"data": {"x": "1"}})).await;
    let modified = watching.json().await;
    assert_eq!((&modified["type"], &modified["object"]["data"]["x"]), (&json!("MODIFIED"), &json!("1")));
    assert!(modified.get("initial").is_none());
    delete(&maps, "a").await;
    assert_eq!(watching.json().await["type"], "DELETED");
}

#[tokio::test]
async fn selectors_are_obeyed_and_what_leaves_them_is_deleted() {
    let world = World::start().await;
    let maps = world.maps("default");
    for (name, app) in [("a", "web"), ("b", "db")] {
        maps.create(&PostParams::default(), &config_map(name, json!({"app": app}))).await.unwrap();
    }
    let mut watching = world.watch("configmap -l app=web --field-selector metadata.name!=c");
    assert!(watching.line().await.starts_with("LISTED default/a "));
    watching.line_with("# synced 1 configmap ").await;
    maps.create(&PostParams::default(), &config_map("c", json!({"app": "web"}))).await.unwrap();
    patch(&maps, "b", json!({"metadata": {"labels": {"app": "web"}}})).await;
    assert!(watching.line().await.starts_with("ADDED default/b "));
    patch(&maps, "a", json!({"metadata": {"labels": {"app": "db"}}})).await;
    assert!(watching.line().await.starts_with("DELETED default/a "));
}

#[tokio::test]
async fn several_namespaces_are_watched_at_once_and_all_if_asked_for() {
    let world = World::start().await;
    for name in ["one", "two", "three"] {
        world.namespace(name).await;
        create(&world.maps(name), "a").await;
    }
    let mut some = world.watch("configmaps.v1. -n one -n two");
    let mut listed = [some.line().await, some.line().await];
    listed.sort();
    assert!(listed[0].starts_with("LISTED one/a ") && listed[1].starts_with("LISTED two/a "), "{listed:?}");
    some.line_with("# synced 2 configmaps at version ").await;
    let mut all = world.watch("configmaps -A");
    all.line_with("# synced 3 configmaps at version ").await;
    let mut own = world.watch("configmaps");
    own.line_with("# synced 0 configmaps at version ").await;
    for name in ["three", "two"] {
        create(&world.maps(name), "b").await;
    }
    assert!(some.line().await.starts_with("ADDED two/b "));
    all.line_with("ADDED three/b ").await;
    all.line_with("ADDED two/b ").await;

    let mut namespaces = world.watch("namespaces one -n two");
    assert!(namespaces.line().await.starts_with("LISTED one status=Active "), "namespaces are in none");
}

/// Starts a server where another one was.
async fn start_again(builder: impl Fn() -> Builder) -> Server {
    let began = Instant::now();
    loop {
        match builder().start().await {
            Ok(server) => return server,
            Err(error) => assert!(began.elapsed() < SOON, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn it_resumes_when_a_server_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::builder().data_dir(directory.path()).start().await.unwrap();
    let (address, kubeconfig) = (server.address(), server.kubeconfig_path().unwrap().to_owned());
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await.unwrap());
    create(&maps, "a").await;
    let mut watching = Watching::start(&kubeconfig, "configmaps");
    watching.line_with("# synced 1 configmap at version ").await;
    let last = create(&maps, "b").await;
    watching.line_with("ADDED default/b ").await;

    drop(maps);
    server.stop().await;
    let line = watching.line().await;
    assert!(line.starts_with("# disconnected: ") && line.contains("; retrying in "), "{line}");
    assert!(line.ends_with(" (attempt 1)"), "{line}");

    let server = start_again(|| Server::builder().data_dir(directory.path()).address(address)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await.unwrap());
    let missed = create(&maps, "c").await;
    let resumed = watching.line_with("# resumed from version ").await;
    let from: u64 = resumed.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((last.parse().unwrap()..missed.parse().unwrap()).contains(&from), "{last} {from} {missed}");
    assert_eq!(watching.line().await, format!("ADDED default/c version={missed}"));
}

/// A server of things that responds as old ones do: its discovery is one request for each group, and it does not send the
/// initial state as events. Its first watch ends with 410.
fn old_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            std::thread::spawn(move || answer(connection.unwrap()));
        }
    });
    address
}

fn answer(mut connection: TcpStream) {
    let mut request = String::new();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    reader.read_line(&mut request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    while request != "\r\n" {
        request.clear();
        if reader.read_line(&mut request).unwrap() == 0 {
            return;
        }
    }
    let thing = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let list =
        |version: &str, thing: Value| json!({"metadata": {"resourceVersion": version}, "items": [thing]});
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}});
    let (code, body) = match path.as_str() {
        "/api" => (200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => (200, json!({"kind": "APIGroupList", "groups": []})),
        "/api/v1" => (
            200,
            json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{
                "name": "things", "singularName": "thing", "namespaced": false, "kind": "Thing",
                "shortNames": ["th"], "verbs": ["list", "watch"],
            }]}),
        ),
        path if path.contains("sendInitialEvents=true") => (400, json!({"kind": "Status", "code": 400})),
        path if path.contains("watch=true") && path.contains("resourceVersion=10") => (200, gone),
        path if path.contains("watch=true") => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
            connection.write_all(head.as_bytes()).unwrap();
            std::thread::sleep(2 * SOON);
            return;
        }
        path if path.contains("resourceVersion=10") => (200, list("20", thing("new", "20"))),
        _ => (200, list("10", thing("old", "5"))),
    };
    let body = format!("{body}\n");
    let head = format!("HTTP/1.1 {code} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all((head + &body).as_bytes()).unwrap();
}

#[tokio::test]
async fn it_relists_when_the_server_has_compacted_the_next_events() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(&directory, &format!("http://{}", old_server()));
    let mut watching = Watching::start(&kubeconfig, "th");
    for expected in [
        "LISTED old version=5",
        "# synced 1 thing at version 10",
        "# listed again at version 20, instead of going on from 10",
        "DELETED old last-known-version=5",
        "ADDED new version=20",
    ] {
        assert_eq!(watching.line().await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_quietly_when_its_output_is_closed() {
    let world = World::start().await;
    let mut child = command(&world.kubeconfig, "configmaps").spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    drop(output);
    let mut watching = Watching { child, lines: mpsc::channel(1).1 };
    assert_eq!(watching.ended().await.code(), Some(0));
    assert_eq!(watching.said(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_what_to_do() {
    let world = World::start().await;
    let url = world.server.url();
    for (arguments, expected) in [
        ("podz", format!(r#"keepwatch: {url} has no resource "podz": did you mean pods?"#)),
        (
            "xyzzy",
            format!(
                r#"keepwatch: {url} has no resource "xyzzy": `kubectl api-resources` names all that it has"#
            ),
        ),
        ("deployments.v7.apps", format!(r#"{url} has no resource "deployments.v7.apps": did you mean"#)),
        (
            "tokenreviews",
            "tokenreviews.authentication.k8s.io cannot be watched: the server offers only create for it"
                .to_owned(),
        ),
        ("pods --field-selector spec.colour=blue", "pods in default cannot be watched: ".to_owned()),
    ] {
        let (code, said) = refused(&world.kubeconfig, arguments);
        assert_eq!(code, 1, "{arguments}: {said}");
        assert!(said.contains(&expected), "{arguments}: {said}");
    }
}

fn kubeconfig(directory: &tempfile::TempDir, url: &str) -> PathBuf {
    let path = directory.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

#[test]
fn an_unreachable_server_is_reported_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(&directory, "http://127.0.0.1:1");
    let (code, said) = refused(&kubeconfig, "pods");
    assert_eq!(code, 1);
    assert!(said.contains("http://127.0.0.1:1 cannot be reached: Connection refused; check that"), "{said}");

    let missing = directory.path().join("missing");
    let (code, said) = refused(&missing, "pods");
    assert_eq!(code, 1);
    assert!(said.contains("set KUBECONFIG or give --kubeconfig"), "{said}");

    let (code, said) = refused(&kubeconfig, "pods --context there");
    assert_eq!(
        (code, said.as_str()),
        (2, "keepwatch: --context: the kubeconfig has no context \"there\"; it has here\n")
    );
}

#[test]
fn errors_in_its_flags_are_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad");
    std::fs::write(&bad, "\0 this is none of it\n\"").unwrap();
    for arguments in [
        "",
        "pods a b",
        "pods --no-such-flag",
        "pods -o yaml",
        "pods -o table",
        "pods -n a/b",
        "pods -A -n a",
        "pods -l a=b=c",
        "pods --field-selector a",
        "pods --kubeconfig /no/such/file",
        &format!("pods --kubeconfig {}", bad.display()),
    ] {
        let (code, said) = refused(&bad, arguments);
        assert_eq!(code, 2, "{arguments}: {said}");
    }
}
