//! The kernels: one Rust file for each op's family of WGSL files.
//!
//! # How to add a kernel
//! 1. Write `shaders/<op>_<variant>.wgsl`: the header says formula, shapes, who computes what, when it is chosen.
//!    Parameters at binding 0, then what the list's [`Slot`]s say: operands in the order of [`Op::operands`], the output last.
//! 2. Add it to the list `KERNELS` in `kernels/<op>.rs`, say in that file's `choose` when it is taken, and in `launch`
//!    how many workgroups it wants.
//! 3. Run `cargo xtask test`: every kernel in a list is validated, its `Params` compared with the Rust struct, and
//!    computed against the reference on awkward shapes, whether a device would choose it or not.
//!
//! A new op also needs a variant of [`Op`] with its shape rule in the builder, its footprint, and a function of its
//! name in [`reference`](crate::reference).

mod append_key;
mod append_rows;
mod attention;
pub(crate) mod attention_forms;
mod attention_panels;
mod copy;
mod dropout;
mod masks;
pub(crate) mod matmul;
mod matmul_panels;
mod matmul_texels;
mod matmul_tiles;
mod merge_partials;
mod params;
pub(crate) mod partial_attention;
mod shader;
mod softmax;
pub(crate) mod texels;
mod transpose;
mod unroll;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::footprint::Block;
use crate::graph::{CustomKernel, Graph, Node, Op, ValueId};
pub use matmul_tiles::{ProductClass, Tile, Tiles};

/// One WGSL file.
#[derive(Debug)]
pub struct Kernel {
    /// The file's name without `.wgsl`.
    pub name: &'static str,
    /// The op it computes.
    pub op: &'static str,
    /// Its text; on wasm without comments, and empty where only Mesa's llvmpipe takes the kernel.
    pub wgsl: &'static str,
    /// What is bound from binding 1 on.
    pub slots: &'static [Slot],
    /// Names, byte offsets and the size of its parameters, as the Rust side writes them.
    pub params: (&'static [(&'static str, usize)], usize),
    /// Pipeline-overridable constants, all truth values.
    pub overrides: &'static [&'static str],
}

/// What one binding of a kernel holds. Of an operand with two slots one is filled, by how the value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// An operand in a buffer, by its index in [`Op::operands`].
    Read(usize),
    /// An operand in a texture.
    ReadTexels(usize),
    /// The output in a buffer.
    Write,
    /// The output in a texture.
    WriteTexels,
}

impl Kernel {
    /// Whether the shader needs WebGPU's `subgroups`.
    #[must_use]
    pub fn needs_subgroups(&self) -> bool {
        self.wgsl.contains("subgroup_invocation_id")
    }

    /// The text that is compiled: some of its constants given other values, marked loops unrolled.
    #[must_use]
    pub fn text(&self, constants: &[(&'static str, u32)]) -> Cow<'static, str> {
        if constants.is_empty() && !self.wgsl.contains("// unroll\n") {
            self.wgsl.into()
        } else {
            unroll::specialised(self.wgsl, constants).into()
        }
    }
}

/// All kernels of all families.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    [
        &append_key::KERNELS[..],
        &append_rows::KERNELS,
        &attention::KERNELS,
        &copy::KERNELS,
        &dropout::KERNELS,
        &matmul::KERNELS,
        &merge_partials::KERNELS,
        &partial_attention::KERNELS,
        &softmax::KERNELS,
        &transpose::KERNELS,
    ]
    .into_iter()
    .flatten()
}

/// What a family is asked: how is this block of this node to be computed there?
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: &'a Node,
    pub(crate) block: &'a Block,
    pub(crate) profile: &'a DeviceProfile,
    /// Names of kernels to take wherever they apply, for tests.
    pub(crate) preferred: &'a [&'static str],
    /// What `matmul_tiled` takes.
    pub(crate) tiles: &'a Tiles,
    /// Values that lie in textures.
    pub(crate) texels: &'a BTreeSet<ValueId>,
    /// Whether the node reads them there. One that does not finds an input in its buffer too.
    pub(crate) reads_texels: bool,
    /// For each operand and then the output: what brings an element's place into the bound window, modulo 2³².
    pub(crate) bases: &'a [u32],
}

