//! The tiles that `matmul_tiled` can take: all give the same bits, and which is fastest depends on device and product.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::size;
use crate::graph::Matmul;

/// Rows and columns of the output that one workgroup of `matmul_tiled` computes.
///
/// Whatever the tile, each element of the output is the sum of the same products in the same order along K.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tile {
    /// 64×64: what is taken where nothing has been measured.
    #[default]
    #[serde(rename = "64x64")]
    Square64,
    /// 32×32 by a quarter of the invocations: four times as many workgroups share a small product.
    #[serde(rename = "32x32")]
    Square32,
    /// 32×128, for few rows.
    #[serde(rename = "32x128")]
    Wide,
    /// 128×32, for few columns.
    #[serde(rename = "128x32")]
    Tall,
}

impl Tile {
    /// All tiles; the first is taken where nothing has been measured.
    pub const ALL: [Self; 4] = [Self::Square64, Self::Square32, Self::Wide, Self::Tall];

    /// Invocations to a workgroup, down and across; each computes 4×4 elements.
    fn lanes(self) -> [usize; 2] {
        match self {
            Self::Square64 => [16, 16],
            Self::Square32 => [8, 8],
            Self::Wide => [8, 32],
            Self::Tall => [32, 8],
        }
    }

    /// Rows and columns.
    #[must_use]
    pub fn sides(self) -> [usize; 2] {
        self.lanes().map(|lanes| lanes * SIDE)
    }

    /// What makes it of the kernel's text, which as it stands is the first tile's.
    #[must_use]
    pub fn text_constants(self) -> Vec<(&'static str, u32)> {
        let [down, across] = self.lanes().map(size);
        if self == Self::default() { Vec::new() } else { vec![("LANES_DOWN", down), ("LANES_ACROSS", across)] }
    }

    /// Rounds of all loops of one invocation over K = `inner`.
    pub(super) fn rounds(self, inner: usize) -> u64 {
        let [down, across] = self.lanes();
        let [rows, cols] = self.sides();
        let loads = (rows + cols) * INNER / (down * across);
        // One of the loop along K, the loads of both tiles, the sums.
        (inner.div_ceil(INNER) * (1 + loads + INNER)) as u64
    }
}

/// Rows and columns of one invocation.
const SIDE: usize = 4;
/// Steps along K that a tile in workgroup memory holds.
const INNER: usize = 16;

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
    /// For all others.
    pub otherwise: Tile,
}

impl Tiles {
    /// One tile for all products.
    #[must_use]
    pub fn all(tile: Tile) -> Self {
        Self { chosen: BTreeMap::new(), otherwise: tile }
    }

    /// The tile of a product.
    #[must_use]
    pub fn of(&self, class: &ProductClass) -> Tile {
        self.chosen.get(class).copied().unwrap_or(self.otherwise)
    }
}
