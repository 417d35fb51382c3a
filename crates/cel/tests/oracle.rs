//! Compares random expressions with the libraries of a real API server of Kubernetes v1.36.
//!
//! `KEEPWATCH_CEL_ORACLE` names a program that evaluates expressions with those libraries: JSON lines in
//! (`expr`, `schema`, `self`, `old`, `opt`, `root`), JSON lines out (`issues`, or `type`, `est`, `progerr`, or `val` or
//! `err` with `cost`). Without it the test does nothing. `KEEPWATCH_CEL_ORACLE_CASES` is the number of
//! expressions, `KEEPWATCH_CEL_ORACLE_SEED` the seed that selects them.
//!
//! Value or error text, static type, estimate and cost must be the same. Only the text of syntax errors may differ: it
//! comes from a generated parser. With `KEEPWATCH_CEL_ORACLE_SYNTAX` they must be the same, too.

#[path = "oracle/generate.rs"]
mod generate;
#[path = "oracle/minimise.rs"]
mod minimise;
#[path = "oracle/outcome.rs"]
mod outcome;
#[path = "oracle/process.rs"]
mod process;
#[path = "oracle/schemas.rs"]
mod schemas;
#[path = "oracle/templates.rs"]
mod templates;
#[path = "oracle/texts.rs"]
mod texts;
#[path = "oracle/types.rs"]
mod types;

use std::collections::BTreeMap;

use rand::prelude::*;

use outcome::Difference;
use process::{Oracle, Question};

const CASES: u64 = 2_000;
const SEED: u64 = 1;
/// The number of questions in a batch.
const BATCH: u64 = 500;
/// The largest number of differences that are shown.
const SHOWN_MAX: usize = 60;

#[test]
fn random_expressions_come_to_the_same_as_in_a_real_server() {
    let Some(program) = std::env::var_os("KEEPWATCH_CEL_ORACLE") else {
        eprintln!("skipped: KEEPWATCH_CEL_ORACLE does not name a program to compare with");
        return;
    };
    let mut oracle = Oracle::start(&program);
    let (cases, seed) =
        (number("KEEPWATCH_CEL_ORACLE_CASES", CASES), number("KEEPWATCH_CEL_ORACLE_SEED", SEED));
    let mut random = StdRng::seed_from_u64(seed);
    let mut counts: BTreeMap<Difference, usize> = BTreeMap::new();
    let mut unstable = 0;
    let mut values = 0;
    let mut reports: BTreeMap<String, String> = BTreeMap::new();
    let shows_syntax = std::env::var_os("KEEPWATCH_CEL_ORACLE_SYNTAX").is_some();
    let mut remaining = cases;
    while remaining > 0 {
        let batch = remaining.min(BATCH);
        remaining -= batch;
        let questions: Vec<_> = (0..batch).map(|_| generate::question(&mut random)).collect();
        let asked: Vec<&Question> = questions.iter().map(|(question, _)| question).collect();
        let answers = oracle.ask(&asked);
        for ((question, expression), answer) in questions.iter().zip(&answers) {
            let Some(theirs) = outcome::theirs(answer) else { continue };
            values += usize::from(theirs.value.is_some());
            let Some(kind) = outcome::difference(&outcome::ours(question), &theirs) else { continue };
            if kind != Difference::SyntaxText && minimise::differs(question, &mut oracle).is_none() {
                // The server's answer depends on the order of a map.
                unstable += 1;
                continue;
            }
            *counts.entry(kind).or_default() += 1;
            if reports.len() < SHOWN_MAX && (kind != Difference::SyntaxText || shows_syntax) {
                let smallest = minimise::minimise(question, expression, kind, &mut oracle);
                let report = report(&smallest, kind, &mut oracle);
                // One difference of a kind is enough to see the fault.
                reports.entry(report.summary).or_insert(report.text);
            }
        }
    }
    println!(
        "{cases} expressions, seed {seed}: {values} values, {unstable} without a fixed answer, differences {counts:?}"
    );
    if !shows_syntax {
        counts.remove(&Difference::SyntaxText);
    }
    assert!(counts.is_empty(), "{counts:?}\n{}", reports.into_values().collect::<Vec<_>>().join("\n"));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Report {
    /// The difference, without the values.
    summary: String,
    text: String,
}

fn report(question: &Question, kind: Difference, oracle: &mut Oracle) -> Report {
    let ours = outcome::ours(question);
    let answer = oracle.ask(&[question]).remove(0);
    let theirs = outcome::theirs(&answer).unwrap_or_default();
    let first_words = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or("-");
        let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
        words.take(8).collect::<Vec<_>>().join(" ")
    };
    let summary = match kind {
        Difference::Value | Difference::Cost | Difference::Estimate | Difference::Type => {
            format!("{kind:?} {}", question.expression)
        }
        _ => format!(
            "{kind:?} {} {} | {} {}",
            first_words(&ours.error),
            first_words(&ours.issues),
            first_words(&theirs.error.or(theirs.program_error)),
            first_words(&theirs.issues),
        ),
    };
    let text = format!(
        "{kind:?}: {}\n  {}\n  here  {ours:?}\n  there {answer}",
        question.expression,
        question.json()
    );
    Report { summary, text }
}
