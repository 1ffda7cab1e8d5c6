//! Series of numbers over labelled places.

mod marks;
mod scale;

use super::figure::{LABEL_FONT, PANEL_TITLE, label, panel_title};
use super::svg::{Anchor, Rect, Style, Svg, short};
use super::text;
use super::theme::Palette;
use marks::{marker, number_beside};
use scale::{Scale, number_text};

/// Room for the legend, where there is one.
const LEGEND: f64 = 18.0;
/// One line of the labels below.
const LINE: f64 = 13.0;
/// Room for the title of an axis.
const AXIS_TITLE: f64 = 16.0;
/// The plot's own height, for a panel of the figure's width and for a narrower one.
const PLOT_HEIGHT: [f64; 2] = [190.0, 130.0];
const NARROW: f64 = 400.0;

/// Series over places with names, in order from left to right; the vertical axis starts at 0 or is logarithmic.
#[derive(Clone, Debug, Default)]
pub struct LineChart {
    /// What stands above.
    pub title: String,
    /// What the places are.
    pub x_title: String,
    /// What the numbers are.
    pub y_title: String,
    /// The places; a line break starts a second line.
    pub places: Vec<String>,
    /// The numbers.
    pub series: Vec<Series>,
    /// Powers of ten instead of an axis from 0.
    pub logarithmic: bool,
    /// A dashed line across, with its name.
    pub reference: Option<(f64, String)>,
    /// Whether neighbours are joined by a line.
    pub joined: bool,
    /// Whether each number stands beside its mark.
    pub with_numbers: bool,
}

/// Numbers of one kind.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// One for each place; what is none or not finite leaves a gap.
    pub numbers: Vec<Option<f64>>,
}

impl LineChart {
    fn has_legend(&self) -> bool {
        self.series.len() > 1
    }

    fn place_lines(&self) -> f64 {
        self.places.iter().map(|place| place.split('\n').count()).max().unwrap_or(1) as f64
    }

    pub(super) fn height(&self, width: f64) -> f64 {
        let plot = PLOT_HEIGHT[usize::from(width < NARROW)];
        let legend = if self.has_legend() { LEGEND * self.legend_rows(width) } else { 0.0 };
        PANEL_TITLE + legend + plot + 6.0 + LINE * self.place_lines() + AXIS_TITLE
    }

    fn scale(&self) -> Scale {
        let numbers = self.series.iter().flat_map(|series| &series.numbers).flatten().copied();
        Scale::new(numbers.chain(self.reference.as_ref().map(|(number, _)| *number)), self.logarithmic)
    }

    pub(super) fn draw(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        panel_title(svg, &self.title, place, palette);
        let mut top = place.y + PANEL_TITLE;
        if self.has_legend() {
            self.legend(svg, place, palette);
            top += LEGEND * self.legend_rows(place.width);
        }
        let scale = self.scale();
        let widest = scale.ticks.iter().map(|&tick| text::width(&number_text(tick), LABEL_FONT)).fold(0.0, f64::max);
        let left = place.x + AXIS_TITLE + widest + 7.0;
        let plot = Rect {
            x: left,
            y: top + 6.0,
            width: place.x + place.width - left,
            height: PLOT_HEIGHT[usize::from(place.width < NARROW)] - 6.0,
        };
        self.axes(svg, place, plot, &scale, palette);
        self.reference_line(svg, plot, &scale, palette);
        for (index, series) in self.series.iter().enumerate() {
            self.series(svg, plot, &scale, palette, index, series);
        }
    }

    /// Where each series' entry of the legend stands, and how many rows there are.
    fn legend_places(&self, width: f64) -> (Vec<(f64, f64)>, f64) {
        let (mut x, mut row) = (0.0, 0.0);
        let mut places = Vec::new();
        for series in &self.series {
            let needed = 16.0 + text::width(&series.name, LABEL_FONT) + 14.0;
            if x > 0.0 && x + needed > width {
                (x, row) = (0.0, row + 1.0);
            }
            places.push((x, row));
            x += needed;
        }
        (places, row + 1.0)
    }

    fn legend_rows(&self, width: f64) -> f64 {
        self.legend_places(width).1
    }

    fn legend(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        let (places, _) = self.legend_places(place.width);
        for (index, (series, (x, row))) in self.series.iter().zip(places).enumerate() {
            let middle = (place.x + x + 6.0, place.y + PANEL_TITLE + (row + 0.4) * LEGEND);
            marker(svg, middle, index, palette);
            svg.text((middle.0 + 9.0, middle.1), &series.name, label(LABEL_FONT, palette.text));
        }
    }

