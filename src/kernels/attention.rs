//! `attention` and `attention_weights` on the GPU: scores that are never stored.

use super::attention_forms::{Form, PANELS, ROW, TEXELS, TEXELS_WIDE, TILED, form, group_rows, rounds, widths};
use super::masks::MaskPlaces;
use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, size, wrapped};
use crate::graph::{Attention, AttentionWeights, Columns, Scores, ValueId};
use crate::reference::Real;

params! {
    struct Params {
        entry_start: u32,
        row_start: u32,
        entries: u32,
        rows: u32,
        all_rows: u32,
        columns: u32,
        num_keys: u32,
        num_heads: u32,
        group: u32,
        head_dim: u32,
        value_dim: u32,
        scale: f32,
        band_start: i32,
        band_end: i32,
        has_valid_lens: u32,
        has_attend_mask: u32,
        has_bias: u32,
        valid_lens_entry_stride: u32,
        valid_lens_row_stride: u32,
        mask_entry_stride: u32,
        mask_head_stride: u32,
        bias_entry_stride: u32,
        bias_head_stride: u32,
        query_first: u32,
        query_stride: u32,
        key_first: u32,
        key_stride: u32,
        value_first: u32,
        value_stride: u32,
        out_stride: u32,
        statistics: u32,
        query_base: u32,
        key_base: u32,
        value_base: u32,
        valid_lens_base: u32,
        mask_base: u32,
        bias_base: u32,
        pattern_base: u32,
        out_base: u32,
        value_parts: u32,
        grid_width: u32,
    }
}

pub(super) static KERNELS: [Kernel; 6] = [
    Kernel {
        name: ROW,
        op: "attention",
        wgsl: shader!("attention_row"),
        slots: &BUFFERS,
        params: Params::LAYOUT,
        overrides: &["HAS_MASK", "HAS_BIAS", "HAS_DROPOUT"],
    },
    Kernel {
        name: TILED,
        op: "attention",
        wgsl: shader!("attention_tiled"),
        slots: &BUFFERS,
        params: Params::LAYOUT,
        overrides: &["HAS_MASK", "HAS_BIAS", "HAS_DROPOUT"],
    },
    Kernel {
        name: TEXELS,
        op: "attention",
        wgsl: shader!("attention_texels"),
        slots: &TEXTURES,
        params: Params::LAYOUT,
        overrides: &["HAS_MASK", "HAS_BIAS", "HAS_DROPOUT", "OUT_TEXELS"],
    },
    Kernel {
        name: PANELS,
        op: "attention",
        wgsl: shader!("attention_panels"),
        slots: &TEXTURES,
        params: Params::LAYOUT,
        overrides: &["HAS_MASK", "HAS_BIAS", "HAS_DROPOUT", "OUT_TEXELS"],
    },
    Kernel {
        name: TEXELS_WIDE,
        op: "attention",
        wgsl: shader!("attention_texels_wide"),
        slots: &[
            Slot::ReadTexels(0),
            Slot::ReadTexels(1),
            Slot::ReadTexels(2),
            Slot::Read(3),
            Slot::Read(6),
            Slot::Write,
            Slot::WriteTexels,
        ],
        params: Params::LAYOUT,
        overrides: &["HAS_DROPOUT", "OUT_TEXELS"],
    },
    Kernel {
        name: "attention_weights",
        op: "attention_weights",
        wgsl: shader!("attention_weights"),
        slots: WEIGHTS_BUFFERS,
        params: Params::LAYOUT,
        overrides: &["HAS_MASK", "HAS_BIAS"],
    },
];

const BUFFERS: [Slot; 8] = [
    Slot::Read(0),
    Slot::Read(1),
    Slot::Read(2),
    Slot::Read(3),
    Slot::Read(4),
    Slot::Read(5),
    Slot::Read(6),
    Slot::Write,
];
const TEXTURES: [Slot; 9] = [
    Slot::ReadTexels(0),
    Slot::ReadTexels(1),
    Slot::ReadTexels(2),
    Slot::Read(3),
    Slot::Read(4),
    Slot::Read(5),
    Slot::Read(6),
    Slot::Write,
    Slot::WriteTexels,
];
/// Weights are recovered as they are before any is dropped.
const WEIGHTS_BUFFERS: &[Slot] =
    &[Slot::Read(0), Slot::Read(1), Slot::Read(2), Slot::Read(3), Slot::Read(4), Slot::Read(5), Slot::Write];

/// Side of the square tile of `attention_weights`.
const WEIGHTS_TILE: usize = 16;

