//! A finished picture and its files.

use std::sync::{Arc, Once};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, FontResolver};

use super::format::PictureFormat;
use crate::error::Error;

/// Wider pictures are drawn with fewer pixels per point.
const MAX_WIDTH_PIXELS: f64 = 2400.0;

/// A drawing, independent of the file it will go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub(super) svg: String,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Picture {
    /// The drawing as an SVG document. Texts are texts, in DejaVu Sans where the viewer has it.
    #[must_use]
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// The bytes of a file in the given format. A PNG has 1 to 3 pixels per point, about 2,000 in its width.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the picture cannot be rasterised.
    pub fn encode(&self, format: PictureFormat) -> Result<Vec<u8>, Error> {
        match format {
            PictureFormat::Svg => Ok(self.svg.clone().into_bytes()),
            PictureFormat::Png => self
                .rasterise()?
                .encode_png()
                .map_err(|error| Error::Invalid(format!("cannot encode the picture: {error}"))),
        }
    }

    /// Pixels per point.
    pub(super) fn png_scale(&self) -> f32 {
        let fits = |scale: &f32| f64::from(*scale) * self.width <= MAX_WIDTH_PIXELS;
        [3.0, 2.0, 1.5].into_iter().find(fits).unwrap_or(1.0)
    }

    pub(super) fn rasterise(&self) -> Result<Pixmap, Error> {
        let tree = usvg::Tree::from_str(&self.svg, &options())
            .map_err(|error| Error::Invalid(format!("cannot draw the picture: {error}")))?;
        let scale = self.png_scale();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the layout keeps sizes positive and below 24 million"
        )]
        let pixels = |points: f64| (points * f64::from(scale)).ceil() as u32;
        let (width, height) = (pixels(self.width), pixels(self.height));
        let mut pixmap = Pixmap::new(width, height)
            .ok_or_else(|| Error::Invalid(format!("cannot make a picture of {width}×{height} pixels")))?;
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
        Ok(pixmap)
    }
}

/// DejaVu Sans for everything it has, so that a picture looks the same everywhere; fonts of the system, loaded when
/// first needed, for the scripts that it lacks.
pub(super) fn options() -> usvg::Options<'static> {
    let mut options = usvg::Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let among_loaded = FontResolver::default_fallback_selector();
    let load_once = Once::new();
    options.font_resolver.select_fallback = Box::new(move |character, tried, fonts| {
        among_loaded(character, tried, fonts).or_else(|| {
            load_once.call_once(|| Arc::make_mut(fonts).load_system_fonts());
            among_loaded(character, tried, fonts)
        })
    });
    options
}
