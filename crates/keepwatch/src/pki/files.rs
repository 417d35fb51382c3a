//! Files that exist completely or not at all.

use super::PkiError;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

pub(super) const PUBLIC: u32 = 0o644;
pub(super) const PRIVATE: u32 = 0o600;

pub(super) fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let problem = format!("cannot be read: {}: make it readable or remove it", plain(&error));
            Err(PkiError::at(path, problem))
        }
    }
}

pub(super) fn read_given(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|error| PkiError::at(path, format!("cannot be read: {}", plain(&error))))
}

/// Replaces a file as a whole, or leaves the old one if that fails.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    try_write(path, text, mode).map_err(|error| unwritable(path, &error))
}

/// The same, unless the disk is full. Returns whether the file was written.
pub(super) fn write_if_room(path: &Path, text: &str, mode: u32) -> Result<bool, PkiError> {
    match try_write(path, text, mode) {
        Ok(()) => Ok(true),
        Err(error) if is_full(&error) => Ok(false),
        Err(error) => Err(unwritable(path, &error)),
    }
}

fn try_write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    let remove = || match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    remove()?;
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    written().inspect_err(|_| drop(remove()))
}

fn unwritable(path: &Path, error: &io::Error) -> PkiError {
    let remedy = if is_full(error) { ": free some disk space" } else { "" };
    PkiError::at(path, format!("cannot be written: {}{remedy}", plain(error)))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The text of an I/O error, without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
