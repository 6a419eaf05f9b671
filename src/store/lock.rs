//! The folder of one gateway process: made where it is missing, and locked so that no second process uses it.
//!
//! The lock is the operating system's and ends with the process, however that ends. The file stays; it means nothing.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use super::{Result, StoreError};

/// Holds the folder until dropped.
#[derive(Debug)]
pub struct PathLock {
    _file: File,
}

/// Makes the folder `path` this process's own.
///
/// # Errors
/// [`StoreError::Refused`] when another process (or another part of this one) has it, or when it can't be made or written.
pub fn lock_path(path: &Path) -> Result<PathLock> {
    create_folder(path)?;
    let lock = path.join("lock");
    let unusable = |e: io::Error| StoreError::Refused(format!("{} can't be locked: {e}", lock.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&lock).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(PathLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(StoreError::Refused(format!(
            "{} belongs to another gateway process; give this one its own [store] path",
            path.display()
        ))),
        Err(TryLockError::Error(e)) => Err(unusable(e)),
    }
}

/// Makes `path` where it is missing, readable by its owner only: what members write lies in it.
pub(super) fn create_folder(path: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|e| StoreError::Refused(format!("{} can't be created: {e}", path.display())))
}

/// Makes the file `path` where it is missing, readable by its owner only; what SQLite lays beside it then is too. One that is there is
/// left as it is, and not even opened: closing it would take the locks of this process's SQLite away.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_sqlite_writes_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let store = crate::store::embedded::EmbeddedStore::open(folder.path(), 1).unwrap();
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
        let databases = files.iter().filter(|file| file.file_name().to_string_lossy().contains(".db"));
        let modes: Vec<u32> = databases.map(|file| file.metadata().unwrap().permissions().mode() & 0o777).collect();
        assert!(modes.len() >= 2 && modes.iter().all(|mode| *mode == 0o600), "{modes:?} of {files:?}");
        drop(store);
    }

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let held = lock_path(&path).unwrap();
        let refused = lock_path(&path).unwrap_err();
        assert!(
            refused.to_string().ends_with("belongs to another gateway process; give this one its own [store] path")
        );
        assert!(!refused.is_transient());
        drop(held);
        lock_path(&path).unwrap();
    }

    #[test]
    fn an_unusable_folder_is_refused_with_its_path() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = lock_path(&file.join("below")).unwrap_err();
        assert!(matches!(refused, StoreError::Refused(text) if text.contains("file/below")));
    }
}
