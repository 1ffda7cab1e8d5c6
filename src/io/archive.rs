//! A safetensors file: names, metadata and tensors, each read when it is asked for.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::convert::{Stored, out_of_memory};
use super::header::{Header, LENGTH_BYTES, header_length, truncated_header};
use super::words::{nearest, shown};
use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// A safetensors file whose header has been found to describe it exactly.
///
/// Only the header is read at once; each tensor is read when it is asked for, so that one layer of a large model costs
/// what one layer weighs.
///
/// # Example
/// ```
/// use multihead::io::Archive;
/// let bytes = std::fs::read("tests/cases/r01_empty_row.safetensors").expect("the file is there");
/// let archive = Archive::from_bytes(&bytes)?;
/// assert_eq!(archive.shape("query").expect("a case has a query"), &[1, 2, 1]);
/// assert_eq!(archive.metadata("about"), Some("a query with no visible key gives zeros"));
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Debug)]
pub struct Archive<'a> {
    header: Header,
    data: Data<'a>,
}

/// Where the bytes after the header are.
#[derive(Debug)]
enum Data<'a> {
    Memory(Cow<'a, [u8]>),
    /// In a regular file, from byte `start` on.
    File {
        file: File,
        start: u64,
    },
}

impl Archive<'static> {
    /// Opens a file; pipes and `/dev/stdin` are read to their end.
    ///
    /// # Errors
    /// [`Error::File`] around [`Error::Io`] when the system refuses, or around [`Error::Invalid`] when the file is not
    /// a safetensors file or its header and its size disagree.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::open_unnamed(path).map_err(|error| error.in_file(path))
    }

    fn open_unnamed(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(cannot_read)?;
        let about_file = file.metadata().map_err(cannot_read)?;
        if about_file.is_dir() {
            return Err(Error::Invalid("this is a folder; name a safetensors file in it".into()));
        }
        if about_file.is_file() { Self::from_file(file, about_file.len()) } else { Self::from_stream(file) }
    }

    fn from_file(file: File, file_bytes: u64) -> Result<Self, Error> {
        let length = header_length(&up_to(&file, LENGTH_BYTES as u64)?, Some(file_bytes))?;
        let header = Header::parse(&whole_header(&file, length)?)?;
        let start = LENGTH_BYTES as u64 + length;
        header.check(file_bytes - start)?;
        let data = Data::File { file, start };
        Ok(Self { header, data })
    }

    /// Buffers grow with what arrives, never with what the header claims.
    fn from_stream(stream: impl Read) -> Result<Self, Error> {
        let mut stream = stream;
        let length = header_length(&up_to(&mut stream, LENGTH_BYTES as u64)?, None)?;
        let header = Header::parse(&whole_header(&mut stream, length)?)?;
        // One byte more than announced is enough to see that there are too many.
        let data = up_to(&mut stream, header.data_bytes().saturating_add(1))?;
        header.check(data.len() as u64)?;
        let data = Data::Memory(Cow::Owned(data));
        Ok(Self { header, data })
    }
}

impl<'a> Archive<'a> {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are not those of a safetensors file or the header and the size disagree.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        let file_bytes = bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(LENGTH_BYTES));
        let length = header_length(first, Some(file_bytes))?;
        let in_header = usize::try_from(length).ok();
        let (json, data) = in_header
            .and_then(|length| rest.split_at_checked(length))
            .ok_or_else(|| truncated_header(length, file_bytes))?;
        let header = Header::parse(json)?;
        header.check(data.len() as u64)?;
        let data = Data::Memory(Cow::Borrowed(data));
        Ok(Self { header, data })
    }

    /// The tensors' names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.header.tensors.contains_key(name)
    }

    /// A tensor's shape, if there is such a tensor.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<&Shape> {
        self.header.tensors.get(name).map(|entry| &entry.shape)
    }

    /// What the metadata says under `key`.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.header.metadata.get(key).map(String::as_str)
    }

    /// The keys of the metadata, sorted.
    pub fn metadata_keys(&self) -> impl Iterator<Item = &str> {
        self.header.metadata.keys().map(String::as_str)
    }

    /// A tensor of any float type as f32: F16 and BF16 exactly, F64 as a cast gives it.
    ///
    /// # Errors
    /// [`Error::UnknownName`] when there is no such tensor, [`Error::Invalid`] when it is not F16, BF16, F32 or F64,
    /// [`Error::Io`] when the system refuses to read it.
    pub fn tensor(&self, name: &str) -> Result<HostTensor, Error> {
        self.stored(name)?.floats()
    }

    /// The tensor's bytes, to be decoded as the caller needs.
    pub(super) fn stored(&self, name: &str) -> Result<Stored<'_>, Error> {
        let Some((name, entry)) = self.header.tensors.get_key_value(name) else {
            return Err(Error::UnknownName {
                kind: "tensor".into(),
                name: shown(name),
                nearest: nearest(name, self.names()).map(shown),
            });
        };
        let (begin, end) = entry.offsets;
        let bytes = match &self.data {
            Data::Memory(data) => Cow::Borrowed(within(data, begin, end)),
            Data::File { file, start } => Cow::Owned(read_at(file, name, start + begin, end - begin)?),
        };
        Ok(Stored { name, entry, bytes })
    }
}

