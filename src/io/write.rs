//! Files are written whole or not at all.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde::ser::{SerializeMap, Serializer};

use super::header::{LENGTH_BYTES, METADATA_KEY, RawEntry};
use super::words::shown;
use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// Writes a safetensors file of f32 tensors and metadata (key, value), beside its place first, then renamed.
///
/// The same tensors give the same bytes, in whatever order they come.
///
/// # Errors
/// [`Error::Invalid`] when two tensors have one name, [`Error::File`] around [`Error::Io`] when the system refuses.
pub fn write_tensors(
    path: impl AsRef<Path>,
    tensors: &[(&str, &HostTensor)],
    metadata: &[(&str, &str)],
) -> Result<(), Error> {
    let tensors = tensors.iter().map(|&(name, tensor)| (name, tensor.into()));
    let file = TensorFile::new(tensors.collect(), metadata)?;
    write_atomically(path, |writer| file.write(writer))
}

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

fn write_beside(target: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let folder = folder_of(target);
    let old = match fs::metadata(target) {
        // A rename would also replace a file that its owner made read-only.
        Ok(about) => OpenOptions::new().write(true).open(target).map(|_| Some(about)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
    .map_err(|source| cannot("write", source))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".multihead-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // What any program would create: readable by all whom the umask allows.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let beside = builder
        .tempfile_in(folder)
        .map_err(|source| cannot(&format!("create a file in {}", folder.display()), source))?;
    if let Some(old) = old {
        let permissions = old.permissions();
        fs::set_permissions(beside.path(), permissions).map_err(|source| cannot("write", source))?;
    }
    write_buffered(beside.as_file(), content)?;
    beside.persist(target).map_err(|failure| cannot("write", failure.error))?;
    Ok(())
}

fn write_through(device: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).open(device).map_err(|source| cannot("write", source))?;
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

/// A tensor to be written.
#[derive(Clone, Copy)]
pub(super) enum Numbers<'a> {
    Floats(&'a HostTensor),
    Integers(&'a HostTensor<i64>),
    Booleans(&'a HostTensor<bool>),
}

impl<'a> From<&'a HostTensor> for Numbers<'a> {
    fn from(tensor: &'a HostTensor) -> Self {
        Self::Floats(tensor)
    }
}

impl Numbers<'_> {
    fn dtype(self) -> Dtype {
        match self {
            Self::Floats(_) => Dtype::F32,
            Self::Integers(_) => Dtype::I64,
            Self::Booleans(_) => Dtype::BOOL,
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Floats(tensor) => tensor.shape(),
            Self::Integers(tensor) => tensor.shape(),
            Self::Booleans(tensor) => tensor.shape(),
        }
        .clone()
    }

    fn bytes(self) -> u64 {
        let count = match self {
            Self::Floats(tensor) => tensor.data().len(),
            Self::Integers(tensor) => tensor.data().len(),
            Self::Booleans(tensor) => tensor.data().len(),
        };
        (count * self.dtype().bitsize() / 8) as u64
    }

    fn write(self, writer: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Floats(tensor) => each(tensor, |number| writer.write_all(&number.to_le_bytes())),
            Self::Integers(tensor) => each(tensor, |number| writer.write_all(&number.to_le_bytes())),
            Self::Booleans(tensor) => each(tensor, |&flag| writer.write_all(&[u8::from(flag)])),
        }
    }
}

fn each<T>(tensor: &HostTensor<T>, write: impl FnMut(&T) -> io::Result<()>) -> io::Result<()> {
    tensor.data().iter().try_for_each(write)
}

/// A safetensors file about to be written: header and tensors in their order.
pub(super) struct TensorFile<'a> {
    header: Vec<u8>,
    tensors: Vec<(&'a str, Numbers<'a>)>,
}

impl<'a> TensorFile<'a> {
    /// Lays the tensors out: wide types first, so that each is aligned, then by name.
    pub(super) fn new(mut tensors: Vec<(&'a str, Numbers<'a>)>, metadata: &[(&str, &str)]) -> Result<Self, Error> {
        tensors.sort_by(|(left, a), (right, b)| b.dtype().cmp(&a.dtype()).then(left.cmp(right)));
        once_each(std::iter::once(METADATA_KEY).chain(tensors.iter().map(|&(name, _)| name)))?;
        once_each(metadata.iter().map(|&(key, _)| key))?;
        let mut header = header_json(&tensors, metadata)
            .map_err(|error| Error::Invalid(format!("the header cannot be written: {error}")))?;
        header.resize(header.len().next_multiple_of(LENGTH_BYTES), b' ');
        Ok(Self { header, tensors })
    }

