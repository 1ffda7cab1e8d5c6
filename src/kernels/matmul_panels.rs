//! The launch of `matmul_panels`: lanes are steps along K, and a panel of the right operand serves many rows.

use super::{Chosen, Launch, Request, fold, looped, matmul, matmul_texels, most_rounds, size, texels};
use crate::graph::{Graph, Matmul};

/// The most rows of a tile, and its columns.
const ROWS: usize = 64;
const COLS: usize = 16;

/// The most steps along K of a lane in a panel, in groups of four: more do not fit the nearest cache with 16 columns.
const MOST_DEEP: usize = 8;

/// With fewer rows a panel takes longer to load than it saves, and with fewer steps along K lanes take longer to add up.
const FEWEST_ROWS: usize = 48;
const FEWEST_STEPS: usize = 128;

/// How K is divided into panels of one depth.
#[derive(Debug, PartialEq)]
struct Panels {
    count: usize,
    /// Groups of four steps of each lane in one.
    deep: usize,
    /// Those of them that no panel has beyond K.
    whole: usize,
}

fn panels(inner: usize, lanes: usize) -> Panels {
    let steps = lanes * 4;
    let count = inner.div_ceil(steps * MOST_DEEP);
    let deep = inner.div_ceil(steps * count);
    let beyond = count * deep * steps - inner;
    Panels { count, deep, whole: deep - beyond.div_ceil(steps) }
}

/// Whether a product that reads texels is computed here: as the whole of it says, of which a block may have fewer rows.
pub(super) fn is_taken(op: &Matmul, request: &Request<'_>) -> bool {
    let Request { graph, node, .. } = request;
    // Every row of a left operand is read once for 16 columns, four times as often as by the other.
    let could = request.texels.contains(&op.lhs)
        && !op.skip_hidden
        && rounds(graph, op, texels::lanes(request.profile)) <= most_rounds(request.profile);
    let pays = graph.space(node)[1] >= FEWEST_ROWS && graph.inner(op) >= FEWEST_STEPS;
    let preferred = request.preferred.iter().find(|name| [matmul::TEXELS, matmul::PANELS].contains(name));
    could && preferred.map_or(pays, |&name| name == matmul::PANELS)
}

pub(super) fn launch(op: &Matmul, request: &Request<'_>) -> Launch {
    let Request { graph, block, .. } = request;
    let lanes = texels::lanes(request.profile);
    let tiles = block.rows.len().div_ceil(ROWS) as u64 * block.cols.len().div_ceil(COLS) as u64;
    let workgroups = fold(tiles * block.batches.len() as u64, request.profile);
    let Panels { deep, whole, .. } = panels(graph.inner(op), lanes);
    Launch {
        kernel: Chosen::Ours(matmul::PANELS),
        constants: vec![("TRANSPOSE_RHS", op.transpose_rhs)],
        text_constants: vec![
            ("LANES", size(lanes)),
            ("ROWS", size(ROWS)),
            ("FOURS", size(COLS / 4)),
            ("DEEP", size(deep)),
            ("WHOLE", size(whole)),
        ],
        rounds: rounds(graph, op, lanes),
        params: bytemuck::bytes_of(&matmul_texels::params(op, request, workgroups)).to_vec(),
        workgroups,
    }
}

/// Rounds of all loops of one invocation: all rows for every panel, then for what is stored of them, four by four.
fn rounds(graph: &Graph, op: &Matmul, lanes: usize) -> u64 {
    let stored = (COLS / lanes) as u64 * looped(ROWS / 4, 0);
    looped(panels(graph.inner(op), lanes).count, looped(ROWS, 0)) + stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_cover_every_step_and_no_more_than_they_must() {
        for lanes in [4, 8, 16] {
            let steps = lanes * 4;
            for inner in (4..=4096).step_by(4) {
                let Panels { count, deep, whole } = panels(inner, lanes);
                let covered = count * deep * steps;
                assert!(deep <= MOST_DEEP && covered >= inner && covered - inner < deep * steps, "{inner} of {lanes}");
                // The last panel reaches K with every whole group, and goes beyond it in the next.
                let reached = (count - 1) * deep * steps + whole * steps;
                assert!(reached <= inner && (whole == deep || inner < reached + steps), "{inner} of {lanes}");
            }
        }
        assert_eq!(panels(1024, 8), Panels { count: 4, deep: 8, whole: 8 });
        assert_eq!(panels(384, 8), Panels { count: 2, deep: 6, whole: 6 });
        assert_eq!(panels(1028, 8), Panels { count: 5, deep: 7, whole: 4 });
    }
}
