//! The tiles that `matmul_tiled` can take: all give the same bits, and which is fastest depends on device and product.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{looped, size};
use crate::gpu::AdapterKind;
use crate::graph::Matmul;

/// Rows and columns of the output that one workgroup of `matmul_tiled` computes.
///
/// Whatever the tile, each element of the output is the sum of the same products in the same order along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tile {
    /// 64×64.
    #[serde(rename = "64x64")]
    Square64,
    /// 32×32 by a quarter of the invocations: four times as many workgroups share a small product.
    #[serde(rename = "32x32")]
    Square32,
    /// 32×128, for few rows.
    #[serde(rename = "32x128")]
    Wide,
    /// 128×128, four times as much to an invocation: for products that still have workgroups enough.
    #[serde(rename = "128x128")]
    Square128,
}

impl Tile {
    /// All tiles.
    pub const ALL: [Self; 4] = [Self::Square64, Self::Square32, Self::Wide, Self::Square128];

    /// The tile that is taken where nothing has been measured: the largest that leaves a device of this kind enough
    /// workgroups, for a product of this many matrices, rows and columns.
    #[must_use]
    pub fn usual([batches, rows, cols]: [usize; 3], kind: AdapterKind) -> Self {
        let enough = if kind == AdapterKind::DiscreteGpu { 128 } else { 32 };
        let [down, across] = Self::Square128.sides();
        let workgroups = batches.saturating_mul(rows / down).saturating_mul(cols / across);
        if workgroups >= enough { Self::Square128 } else { Self::Square64 }
    }

    /// Invocations to a workgroup, down and across.
    fn lanes(self) -> [usize; 2] {
        match self {
            Self::Square64 | Self::Square128 => [16, 16],
            Self::Square32 => [8, 8],
            Self::Wide => [8, 32],
        }
    }

    /// Rows and columns of one invocation.
    fn side(self) -> usize {
        if self == Self::Square128 { 8 } else { 4 }
    }

    /// Steps along K that a tile in workgroup memory holds.
    fn inner(self) -> usize {
        if self == Self::Square128 { 8 } else { 16 }
    }

    /// Rows and columns.
    #[must_use]
    pub fn sides(self) -> [usize; 2] {
        self.lanes().map(|lanes| lanes * self.side())
    }

    /// What makes it of the kernel's text, which as it stands is that of 64×64.
    #[must_use]
    pub fn text_constants(self) -> Vec<(&'static str, u32)> {
        let [down, across] = self.lanes().map(size);
        let side = size(self.side());
        vec![
            ("LANES_DOWN", down),
            ("LANES_ACROSS", across),
            ("ROWS", side),
            ("FOURS", side / 4),
            ("TILE_INNER", size(self.inner())),
        ]
    }

    /// Rounds of all loops of one invocation over K = `inner`.
    pub(super) fn rounds(self, inner: usize) -> u64 {
        let [down, across] = self.lanes();
        let [rows, cols] = self.sides();
        let loads = |side: usize| looped(side * self.inner() / (down * across), 0);
        // Along K: the loads of both tiles, the sums.
        looped(inner.div_ceil(self.inner()), loads(rows) + loads(cols) + looped(self.inner(), 0))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, cols] = self.sides();
        write!(f, "{rows}×{cols}")
    }
}

/// Products that are expected to gain by the same tile: of one kind, with every size rounded up to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProductClass {
    /// Matrices.
    pub batches: u64,
    /// M of each.
    pub rows: u64,
    /// K.
    pub inner: u64,
    /// N.
    pub cols: u64,
    /// [`Matmul::transpose_rhs`].
    pub transpose_rhs: bool,
    /// [`Matmul::skip_hidden`].
    pub skip_hidden: bool,
}

impl ProductClass {
    /// The class of a product, or of a block of it, with this many matrices, rows and columns and this K.
    #[must_use]
    pub fn of(op: &Matmul, [batches, rows, cols]: [usize; 3], inner: usize) -> Self {
        let class = |axis: usize| (axis as u64).checked_next_power_of_two().unwrap_or(u64::MAX);
        Self {
            batches: class(batches),
            rows: class(rows),
            inner: class(inner),
            cols: class(cols),
            transpose_rhs: op.transpose_rhs,
            skip_hidden: op.skip_hidden,
        }
    }
}

/// Which tile `matmul_tiled` takes for which products. It changes how long they take, never what they give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiles {
    /// For products of these classes.
    pub chosen: BTreeMap<ProductClass, Tile>,
    /// For all others; by default [`Tile::usual`].
    pub otherwise: Option<Tile>,
}

impl Tiles {
    /// One tile for all products.
    #[must_use]
    pub fn all(tile: Tile) -> Self {
        Self { chosen: BTreeMap::new(), otherwise: Some(tile) }
    }

    /// The tile that was chosen for a product, if one was.
    #[must_use]
    pub fn of(&self, class: &ProductClass) -> Option<Tile> {
        self.chosen.get(class).copied().or(self.otherwise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_tile_is_taken_where_it_leaves_workgroups_enough() {
        let usual = |sizes| [AdapterKind::IntegratedGpu, AdapterKind::DiscreteGpu].map(|kind| Tile::usual(sizes, kind));
        assert_eq!(usual([1, 1024, 1536]), [Tile::Square128, Tile::Square64]);
        assert_eq!(usual([1, 4096, 4096]), [Tile::Square128; 2]);
        assert_eq!(usual([64, 127, 4096]), [Tile::Square64; 2], "a tile would hardly be filled");
        assert_eq!(usual([usize::MAX; 3]), [Tile::Square128; 2]);
    }
}
