//! The public conformance tests of the Common Expression Language.
//!
//! They are not part of this repository: `KEEPWATCH_CEL_SPEC` names a folder with their `.textproto` files
//! (`tests/simple/testdata` of <https://github.com/google/cel-spec>). Without it the test does nothing.
//!
//! Kubernetes has few messages of protocol buffers and a stricter checker, so some cases do not apply. Each of them is
//! left out for a reason, in `conformance/omissions.rs`; every other case must pass.

#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/omissions.rs"]
mod omissions;
#[path = "conformance/textproto.rs"]
mod textproto;

use std::collections::BTreeMap;
use std::path::Path;

use keepwatch_cel::env::{CompileError, Env};
use keepwatch_cel::eval::Activation;

use cases::{Case, Expected, Shown};

/// The cost limit of an expression. The tests do not look at costs.
const BUDGET: u64 = u64::MAX;

/// The reason why a case is left out that the tests run without checking it.
const UNCHECKED: &str = "Kubernetes evaluates no expression that does not check";

#[test]
fn the_public_conformance_tests_pass() {
    let Some(folder) = std::env::var_os("KEEPWATCH_CEL_SPEC") else {
        eprintln!("skipped: KEEPWATCH_CEL_SPEC does not name a folder with the conformance data");
        return;
    };
    let mut failures = Vec::new();
    let mut omitted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut needless = Vec::new();
    let mut total = (0, 0, 0);
    for (file, source) in files(Path::new(&folder)) {
        let cases = cases::cases(&file, &source).unwrap_or_else(|error| panic!("{file}: {error}"));
        let (mut passed, mut left_out) = (0, 0);
        for case in &cases {
            let outcome = run(case);
            let is_error = matches!(case.expected, Expected::Error);
            match (omissions::reason(case), outcome) {
                (None, Ok(())) => passed += 1,
                // The value does not depend on the feature that Kubernetes does not have.
                (Some(_), Ok(())) if !is_error && !omissions::is_by_name(case) => passed += 1,
                (None, Err(Fault::Failed(error))) => {
                    failures.push(format!("{}: {}\n    {error}", case.path, case.expression))
                }
                (Some(reason), outcome) => {
                    if outcome.is_ok() && omissions::is_by_name(case) {
                        needless.push(case.path.clone());
                    }
                    left_out += 1;
                    omitted.entry(reason.to_owned()).or_default().push(case.path.clone());
                }
                (None, Err(Fault::Omitted(reason))) => {
                    left_out += 1;
                    omitted.entry(reason).or_default().push(case.path.clone());
                }
            }
        }
        println!(
            "{file:<20} {passed:>4} passed, {left_out:>4} left out, {:>3} failed",
            cases.len() - passed - left_out
        );
        total = (total.0 + passed, total.1 + left_out, total.2 + cases.len());
    }
    println!("{} of {} passed, {} left out:", total.0, total.2, total.1);
    for (reason, paths) in &omitted {
        println!("  {:>4} {reason}, such as {}", paths.len(), paths[0]);
    }
    if std::env::var_os("KEEPWATCH_CEL_SPEC_VERBOSE").is_some() {
        omitted
            .iter()
            .for_each(|(reason, paths)| paths.iter().for_each(|path| println!("omitted {path}: {reason}")));
    }
    assert!(needless.is_empty(), "left out, but they pass:\n{}", needless.join("\n"));
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(total.0 > 0, "no conformance data in {}", folder.display());
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder of KEEPWATCH_CEL_SPEC")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "textproto"))
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a file of the conformance data"))
        })
        .collect();
    files.sort();
    files
}

/// The reason why a case did not pass.
enum Fault {
    /// It cannot be expressed here.
    Omitted(String),
    Failed(String),
}

fn run(case: &Case) -> Result<(), Fault> {
    let omit = |reason: &str| Fault::Omitted(reason.to_owned());
    let mut env = Env::kubernetes();
    let mut values = Vec::new();
    for (name, declared) in &case.variables {
        let variable_type = declared.clone().map_err(omit)?;
        env = env.with_variable(name, variable_type);
        let value = case.bindings.iter().find(|(bound, _)| bound == name);
        values.push(match value {
            Some((_, value)) => Some(
                value
                    .clone()
                    .map_err(omit)?
                    .value()
                    .ok_or_else(|| omit("values that a document cannot have"))?,
            ),
            None => None,
        });
    }
    let (checked, program) = match env.compile(&case.expression) {
        Ok(compiled) => compiled,
        // A constant without a value is an error before it runs.
        Err(error) => {
            return match (&case.expected, error) {
                (Expected::Error, _) => Ok(()),
                (_, CompileError::Issues(_)) if case.unchecked => Err(omit(UNCHECKED)),
                (_, error) => Err(Fault::Failed(error.to_string())),
            };
        }
    };
    let expected = match &case.expected {
        Expected::Typed(deduced, value) => {
            let deduced = deduced.clone().map_err(omit)?;
            if *checked.result_type() != deduced {
                return Err(Fault::Failed(format!(
                    "expected type {deduced}, found {}",
                    checked.result_type()
                )));
            }
            match value {
                Some(value) => Some(value),
                None => return Ok(()),
            }
        }
        Expected::Value(value) => Some(value),
        Expected::Error => None,
    };
    let activation = Activation::new(values);
    let (result, _) = program.eval(&activation, BUDGET);
    let found = result.map(|value| Shown::of(&value)).map_err(|error| error.to_string());
    match (expected, found) {
        (None, Err(_)) => Ok(()),
        (None, Ok(found)) => Err(Fault::Failed(format!("expected an error, found {found:?}"))),
        (Some(expected), found) => {
            let expected = expected.clone().map_err(omit)?;
            if found.as_ref() == Ok(&expected) {
                return Ok(());
            }
            Err(Fault::Failed(format!("expected {expected:?}, found {found:?}")))
        }
    }
}
