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
    /// Series, told apart by colour-blind readers too (Okabe and Ito 2008), in shades that stand out from the
    /// background.
    pub(super) series: [&'static str; 6],
}

/// Cells that are no weights: a red that viridis does not have, under a white cross.
pub(super) const INVALID: &str = "#d81b60";

impl Theme {
    pub(super) fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                background: "#ffffff",
                text: "#1f2328",
                muted: "#5c6570",
                line: "#8b949e",
                series: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#000000"],
            },
            Self::Dark => Palette {
                background: "#0f1319",
                text: "#e8ebef",
                muted: "#9aa4b0",
                line: "#6b7580",
                series: ["#56b4e9", "#e8763a", "#2bbf97", "#e0a0c4", "#f0e442", "#ffffff"],
            },
        }
    }
}