/// The bytes from `begin` to `end`.
fn within(data: &[u8], begin: u64, end: u64) -> &[u8] {
    let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
    range.and_then(|(begin, end)| data.get(begin..end)).expect("offsets should have been checked against the data")
}

fn read_at(file: &File, name: &str, start: u64, length: u64) -> Result<Vec<u8>, Error> {
    let mut file = file;
    let length = usize::try_from(length).map_err(|_| out_of_memory(name, usize::MAX))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| out_of_memory(name, length))?;
    bytes.resize(length, 0);
    file.seek(SeekFrom::Start(start)).map_err(cannot_read)?;
    file.read_exact(&mut bytes).map_err(cannot_read)?;
    Ok(bytes)
}

fn whole_header(stream: impl Read, length: u64) -> Result<Vec<u8>, Error> {
    let json = up_to(stream, length)?;
    let got = json.len() as u64;
    if got < length {
        return Err(truncated_header(length, LENGTH_BYTES as u64 + got));
    }
    Ok(json)
}

/// The next `count` bytes, or fewer where the stream ends.
fn up_to(stream: impl Read, count: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    stream.take(count).read_to_end(&mut bytes).map_err(cannot_read)?;
    Ok(bytes)
}

fn cannot_read(source: std::io::Error) -> Error {
    Error::Io { action: "read".into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this header and so many zero bytes.
    fn file(header: &str, data_bytes: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data_bytes, 0);
        bytes
    }

    fn refusal(header: &str, data_bytes: usize) -> String {
        Archive::from_bytes(&file(header, data_bytes)).expect_err("this file should be refused").to_string()
    }

    #[test]
    fn a_sound_file_is_read() {
        let bytes = file(
            r#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[2,10]},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"__metadata__":{"k":"v"}}  "#,
            10,
        );
        let archive = Archive::from_bytes(&bytes).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(archive.metadata("k"), Some("v"));
        assert_eq!(archive.tensor("b").unwrap().data(), [0.0, 0.0]);
        assert!(archive.contains("a") && !archive.contains("__metadata__"));
        insta::assert_snapshot!(archive.tensor("bb").unwrap_err(), @r#"unknown tensor "bb"; did you mean "b"?"#);
    }

    #[test]
    fn files_that_are_cut_or_no_safetensors_are_refused() {
        let refusal = |bytes: &[u8]| Archive::from_bytes(bytes).expect_err("too short").to_string();
        insta::assert_snapshot!(refusal(b""), @"0 bytes are too few for a safetensors file, which starts with the 8-byte length of its header");
        insta::assert_snapshot!(refusal(&[2, 0, 0, 0, 0, 0, 0, 0, b'{']), @"the header should be 2 bytes long, but the whole file has 9; it is truncated or not a safetensors file");
        insta::assert_snapshot!(refusal(&[255; 100]), @"the header would be 18446744073709551615 bytes long, more than the 100000000 of the format; this is not a safetensors file");
        insta::assert_snapshot!(refusal(&[0; 8]), @"the header would be 0 bytes long; this is not a safetensors file");
    }

    #[test]
    fn headers_that_are_no_table_of_tensors_are_refused() {
        insta::assert_snapshot!(refusal("[1]", 0), @"the safetensors header is unusable: invalid type: sequence, expected a JSON object of tensors at line 1 column 0");
        insta::assert_snapshot!(refusal("{ ", 0), @"the safetensors header is unusable: EOF while parsing an object at line 1 column 2");
        insta::assert_snapshot!(refusal(r#"{"a":{"dtype":"Q4","shape":[],"data_offsets":[0,1]}}"#, 1), @r#"tensor "a" has the unknown type "Q4"; convert it to F32"#);
        insta::assert_snapshot!(refusal(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4), @r#"the safetensors header is unusable: tensor "a": invalid value: integer `-1`, expected u64 at line 1 column 31"#);
        insta::assert_snapshot!(refusal(r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4), @r#"the safetensors header is unusable: tensor "a": missing field `data_offsets` at line 1 column 32"#);
        insta::assert_snapshot!(refusal(r#"{"__metadata__":{"k":1}}"#, 0), @r#"the safetensors header is unusable: "__metadata__": invalid type: integer `1`, expected a string at line 1 column 22"#);
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        let tensor = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
        insta::assert_snapshot!(refusal(&format!(r#"{{"a":{tensor},"a":{tensor}}}"#), 1), @r#"the safetensors header is unusable: "a" appears twice at line 1 column 105"#);
        insta::assert_snapshot!(refusal(r#"{"__metadata__":{"k":"1","k":"2"}}"#, 0), @r#"the safetensors header is unusable: "__metadata__": "k" appears twice at line 1 column 33"#);
        insta::assert_snapshot!(refusal(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), @r#"the safetensors header is unusable: "__metadata__" appears twice at line 1 column 33"#);
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        let one = |offsets: &str, bytes: usize| {
            refusal(&format!(r#"{{"a":{{"dtype":"F32","shape":[1,2],"data_offsets":{offsets}}}}}"#), bytes)
        };
        insta::assert_snapshot!(one("[0,8]", 7), @r#"tensor "a" ends at byte 8 of the data, but there are only 7; the file is truncated"#);
        insta::assert_snapshot!(one("[0,8]", 9), @"the last tensor ends at byte 8 of the data, but there are 9; write the file again, its header does not describe it");
        insta::assert_snapshot!(one("[0,4]", 4), @r#"tensor "a" of type F32 and shape (1, 2) needs 8 bytes, but the header gives it 4"#);
        insta::assert_snapshot!(one("[8,0]", 8), @r#"tensor "a" has data offsets 8 to 0, which run backwards"#);
        insta::assert_snapshot!(one("[4,12]", 12), @r#"tensor "a" starts at byte 4 of the data, which leaves a gap after the tensor before it, which ends at 0"#);
        let two = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#;
        insta::assert_snapshot!(refusal(two, 3), @r#"tensor "b" starts at byte 1 of the data, inside the tensor before it, which ends at 2"#);
    }

    #[test]
    fn sizes_beyond_memory_are_refused_even_where_they_multiply_to_zero() {
        for shape in ["[4294967296,4294967296]", "[18446744073709551615,2,0]", "[0,18446744073709551615,2]"] {
            let header = format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}}}"#);
            let sentence = refusal(&header, 0);
            assert!(sentence.ends_with("has a size that no memory can hold in whole bytes"), "{sentence}");
        }
        insta::assert_snapshot!(
            refusal(r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#, 1),
            @r#"tensor "a" of type F4 and shape (3,) has a size that no memory can hold in whole bytes"#
        );
    }

    #[test]
    fn a_stream_is_read_like_a_file() {
        let sound = file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
        let archive = Archive::from_stream(sound.as_slice()).unwrap();
        assert_eq!(archive.tensor("a").unwrap().data(), [0.0]);
        for cut in 0..sound.len() {
            let from_stream = Archive::from_stream(&sound[..cut]).unwrap_err();
            let from_bytes = Archive::from_bytes(&sound[..cut]).unwrap_err();
            assert_eq!(from_stream.to_string(), from_bytes.to_string());
        }
        let endless = sound.as_slice().chain(std::io::repeat(0));
        assert!(Archive::from_stream(endless).is_err());
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let sentence = |path: &Path| {
            let sentence = Archive::open(path).expect_err("not a file").to_string();
            sentence.replace(&folder.path().display().to_string(), "FOLDER")
        };
        insta::assert_snapshot!(sentence(folder.path()), @"FOLDER: this is a folder; name a safetensors file in it");
        insta::assert_snapshot!(sentence(&folder.path().join("none")), @"FOLDER/none: cannot read: No such file or directory (os error 2)");
    }

    #[test]
    fn a_file_is_read_tensor_by_tensor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two.safetensors");
        let mut bytes = file(
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            4,
        );
        bytes.extend_from_slice(&1.5_f32.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let archive = Archive::open(&path).unwrap();
        assert_eq!(archive.tensor("b").unwrap().data(), [1.5]);
        assert_eq!(archive.tensor("a").unwrap().data(), [0.0]);
    }
}
