//! `partial_attention` on the GPU: few queries over many keys, or over a cache.

use super::masks::MaskPlaces;
use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, most_rounds, size, wrapped};
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::{Attention, Columns, DType, Graph, PartialAttention, Split, ValueId};
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
        key_width: u32,
        value_first: u32,
        value_stride: u32,
        value_width: u32,
        parts: u32,
        query_base: u32,
        key_base: u32,
        value_base: u32,
        valid_lens_base: u32,
        mask_base: u32,
        bias_base: u32,
        pattern_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

const NAME: &str = "partial_attention";

pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: NAME,
    op: NAME,
    wgsl: shader!("partial_attention"),
    slots: &[
        Slot::Read(0),
        Slot::Read(1),
        Slot::Read(2),
        Slot::Read(3),
        Slot::Read(4),
        Slot::Read(5),
        Slot::Read(6),
        Slot::Write,
    ],
    params: Params::LAYOUT,
    overrides: &["HAS_MASK", "HAS_BIAS", "HAS_LENGTHS", "HAS_DROPOUT", "HALVES"],
}];

/// Lanes of a workgroup.
const LANES: usize = 64;
/// The most rows of one.
const MOST_ROWS: usize = 8;
/// The widest head: the queries of four rows lie in workgroup memory, and groups of a value are written out.
pub(crate) const WIDEST_HEAD: usize = 512;
/// The widest head of which eight rows fit there.
const WIDEST_OF_EIGHT: usize = 128;
/// Rows of a group that are few.
const FEW_ROWS: usize = 8;
/// Fewer keys are not worth a second dispatch.
const FEWEST_KEYS: usize = 512;

/// Groups of four rows to a workgroup: as many as the heads need that share keys. It does not depend on the number of
/// queries, and neither do the bits.
fn fours(op: &PartialAttention) -> usize {
    let group = op.scores.num_heads / op.scores.num_kv_heads;
    let head_dim = op.scores.query.count / op.scores.num_heads;
    if eight_rows(group, head_dim) && op.keys <= 128 { 2 } else { 1 }
}

fn eight_rows(group: usize, head_dim: usize) -> bool {
    group > 4 && head_dim <= WIDEST_OF_EIGHT
}

/// How the keys of `lines` (key/value heads of all batch entries) are shared out: enough parts to have something to do
/// for all of a device, of tiles as large as fits.
pub(crate) fn split(profile: &DeviceProfile, lines: usize, [group, head_dim, num_keys]: [usize; 3]) -> Split {
    let keys = if eight_rows(group, head_dim) { 128 } else { 256 };
    let workgroups = if profile.kind == AdapterKind::Cpu { 8 } else { 128 };
    let parts = workgroups / lines.clamp(1, workgroups);
    Split { parts: parts.clamp(1, num_keys.div_ceil(keys).max(1)), keys }
}

