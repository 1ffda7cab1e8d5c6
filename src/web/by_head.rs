//! An output that comes apart into its heads.

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::fault::Fault;
use super::object::{plain, tensor};
use crate::heads::HeadProducts;
use crate::{AttentionInputs, Error, HostTensor, OutputByHead};

/// One run by heads, and the scalar products from which every set of heads follows.
#[wasm_bindgen]
#[derive(Debug)]
pub struct ByHead {
    run: OutputByHead,
    products: HeadProducts,
}

#[wasm_bindgen]
impl ByHead {
    /// (B, Lq, E).
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn output(&self) -> JsValue {
        tensor(&self.run.output)
    }

    /// (B, H, Lq, Lk).
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn weights(&self) -> JsValue {
        tensor(&self.run.attention_weights)
    }

    /// (B, H, Lq, E), or (B, H, Lq, dv).
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn contributions(&self) -> JsValue {
        tensor(&self.run.contributions)
    }

    /// Whether contributions are summed.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn summed(&self) -> bool {
        self.run.summed
    }

    /// What switching these heads off does.
    ///
    /// # Errors
    /// "bad-input" for a head that is not there.
    pub fn without(&self, heads: &[u32]) -> Result<JsValue, Fault> {
        Ok(plain(&self.products.without(&self.known(heads)?)))
    }

    /// The output without these heads.
    ///
    /// # Errors
    /// As [`without`](Self::without).
    #[wasm_bindgen(js_name = outputWithout)]
    pub fn output_without(&self, heads: &[u32]) -> Result<JsValue, Fault> {
        let heads = self.known(heads)?;
        let [_, _, rows, width] = axes(&self.run);
        let output_width = self.run.output.shape().axes()[2];
        let mut data = self.run.output.data().to_vec();
        for (place, row) in data.chunks_exact_mut(output_width.max(1)).enumerate() {
            for &head in &heads {
                let part = self.part(place / rows, head, place % rows);
                // Side by side, a head's place is left empty; a NaN in it goes with it.
                let own = if self.run.summed { 0..width } else { head * width..(head + 1) * width };
                for (number, part) in row[own].iter_mut().zip(part) {
                    *number = if self.run.summed { *number - part } else { 0.0 };
                }
            }
        }
        Ok(tensor(&HostTensor::new(self.run.output.shape().clone(), data)?))
    }

    /// What switching each head off alone does.
    #[must_use]
    #[wasm_bindgen(js_name = withoutEach)]
    pub fn without_each(&self) -> JsValue {
        plain(&self.products.without_each())
    }

    /// All heads in the greedy order.
    #[must_use]
    #[wasm_bindgen(js_name = pruningOrder)]
    pub fn pruning_order(&self) -> JsValue {
        plain(&self.products.greedy_order())
    }
}

impl ByHead {
    pub(super) fn new(run: OutputByHead, inputs: &AttentionInputs, counted: Option<Vec<u32>>) -> Result<Self, Error> {
        let [batch, num_heads, rows, _] = axes(&run);
        let counted = match counted {
            Some(counted) => counted.into_iter().map(|rows| rows as usize).collect(),
            None => valid_rows(inputs).unwrap_or_else(|| vec![rows; batch]),
        };
        let mut products = HeadProducts::new(num_heads);
        products.add(&run, &counted)?;
        Ok(Self { run, products })
    }

    /// What a head adds to one row.
    fn part(&self, entry: usize, head: usize, row: usize) -> &[f32] {
        let [_, num_heads, rows, width] = axes(&self.run);
        let start = ((entry * num_heads + head) * rows + row) * width;
        &self.run.contributions.data()[start..start + width]
    }

    /// Heads in order, each once.
    fn known(&self, heads: &[u32]) -> Result<Vec<usize>, Error> {
        let [_, num_heads, ..] = axes(&self.run);
        let mut known: Vec<usize> = heads.iter().map(|&head| head as usize).collect();
        known.sort_unstable();
        known.dedup();
        match known.last().filter(|&&head| head >= num_heads) {
            None => Ok(known),
            Some(head) => Err(Error::OutOfRange {
                what: "a head".into(),
                value: head.to_string(),
                allowed: format!("must be below the number of heads, {num_heads}"),
            }),
        }
    }
}

/// B, H, Lq and the width of a contribution.
fn axes(run: &OutputByHead) -> [usize; 4] {
    run.contributions.shape().axes().try_into().expect("contributions should have four axes")
}

/// Where a sequence attends to itself, its lengths say which rows are no padding.
fn valid_rows(inputs: &AttentionInputs) -> Option<Vec<usize>> {
    let lens = inputs.mask.valid_lens.as_ref().filter(|lens| lens.shape().rank() == 1 && inputs.key.is_none())?;
    lens.data().iter().map(|&len| usize::try_from(len).ok()).collect()
}
