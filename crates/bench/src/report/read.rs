//! Reading of result files.
//!
//! Kept true by [`read_all`]: no two of several files have the same title, so that each can be distinguished from the
//! others in a report.

use super::text::plain;
use crate::results::{FORMAT, Results};
use serde_json::Value;
use std::{
    collections::HashMap,
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// The reason for which a result file cannot be read. The cause is in `source()`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is not there, or may not be read. Check its name.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// It was not written by a run, or only in part. Measure again, or give another file.
    NotJson {
        /// The file.
        path: PathBuf,
        /// The error, with the position at which it stops being JSON.
        source: serde_json::Error,
    },
    /// Another version of the program wrote it. Read it with that version, or measure again.
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format, as it is written there.
        found: String,
        /// The version that wrote it, if the file has it.
        measured_by: Option<String>,
    },
    /// It is JSON, but lacks fields that every result file has. Give another file.
    NotResults {
        /// The file.
        path: PathBuf,
        /// The error, with the field that is missing or has another type.
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
    // Parsed from the text again, so that the error contains the line.
    serde_json::from_slice(&content).map_err(|source| ReadError::NotResults { path, source })
}

/// Reads the results of several runs. Results with the same title are also named after their files.
pub fn read_all<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Results>, ReadError> {
    let mut all = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<_> = paths.iter().map(AsRef::as_ref).collect();
    let titles = distinct(all.iter().map(|results| &*results.title).collect(), &paths);
    all.iter_mut().zip(titles).for_each(|(results, title)| results.title = title);
    Ok(all)
}

/// The names of a file, the shortest first: its name, its path, and, if it is given twice, its position.
const FILE_NAMES: [fn(usize, &Path) -> String; 3] = [
    |_, path| path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    |_, path| path.display().to_string(),
    |place, _| format!("file {}", place + 1),
];

fn distinct(titles: Vec<&str>, paths: &[&Path]) -> Vec<String> {
    let mut found: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    for file_name in FILE_NAMES {
        let mut counts: HashMap<String, usize> = HashMap::new();
        // The titles as reports display them.
        let shown: Vec<_> = found.iter().map(|title| plain(title).into_owned()).collect();
        shown.iter().for_each(|title| *counts.entry(title.clone()).or_default() += 1);
        for (place, _) in shown.iter().enumerate().filter(|(_, title)| counts[*title] > 1) {
            found[place] = format!("{} ({})", titles[place], file_name(place, paths[place]));
        }
    }
    found
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
    fn written_results_are_read_again() {
        let written = serde_json::to_string(&testing::results("größe")).unwrap();
        assert_eq!(serde_json::to_string(&read_text(&written).unwrap()).unwrap(), written);
    }

    #[test]
    fn equal_titles_are_distinguished_by_their_files() {
        let check = |titles: &[&str], paths: &[&str], expected: &[&str]| {
            let paths: Vec<_> = paths.iter().map(Path::new).collect();
            assert_eq!(distinct(titles.to_vec(), &paths), expected);
        };
        check(&["a", "b"], &["1.json", "2.json"], &["a", "b"]);
        check(&["a", "b", "a"], &["x/1.json", "2.json", "3.json"], &["a (1.json)", "b", "a (3.json)"]);
        check(
            &["a", "a", "a"],
            &["x/1.json", "y/1.json", "2.json"],
            &["a (x/1.json)", "a (y/1.json)", "a (2.json)"],
        );
        check(&["a", "a"], &["1.json", "1.json"], &["a (file 1)", "a (file 2)"]);
        // Both are displayed as the same title.
        check(&["a\x1b", "a\x07"], &["1.json", "2.json"], &["a\x1b (1.json)", "a\x07 (2.json)"]);
    }

    #[test]
    fn several_files_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, title) in [("1.json", "a"), ("2.json", "b"), ("3.json", "a")] {
            fs::write(path(name), serde_json::to_string(&testing::results(title)).unwrap()).unwrap();
        }
        let all = read_all(&[path("1.json"), path("2.json"), path("3.json")]).unwrap();
        let titles: Vec<_> = all.iter().map(|results| &*results.title).collect();
        assert_eq!(titles, ["a (1.json)", "b", "a (3.json)"]);
        assert!(read_all(&[path("1.json"), path("4.json")]).is_err());
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
