//! The data directory: its lock and its format.
//!
//! It holds `lock` (with the number of the process that has locked it), `format` (the version of the other files), `reserve`
//! and `reserve-log` (see `room`), and the folder `log` with its segments (see `segment` and `record`). It is complete before
//! `format` is written; until then the log is called `log.unfinished`.
//!
//! Kept true: while a [`Directory`] exists no other process (and no other store of this one) has it open,
//! and its format is ours.

use crate::room::{BLOCK_BYTES, NEEDED_MIB, is_full};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The version of the files in the directory.
pub(crate) const FORMAT: u32 = 2;
/// The version before it, which no release had.
const OLD_FORMAT: &str = "1";

/// The time that a start waits for a process that may be about to end. A killed process has its lock until its memory is
/// freed.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(20);

const LOCK_FILE: &str = "lock";
const FORMAT_FILE: &str = "format";

/// A data directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: Lock,
    /// It has no log yet.
    is_new: bool,
}

/// The reason why a data directory cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, if it left its number.
        pid: Option<u32>,
    },
    /// It was written by a version of this program with another format.
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// The content of its format file.
        found: String,
    },
    /// Its log has a file that is in none of our formats. Nothing was changed.
    UnknownFile {
        /// The directory.
        path: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// It cannot be read or written.
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its log is damaged beyond the torn end that a crash may leave.
    Damaged {
        /// The directory.
        path: PathBuf,
        /// A description of the damage.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, pid: Some(pid) } => write!(
                f,
                "data directory {} is in use by process {pid}: stop it, or choose another directory",
                path.display()
            ),
            Self::InUse { path, pid: None } => write!(
                f,
                "data directory {} is in use by another process: stop it, or choose another directory",
                path.display()
            ),
            Self::UnknownFormat { path, found } if found == OLD_FORMAT => write!(
                f,
                "data directory {} has format {found:?}, from before the first release, which this program does not \
                 read, and was left as it is: choose another directory or move this one away, and create its objects \
                 again (the version that wrote it can still serve them)",
                path.display()
            ),
            Self::UnknownFormat { path, found } => write!(
                f,
                "data directory {} has format {found:?}, but this program reads and writes format {FORMAT}: use \
                 the version that wrote it, or choose another directory",
                path.display()
            ),
            Self::UnknownFile { path, file } => write!(
                f,
                "the log in data directory {} has a file in an unknown format, {}, which was left as it is: use the \
                 version of this program that wrote it, restore the directory from a backup, or choose another \
                 directory",
                path.display(),
                file.display()
            ),
            Self::Io { doing, path, source } if is_full(source) => write!(
                f,
                "cannot {doing} in data directory {}: its disk is full: free {NEEDED_MIB} MiB, or choose another directory",
                path.display()
            ),
            Self::Io { doing, path, .. } => write!(f, "cannot {doing} in data directory {}", path.display()),
            Self::Damaged { path, .. } => {
                write!(f, "data directory {} is damaged: restore it from a backup", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Damaged { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl Directory {
    /// Takes the directory, making it if need be.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let io = |doing| move |source| OpenError::Io { doing, path: path.to_owned(), source };
        make_private(path).map_err(io("make it and write"))?;
        let lock = Lock::take(path)?;
        let mut directory = Self { path: path.to_owned(), _lock: lock, is_new: false };
        directory.check_format()?;
        Ok(directory)
    }

    /// Whether it has no log yet.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Writes the format file, which completes a new directory.
    pub(crate) fn write_format(&self) -> io::Result<()> {
        write_durably(&self.path, FORMAT_FILE, &format!("{FORMAT}\n"))
    }

    /// The folder of the log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the names of the files in it durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn check_format(&mut self) -> Result<(), OpenError> {
        let path = self.path.join(FORMAT_FILE);
        match fs::read_to_string(&path) {
            Ok(found) if found.trim() == FORMAT.to_string() => Ok(()),
            Ok(found) => {
                Err(OpenError::UnknownFormat { path: self.path.clone(), found: found.trim().to_owned() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.log_path().exists() => {
                Err(OpenError::UnknownFormat { path: self.path.clone(), found: "none".to_owned() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.is_new = true;
                Ok(())
            }
            Err(source) => Err(OpenError::Io { doing: "read the format", path: self.path.clone(), source }),
        }
    }
}

/// Makes a folder that only its owner can read: objects may be secret.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The room that everything in a folder takes on disk. A file that is removed meanwhile takes none: the log makes and
/// removes them all the time.
pub(crate) fn allocated_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != path => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * BLOCK_BYTES,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

/// Keeps other processes out of a directory, by a lock on a file in it.
#[derive(Debug)]
struct Lock {
    file: File,
    id: FileId,
}

/// Device and number.
type FileId = (u64, u64);

/// The locks that this process has. They are not about to be released.
static OURS: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

impl Lock {
    fn take(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { doing: "take the lock", path: path.to_owned(), source };
        let mut options = File::options();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_FILE))
            .map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let id = (metadata.dev(), metadata.ino());
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock)
                    if OURS.lock().contains(&id) || begun.elapsed() >= LOCK_WAIT =>
                {
                    let mut pid = String::new();
                    let pid = file.read_to_string(&mut pid).ok().and_then(|_| pid.trim().parse().ok());
                    return Err(OpenError::InUse { path: path.to_owned(), pid });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        OURS.lock().insert(id);
        let mut lock = Self { file, id };
        match lock.leave_number() {
            // The number is only for an error message.
            Err(error) if is_full(&error) => {}
            left => left.map_err(io)?,
        }
        Ok(lock)
    }

    fn leave_number(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        OURS.lock().remove(&self.id);
    }
}

/// Writes a small file so that after a crash it is there whole or not at all.
fn write_durably(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let unfinished = directory.join(format!("{name}.new"));
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, directory.join(name))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_use_names_the_process_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        let _ours = Directory::take(root.path()).unwrap();
        let error = Directory::take(root.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
    }

    /// A process that was killed has its lock for a moment longer.
    #[test]
    fn a_start_waits_for_a_lock_that_another_process_is_about_to_release() {
        let root = tempfile::tempdir().unwrap();
        drop(Directory::take(root.path()).unwrap());
        // A lock belongs to an open file, so this one is as good as another process's.
        let other = File::open(root.path().join(LOCK_FILE)).unwrap();
        other.try_lock().unwrap();
        let waiting = std::thread::spawn({
            let path = root.path().to_owned();
            move || Directory::take(&path).map(drop)
        });
        std::thread::sleep(LOCK_RETRY * 3);
        assert!(!waiting.is_finished());
        drop(other);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_directory_can_be_taken_again_once_it_is_released() {
        let root = tempfile::tempdir().unwrap();
        drop(Directory::take(root.path()).unwrap());
        Directory::take(root.path()).unwrap();
    }

    #[test]
    fn an_unknown_format_is_refused_and_left_alone() {
        let root = tempfile::tempdir().unwrap();
        for found in ["1", "3", "banana", ""] {
            fs::write(root.path().join(FORMAT_FILE), found).unwrap();
            let error = Directory::take(root.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("has format {found:?}")), "{error}");
            assert_eq!(fs::read_to_string(root.path().join(FORMAT_FILE)).unwrap(), found);
        }
    }

    #[test]
    fn a_log_without_a_format_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("log")).unwrap();
        assert!(matches!(Directory::take(root.path()), Err(OpenError::UnknownFormat { .. })));
    }
}