/// How an attention's keys are shared out where a device gains by it, or where the kernel is `preferred`.
pub(crate) fn split_of(
    graph: &Graph,
    op: &Attention,
    profile: &DeviceProfile,
    preferred: &[&'static str],
) -> Option<Split> {
    let scores = &op.scores;
    let sizes = graph.score_sizes(scores);
    let group = scores.num_heads / scores.num_kv_heads;
    let head_dim = scores.query.count / scores.num_heads;
    let in_fours = |columns: Columns| {
        let width = graph.value(columns.tensor).shape.axes()[2];
        let head = columns.count / scores.num_kv_heads;
        [columns.first, head, width].iter().all(|words| words.is_multiple_of(4))
    };
    let value_dim = op.value.count / scores.num_kv_heads;
    let could =
        in_fours(scores.key) && in_fours(op.value) && head_dim.max(value_dim) <= WIDEST_HEAD && sizes.num_keys > 0;
    let others = super::all().any(|kernel| kernel.op == "attention" && preferred.contains(&kernel.name));
    // The CPU adapters' other kernels read texels, or wait at no barrier.
    let gains = profile.kind != AdapterKind::Cpu
        && !others
        && sizes.num_queries * group <= FEW_ROWS
        && sizes.num_keys >= FEWEST_KEYS;
    let split = split(profile, sizes.batch * scores.num_kv_heads, [group, head_dim, sizes.num_keys]);
    let runs = rounds(sizes.num_keys, split, [head_dim, value_dim]) <= most_rounds(profile);
    (could && runs && (gains || preferred.contains(&NAME))).then_some(split)
}

/// Rounds of all loops of one invocation.
fn rounds(num_keys: usize, split: Split, [head_dim, value_dim]: [usize; 2]) -> u64 {
    let head = head_dim.div_ceil(4);
    let stripes = LANES / value_dim.div_ceil(4).clamp(1, LANES);
    let tiles = num_keys.div_ceil(split.keys).div_ceil(split.parts) + 1;
    // Of a tile: groups of a head, the largest scores of eight rows, which of 16 weights are kept (counted in evaluation
    // too, which must choose the kernel of training), keys of a stripe.
    let tile = looped(head, 0) + 4 * looped(8, 0) + looped(16, 0) + looped(split.keys.div_ceil(stripes), 0);
    // Before them the queries; behind them all lanes' sums of weights, and of up to 16 sums of each lane the stripes.
    let queries = looped((MOST_ROWS * head).div_ceil(LANES), 0);
    queries + looped(tiles, tile) + looped(LANES - 1, 0) + 2 * MOST_ROWS as u64 * looped(stripes - 1, 0)
}

pub(super) fn launch(op: &PartialAttention, request: &Request<'_>) -> Launch {
    let Request { graph, block, .. } = request;
    let scores = &op.scores;
    let group = scores.num_heads / scores.num_kv_heads;
    let head_dim = scores.query.count / scores.num_heads;
    let fours = fours(op);
    let blocks = (block.rows.len() * group).div_ceil(4 * fours);
    let all = blocks as u64 * op.parts as u64 * (block.batches.len() * scores.num_kv_heads) as u64;
    let workgroups = fold(all, request.profile);
    let value = op.value_dim.div_ceil(4);
    let columns = value.clamp(1, LANES);
    let text_constants = vec![
        ("FOURS", size(fours)),
        ("KEYS", size(op.keys / LANES)),
        ("HEAD", size(head_dim.div_ceil(4))),
        ("VALUE", size(value)),
        ("COLUMNS", size(columns)),
        ("STRIPES", size(LANES / columns)),
        ("SUMS", size(value.div_ceil(columns))),
    ];
    let halves = graph.value(scores.key.tensor).dtype == DType::F16;
    let split = Split { parts: op.parts, keys: op.keys };
    Launch {
        kernel: Chosen::Ours(NAME),
        constants: vec![
            ("HAS_MASK", scores.attend_mask.is_some()),
            ("HAS_BIAS", scores.bias.is_some()),
            ("HAS_LENGTHS", op.lengths.is_some()),
            ("HAS_DROPOUT", op.dropout.is_some()),
            ("HALVES", halves),
        ],
        text_constants,
        rounds: rounds(graph.score_sizes(scores).num_keys, split, [head_dim, op.value_dim]),
        params: bytemuck::bytes_of(&Params { grid_width: workgroups[0], ..params(op, request) }).to_vec(),
        workgroups,
    }
}

fn params(op: &PartialAttention, request: &Request<'_>) -> Params {
    let Request { graph, block, .. } = request;
    let scores = &op.scores;
    let sizes = graph.score_sizes(scores);
    let masks = MaskPlaces::new(graph, sizes, [scores.valid_lens, scores.attend_mask, scores.bias]);
    let &[query_base, key_base, value_base, valid_lens_base, mask_base, bias_base, pattern_base, out_base] =
        request.bases
    else {
        unreachable!("a partial attention should have seven operands and an output");
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
        value_dim: size(op.value_dim),
        scale: f32::of_f64(scores.scale),
        band_start: scores.band.start,
        band_end: scores.band.end,
        has_valid_lens: masks.has_valid_lens,
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
        key_width: size(scores.key.count / scores.num_kv_heads),
        value_first: size(op.value.first),
        value_stride: stride(op.value.tensor),
        value_width: size(op.value.count / scores.num_kv_heads),
        parts: size(op.parts),
        query_base,
        key_base,
        value_base,
        valid_lens_base,
        mask_base,
        bias_base,
        pattern_base,
        out_base,
        grid_width: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies in workgroup memory is what WebGPU guarantees, for every head that is let in.
    #[test]
    fn workgroup_memory_is_enough_for_every_head() {
        for group in [1, 4, 5, 8, 32] {
            for head_dim in [1, 64, 128, 129, 512] {
                let Split { keys, .. } = split(&DeviceProfile::portable(), 1, [group, head_dim, 4096]);
                let fours = if eight_rows(group, head_dim) && keys <= 128 { 2 } else { 1 };
                let vectors = head_dim.div_ceil(4) * 4 * fours + keys * fours + LANES * fours + 8 * fours + LANES;
                assert!(vectors * 16 + keys * 4 <= 16_384, "group {group}, heads of {head_dim}: {vectors} vectors");
            }
        }
    }

    #[test]
    fn keys_are_shared_out_as_far_as_there_are_some() {
        let profile = DeviceProfile::portable();
        let parts = |lines, num_keys| split(&profile, lines, [4, 64, num_keys]).parts;
        assert_eq!([parts(4, 4096), parts(4, 100), parts(1000, 4096), parts(4, 0)], [16, 1, 1, 1]);
    }
}
