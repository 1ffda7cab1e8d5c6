//! Which kernel streams an attention, and in what form: how rows, keys and columns are divided among its invocations, and how
//! many rounds its loops then make.

use super::{Request, attention_panels, looped, most_rounds, size, texels};
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::{Attention, Graph};

pub(super) const TEXELS: &str = "attention_texels";
pub(super) const TEXELS_WIDE: &str = "attention_texels_wide";
pub(super) const PANELS: &str = "attention_panels";
pub(super) const TILED: &str = "attention_tiled";
pub(super) const ROW: &str = "attention_row";

/// Rows to a workgroup of `attention_row`.
const WORKGROUP: usize = 32;
/// Rows of one invocation of `attention_tiled`, and keys.
const TILED_SIDE: usize = 4;
/// Lanes of `attention_tiled` side by side; so many words of a head, and keys, are met at a time.
const TILED_ACROSS: usize = 16;
/// Lanes of it below each other, for few rows and otherwise.
const TILED_DOWN: [usize; 2] = [8, 16];
/// The most columns of a value that a lane of it sums up.
const TILED_SUMS: usize = 8;

/// Words of a query and of a value that one group of four is.
pub(super) const FOUR: usize = 4;

/// Lanes that `attention_texels_wide` is written for: a shuffle by a lane that is no constant is one instruction for eight
/// lanes, and a loop over them otherwise.
const WIDE_LANES: usize = 8;

/// The widest value that is streamed sooner by `attention_texels`: half of the other's lanes would have no columns.
const NARROW_VALUE: usize = 16;

/// The most groups of four sums that a lane of `attention_texels_wide` keeps.
const WIDE_SUMS: usize = 32;
/// Rows of its tiles, of few rows or wide values and otherwise.
const WIDE_ROWS: [usize; 2] = [8, 16];
/// The most groups of four columns of each lane.
const WIDE_COLS: usize = 4;

/// How `attention_texels_wide` divides values of this width among lanes and workgroups.
#[derive(Clone, Copy)]
struct WideDivision {
    /// Rows of a tile.
    rows: usize,
    /// Groups of four columns of each lane.
    cols: usize,
    /// Parts that the values are taken in.
    value_parts: usize,
}

impl WideDivision {
    fn new(group_rows: usize, value_dim: usize) -> Self {
        let groups = value_dim.div_ceil(FOUR * WIDE_LANES);
        let value_parts = groups.div_ceil(WIDE_COLS);
        let cols = groups.div_ceil(value_parts);
        let [few, many] = WIDE_ROWS;
        let rows = if group_rows <= few || cols * many > WIDE_SUMS { few } else { many };
        Self { rows, cols, value_parts }
    }
}

/// The kernel that streams an attention from texels.
pub(crate) fn from_texels(
    graph: &Graph,
    op: &Attention,
    profile: &DeviceProfile,
    preferred: &[&'static str],
) -> &'static str {
    let could = texels::lanes(profile) == WIDE_LANES
        && op.scores.attend_mask.is_none()
        && op.scores.bias.is_none()
        && rounds(TEXELS_WIDE, graph, op) <= most_rounds(profile);
    let [panels_could, panels_gain] = attention_panels::applies_and_gains(graph, op, profile);
    let others = [TEXELS, TEXELS_WIDE];
    if panels_could
        && (preferred.contains(&PANELS) || panels_gain && !others.iter().any(|name| preferred.contains(name)))
    {
        return PANELS;
    }
    let gains = widths(op)[1] > NARROW_VALUE && !preferred.contains(&TEXELS);
    if could && (gains || preferred.contains(&TEXELS_WIDE)) { TEXELS_WIDE } else { TEXELS }
}

/// How `attention_texels` divides a head of this width: what is unrolled must not be too much text, and what is not must
/// be worth loading.
#[derive(Clone, Copy)]
struct Division {
    /// Rows of one lane.
    rows: usize,
    /// Keys and values that a lane loads of a tile.
    loads: usize,
    /// Whether a lane holds its queries.
    holds: bool,
    /// Parts that the values are taken in.
    value_parts: usize,
}

impl Division {
    fn new(lanes: usize, head_dim: usize, value_dim: usize) -> Self {
        let narrow = head_dim.max(value_dim) <= NARROW;
        Self {
            rows: if narrow { (16 / lanes).clamp(1, 4) } else { 1 },
            loads: if narrow { (8 / lanes).max(1) } else { 16 / lanes },
            holds: narrow,
            value_parts: value_dim.div_ceil(WIDEST_PART),
        }
    }
}

/// The widest head whose loops are unrolled.
const NARROW: usize = 64;

/// The most words of a value whose sums a lane keeps.
pub(crate) const WIDEST_PART: usize = 128;

/// Widths of one head: of queries and keys, of values.
pub(super) fn widths(op: &Attention) -> [usize; 2] {
    [op.scores.query.count / op.scores.num_heads, op.value.count / op.scores.num_kv_heads]
}

