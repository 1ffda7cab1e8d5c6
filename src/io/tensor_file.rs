//! Safetensors files as they are written: header first, then the numbers.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use safetensors::Dtype;
use serde::ser::{SerializeMap, Serializer};

use super::atomic::write_atomically;
use super::header::{LENGTH_BYTES, METADATA_KEY, RawEntry};
use super::words::shown;
use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// The bytes of a safetensors file of f32 tensors and metadata (key, value).
///
/// The same tensors give the same bytes, in whatever order they come.
///
/// # Errors
/// [`Error::Invalid`] when two tensors have one name.
pub fn tensors_to_bytes(tensors: &[(&str, &HostTensor)], metadata: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
    let tensors = tensors.iter().map(|&(name, tensor)| (name, tensor.into()));
    let mut bytes = Vec::new();
    let written = TensorFile::new(tensors.collect(), metadata)?.write(&mut bytes);
    written.map_err(|source| Error::Io { action: "write".into(), source })?;
    Ok(bytes)
}

/// Writes [`tensors_to_bytes`] to a file, beside its place first, then renamed.
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
    use std::fs;

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
}
