//! Names in error sentences: printable, short, and with the closest known one beside them.

/// How many characters of a name or value from a file an error sentence repeats.
const SHOWN_CHARS: usize = 120;

/// How many names a list in an error sentence holds.
const LISTED_NAMES: usize = 12;

/// How many characters of a JSON parser's message, which repeats what it met, a sentence holds.
const MESSAGE_CHARS: usize = 400;

/// Text from a file, fit for one line: what cannot be printed escaped, the end of what is very long left out.
pub(super) fn shown(text: &str) -> String {
    shortened(text, SHOWN_CHARS)
}

/// What a JSON parser has to say, fit for one line.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    shortened(&error.to_string(), MESSAGE_CHARS)
}

fn shortened(text: &str, chars: usize) -> String {
    let mut letters = text.chars();
    let mut shown = printable(&letters.by_ref().take(chars).collect::<String>());
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Text with everything escaped that would break a line, move a cursor or turn the direction of what follows: for
/// whoever prints names from files on a terminal.
///
/// ```
/// assert_eq!(multihead::io::printable("W\u{202e}\n\u{1b}[2J"), "W\\u{202e}\\n\\u{1b}[2J");
/// ```
#[must_use]
pub fn printable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || is_format(letter) {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Unicode's invisible characters that steer how text is laid out: directions, joiners, separators, tags.
fn is_format(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `"a", "b" and 7 more`.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(LISTED_NAMES).map(|name| format!("\"{}\"", shown(name))).collect();
    let list = first.join(", ");
    match (first.is_empty(), names.count()) {
        (true, _) => "nothing".into(),
        (false, 0) => list,
        (false, more) => format!("{list} and {more} more"),
    }
}

/// The known name that is closest to `name`, or `None` where nothing is alike.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance is quadratic; a file may hold names of megabytes.
    if name.len() > SHOWN_CHARS {
        return None;
    }
    let mut best = None;
    let mut best_likeness = 0.0;
    for candidate in known {
        if candidate.len() > SHOWN_CHARS {
            continue;
        }
        let likeness = likeness(name, candidate);
        if likeness > best_likeness {
            (best, best_likeness) = (Some(candidate), likeness);
        }
    }
    best
}

/// Between 0 and 1. Edits find `casual` → `causal`, common pairs of letters `heads_num` → `num_heads`, a whole word in
/// the other `mask` → `attend_mask`.
fn likeness(left: &str, right: &str) -> f64 {
    const WORD_CHARS: usize = 3;
    const CONTAINED: f64 = 0.7;
    let within = |part: &str, whole: &str| part.len() >= WORD_CHARS && whole.contains(part);
    let contained = if within(left, right) || within(right, left) { CONTAINED } else { 0.0 };
    let edits = strsim::normalized_damerau_levenshtein(left, right);
    edits.max(strsim::sorensen_dice(left, right)).max(contained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_what_was_meant() {
        let known = ["query", "key", "bias", "attend_mask", "scale", "causal"];
        for (written, meant) in [
            ("attend_maks", "attend_mask"),
            ("mask", "attend_mask"),
            ("casual", "causal"),
            ("quey", "query"),
            ("Key", "key"),
        ] {
            assert_eq!(nearest(written, known), Some(meant), "{written}");
        }
        assert_eq!(nearest("0123", known), None);
        assert_eq!(nearest(&"q".repeat(10_000_000), known), None);
    }

    #[test]
    fn names_from_files_stay_on_one_line_and_short() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(shown("gpj.\u{202e}x\u{200b}\u{2028}ä√é"), "gpj.\\u{202e}x\\u{200b}\\u{2028}ä√é");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), SHOWN_CHARS + 1);
        assert_eq!(listed([]), "nothing");
        assert_eq!(listed(["a", "b"]), "\"a\", \"b\"");
        assert!(listed(["n"; 25]).ends_with("\"n\" and 13 more"));
    }
}
