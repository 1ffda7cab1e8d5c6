//! Case files built by hand, sound or not: tests write down what is in a file, tensor by tensor.

use std::path::Path;

use safetensors::Dtype;

/// A safetensors file in the making; nothing that it is told is checked.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Metadata (key, value).
    metadata: Vec<(String, String)>,
    tensors: Vec<StoredTensor>,
}

#[derive(Clone, Debug)]
struct StoredTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl CaseFile {
    /// A case of these settings, the JSON in the metadata `attention`, and no tensors.
    pub fn new(attention: &str) -> Self {
        Self::without_settings().metadata("attention", attention)
    }

    /// A plain safetensors file: weights, or a case that lacks its settings.
    pub fn without_settings() -> Self {
        Self { metadata: Vec::new(), tensors: Vec::new() }
    }

    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.retain(|(other, _)| other != key);
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Adds a tensor, or replaces the one of this name.
    pub fn stored(mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.tensors.retain(|tensor| tensor.name != name);
        self.tensors.push(StoredTensor { name: name.into(), dtype, shape: shape.to_vec(), bytes });
        self
    }

    pub fn floats(self, name: &str, shape: &[usize], numbers: &[f32]) -> Self {
        self.stored(name, Dtype::F32, shape, bytes_of(numbers, f32::to_le_bytes))
    }

    pub fn doubles(self, name: &str, shape: &[usize], numbers: &[f64]) -> Self {
        self.stored(name, Dtype::F64, shape, bytes_of(numbers, f64::to_le_bytes))
    }

    pub fn integers(self, name: &str, shape: &[usize], numbers: &[i64]) -> Self {
        self.stored(name, Dtype::I64, shape, bytes_of(numbers, i64::to_le_bytes))
    }

    /// 1 = true.
    pub fn flags(self, name: &str, shape: &[usize], flags: &[u8]) -> Self {
        self.stored(name, Dtype::BOOL, shape, flags.to_vec())
    }

    /// Seeded numbers around 0; the same name and shape give the same numbers.
    pub fn random(self, name: &str, shape: &[usize]) -> Self {
        let seed = name.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut rng = fastrand::Rng::with_seed(seed);
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| rng.f32() * 2.0 - 1.0).collect();
        self.floats(name, shape, &numbers)
    }

    /// The four projections of D2L's layout, without biases, each (out, in).
    pub fn projections(self, prefix: &str, shapes: [[usize; 2]; 4]) -> Self {
        let names = ["W_q", "W_k", "W_v", "W_o"];
        names
            .into_iter()
            .zip(shapes)
            .fold(self, |file, (name, shape)| file.random(&format!("{prefix}{name}.weight"), &shape))
    }

    pub fn without(mut self, name: &str) -> Self {
        let before = self.tensors.len();
        self.tensors.retain(|tensor| tensor.name != name);
        assert!(self.tensors.len() < before, "there is no {name} to leave out");
        self
    }

    /// The numbers of an F32 tensor.
    pub fn numbers(&self, name: &str) -> Vec<f32> {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        assert_eq!(tensor.dtype, Dtype::F32);
        tensor.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut end = 0;
        let mut entries: Vec<String> = Vec::new();
        if !self.metadata.is_empty() {
            let pairs: Vec<String> =
                self.metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
            entries.push(format!(r#""__metadata__":{{{}}}"#, pairs.join(",")));
        }
        for StoredTensor { name, dtype, shape, bytes } in &self.tensors {
            let begin = end;
            end += bytes.len();
            let name = quoted(name);
            entries.push(format!(r#"{name}:{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#));
        }
        let data = self.tensors.iter().flat_map(|tensor| tensor.bytes.clone()).collect::<Vec<u8>>();
        raw_file(&format!("{{{}}}", entries.join(",")), &data)
    }

    pub fn write(&self, path: impl AsRef<Path>) {
        std::fs::write(path, self.bytes()).unwrap();
    }
}

/// A file of this header and data, whether or not they fit each other.
pub fn raw_file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn bytes_of<T: Copy, const BYTES: usize>(numbers: &[T], to_bytes: impl Fn(T) -> [u8; BYTES]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| to_bytes(number)).collect()
}
