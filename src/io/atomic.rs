//! Files are written whole or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::error::Error;

/// Writes a file through `content`, so that whoever looks sees the old file or the new one, never a part.
///
/// The bytes go to a temporary file in the same folder, which then takes the name. A symbolic link stays and its target
/// is written; devices and pipes (`/dev/null`, `/dev/stdout`) are written to directly.
///
/// # Errors
/// [`Error::File`] around [`Error::Io`] when the system refuses; the old file, if any, is then untouched.
///
/// # Example
/// ```
/// let folder = tempfile::tempdir().expect("a folder for this example");
/// let path = folder.path().join("answer.txt");
/// multihead::io::write_atomically(&path, |writer| writer.write_all(b"42"))?;
/// assert_eq!(std::fs::read(&path).expect("it was written"), b"42");
/// # Ok::<(), multihead::Error>(())
/// ```
pub fn write_atomically(
    path: impl AsRef<Path>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let path = path.as_ref();
    let place = Place::of(path).map_err(|source| cannot("write", source).in_file(path))?;
    match place {
        Place::Regular(target) => write_beside(&target, content),
        Place::Special(device) => write_through(&device, content),
    }
    .map_err(|error| error.in_file(path))
}

/// The file that [`write_atomically`] would write, links followed, once it is sure that it could; so a long computation
/// is not lost for a wrong path. `None` for devices and pipes, which cannot be tried without being disturbed.
///
/// # Errors
/// As [`write_atomically`]; nothing is left behind either way.
pub fn writable_place(path: impl AsRef<Path>) -> Result<Option<PathBuf>, Error> {
    let path = path.as_ref();
    let try_out = || match Place::of(path).map_err(|source| cannot("write", source))? {
        Place::Special(_) => Ok(None),
        Place::Regular(target) => {
            beside(&target)?;
            let folder = folder_of(&target).canonicalize().map_err(|source| cannot("write", source))?;
            Ok(target.file_name().map(|name| folder.join(name)))
        }
    };
    try_out().map_err(|error: Error| error.in_file(path))
}

/// Where the bytes really go, links followed.
enum Place {
    /// A regular file, there or not yet.
    Regular(PathBuf),
    /// A device, a pipe, a socket, a file descriptor.
    Special(PathBuf),
}

/// Links of links before the path is given up, as on Linux.
const MAX_LINKS: usize = 40;

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let kind = match fs::symlink_metadata(&path) {
                Ok(about) => about.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self::Regular(path));
                }
                Err(error) => return Err(error),
            };
            if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if kind.is_file() {
                return Ok(Self::Regular(path));
            }
            // A link in /proc (`/dev/stdout` leads there) stands for an open file and its text is no path.
            if !kind.is_symlink() || folder_of(&path).canonicalize()?.starts_with("/proc") {
                return Ok(Self::Special(path));
            }
            path = folder_of(&path).join(fs::read_link(&path)?);
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }
}

