//! Names in error sentences: printable, short, and with the closest known one beside them.

/// How many characters of a name or value from a file an error sentence repeats.
const SHOWN_CHARS: usize = 120;

/// How many names a list in an error sentence holds.
const LISTED_NAMES: usize = 20;

/// Text from a file, fit for one line: control characters escaped, the middle of what is very long left out.
pub(super) fn shown(text: &str) -> String {
    let mut escaped = String::new();
    for (index, letter) in text.chars().enumerate() {
        if index == SHOWN_CHARS {
            escaped.push('…');
            break;
        }
        if letter.is_control() {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
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

/// Between 0 and 1. Edits find `casual` → `causal`; common pairs of letters find `mask` → `attend_mask`.
fn likeness(left: &str, right: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(left, right).max(strsim::sorensen_dice(left, right))
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
            ("K_e_y", "key"),
        ] {
            assert_eq!(nearest(written, known), Some(meant), "{written}");
        }
        assert_eq!(nearest("0123", known), None);
        assert_eq!(nearest(&"q".repeat(10_000_000), known), None);
    }

    #[test]
    fn names_from_files_stay_on_one_line_and_short() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), SHOWN_CHARS + 1);
        assert_eq!(listed([]), "nothing");
        assert_eq!(listed(["a", "b"]), "\"a\", \"b\"");
        assert!(listed(["n"; 25]).ends_with("\"n\" and 5 more"));
    }
}
