//! From the bytes of a file to numbers: every stored type becomes f32, i64 or bool.

use std::borrow::Cow;

use half::{bf16, f16};
use safetensors::Dtype;

use super::header::Entry;
use super::words::shown;
use crate::error::Error;
use crate::shape::HostTensor;

/// One tensor of a file, undecoded.
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    pub(super) entry: &'a Entry,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl Stored<'_> {
    /// F16, BF16, F32 or F64 as f32; what an F64 holds beyond the range of f32 becomes infinite, as in any cast.
    #[expect(clippy::cast_possible_truncation, reason = "everything is computed in f32, whatever it was stored as")]
    pub(super) fn floats(&self) -> Result<HostTensor, Error> {
        self.floats_with(|wide| wide as f32)
    }

    /// Like [`Stored::floats`], except that finite values stay finite: a finite bias never hides a key.
    #[expect(clippy::cast_possible_truncation, reason = "everything is computed in f32, whatever it was stored as")]
    pub(super) fn bias(&self) -> Result<HostTensor, Error> {
        self.floats_with(|wide| {
            let narrow = wide as f32;
            if wide.is_finite() { narrow.clamp(f32::MIN, f32::MAX) } else { narrow }
        })
    }

    fn floats_with(&self, narrow: impl Fn(f64) -> f32) -> Result<HostTensor, Error> {
        let numbers = match self.entry.dtype {
            Dtype::F16 => self.decode(|bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => self.decode(|bytes| bf16::from_le_bytes(bytes).to_f32()),
            Dtype::F32 => self.decode(f32::from_le_bytes),
            Dtype::F64 => self.decode(|bytes| narrow(f64::from_le_bytes(bytes))),
            _ => Err(self.wrong_type("F16, BF16, F32 or F64")),
        }?;
        HostTensor::new(self.entry.shape.clone(), numbers)
    }

    /// Any integer type as i64: lengths, of which none is beyond an i64, let alone the number of keys.
    pub(super) fn lengths(&self, num_keys: usize) -> Result<HostTensor<i64>, Error> {
        let numbers = match self.entry.dtype {
            Dtype::U8 => self.decode(|bytes| i64::from(u8::from_le_bytes(bytes))),
            Dtype::I8 => self.decode(|bytes| i64::from(i8::from_le_bytes(bytes))),
            Dtype::U16 => self.decode(|bytes| i64::from(u16::from_le_bytes(bytes))),
            Dtype::I16 => self.decode(|bytes| i64::from(i16::from_le_bytes(bytes))),
            Dtype::U32 => self.decode(|bytes| i64::from(u32::from_le_bytes(bytes))),
            Dtype::I32 => self.decode(|bytes| i64::from(i32::from_le_bytes(bytes))),
            Dtype::I64 => self.decode(i64::from_le_bytes),
            Dtype::U64 => self.unsigned_longs(num_keys),
            _ => Err(self.wrong_type("an integer (I8 to I64, U8 to U64)")),
        }?;
        HostTensor::new(self.entry.shape.clone(), numbers)
    }

    fn unsigned_longs(&self, num_keys: usize) -> Result<Vec<i64>, Error> {
        let numbers = self.decode(u64::from_le_bytes)?;
        let signed = numbers.iter().enumerate().map(|(index, &number)| {
            i64::try_from(number).map_err(|_| Error::OutOfRange {
                what: self.element(index),
                value: number.to_string(),
                allowed: format!("must be between 0 and the number of keys, {num_keys}"),
            })
        });
        signed.collect()
    }

    /// BOOL or U8, each 0 or 1.
    pub(super) fn booleans(&self) -> Result<HostTensor<bool>, Error> {
        if !matches!(self.entry.dtype, Dtype::BOOL | Dtype::U8) {
            return Err(self.wrong_type("BOOL or U8"));
        }
        if let Some(index) = self.bytes.iter().position(|&byte| byte > 1) {
            return Err(Error::OutOfRange {
                what: self.element(index),
                value: self.bytes[index].to_string(),
                allowed: "must be 0 (hidden) or 1 (may attend)".into(),
            });
        }
        let flags = self.decode(|[byte]| byte == 1)?;
        HostTensor::new(self.entry.shape.clone(), flags)
    }

    /// One number from every `BYTES` bytes.
    fn decode<const BYTES: usize, T>(&self, number: impl Fn([u8; BYTES]) -> T) -> Result<Vec<T>, Error> {
        let (chunks, _) = self.bytes.as_chunks::<BYTES>();
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(chunks.len()).map_err(|_| out_of_memory(self.name, chunks.len() * size_of::<T>()))?;
        numbers.extend(chunks.iter().map(|&bytes| number(bytes)));
        Ok(numbers)
    }

    fn wrong_type(&self, needed: &str) -> Error {
        Error::Invalid(format!(
            "tensor \"{}\" is stored as {}, but should be {needed}",
            shown(self.name),
            self.entry.dtype
        ))
    }

    /// `valid_lens[3]`, `attend_mask[0, 2, 1]`.
    fn element(&self, place: usize) -> String {
        format!("{}{:?}", self.name, self.entry.shape.index_of(place))
    }
}

/// The error for a tensor that does not fit into main memory.
pub(super) fn out_of_memory(name: &str, bytes: usize) -> Error {
    Error::Invalid(format!("tensor \"{}\" needs {bytes} bytes of memory, more than the system gives", shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn stored<'a>(entry: &'a Entry, bytes: &'a [u8]) -> Stored<'a> {
        Stored { name: "tensor", entry, bytes: Cow::Borrowed(bytes) }
    }

    fn entry(dtype: Dtype, shape: impl Into<Shape>) -> Entry {
        Entry { dtype, shape: shape.into(), offsets: (0, 0) }
    }

    #[test]
    fn every_bf16_and_f16_is_read_exactly() {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let brains = entry(Dtype::BF16, [65536]);
        let halves = entry(Dtype::F16, [65536]);
        let brains = stored(&brains, &all).floats().unwrap();
        let halves = stored(&halves, &all).floats().unwrap();
        for bits in 0..=u16::MAX {
            let index = usize::from(bits);
            let (brain, half) = (brains.data()[index], halves.data()[index]);
            if brain.is_nan() {
                assert!(bits & 0x7F80 == 0x7F80 && bits & 0x7F != 0);
            } else {
                assert_eq!(brain.to_bits(), u32::from(bits) << 16);
            }
            assert!(half.is_nan() || f16::from_f32(half).to_bits() == bits);
        }
    }

    #[test]
    fn a_finite_bias_stays_finite_and_other_tensors_are_cast() {
        let values = [f64::MIN, -1e39, f64::NEG_INFINITY, f64::NAN, 0.1, 1e39];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let entry = entry(Dtype::F64, [6]);
        let bias = stored(&entry, &bytes).bias().unwrap().into_data();
        assert_eq!(bias[..3], [f32::MIN, f32::MIN, f32::NEG_INFINITY]);
        assert!(bias[3].is_nan());
        assert_eq!(bias[4..], [0.1, f32::MAX]);
        let plain = stored(&entry, &bytes).floats().unwrap().into_data();
        assert_eq!(plain[..3], [f32::NEG_INFINITY; 3]);
        assert_eq!(plain[5..], [f32::INFINITY]);
    }

    #[test]
    fn every_integer_type_is_read() {
        let minus_two_or_large: [(Dtype, &[u8], i64); 8] = [
            (Dtype::I8, &[254], -2),
            (Dtype::U8, &[254], 254),
            (Dtype::I16, &[254, 255], -2),
            (Dtype::U16, &[254, 255], 65534),
            (Dtype::I32, &[254, 255, 255, 255], -2),
            (Dtype::U32, &[254, 255, 255, 255], 4_294_967_294),
            (Dtype::I64, &[254, 255, 255, 255, 255, 255, 255, 255], -2),
            (Dtype::U64, &[254, 255, 255, 255, 255, 255, 255, 127], i64::MAX - 1),
        ];
        for (dtype, bytes, expected) in minus_two_or_large {
            let entry = entry(dtype, [1]);
            let read = stored(&entry, bytes).lengths(7).unwrap();
            assert_eq!(read.data(), [expected], "{dtype}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_named() {
        let large: Vec<u8> = [0, 1, 2, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
        let lens = entry(Dtype::U64, [2, 2]);
        insta::assert_snapshot!(
            stored(&lens, &large).lengths(7).unwrap_err(),
            @"tensor[1, 1] is 18446744073709551615, but must be between 0 and the number of keys, 7"
        );
        let mask = entry(Dtype::BOOL, [1, 2, 3]);
        insta::assert_snapshot!(
            stored(&mask, &[0, 1, 1, 0, 255, 2]).booleans().unwrap_err(),
            @"tensor[0, 1, 1] is 255, but must be 0 (hidden) or 1 (may attend)"
        );
        insta::assert_snapshot!(
            stored(&mask, &[0; 6]).floats().unwrap_err(),
            @r#"tensor "tensor" is stored as BOOL, but should be F16, BF16, F32 or F64"#
        );
        insta::assert_snapshot!(
            stored(&mask, &[0; 6]).lengths(7).unwrap_err(),
            @r#"tensor "tensor" is stored as BOOL, but should be an integer (I8 to I64, U8 to U64)"#
        );
        insta::assert_snapshot!(
            stored(&lens, &large).booleans().unwrap_err(),
            @r#"tensor "tensor" is stored as U64, but should be BOOL or U8"#
        );
    }

    #[test]
    fn flags_are_read_from_both_types() {
        for dtype in [Dtype::BOOL, Dtype::U8] {
            let mask = entry(dtype, [3]);
            let flags = stored(&mask, &[1, 0, 1]).booleans().unwrap();
            assert_eq!(flags.data(), [true, false, true]);
        }
    }
}
