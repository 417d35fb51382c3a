//! Runs the examples and checks what they print. `controller_test` is a test itself.

use std::{env, path::PathBuf, process::Command};

/// Runs an example and returns what it prints.
fn run(name: &str) -> String {
    let tests = env::current_exe().expect("the path of the test");
    let path: PathBuf = tests
        .parent()
        .and_then(|deps| deps.parent())
        .expect("the directory of the examples")
        .join("examples")
        .join(name);
    let output = Command::new(&path).output().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("examples print text")
}

#[test]
fn the_first_informer_prints_existing_objects_and_changes() {
    let output = run("first_informer");
    assert!(
        output.starts_with("6 pods are known, web-0 is on Some(\"n0\")\nadded web-0 (was there)\n"),
        "{output}"
    );
    assert!(output.ends_with("deleted web-0\n"), "{output}");
}

#[test]
fn handlers_share_an_informer() {
    let output = run("shared_handlers");
    assert_eq!(output.matches("canary: Initial").count(), 3, "{output}");
    assert!(output.ends_with("early: 6, late: 6\nearly: 7, late: 6\n"), "{output}");
}

#[test]
fn an_index_answers_by_node() {
    let expected = "n0: web-0 web-2 web-4\nn1: web-1 web-3 web-5\nn0: web-2 web-4\n3 canaries\npods \"web-0\" not found\n";
    assert_eq!(run("index_by_node"), expected);
}

#[test]
fn a_controller_reconciles_every_pod() {
    assert_eq!(run("controller").matches("noted default/web-").count(), 6);
}

#[test]
fn a_lean_store_finds_without_decoding() {
    let output = run("lean_store");
    assert_eq!(output.matches("runs nginx").count(), 3, "{output}");
    assert_eq!(output.matches("has 1 containers").count(), 3, "{output}");
}
