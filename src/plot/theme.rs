//! The colours around the maps.

/// Paper or screen: the colours of everything but the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Theme {
    /// Dark on white.
    #[default]
    Light,
    /// Light on near black.
    Dark,
}

/// A theme's colours, as SVG writes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) background: &'static str,
    pub(super) text: &'static str,
    /// Axis titles, notes, caption.
    pub(super) muted: &'static str,
    /// Frames and ticks.
    pub(super) line: &'static str,
}

/// Cells that are no weights: a red that viridis does not have, under a white cross.
pub(super) const INVALID: &str = "#d81b60";

impl Theme {
    pub(super) fn palette(self) -> Palette {
        match self {
            Self::Light => Palette { background: "#ffffff", text: "#1f2328", muted: "#5c6570", line: "#8b949e" },
            Self::Dark => Palette { background: "#0f1319", text: "#e8ebef", muted: "#9aa4b0", line: "#6b7580" },
        }
    }
}