/// Temporary files whose content is being written.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A set of paths is whole whatever befell a thread that held it.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path among the unfinished until dropped.
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(path: PathBuf) -> Self {
        unfinished().insert(path.clone());
        Self(path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// Removes the temporary files of every [`write_atomically`] under way, whose writes then fail: for what a program does
/// last when it is interrupted. What kills it at once leaves a `.multihead-…` beside the file that was to be written.
pub fn remove_unfinished() {
    // The lock is kept until the process ends or the files are gone, so that none is finished meanwhile.
    for path in &*unfinished() {
        // One that is gone already is as good as removed.
        let _ = fs::remove_file(path);
    }
}

fn write_beside(target: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let beside = beside(target)?;
    let _unfinished = Unfinished::new(beside.path().to_owned());
    write_buffered(beside.as_file(), content)?;
    beside.persist(target).map_err(|failure| cannot("write", failure.error))?;
    Ok(())
}

/// An empty file in the folder of `target`, with its permissions if it is there; gone when dropped.
fn beside(target: &Path) -> Result<NamedTempFile<File>, Error> {
    let folder = folder_of(target);
    let old = match fs::metadata(target) {
        // A rename would also replace a file that its owner made read-only.
        Ok(about) => OpenOptions::new().write(true).open(target).map(|_| Some(about)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
    .map_err(|source| cannot("write", source))?;
    // Created here and not by `tempfile`, so that the umask decides who may read it, as for any program's file.
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let beside = tempfile::Builder::new()
        .prefix(".multihead-")
        .make_in(folder, create)
        .map_err(|source| cannot(&format!("create a file in {}", folder.display()), source))?;
    if let Some(old) = old {
        let permissions = old.permissions();
        fs::set_permissions(beside.path(), permissions).map_err(|source| cannot("write", source))?;
    }
    Ok(beside)
}

fn write_through(device: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    // `/dev/stdout` may be a file that something already stands in: `multihead … >> log`.
    let file = OpenOptions::new().append(true).open(device).map_err(|source| cannot("write", source))?;
    write_buffered(&file, content)
}

fn write_buffered(file: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let mut writer = BufWriter::new(file);
    content(&mut writer).and_then(|()| writer.flush()).map_err(|source| cannot("write", source))
}

/// The folder a file lies in; "." for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn cannot(action: &str, source: io::Error) -> Error {
    Error::Io { action: action.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_half_way_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let failure = write_atomically(&path, |writer| {
            writer.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        let sentence = failure.unwrap_err().to_string();
        assert!(sentence.ends_with("out: cannot write: the disk is full"), "{sentence}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_unfinished_can_be_removed_and_is_then_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let failure = write_atomically(&path, |writer| {
            writer.write_all(b"half")?;
            let here = |path: &&PathBuf| path.starts_with(folder.path());
            assert_eq!(unfinished().iter().filter(here).count(), 1);
            // Not `remove_unfinished`, which would reach into other tests.
            let path = unfinished().iter().find(here).cloned().unwrap();
            fs::remove_file(path)
        });
        assert!(failure.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(!unfinished().iter().any(|path| path.starts_with(folder.path())));
    }

    #[test]
    fn places_that_cannot_be_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let sentence = |path: &Path| {
            let failure = write_atomically(path, |writer| writer.write_all(b"new"));
            let sentence = failure.expect_err("not writable").to_string();
            sentence.replace(&folder.path().display().to_string(), "FOLDER")
        };
        insta::assert_snapshot!(sentence(folder.path()), @"FOLDER: cannot write: is a directory");
        insta::assert_snapshot!(sentence(&folder.path().join("none/out")), @"FOLDER/none/out: cannot create a file in FOLDER/none: No such file or directory (os error 2)");
        fs::write(folder.path().join("file"), "").unwrap();
        insta::assert_snapshot!(sentence(&folder.path().join("file/out")), @"FOLDER/file/out: cannot write: Not a directory (os error 20)");
    }

    #[cfg(unix)]
    #[test]
    fn trying_a_place_names_the_file_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("new", folder.path().join("link")).unwrap();
        for name in ["new", "./new", "link"] {
            assert_eq!(writable_place(folder.path().join(name)).unwrap(), Some(real.join("new")), "{name}");
        }
        fs::write(folder.path().join("old"), "old").unwrap();
        assert_eq!(writable_place(folder.path().join("old")).unwrap(), Some(real.join("old")));
        assert_eq!(writable_place("/dev/null").unwrap(), None);
        for refused in ["none/out", "old/out", "."] {
            let written = write_atomically(folder.path().join(refused), |_| Ok(()));
            let tried = writable_place(folder.path().join(refused));
            assert_eq!(tried.unwrap_err().to_string(), written.unwrap_err().to_string());
        }
        assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_are_written_through() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        // Dangling at first, and relative.
        symlink("file", &link).unwrap();
        for content in ["one", "two"] {
            write_atomically(&link, |writer| writer.write_all(content.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(write_atomically(&circle, |writer| writer.write_all(b"x")).is_err());
        write_atomically("/dev/null", |writer| writer.write_all(b"gone")).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_descriptor_is_written_through() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let mut open = File::create(folder.path().join("open")).unwrap();
        open.write_all(b"first, ").unwrap();
        let path = format!("/dev/fd/{}", open.as_raw_fd());
        write_atomically(&path, |writer| writer.write_all(b"through")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("open")).unwrap(), "first, through");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let (usual, new) = (folder.path().join("usual"), folder.path().join("new"));
        fs::write(&usual, "").unwrap();
        write_atomically(&new, |writer| writer.write_all(b"")).unwrap();
        assert_eq!(mode(&new), mode(&usual));
        fs::set_permissions(&usual, fs::Permissions::from_mode(0o640)).unwrap();
        write_atomically(&usual, |writer| writer.write_all(b"")).unwrap();
        assert_eq!(mode(&usual), 0o640);
    }
}