/// A family's answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    pub(crate) kernel: Chosen,
    /// Values of the kernel's overrides.
    pub(crate) constants: Vec<(&'static str, bool)>,
    /// Values of constants in the kernel's text.
    pub(crate) text_constants: Vec<(&'static str, u32)>,
    /// The most rounds that all loops of one invocation make together.
    pub(crate) rounds: u64,
    pub(crate) params: Vec<u8>,
    pub(crate) workgroups: [u32; 3],
}

/// Which kernel a launch runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chosen {
    /// One of ours, by its name.
    Ours(&'static str),
    /// A user's.
    Users(Arc<CustomKernel>),
}

impl Chosen {
    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Ours(name) => name,
            Self::Users(kernel) => &kernel.name,
        }
    }
}

/// The kernel of this name.
pub(crate) fn named(name: &str) -> &'static Kernel {
    all().find(|kernel| kernel.name == name).expect("a launch should name a kernel of the list")
}

/// Chooses a kernel and its parameters: a pure function of op, shapes and device profile.
pub(crate) fn launch(request: &Request<'_>) -> Launch {
    match &request.node.op {
        Op::Matmul(op) => matmul::launch(op, request),
        Op::Softmax(op) => softmax::launch(op, request),
        Op::Dropout(op) => dropout::launch(op, request),
        Op::Attention(op) => attention::launch(op, request),
        Op::AttentionWeights(op) => attention::launch_weights(op, request),
        Op::Pack(_) => unreachable!("parameters should have been packed before anything runs"),
        Op::TransposeQkv(op) | Op::TransposeOutput(op) => transpose::launch(op, request),
        Op::PartialAttention(op) => partial_attention::launch(op, request),
        Op::MergePartials(op) => merge_partials::launch(op, request),
        Op::AppendKey(_) => append_key::launch(request),
        Op::AppendRows(op) => append_rows::launch(op, request),
        Op::Copy(op) => copy::launch(op, request),
        Op::Custom(op) => Launch {
            kernel: Chosen::Users(Arc::clone(&op.kernel)),
            constants: Vec::new(),
            text_constants: Vec::new(),
            rounds: 0,
            params: op.kernel.params.clone(),
            workgroups: op.kernel.workgroups,
        },
    }
}

/// The most rounds that all loops of one invocation may make together, as [`looped`] counts them. Mesa's CPU adapter,
/// llvmpipe, ends loops beyond them without a word, and the answer is wrong.
pub(crate) fn most_rounds(profile: &DeviceProfile) -> u64 {
    match profile.kind {
        AdapterKind::Cpu => 65_535,
        _ => u64::MAX,
    }
}

/// What a loop of so many rounds counts, with so much counted in each: the round in which it is left counts, too.
fn looped(rounds: usize, inside: u64) -> u64 {
    (rounds as u64).saturating_mul(1 + inside).saturating_add(1)
}

/// Folds a count of workgroups into two dimensions, with few to spare.
///
/// A count that even two dimensions cannot hold gets a grid beyond the limit, which the device refuses.
fn fold(workgroups: u64, profile: &DeviceProfile) -> [u32; 3] {
    let down = workgroups.div_ceil(u64::from(profile.max_workgroups)).max(1);
    let across = workgroups.div_ceil(down);
    [across, down, 1].map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// A size as shaders know it; the builder keeps every axis below 2³⁰.
fn size(value: usize) -> u32 {
    u32::try_from(value).expect("an axis should fit in 32 bits")
}

/// A stride or place modulo 2³².
#[expect(clippy::cast_possible_truncation, reason = "the point of the function")]
pub(crate) fn wrapped(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_covers_every_count_and_spares_few() {
        let profile = DeviceProfile::portable();
        for count in [1, 2, 65_535, 65_536, 70_000, 131_071, 1 << 30] {
            let [across, down, _] = fold(count, &profile);
            let grid = u64::from(across) * u64::from(down);
            assert!(grid >= count && grid - count < u64::from(down), "{count} folded to {across}×{down}");
            assert!(across <= 65_535 && down <= 65_535);
        }
    }
}
