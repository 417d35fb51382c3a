//! What is said, and with which code the program ends, if it does not start.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

const ASKED_FOR: u8 = 0;
const IN_VAIN: u8 = 1;
const BAD_FLAGS: u8 = 2;

/// Why the program ends before it has done anything. Help and version are asked for, so they end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Something is wrong with a flag, or with the file that it names: one line.
    pub(crate) fn flag(flag: &str, fault: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{flag}: {fault}"))
    }

    /// Something is wrong with how the program was called: one line.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), code: BAD_FLAGS }
    }

    /// Nothing is wrong with how the program was called, but it cannot do that: one line.
    pub(crate) fn in_vain(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), code: IN_VAIN }
    }

    /// What is printed.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The code with which the program ends.
    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Prints it: help and version to standard output, all else to standard error. Nothing can be done if that
    /// fails, so it is not looked at.
    pub(crate) fn report(&self) -> ExitCode {
        let _ = match self.code {
            ASKED_FOR => io::stdout().write_all(self.text.as_bytes()),
            _ => writeln!(io::stderr(), "keepwatch: {}", self.text),
        };
        ExitCode::from(self.code)
    }
}

impl Failure {
    /// Clap explains itself at length; one line does. `command` is the one that was called, as far as that is known.
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
                Failure { text: error.render().to_string(), code: ASKED_FOR }
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
