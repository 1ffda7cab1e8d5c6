//! What is to be computed: a safetensors file with sizes in its metadata.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use burn::tensor::{Tensor, TensorData};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Product,
    Attention,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sizes {
    pub(crate) kind: Kind,
    pub(crate) num_heads: usize,
    pub(crate) num_kv_heads: usize,
    pub(crate) causal: bool,
    pub(crate) with_weights: bool,
}

#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) sizes: Sizes,
    tensors: BTreeMap<String, TensorData>,
}

impl Scenario {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(path)?;
        let (_, header) = SafeTensors::read_metadata(&bytes)?;
        let sizes = header.metadata().as_ref().and_then(|all| all.get("scenario")).ok_or("the file has no scenario")?;
        let file = SafeTensors::deserialize(&bytes)?;
        let data = |view: &TensorView<'_>| {
            let numbers =
                view.data().chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            TensorData::new(numbers.collect::<Vec<_>>(), view.shape().to_vec())
        };
        let tensors = file.iter().map(|(name, view)| (name.to_owned(), data(&view))).collect();
        Ok(Self { sizes: serde_json::from_str(sizes)?, tensors })
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<TensorData> {
        self.tensors.get(name).cloned()
    }
}

/// Writes the answer.
pub(crate) fn write(path: &Path, output: Tensor<3>) -> Result<(), Box<dyn Error>> {
    let shape = output.dims();
    let bytes: Vec<u8> = output.try_into_data()?.iter::<f32>().flat_map(f32::to_le_bytes).collect();
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes)?;
    Ok(serialize_to_file([("output", view)], None, path)?)
}