pub(super) fn launch(op: &Attention, request: &Request<'_>) -> Launch {
    let Form { kernel, text_constants, rows, value_parts } = form(op, request);
    let lines = op.scores.num_kv_heads * request.block.batches.len();
    let blocks = group_rows(op, request).div_ceil(rows) * value_parts * lines;
    let workgroups = fold(blocks as u64, request.profile);
    let mut constants = if kernel == TEXELS_WIDE { Vec::new() } else { masks_of(&op.scores) };
    constants.push(("HAS_DROPOUT", op.dropout.is_some()));
    if [TEXELS, TEXELS_WIDE, PANELS].contains(&kernel) {
        constants.push(("OUT_TEXELS", request.texels.contains(&request.node.output)));
    }
    let &[ref operands @ .., pattern_base, out_base] = request.bases else {
        unreachable!("an attention should have seven operands and an output");
    };
    let params = Params {
        pattern_base,
        statistics: op.statistics.into(),
        value_parts: size(value_parts),
        grid_width: workgroups[0],
        ..params(&op.scores, op.value, widths(op)[1], request, (operands, out_base))
    };
    Launch {
        kernel: Chosen::Ours(kernel),
        constants,
        text_constants,
        rounds: rounds(kernel, request.graph, op),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}

pub(super) fn launch_weights(op: &AttentionWeights, request: &Request<'_>) -> Launch {
    let Request { graph, block, .. } = request;
    let columns = graph.value(request.node.output).shape.axes()[2];
    let tiles = columns.div_ceil(WEIGHTS_TILE) as u64 * block.rows.len().div_ceil(WEIGHTS_TILE) as u64;
    let workgroups = fold(tiles * block.batches.len() as u64, request.profile);
    // In place of the values stands the attention whose statistics follow its H·dv columns.
    let value_dim = statistics_columns(op, request) / op.scores.num_heads;
    let statistics = Columns { tensor: op.attention, first: value_dim * op.scores.num_heads, count: 0 };
    let &[ref operands @ .., out_base] = request.bases else {
        unreachable!("attention_weights should have six operands and an output");
    };
    let params = Params {
        grid_width: workgroups[0],
        ..params(&op.scores, statistics, value_dim, request, (operands, out_base))
    };
    Launch {
        kernel: Chosen::Ours("attention_weights"),
        constants: masks_of(&op.scores),
        text_constants: Vec::new(),
        rounds: looped((op.scores.query.count / op.scores.num_heads).div_ceil(WEIGHTS_TILE), looped(WEIGHTS_TILE, 0)),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}

/// How many columns of an attention stand before its statistics: H·dv.
fn statistics_columns(op: &AttentionWeights, request: &Request<'_>) -> usize {
    let source = request.graph.nodes().iter().find(|node| node.output == op.attention);
    match source.map(|node| &node.op) {
        Some(crate::graph::Op::Attention(attention)) => widths(attention)[1] * attention.scores.num_heads,
        _ => unreachable!("the builder should have checked whose statistics these are"),
    }
}

fn masks_of(scores: &Scores) -> Vec<(&'static str, bool)> {
    vec![("HAS_MASK", scores.attend_mask.is_some()), ("HAS_BIAS", scores.bias.is_some())]
}

/// What both families share; `bases` are those of query, key, value, lengths, mask and bias, and of the output.
fn params(
    scores: &Scores,
    value: Columns,
    value_dim: usize,
    request: &Request<'_>,
    (operands, out_base): (&[u32], u32),
) -> Params {
    let Request { graph, node, block, .. } = request;
    let sizes = graph.score_sizes(scores);
    let masks = MaskPlaces::new(graph, sizes, [scores.valid_lens, scores.attend_mask, scores.bias]);
    let &[query_base, key_base, value_base, valid_lens_base, mask_base, bias_base] = operands else {
        unreachable!("a streaming op should have scores and values");
    };
    let stride = |id: ValueId| wrapped(graph.value(id).shape.axes()[2] as u64);
    Params {
        entry_start: size(block.batches.start),
        row_start: size(block.rows.start),
        entries: size(block.batches.len()),
        rows: size(block.rows.len()),
        all_rows: size(sizes.num_queries),
        columns: size(sizes.num_keys + scores.extra_keys),
        num_keys: size(sizes.num_keys),
        num_heads: size(scores.num_heads),
        group: size(scores.num_heads / scores.num_kv_heads),
        head_dim: size(scores.query.count / scores.num_heads),
        value_dim: size(value_dim),
        scale: f32::of_f64(scores.scale),
        band_start: scores.band.start,
        band_end: scores.band.end,
        has_valid_lens: masks.has_valid_lens,
        has_attend_mask: masks.has_attend_mask,
        has_bias: masks.has_bias,
        valid_lens_entry_stride: masks.valid_lens[0],
        valid_lens_row_stride: masks.valid_lens[1],
        mask_entry_stride: masks.attend_mask[0],
        mask_head_stride: masks.attend_mask[1],
        bias_entry_stride: masks.bias[0],
        bias_head_stride: masks.bias[1],
        query_first: size(scores.query.first),
        query_stride: stride(scores.query.tensor),
        key_first: size(scores.key.first),
        key_stride: stride(scores.key.tensor),
        value_first: size(value.first),
        value_stride: stride(value.tensor),
        out_stride: stride(node.output),
        statistics: 0,
        query_base,
        key_base,
        value_base,
        valid_lens_base,
        mask_base,
        bias_base,
        pattern_base: 0,
        out_base,
        value_parts: 1,
        grid_width: 0,
    }
}
