//! The header of a safetensors file: which tensors there are and where, checked against the size of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use safetensors::Dtype;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::words::{json_fault, shown};
use crate::error::Error;
use crate::shape::Shape;

/// Bytes before the header: its length, little endian.
pub(super) const LENGTH_BYTES: usize = 8;

/// The header of a file without tensors.
const SHORTEST_HEADER: &str = "{}";

/// The longest header, as in the `safetensors` crate.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The most axes of a tensor, as in NumPy and PyTorch.
const MAX_AXES: usize = 64;

/// The key of the header that is no tensor.
pub(super) const METADATA_KEY: &str = "__metadata__";

/// One tensor: what it is and which bytes of the data section, begin and end, hold it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
    pub(super) offsets: (u64, u64),
}

/// A header whose entries fill the data section without gaps or overlaps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) tensors: BTreeMap<String, Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

impl Header {
    /// Reads the JSON of a header; the offsets are not to be trusted before [`Header::check`].
    pub(super) fn parse(json: &[u8]) -> Result<Self, Error> {
        let raw: RawHeader = serde_json::from_slice(json)
            .map_err(|error| Error::Invalid(format!("the safetensors header is unusable: {}", json_fault(&error))))?;
        let mut tensors = BTreeMap::new();
        for (name, entry) in raw.tensors {
            let entry = entry.interpret(&name)?;
            tensors.insert(name, entry);
        }
        Ok(Self { tensors, metadata: raw.metadata })
    }

    /// How many bytes of data the header speaks of.
    pub(super) fn data_bytes(&self) -> u64 {
        let ends = self.tensors.values().map(|entry| entry.offsets.1);
        ends.max().unwrap_or(0)
    }

    /// Checks that the tensors cover exactly `data_bytes` bytes, each as many as its type and shape need.
    pub(super) fn check(&self, data_bytes: u64) -> Result<(), Error> {
        let mut by_place: Vec<(&String, &Entry)> = self.tensors.iter().collect();
        by_place.sort_by_key(|(_, entry)| entry.offsets);
        let mut position = 0;
        for (name, entry) in by_place {
            entry
                .check(position, data_bytes)
                .map_err(|fault| Error::Invalid(format!("tensor \"{}\" {fault}", shown(name))))?;
            position = entry.offsets.1;
        }
        if position == data_bytes {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the last tensor ends at byte {position} of the data, but there are {data_bytes}; write the file again, its header does not describe it"
        )))
    }
}

impl Entry {
    /// How many bytes the type and shape need; `None` beyond what can be addressed.
    fn needed_bytes(&self) -> Option<u64> {
        // Zeros are left out of the product, so that no axis of an empty tensor is absurd either.
        let mut nonzero = self.shape.axes().iter().filter(|&&axis| axis > 0);
        let elements = nonzero.try_fold(1_u64, |product, &axis| product.checked_mul(u64::try_from(axis).ok()?))?;
        let bits = elements.checked_mul(self.dtype.bitsize() as u64)?;
        isize::try_from(bits).ok()?;
        if self.shape.axes().contains(&0) {
            return Some(0);
        }
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// The end of the sentence that says what is wrong, if the tensor does not start at `position` or does not fit.
    fn check(&self, position: u64, data_bytes: u64) -> Result<(), String> {
        let (begin, end) = self.offsets;
        let (dtype, shape) = (self.dtype, &self.shape);
        if end < begin {
            return Err(format!("has data offsets {begin} to {end}, which run backwards"));
        }
        let Some(needed) = self.needed_bytes() else {
            return Err(format!("of type {dtype} and shape {shape} has a size that no memory can hold in whole bytes"));
        };
        if end - begin != needed {
            return Err(format!(
                "of type {dtype} and shape {shape} needs {needed} bytes, but the header gives it {}",
                end - begin
            ));
        }
        if end > data_bytes {
            return Err(format!(
                "ends at byte {end} of the data, but there are only {data_bytes}; the file is truncated"
            ));
        }
        if begin < position {
            return Err(format!(
                "starts at byte {begin} of the data, inside the tensor before it, which ends at {position}"
            ));
        }
        if begin > position {
            return Err(format!(
                "starts at byte {begin} of the data, which leaves a gap after the tensor before it, which ends at {position}"
            ));
        }
        Ok(())
    }
}

/// Reads the header's length from the first bytes of a file, given the size of the whole file where it is known.
pub(super) fn header_length(first_bytes: &[u8], file_bytes: Option<u64>) -> Result<u64, Error> {
    let Ok(length) = <[u8; LENGTH_BYTES]>::try_from(first_bytes) else {
        return Err(Error::Invalid(format!(
            "{} bytes are too few for a safetensors file, which starts with the 8-byte length of its header",
            first_bytes.len()
        )));
    };
    let length = u64::from_le_bytes(length);
    if length < SHORTEST_HEADER.len() as u64 {
        return Err(Error::Invalid(format!("the header would be {length} bytes long; this is not a safetensors file")));
    }
    if length > MAX_HEADER_BYTES {
        return Err(Error::Invalid(format!(
            "the header would be {length} bytes long, more than the {MAX_HEADER_BYTES} of the format; this is not a safetensors file"
        )));
    }
    if file_bytes.is_some_and(|bytes| bytes < LENGTH_BYTES as u64 + length) {
        return Err(truncated_header(length, file_bytes.unwrap_or(0)));
    }
    Ok(length)
}

/// The error for a file that ends inside its header.
pub(super) fn truncated_header(length: u64, file_bytes: u64) -> Error {
    Error::Invalid(format!(
        "the header should be {length} bytes long, but the whole file has {file_bytes}; it is truncated or not a safetensors file"
    ))
}

/// What the JSON says, before it is believed.
struct RawHeader {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, RawEntry>,
}

/// One value of the header's JSON.
#[derive(Deserialize, Serialize)]
pub(super) struct RawEntry {
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) data_offsets: (u64, u64),
}

