//! What the configuration needs of the file system: texts that can be read, and a folder that could be written.
//!
//! Only looked at, never touched: a check leaves nothing behind. Each refusal says what is wrong and what mends it.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{Access, access};

use super::units::Mend;

/// A file's text; `absent` mends one that isn't there.
pub(super) fn text(path: &Path, absent: &str) -> Result<String, Mend> {
    let bytes = std::fs::read(path).map_err(|e| {
        let mend = if e.kind() == ErrorKind::NotFound { absent } else { "make it a file that this user may read" };
        format!("can't be read ({e}): {mend}")
    })?;
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 (line {line}): save it in that encoding")
    })
}

/// Whether this user may make entries in a folder.
pub(super) fn may_write(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Whether `path` is a folder that may be written, or could be made one where nothing is yet.
pub(super) fn folder(path: &Path, may_write: impl Fn(&Path) -> bool) -> Result<(), Mend> {
    for place in path.ancestors() {
        // The parent of a lone relative name.
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        let why = match std::fs::metadata(place) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(e) => format!("can't be looked at ({e})"),
            Ok(found) if !found.is_dir() => "is a file, not a folder".to_owned(),
            Ok(_) if !may_write(place) => "can't be written by this user".to_owned(),
            Ok(_) => return Ok(()),
        };
        return Err(match place == path {
            true => format!("{why}: name a folder that this user may write"),
            false => format!("can't be created, for {} {why}: name a folder that this user may write", place.display()),
        });
    }
    Err("can't be created, for nothing above it is there: name a folder that this user may write".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_utf8_and_a_refusal_names_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8]| {
            let path = folder.path().join("text");
            std::fs::write(&path, bytes).unwrap();
            text(&path, "create it")
        };
        assert_eq!(read("群\n".as_bytes()).as_deref(), Ok("群\n"));
        assert_eq!(read(b"").as_deref(), Ok(""));
        assert!(read(b"a\nb\n\xd6\xfa\n").unwrap_err().contains("not UTF-8 (line 3)"));
        assert!(text(&folder.path().join("none"), "create it").unwrap_err().ends_with(": create it"));
        assert!(text(folder.path(), "create it").unwrap_err().ends_with("a file that this user may read"));
    }

    #[test]
    fn a_folder_is_there_or_could_be_created_and_is_only_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let (file, absent) = (root.path().join("file"), root.path().join("a/b"));
        std::fs::write(&file, "").unwrap();
        let refused = |path: &Path, may_write: bool| folder(path, |_| may_write).unwrap_err();

        assert_eq!(folder(root.path(), may_write), Ok(()));
        assert_eq!(folder(&absent, may_write), Ok(()));
        assert_eq!(folder(Path::new("no-such-folder"), |place| place == Path::new(".")), Ok(()));
        assert!(refused(&file, true).starts_with("is a file"));
        let beneath = refused(&file.join("b/c"), true);
        assert!(beneath.starts_with("can't be created") && beneath.contains("file is a file"), "{beneath}");
        assert!(refused(root.path(), false).starts_with("can't be written by this user"));
        let above = refused(&absent, false);
        assert!(above.contains(&format!("{} can't be written", root.path().display())), "{above}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