    fn x_of(&self, plot: Rect, place: usize) -> f64 {
        plot.x + (place as f64 + 0.5) / self.places.len().max(1) as f64 * plot.width
    }

    fn axes(&self, svg: &mut Svg, place: Rect, plot: Rect, scale: &Scale, palette: Palette) {
        let bottom = plot.y + plot.height;
        let mut grid = String::new();
        for &tick in &scale.ticks {
            let y = short(bottom - scale.share(tick) * plot.height);
            grid += &format!("M{} {y}h{}", short(plot.x), short(plot.width));
            let style = Style { anchor: Anchor::End, ..label(LABEL_FONT, palette.text) };
            svg.text((plot.x - 6.0, y), &number_text(tick), style);
        }
        svg.raw(&format!("<path stroke=\"{}\" stroke-width=\"0.6\" opacity=\"0.45\" d=\"{grid}\"/>\n", palette.line));
        svg.raw(&format!(
            "<path stroke=\"{}\" d=\"M{} {}h{}\"/>\n",
            palette.line,
            short(plot.x),
            short(bottom),
            short(plot.width)
        ));
        let room = plot.width / self.places.len().max(1) as f64;
        let widest = self.places.iter().flat_map(|place| place.split('\n'));
        let widest = widest.map(|line| text::width(line, LABEL_FONT) + 5.0).fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive ratio")]
        let step = ((widest / room).ceil() as usize).max(1);
        let middle = Style { anchor: Anchor::Middle, ..label(LABEL_FONT, palette.text) };
        for (index, name) in self.places.iter().enumerate().step_by(step) {
            for (line, words) in name.split('\n').enumerate() {
                let y = bottom + 5.0 + (line as f64 + 0.5) * LINE;
                svg.text((self.x_of(plot, index), y), words, middle);
            }
        }
        let muted = Style { anchor: Anchor::Middle, ..label(LABEL_FONT, palette.muted) };
        let below = bottom + 5.0 + LINE * self.place_lines() + 0.5 * AXIS_TITLE;
        svg.text((plot.x + plot.width / 2.0, below), &self.x_title, muted);
        svg.text((place.x + 5.0, plot.y + plot.height / 2.0), &self.y_title, Style { turn: -90.0, ..muted });
    }

    fn reference_line(&self, svg: &mut Svg, plot: Rect, scale: &Scale, palette: Palette) {
        let Some((number, name)) = &self.reference else { return };
        let y = plot.y + (1.0 - scale.share(*number)) * plot.height;
        svg.raw(&format!(
            "<path stroke=\"{}\" stroke-dasharray=\"5 4\" d=\"M{} {}h{}\"/>\n",
            palette.muted,
            short(plot.x),
            short(y),
            short(plot.width)
        ));
        let style = Style { anchor: Anchor::End, ..label(LABEL_FONT, palette.muted) };
        // Beside the top there is no room above.
        let above = if y - plot.y < 18.0 { 11.0 } else { -8.0 };
        svg.text((plot.x + plot.width, y + above), name, style);
    }

    fn series(&self, svg: &mut Svg, plot: Rect, scale: &Scale, palette: Palette, index: usize, series: &Series) {
        let known = series.numbers.iter().enumerate().filter_map(|(place, number)| Some((place, (*number)?)));
        let points: Vec<(usize, f64, (f64, f64))> = known
            .filter(|(_, number)| number.is_finite())
            .map(|(place, number)| {
                let y = plot.y + (1.0 - scale.share(number)) * plot.height;
                (place, number, (self.x_of(plot, place), y))
            })
            .collect();
        let color = palette.series[index % palette.series.len()];
        if self.joined && points.len() > 1 {
            let path: Vec<String> =
                points.iter().map(|(_, _, (x, y))| format!("{} {}", short(*x), short(*y))).collect();
            svg.raw(&format!(
                "<path fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\" d=\"M{}\"/>\n",
                path.join("L")
            ));
        }
        for (place, number, middle) in points {
            let name = self.places.get(place).map(|name| name.replace('\n', " ")).unwrap_or_default();
            let series_name = if series.name.is_empty() { String::new() } else { format!("{}, ", series.name) };
            svg.tipped(&format!("{series_name}{name}: {}", number_text(number)), |svg| {
                marker(svg, middle, index, palette);
            });
            if self.with_numbers {
                // Beside the top there is no room above.
                let above = if middle.1 - plot.y < 14.0 { 12.0 } else { -11.0 };
                number_beside(svg, (middle.0, middle.1 + above), &number_text(number), palette);
            }
        }
    }
}
