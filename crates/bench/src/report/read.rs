//! Result files, read again.

use crate::results::{FORMAT, Results};
use serde_json::Value;
use std::{
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// Why a result file cannot be read. The cause is in `source()`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is not there, or may not be read. Check its name.
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was not written by a run, or only in part. Measure again, or give another file.
    NotJson {
        /// Which file.
        path: PathBuf,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },
    /// Another version of the program wrote it. Read it with that version, or measure again.
    OtherFormat {
        /// Which file.
        path: PathBuf,
        /// Its format, as it is written there.
        found: String,
        /// The version that wrote it, if the file says so.
        measured_by: Option<String>,
    },
    /// It is JSON without what every result file has. Give another file.
    NotResults {
        /// Which file.
        path: PathBuf,
        /// What is missing, or of another kind.
        source: serde_json::Error,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::File { path, .. } => {
                write!(f, "cannot read {}: check that it is there", path.display())
            }
            ReadError::NotJson { path, .. } => {
                write!(f, "{} is not JSON: give a file that a finished run wrote", path.display())
            }
            ReadError::OtherFormat { path, found, measured_by } => {
                let by = measured_by.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
                write!(
                    f,
                    "{} has format {found}, and only format {FORMAT} is known here: read it with the version that \
                     wrote it{by}, or measure again",
                    path.display()
                )
            }
            ReadError::NotResults { path, .. } => {
                write!(
                    f,
                    "{} holds no complete results: give a file that a finished run wrote",
                    path.display()
                )
            }
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ReadError::File { source, .. } => Some(source),
            ReadError::NotJson { source, .. } | ReadError::NotResults { source, .. } => Some(source),
            ReadError::OtherFormat { .. } => None,
        }
    }
}

/// Reads the results of a run from the file that it wrote.
pub fn read(path: impl AsRef<Path>) -> Result<Results, ReadError> {
    let path = path.as_ref().to_owned();
    let content = match fs::read(&path) {
        Ok(content) => content,
        Err(source) => return Err(ReadError::File { path, source }),
    };
    let value: Value = match serde_json::from_slice(&content) {
        Ok(value) => value,
        Err(source) => return Err(ReadError::NotJson { path, source }),
    };
    // Before anything else: what else there must be depends on it.
    if let Some(found) = value.get("format").filter(|format| **format != FORMAT) {
        let measured_by = value.get("measured_by").and_then(Value::as_str).map(str::to_owned);
        return Err(ReadError::OtherFormat { path, found: found.to_string(), measured_by });
    }
    // Read from the text again, so that an error says in which line.
    serde_json::from_slice(&content).map_err(|source| ReadError::NotResults { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn read_text(text: &str) -> Result<Results, (String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| {
            let message = error.to_string().replace(&*folder.path().to_string_lossy(), "");
            (message, error.source().map(ToString::to_string).unwrap_or_default())
        })
    }

    fn fault(text: &str) -> (String, String) {
        read_text(text).unwrap_err()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let written = serde_json::to_string(&testing::results("größe")).unwrap();
        assert_eq!(serde_json::to_string(&read_text(&written).unwrap()).unwrap(), written);
    }

    #[test]
    fn errors_say_what_to_do() {
        assert_eq!(fault("").0, "/run.json is not JSON: give a file that a finished run wrote");
        assert_eq!(
            fault("{\"format\": 1, ").0,
            "/run.json is not JSON: give a file that a finished run wrote"
        );
        assert_eq!(
            fault(r#"{"format": 2, "measured_by": "0.9.0"}"#).0,
            "/run.json has format 2, and only format 1 is known here: read it with the version that wrote it \
             (0.9.0), or measure again"
        );
        assert!(fault(r#"{"format": "new"}"#).0.starts_with("/run.json has format \"new\","));
        let (message, cause) = fault(r#"{"format": 1}"#);
        assert_eq!(message, "/run.json holds no complete results: give a file that a finished run wrote");
        assert!(cause.starts_with("missing field `title`"), "{cause}");
        assert!(fault("{}").1.starts_with("missing field `format`"));
        assert!(fault("[]").0.contains("no complete results"));
        let error = read("/nowhere/run.json").unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/run.json: check that it is there");
        assert!(error.source().is_some());
    }
}