    pub(super) fn write(&self, writer: &mut dyn Write) -> io::Result<()> {
        writer.write_all(&(self.header.len() as u64).to_le_bytes())?;
        writer.write_all(&self.header)?;
        self.tensors.iter().try_for_each(|(_, numbers)| numbers.write(writer))
    }
}

fn once_each<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::Invalid(format!(
                "a file cannot hold two entries named \"{}\"; rename one",
                shown(name)
            )));
        }
    }
    Ok(())
}

fn header_json(tensors: &[(&str, Numbers<'_>)], metadata: &[(&str, &str)]) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut json);
    let mut map = serializer.serialize_map(None)?;
    if !metadata.is_empty() {
        let metadata: BTreeMap<_, _> = metadata.iter().copied().collect();
        map.serialize_entry(METADATA_KEY, &metadata)?;
    }
    let mut end = 0;
    for (name, numbers) in tensors {
        let begin = end;
        end += numbers.bytes();
        let entry = RawEntry {
            dtype: numbers.dtype().to_string(),
            shape: numbers.shape().axes().iter().map(|&axis| axis as u64).collect(),
            data_offsets: (begin, end),
        };
        map.serialize_entry(name, &entry)?;
    }
    map.end()?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Archive;

    fn tensor(numbers: &[f32]) -> HostTensor {
        HostTensor::new([numbers.len()], numbers.to_vec()).unwrap()
    }

    #[test]
    fn tensors_come_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        let numbers = tensor(&[0.1, f32::NEG_INFINITY, f32::from_bits(0x7FC0_1234), -0.0]);
        let empty = HostTensor::new([0, 3], vec![]).unwrap();
        write_tensors(&path, &[("b", &numbers), ("a", &empty)], &[("about", "a \"test\"\n")]).unwrap();
        let archive = Archive::open(&path).unwrap();
        let bits = |tensor: &HostTensor| tensor.data().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&archive.tensor("b").unwrap()), bits(&numbers));
        assert_eq!(archive.tensor("a").unwrap(), empty);
        assert_eq!(archive.metadata("about"), Some("a \"test\"\n"));
        let bytes = fs::read(&path).unwrap();
        safetensors::SafeTensors::deserialize(&bytes).expect("another reader should agree");
    }

    #[test]
    fn the_order_of_the_arguments_does_not_change_the_bytes() {
        let (a, b) = (tensor(&[1.0]), tensor(&[2.0]));
        let bytes = |tensors: &[(&'static str, &HostTensor)], metadata: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            write_tensors(&path, tensors, metadata).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(
            bytes(&[("a", &a), ("b", &b)], &[("x", "1"), ("y", "2")]),
            bytes(&[("b", &b), ("a", &a)], &[("y", "2"), ("x", "1")])
        );
    }

    #[test]
    fn two_tensors_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let a = tensor(&[1.0]);
        let refusal = |names: [&str; 2], keys: [&str; 2]| {
            let tensors = names.map(|name| (name, &a));
            let metadata = keys.map(|key| (key, ""));
            write_tensors(folder.path().join("out"), &tensors, &metadata).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refusal(["a", "a"], ["x", "y"]), @r#"a file cannot hold two entries named "a"; rename one"#);
        insta::assert_snapshot!(refusal(["a", "b"], ["x", "x"]), @r#"a file cannot hold two entries named "x"; rename one"#);
        insta::assert_snapshot!(refusal(["a", METADATA_KEY], ["x", "y"]), @r#"a file cannot hold two entries named "__metadata__"; rename one"#);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

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
        let open = File::create(folder.path().join("open")).unwrap();
        let path = format!("/dev/fd/{}", open.as_raw_fd());
        write_atomically(&path, |writer| writer.write_all(b"through")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("open")).unwrap(), "through");
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
