//! How `attention_panels` divides heads and rows, and when it is taken.

use super::attention_forms::{FOUR, widths};
use super::{looped, most_rounds, size};
use crate::gpu::DeviceProfile;
use crate::graph::{Attention, Graph};

/// The fewest lanes, and the most, of a subgroup that reads texels.
const FEWEST_LANES: usize = 4;
const MOST_LANES: usize = 16;

/// How `attention_panels` divides heads of these widths: what a lane holds of a panel.
#[derive(Clone, Copy)]
pub(super) struct PanelDivision {
    /// Rows that meet a panel.
    pub(super) rows: usize,
    /// Keys of a panel that a lane holds.
    loads: usize,
    /// Words of a value that a lane sums up.
    groups: usize,
}

/// Words of keys that a lane of `attention_panels` holds, and as many of values: 8 KiB each in eight lanes, half of a
/// first-level cache together.
const HELD_WORDS: usize = 256;
/// The most keys that it holds.
const MOST_LOADS: usize = 16;
/// The most of its sums that registers hold.
const PASS: usize = 8;
/// The most rows, and the most words of all rows' states in a lane: LLVM takes seconds over larger arrays.
const MOST_PANEL_ROWS: usize = 64;
const MOST_STATES: usize = 216;
/// The fewest rows that repay loading a panel, and the widest head of which enough keys are held.
const FEWEST_PANEL_ROWS: usize = 32;
const WIDEST_PANEL: usize = 32;
/// Operations that repay its text, which takes from half a second to three seconds to compile.
const FEWEST_FLOPS_OF_PANELS: u64 = 1 << 28;

impl PanelDivision {
    pub(super) fn new(lanes: usize, [head_dim, value_dim]: [usize; 2]) -> Self {
        let loads = (HELD_WORDS / head_dim.max(value_dim)).clamp(1, MOST_LOADS);
        let groups = value_dim.div_ceil(lanes);
        let rows = (MOST_STATES / (groups + 1)).clamp(lanes, MOST_PANEL_ROWS);
        Self { rows: rows / lanes * lanes, loads: 1 << loads.ilog2(), groups }
    }

    pub(super) fn text_constants(self, lanes: usize, [head_dim, value_dim]: [usize; 2]) -> Vec<(&'static str, u32)> {
        vec![
            ("LANES", size(lanes)),
            ("LANES_LOG2", lanes.ilog2()),
            ("ROWS", size(self.rows)),
            ("HEAD", size(head_dim / FOUR)),
            ("VALUE", size(value_dim / FOUR)),
            ("LOADS", size(self.loads)),
            ("QUERY_LOADS", size(head_dim.div_ceil(FOUR * lanes))),
            ("VALUE_LOADS", size(value_dim.div_ceil(FOUR * lanes))),
            ("GROUPS", size(self.groups)),
            ("PADDED", size(self.groups * lanes / FOUR)),
            ("PASS", size(self.loads.min(PASS))),
        ]
    }

    /// Rounds of all loops of one invocation, for any number of lanes.
    fn rounds(self, num_keys: usize) -> u64 {
        let rows = looped(self.rows, 0);
        // Panels from the first key's on; one of two loops over rows is left at once. Then ends are told to rows, and
        // states stored.
        let panels = looped(num_keys.div_ceil(FEWEST_LANES * self.loads) + 2, rows + looped(0, 0));
        panels + looped(MOST_LANES, 0) + rows
    }
}

/// Rounds of all loops of one invocation, whatever the lanes: fewer hold fewer keys, and more have more rows.
pub(super) fn rounds(num_keys: usize, widths: [usize; 2]) -> u64 {
    [FEWEST_LANES, MOST_LANES]
        .map(|lanes| PanelDivision::new(lanes, widths).rounds(num_keys))
        .into_iter()
        .max()
        .unwrap_or(0)
}

/// Whether `attention_panels` applies, as far as shapes go, and whether it is the fastest then.
pub(super) fn applies_and_gains(graph: &Graph, op: &Attention, profile: &DeviceProfile) -> [bool; 2] {
    let [head_dim, value_dim] = widths(op);
    let num_keys = graph.score_sizes(&op.scores).num_keys;
    let rows = graph.score_sizes(&op.scores).num_queries * (op.scores.num_heads / op.scores.num_kv_heads);
    let widest = head_dim.max(value_dim);
    let applies = head_dim.min(value_dim) > 0
        && widest <= WIDEST_PANEL
        && rounds(num_keys + op.scores.extra_keys, [head_dim, value_dim]) <= most_rounds(profile);
    [applies, applies && rows >= FEWEST_PANEL_ROWS && graph.attention_flops(op) >= FEWEST_FLOPS_OF_PANELS]
}
