//! The message and the exit code of a program that does not start.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

const EXIT_SUCCESS: u8 = 0;
const EXIT_FAILURE: u8 = 1;
const EXIT_USAGE: u8 = 2;

/// The reason for which the program ends before it has done anything. Help and version are requested, so they end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// An error in one line about a flag, or about the file that it names.
    pub(crate) fn flag(flag: &str, fault: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{flag}: {fault}"))
    }

    /// An error in one line about the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), code: EXIT_USAGE }
    }

    /// An error in one line that is not about the command line.
    pub(crate) fn runtime_error(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), code: EXIT_FAILURE }
    }

    /// The text to print.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The code with which the program ends.
    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Prints it: help and version to standard output, all else to standard error. If that fails, nothing can be done,
    /// so the error is ignored.
    pub(crate) fn report(&self) -> ExitCode {
        let _ = match self.code {
            EXIT_SUCCESS => io::stdout().write_all(self.text.as_bytes()),
            _ => writeln!(io::stderr(), "keepwatch: {}", self.text),
        };
        ExitCode::from(self.code)
    }
}

impl Failure {
    /// One line instead of clap's long explanation. `command` is the subcommand, as far as it is known.
    pub(super) fn of(error: &clap::Error, command: &str) -> Failure {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.as_str(),
            Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
            _ => "",
        };
        let long = context(ContextKind::InvalidArg);
        let flag = long.split([' ', '=', '[']).next().unwrap_or_default();
        let value = context(ContextKind::InvalidValue);
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Failure { text: error.render().to_string(), code: EXIT_SUCCESS }
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Failure::usage(
                    "there is no command: try `keepwatch serve`, `keepwatch watch pods` or `keepwatch --help`",
                )
            }
            ErrorKind::InvalidSubcommand => {
                let command = context(ContextKind::InvalidSubcommand);
                Failure::usage(format!(
                    "{command:?} is not a command: try `keepwatch serve` or `keepwatch watch pods`"
                ))
            }
            ErrorKind::MissingRequiredArgument => Failure::usage(format!(
                "`keepwatch {command}` needs {long}; `keepwatch {command} --help` says more"
            )),
            ErrorKind::UnknownArgument => match (context(ContextKind::SuggestedArg), flag.starts_with('-')) {
                (_, false) if command == "watch" => Failure::usage(format!(
                    "{long:?} is not understood: give one resource, and at most one name"
                )),
                (_, false) => {
                    Failure::usage(format!("{long:?} is not understood: all that can be given are flags"))
                }
                ("", true) => Failure::flag(
                    flag,
                    format!("there is no such flag; `keepwatch {command} --help` names all"),
                ),
                (other, true) => Failure::flag(flag, format!("there is no such flag; did you mean {other}?")),
            },
            ErrorKind::ValueValidation => {
                let source = std::error::Error::source(error).map(ToString::to_string);
                Failure::flag(flag, source.unwrap_or_else(|| format!("{value:?} is not valid")))
            }
            ErrorKind::InvalidValue if value.is_empty() => Failure::flag(flag, "needs a value"),
            ErrorKind::InvalidValue => {
                let valid = match error.get(ContextKind::ValidValue) {
                    Some(ContextValue::Strings(values)) => values.join(", "),
                    _ => String::new(),
                };
                Failure::flag(flag, format!("{value:?} is not one of {valid}"))
            }
            _ => {
                let text = error.render().to_string();
                let line = text.lines().next().unwrap_or_default();
                Failure::usage(line.strip_prefix("error: ").unwrap_or(line))
            }
        }
    }
}