impl RawEntry {
    fn interpret(self, name: &str) -> Result<Entry, Error> {
        let Ok(dtype) = serde_json::from_value(self.dtype.as_str().into()) else {
            return Err(Error::Invalid(format!(
                "tensor \"{}\" has the unknown type \"{}\"; convert it to F32",
                shown(name),
                shown(&self.dtype)
            )));
        };
        if self.shape.len() > MAX_AXES {
            return Err(Error::Invalid(format!(
                "tensor \"{}\" has {} axes, more than the {MAX_AXES} of any tensor library",
                shown(name),
                self.shape.len()
            )));
        }
        let axes: Result<Vec<usize>, _> = self.shape.iter().map(|&axis| axis.try_into()).collect();
        let Ok(axes) = axes else {
            return Err(Error::Invalid(format!(
                "tensor \"{}\" has an axis that this machine cannot address",
                shown(name)
            )));
        };
        Ok(Entry { dtype, shape: Shape::new(axes), offsets: self.data_offsets })
    }
}

/// A JSON object in which no key appears twice; a plain map would silently keep the last.
pub(super) struct UniqueKeys<V>(pub(super) BTreeMap<String, V>);

impl<'de, V: DeserializeOwned> Deserialize<'de> for UniqueKeys<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueKeysVisitor(PhantomData))
    }
}

struct UniqueKeysVisitor<V>(PhantomData<V>);

impl<'de, V: DeserializeOwned> Visitor<'de> for UniqueKeysVisitor<V> {
    type Value = UniqueKeys<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value()?;
            insert_once(&mut values, key, value)?;
        }
        Ok(UniqueKeys(values))
    }
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawHeaderVisitor)
    }
}

struct RawHeaderVisitor;

impl<'de> Visitor<'de> for RawHeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut metadata = None;
        let mut tensors = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if key != METADATA_KEY {
                let entry = map
                    .next_value()
                    .map_err(|error| A::Error::custom(format!("tensor \"{}\": {error}", shown(&key))))?;
                insert_once(&mut tensors, key, entry)?;
            } else if metadata.is_some() {
                return Err(A::Error::custom(format!("\"{key}\" appears twice")));
            } else {
                let values: Option<UniqueKeys<String>> =
                    map.next_value().map_err(|error| A::Error::custom(format!("\"{key}\": {error}")))?;
                metadata = Some(values.map_or_else(BTreeMap::new, |values| values.0));
            }
        }
        Ok(RawHeader { metadata: metadata.unwrap_or_default(), tensors })
    }
}

fn insert_once<V, E: serde::de::Error>(map: &mut BTreeMap<String, V>, key: String, value: V) -> Result<(), E> {
    if map.contains_key(&key) {
        return Err(E::custom(format!("\"{}\" appears twice", shown(&key))));
    }
    map.insert(key, value);
    Ok(())
}
