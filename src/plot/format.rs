//! Which kinds of picture files there are, and how a file's name says which it is.

use std::path::Path;

use crate::error::Error;

/// A kind of picture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PictureFormat {
    /// Scalable vector graphics, for pages and papers.
    Svg,
    /// Pixels, for everywhere else.
    Png,
}

impl PictureFormat {
    /// The format that the file's extension names, in capital or small letters. Call it before computing what shall be
    /// drawn: a wrong name is a mistake that costs nothing to find.
    ///
    /// # Errors
    /// [`Error::Invalid`], in the file, when the extension is missing or another one.
    ///
    /// # Example
    /// ```
    /// use multihead::plot::PictureFormat;
    /// assert_eq!(PictureFormat::from_path("out/maps.PNG".as_ref())?, PictureFormat::Png);
    /// # Ok::<(), multihead::Error>(())
    /// ```
    pub fn from_path(path: &Path) -> Result<Self, Error> {
        let Some(extension) = path.extension().filter(|name| !name.is_empty()) else {
            let sentence = "a picture's name must say its format: end it in .svg or .png";
            return Err(Error::Invalid(sentence.into()).in_file(path));
        };
        match extension.to_string_lossy().to_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            other => {
                let sentence = format!("cannot draw pictures in format .{other}, only .svg and .png");
                Err(Error::Invalid(sentence).in_file(path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_says_the_format() {
        for (name, format) in
            [("a.svg", PictureFormat::Svg), ("a.b.SvG", PictureFormat::Svg), ("dir.svg/a.png", PictureFormat::Png)]
        {
            assert_eq!(PictureFormat::from_path(name.as_ref()).expect(name), format);
        }
    }

    #[test]
    fn other_extensions_are_errors_that_name_the_known_ones() {
        let sentence = |name: &str| PictureFormat::from_path(name.as_ref()).expect_err(name).to_string();
        assert_eq!(sentence("maps.JPG"), "maps.JPG: cannot draw pictures in format .jpg, only .svg and .png");
        for name in ["maps", ".png", "", "maps.", "a.svg/maps", ".."] {
            let error = sentence(name);
            assert!(error.contains(".svg") && error.contains(".png"), "{error}");
        }
    }
}
