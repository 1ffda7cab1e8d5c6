//! Weight layouts: how libraries name and store the projections of a layer, recognised by name.
//!
//! "How to add a layout": one entry of [`LAYOUTS`]. What a layout is made of is data; recognising it ([`find`]) and
//! turning it into [`Weights`] (`layout/assemble.rs`) is code that all layouts share.

mod assemble;
mod find;
mod prefix;

use std::path::Path;

use super::archive::Archive;
use crate::attention::Weights;
use crate::error::Error;

pub(super) use prefix::{Prefix, owner_of};

/// The names under which one library keeps a layer, relative to the prefix.
#[derive(Debug, PartialEq)]
struct Layout {
    /// What the layout is called in sentences.
    name: &'static str,
    /// The weights of q, k and v.
    weights: Parts,
    /// The biases of q, k and v; optional.
    biases: Parts,
    /// Weight and (optional) bias of the output projection.
    output: [&'static str; 2],
    storage: Storage,
    together: Together,
    /// Whether `bias_k` and `bias_v`, one more key and value, may stand here too.
    extra_key: bool,
}

/// How q, k and v are kept.
#[derive(Debug, PartialEq)]
enum Parts {
    /// One tensor, the three of equal size one after another.
    Stacked(&'static str),
    Separate([&'static str; 3]),
}

/// Which axis of a weight is which.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Storage {
    /// (out, in), as here.
    OutIn,
    /// (in, out), to be transposed.
    InOut,
}

/// Which biases come only together, so that a lost one is noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Together {
    /// Each stands alone.
    None,
    /// Those of q, k and v; the output's stands alone.
    Inputs,
    /// All, or none.
    All,
}

/// The names of the extra key and value, `torch.nn`'s `add_bias_kv`.
const EXTRA_KEY: [&str; 2] = ["bias_k", "bias_v"];

/// Every layout that is read.
static LAYOUTS: [Layout; 6] = [
    // D2L §10.3, and what this library writes.
    Layout {
        name: "D2L",
        weights: Parts::Separate(["W_q.weight", "W_k.weight", "W_v.weight"]),
        biases: Parts::Separate(["W_q.bias", "W_k.bias", "W_v.bias"]),
        output: ["W_o.weight", "W_o.bias"],
        storage: Storage::OutIn,
        together: Together::None,
        extra_key: true,
    },
    // torch.nn.MultiheadAttention with equal widths …
    Layout {
        name: "PyTorch",
        weights: Parts::Stacked("in_proj_weight"),
        biases: Parts::Stacked("in_proj_bias"),
        output: ["out_proj.weight", "out_proj.bias"],
        storage: Storage::OutIn,
        together: Together::All,
        extra_key: true,
    },
    // … and with kdim or vdim. The biases stay stacked.
    Layout {
        name: "PyTorch (kdim, vdim)",
        weights: Parts::Separate(["q_proj_weight", "k_proj_weight", "v_proj_weight"]),
        biases: Parts::Stacked("in_proj_bias"),
        output: ["out_proj.weight", "out_proj.bias"],
        storage: Storage::OutIn,
        together: Together::All,
        extra_key: true,
    },
    // BERT, RoBERTa, MiniLM, …
    Layout {
        name: "BERT",
        weights: Parts::Separate([
            "attention.self.query.weight",
            "attention.self.key.weight",
            "attention.self.value.weight",
        ]),
        biases: Parts::Separate(["attention.self.query.bias", "attention.self.key.bias", "attention.self.value.bias"]),
        output: ["attention.output.dense.weight", "attention.output.dense.bias"],
        storage: Storage::OutIn,
        together: Together::All,
        extra_key: false,
    },
    // Llama, Mistral, Qwen (with biases on q, k and v), …
    Layout {
        name: "Llama",
        weights: Parts::Separate(["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"]),
        biases: Parts::Separate(["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"]),
        output: ["self_attn.o_proj.weight", "self_attn.o_proj.bias"],
        storage: Storage::OutIn,
        together: Together::Inputs,
        extra_key: false,
    },
    // GPT-2's Conv1D.
    Layout {
        name: "GPT-2",
        weights: Parts::Stacked("attn.c_attn.weight"),
        biases: Parts::Stacked("attn.c_attn.bias"),
        output: ["attn.c_proj.weight", "attn.c_proj.bias"],
        storage: Storage::InOut,
        together: Together::All,
        extra_key: false,
    },
];

impl Parts {
    fn names(&self) -> &[&'static str] {
        match self {
            Self::Stacked(name) => std::slice::from_ref(name),
            Self::Separate(names) => names,
        }
    }
}

impl Layout {
    /// What must be there.
    fn required(&self) -> impl Iterator<Item = &'static str> {
        let [output_weight, _] = self.output;
        self.weights.names().iter().copied().chain([output_weight])
    }

