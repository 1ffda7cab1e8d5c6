//! Text for a picture: made safe, measured, shortened, wrapped.

use std::fmt::Write as _;

/// Longer tokens are cut before they are measured, so that a token of a megabyte costs nothing.
const MAX_CHARS: usize = 200;

/// Advance widths of DejaVu Sans for U+0020 to U+007E, in hundredths of the font size. Verdana, which viewers of an
/// SVG without DejaVu get, has nearly the same.
#[rustfmt::skip]
const ASCII_WIDTHS: [u8; 95] = [
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53,
    100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50,
    50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61,
    63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
];

/// How wide a text will be, in the unit of `font_size`. Exact for ASCII; an upper guess for other scripts.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let hundredths: u32 = text.chars().map(char_width).sum();
    f64::from(hundredths) / 100.0 * font_size
}

/// As [`width`], for bold text: DejaVu Sans Bold is at most a fifth wider.
pub(super) fn bold_width(text: &str, font_size: f64) -> f64 {
    1.2 * width(text, font_size)
}

fn char_width(c: char) -> u32 {
    match c {
        ' '..='~' => ASCII_WIDTHS[c as usize - 0x20].into(),
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0, // drawn over their neighbour
        '…' => 100,
        '\0'..'\u{400}' => 80,
        '\u{400}'..'\u{1100}' => 110,
        _ => 130, // wide scripts and emoji
    }
}

/// A token as it can be drawn: whatever would not be seen is written out.
///
/// Spaces at the ends become ␣, control and direction characters their escapes, and the empty token ∅.
pub(super) fn visible(token: &str) -> String {
    if token.is_empty() {
        return "∅".into();
    }
    let head: String = token.chars().take(MAX_CHARS).collect();
    let inner = head.trim_matches(' ');
    let leading = head.len() - head.trim_start_matches(' ').len();
    let trailing = head.len() - leading - inner.len();
    format!("{}{}{}", "␣".repeat(leading), printable(inner), "␣".repeat(trailing))
}

/// Replaces characters that XML forbids, or that would disturb what stands around them, by their escapes.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_disturbing(c) {
            out.extend(c.escape_default()); // \n, \u{202e}
        } else {
            out.push(c);
        }
    }
    out
}

/// Controls, noncharacters, zero-width and direction characters, and spaces that a viewer would collapse.
fn is_disturbing(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let tag = matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}');
    let odd_space = c.is_whitespace() && c != ' ';
    c.is_control() || invisible || tag || noncharacter || odd_space
}

/// The text, or as much of its beginning as fits into `max_width` with an ellipsis after it.
pub(super) fn shorten(text: &str, font_size: f64, max_width: f64) -> String {
    if width(text, font_size) <= max_width {
        return text.into();
    }
    let room = max_width - width("…", font_size);
    let mut used = 0.0;
    let fits = |c: &char| {
        used += width(c.encode_utf8(&mut [0; 4]), font_size);
        used <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// Lines of at most `max_width`, at most `max_lines` of them; whatever does not fit ends in an ellipsis.
pub(super) fn wrap(text: &str, font_size: f64, max_width: f64, max_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = visible(word);
        let is_last = lines.len() == max_lines;
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), font_size) <= max_width => {
                let _ = write!(line, " {word}"); // writing into a String cannot fail
            }
            Some(line) if is_last => {
                *line = shorten(&format!("{line} {word}"), font_size, max_width);
                return lines;
            }
            _ => lines.push(shorten(&word, font_size, max_width)),
        }
    }
    lines
}

/// Text between tags or in an attribute, as XML spells it.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let cases = [
            ("", "∅"),
            (" ", "␣"),
            (" the ", "␣the␣"),
            ("a b", "a b"),
            ("\n", "\\n"),
            ("\0\x1b", "\\u{0}\\u{1b}"),
            ("\u{202e}abc", "\\u{202e}abc"),
            ("\u{feff}", "\\u{feff}"),
            ("\u{ffff}", "\\u{ffff}"),
            ("\u{a0}", "\\u{a0}"),
            ("▁the", "▁the"),
            ("日本", "日本"),
        ];
        for (token, expected) in cases {
            assert_eq!(visible(token), expected, "token {token:?}");
        }
    }

    #[test]
    fn long_text_is_shortened_to_the_width() {
        assert_eq!(shorten("suitcase", 10.0, 100.0), "suitcase");
        let short = shorten("Donaudampfschifffahrt", 10.0, 60.0);
        assert_eq!(short, "Donauda…");
        assert!(width(&short, 10.0) <= 60.0);
        assert_eq!(shorten("abc", 10.0, 0.0), "…");
        assert!(visible(&"x".repeat(1 << 20)).len() <= MAX_CHARS);
    }

    #[test]
    fn lines_break_between_words_and_end_in_an_ellipsis() {
        assert_eq!(wrap("one two three", 10.0, 45.0, 9), ["one two", "three"]);
        assert_eq!(wrap("one two three", 10.0, 45.0, 1), ["one tw…"]);
        assert_eq!(wrap(" \n ", 10.0, 45.0, 3), [""; 0]);
    }

    #[test]
    fn xml_is_escaped() {
        assert_eq!(escape(r#"<s> & "it's""#), "&lt;s&gt; &amp; &quot;it&#39;s&quot;");
    }
}