/// Rounds of all loops of one invocation of a kernel that streams.
pub(super) fn rounds(kernel: &str, graph: &Graph, op: &Attention) -> u64 {
    let num_keys = graph.value(op.scores.key.tensor).shape.axes()[1];
    let [head_dim, value_dim] = widths(op);
    match kernel {
        TEXELS => {
            // Tiles of at least eight keys, or of 16 of a wide head, which is gone through group by group; and some more on
            // either side.
            let narrow = head_dim.max(value_dim) <= NARROW;
            let keys = if narrow { 8 } else { 16 };
            let head = if narrow { 0 } else { looped(head_dim / FOUR, 0) };
            // Groups of four keys of which some are dropped, for each of up to four rows of up to 16 keys.
            let dropped = if op.dropout.is_some() { 4 * looped(16 / FOUR + 1, 0) } else { 0 };
            looped(num_keys / keys + 4, head + dropped) + looped(0, 0)
        }
        TEXELS_WIDE => {
            let dropped = if op.dropout.is_some() { looped(WIDE_ROWS[1], 0) } else { 0 };
            // One of two loops over the lanes that hold weights is left at once.
            let values = looped(WIDE_LANES, 0) + looped(0, 0);
            looped(num_keys / (FOUR * WIDE_LANES) + 2, looped(head_dim / FOUR, 0) + dropped + values)
        }
        PANELS => attention_panels::rounds(num_keys, [head_dim, value_dim]),
        TILED => {
            let chunk = looped(TILED_ACROSS, 0);
            // Chunks of the head, what lanes tell each other, four chunks of keys; at the end what they tell once more.
            let inside = looped(head_dim.div_ceil(TILED_ACROSS), chunk) + chunk + TILED_SIDE as u64 * chunk;
            looped(num_keys.div_ceil(TILED_SIDE * TILED_ACROSS) + 1, inside) + chunk
        }
        _ => looped(num_keys, looped(head_dim, 0) + looped(value_dim, 0)) + 2 * looped(value_dim, 0),
    }
}

/// Whether a kernel for this device streams all keys of an attention.
pub(crate) fn streams(graph: &Graph, op: &Attention, profile: &DeviceProfile) -> bool {
    let from_texels = from_texels(graph, op, profile, &[]);
    let reads_texels = texels::could_stream(from_texels, graph, op, profile);
    let kernel = if reads_texels { from_texels } else { from_buffers(graph, op, profile) };
    rounds(kernel, graph, op) <= most_rounds(profile)
}

/// Whether `attention_row` may go through all keys of a row.
pub(crate) fn goes_by_rows(graph: &Graph, op: &Attention, profile: &DeviceProfile) -> bool {
    rounds(ROW, graph, op) <= most_rounds(profile)
}

/// Between the kernels that read buffers.
fn choose(op: &Attention, request: &Request<'_>) -> &'static str {
    let own = request.preferred.iter().find(|&&name| name == ROW || name == TILED);
    own.copied().unwrap_or_else(|| from_buffers(request.graph, op, request.profile))
}

fn from_buffers(graph: &Graph, op: &Attention, profile: &DeviceProfile) -> &'static str {
    match profile.kind {
        // A row to an invocation makes many rounds.
        AdapterKind::Cpu if goes_by_rows(graph, op, profile) => ROW,
        _ => TILED,
    }
}

/// What a kernel's text and grid are made for.
pub(super) struct Form {
    pub(super) kernel: &'static str,
    pub(super) text_constants: Vec<(&'static str, u32)>,
    /// Rows of a group (queries times the heads that share a key/value head) to a workgroup.
    pub(super) rows: usize,
    /// Parts that the values are taken in.
    pub(super) value_parts: usize,
}

pub(super) fn form(op: &Attention, request: &Request<'_>) -> Form {
    let [head_dim, value_dim] = widths(op);
    if request.reads_texels {
        let lanes = texels::lanes(request.profile);
        if from_texels(request.graph, op, request.profile, request.preferred) == TEXELS_WIDE {
            let WideDivision { rows, cols, value_parts } = WideDivision::new(group_rows(op, request), value_dim);
            let text_constants = vec![("ROWS", size(rows)), ("COLS", size(cols))];
            return Form { kernel: TEXELS_WIDE, text_constants, rows, value_parts };
        }
        if from_texels(request.graph, op, request.profile, request.preferred) == PANELS {
            let division = attention_panels::PanelDivision::new(lanes, [head_dim, value_dim]);
            let text_constants = division.text_constants(lanes, [head_dim, value_dim]);
            return Form { kernel: PANELS, text_constants, rows: division.rows, value_parts: 1 };
        }
        let Division { rows, loads, holds, value_parts } = Division::new(lanes, head_dim, value_dim);
        let text_constants = vec![
            ("LANES", size(lanes)),
            ("ROWS", size(rows)),
            ("LOADS", size(loads)),
            ("HOLDS", holds.into()),
            ("HEAD", size(head_dim / FOUR)),
            ("VALUE", size((value_dim / FOUR).div_ceil(value_parts))),
        ];
        return Form { kernel: TEXELS, text_constants, rows: lanes * rows, value_parts };
    }
    if choose(op, request) == ROW {
        return Form { kernel: ROW, text_constants: Vec::new(), rows: WORKGROUP, value_parts: 1 };
    }
    let [few, many] = TILED_DOWN;
    let down = if group_rows(op, request) <= few * TILED_SIDE { few } else { many };
    let groups = value_dim.div_ceil(TILED_ACROSS);
    let sums = groups.div_ceil(groups.div_ceil(TILED_SUMS));
    let text_constants = vec![("LANES_DOWN", size(down)), ("SUMS", size(sums))];
    Form { kernel: TILED, text_constants, rows: down * TILED_SIDE, value_parts: groups.div_ceil(sums) }
}

/// Queries of a block, times the heads that share a key/value head.
pub(super) fn group_rows(op: &Attention, request: &Request<'_>) -> usize {
    request.block.rows.len() * (op.scores.num_heads / op.scores.num_kv_heads)
}
