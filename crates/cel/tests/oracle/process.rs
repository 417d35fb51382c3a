//! The program that evaluates expressions with the libraries of a real API server: JSON lines in, JSON lines out.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

/// An expression to evaluate, a schema, and documents of that schema.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) expression: String,
    pub(crate) schema: Json,
    pub(crate) new: Json,
    pub(crate) old: Option<Json>,
    pub(crate) optional_old_self: bool,
    pub(crate) resource_root: bool,
}

impl Question {
    pub(crate) fn json(&self) -> Json {
        let mut question = json!({ "expr": self.expression, "schema": self.schema, "self": self.new });
        if let Some(old) = &self.old {
            question["old"] = old.clone();
        }
        if self.optional_old_self {
            question["opt"] = true.into();
        }
        if self.resource_root {
            question["root"] = true.into();
        }
        question
    }
}

/// A running oracle.
pub(crate) struct Oracle {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Oracle {
    pub(crate) fn start(program: &OsStr) -> Oracle {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program that KEEPWATCH_CEL_ORACLE names");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("the output is a pipe");
        Oracle { child, input, output: BufReader::new(output).lines() }
    }

    /// The answers, in the order of the questions.
    pub(crate) fn ask(&mut self, questions: &[&Question]) -> Vec<Json> {
        let lines: String = questions.iter().map(|question| format!("{}\n", question.json())).collect();
        let mut input = self.input.take().expect("the input is there between questions");
        // Both pipes would fill up if all questions were written before the first answer is read.
        let writer = std::thread::spawn(move || {
            input.write_all(lines.as_bytes()).expect("the oracle reads questions");
            input.flush().expect("the oracle reads questions");
            input
        });
        let answer = |line: Option<std::io::Result<String>>, question: &Question| {
            let line =
                line.and_then(Result::ok).unwrap_or_else(|| panic!("no answer to {}", question.json()));
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
        };
        let answers = questions.iter().map(|question| answer(self.output.next(), question)).collect();
        self.input = Some(writer.join().expect("the questions were written"));
        answers
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Without input it ends by itself.
        self.input = None;
        let _ = self.child.wait();
    }
}