    /// What must be there as soon as one of the group is: the biases, the extra key and value.
    fn groups(&self) -> Vec<Vec<&'static str>> {
        let mut groups = Vec::new();
        let inputs = self.biases.names().to_vec();
        let [_, output_bias] = self.output;
        match self.together {
            Together::None => {}
            Together::Inputs => groups.push(inputs),
            Together::All => groups.push([inputs, vec![output_bias]].concat()),
        }
        if self.extra_key {
            groups.push(EXTRA_KEY.to_vec());
        }
        groups
    }

    /// Every name the layout knows.
    fn members(&self) -> impl Iterator<Item = &'static str> {
        let [_, output_bias] = self.output;
        let extra: &[&str] = if self.extra_key { &EXTRA_KEY } else { &[] };
        let biases = self.biases.names().iter().copied();
        self.required().chain(biases).chain([output_bias]).chain(extra.iter().copied())
    }
}

/// Every name that some layout knows.
pub(super) fn all_members() -> impl Iterator<Item = &'static str> {
    LAYOUTS.iter().flat_map(Layout::members)
}

/// Reads the weights of one layer from a model's own safetensors file.
///
/// The layout is recognised by the names after `prefix` (`encoder.layer.3.`, the final dot may be left out; empty for
/// names that stand alone); tensors that belong to none are ignored. The result is in D2L's form whatever the file
/// holds: each weight (out, in).
///
/// # Errors
/// [`Error::File`] around: [`Error::UnknownName`] when nothing stands under `prefix`, [`Error::Missing`] when no layout
/// or only a part of one does, [`Error::Invalid`] for two layouts, [`Error::WrongShape`] for shapes that do not belong
/// together, and what [`Archive::open`] says.
pub fn weights_from_file(path: impl AsRef<Path>, prefix: &str) -> Result<Weights, Error> {
    let path = path.as_ref();
    let archive = Archive::open(path)?;
    archive.weights(prefix).map_err(|error| error.in_file(path))
}

impl Archive<'_> {
    /// The weights of one layer, as [`weights_from_file`] reads them.
    ///
    /// # Errors
    /// Those of [`weights_from_file`], without the file's name.
    pub fn weights(&self, prefix: &str) -> Result<Weights, Error> {
        let prefix = Prefix::new(prefix);
        match optional_weights(self, &prefix)? {
            Some(weights) => Ok(weights),
            None => Err(prefix.holds_no_weights(self)),
        }
    }
}

/// The weights under `prefix`, or `None` when it is empty and no layout is there: core attention.
pub(super) fn optional_weights(archive: &Archive<'_>, prefix: &Prefix) -> Result<Option<Weights>, Error> {
    match find::layout_under(archive, prefix)? {
        Some(layout) => assemble::weights(archive, prefix, layout).map(Some),
        None if prefix.is_empty() => Ok(None),
        None => Err(prefix.holds_no_weights(archive)),
    }
}

#[cfg(test)]
mod tests;
