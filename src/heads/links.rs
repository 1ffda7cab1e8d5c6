//! Labelled pairs of words, and whether a head knows them.
//!
//! Somebody has said, for sentences, which word belongs to which: `it` to `trophy` and not to `suitcase`. A head
//! *finds* a link when, of all other words, its query attends most to the right one; it *prefers* the link when the
//! right word gets more than the rival. Clark et al. 2019 (§4.2) score heads like this against dependency treebanks,
//! and hold them against the best fixed distance: a head that looks at the previous token finds many subjects and knows
//! none.
//!
//! [`LINKS`] are the labels of this repository: sixteen subjects, three pronouns, eight objects of prepositions in
//! eight short sentences. They are few. [`Verdict`] therefore also says how many heads would have done as well by
//! tossing coins.

mod labels;

use serde::Serialize;

use super::is_special_token;
use crate::maps::AttentionMap;

pub use labels::LINKS;

/// What ties two words together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Relation {
    /// A pronoun and the noun that it stands for.
    PronounToAntecedent,
    /// A verb and its subject.
    VerbToSubject,
    /// A preposition and the noun that it governs.
    PrepositionToObject,
}

impl Relation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PronounToAntecedent, Self::VerbToSubject, Self::PrepositionToObject];

    /// "pronoun → antecedent".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PronounToAntecedent => "pronoun → antecedent",
            Self::VerbToSubject => "verb → subject",
            Self::PrepositionToObject => "preposition → object",
        }
    }
}

/// A word, the word that belongs to it, and one that might be thought to. A word that stands more than once is followed
/// by which: `flies.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelledLink {
    /// The sentence's words as the tokenizer cuts them, without special tokens, one space between.
    pub sentence: &'static str,
    /// What ties them.
    pub relation: Relation,
    /// The word that asks.
    pub from: &'static str,
    /// The word that should be found.
    pub to: &'static str,
    /// The word that should not.
    pub rival: &'static str,
}

/// A link's three places among the tokens of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The query.
    pub from: usize,
    /// The right key.
    pub to: usize,
    /// The wrong key.
    pub rival: usize,
}

impl LabelledLink {
    /// Where the words stand among these tokens; `None` where the tokens are of another sentence.
    #[must_use]
    pub fn places(&self, tokens: &[String]) -> Option<Places> {
        let words = tokens.iter().filter(|token| !is_special_token(token));
        if !words.map(String::as_str).eq(self.sentence.split(' ')) {
            return None;
        }
        Some(Places { from: place(tokens, self.from)?, to: place(tokens, self.to)?, rival: place(tokens, self.rival)? })
    }
}

/// The place of `word`, or of its second occurrence for `word.2`.
fn place(tokens: &[String], word: &str) -> Option<usize> {
    let (word, nth) = match word.split_once('.') {
        Some((word, nth)) => (word, nth.parse().ok()?),
        None => (word, 1),
    };
    tokens.iter().enumerate().filter(|(_, token)| *token == word).nth(nth - 1).map(|(place, _)| place)
}

/// What one head does with one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkScore {
    /// The share of the query's attention that goes to the right word.
    pub share: f32,
    /// The share that goes to the rival.
    pub rival_share: f32,
    /// Whether, of all words but the query's own, the right one gets most.
    pub found: bool,
}

impl LinkScore {
    /// Of one head's map of the sentence.
    ///
    /// # Panics
    /// When the map is smaller than the sentence.
    #[must_use]
    pub fn new(map: &AttentionMap<'_>, tokens: &[String], places: Places) -> Self {
        let row = map.row(places.from);
        let is_word = |key: usize| key != places.from && tokens.get(key).is_some_and(|token| is_word(token));
        let mut others = (0..row.len()).filter(|&key| key != places.to && is_word(key));
        let found = others.all(|key| row[places.to] > row[key]);
        Self { share: row[places.to], rival_share: row[places.rival], found }
    }

    /// Whether the right word gets more than the rival.
    #[must_use]
    pub fn preferred(&self) -> bool {
        self.share > self.rival_share
    }
}

/// Letters or digits, and not put there by the tokenizer.
fn is_word(token: &str) -> bool {
    !is_special_token(token) && token.chars().any(char::is_alphanumeric)
}

/// All links of one relation, for one head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RelationScore {
    /// How many links there are.
    pub links: usize,
    /// How many the head finds.
    pub found: usize,
    /// How many it prefers to their rivals.
    pub preferred: usize,
    /// Mean share of attention that goes to the right word.
    pub mean_share: f64,
    /// Mean share that goes to the rival.
    pub mean_rival_share: f64,
}

impl RelationScore {
    /// Adds up links.
    #[must_use]
    pub fn of(scores: &[LinkScore]) -> Self {
        let mean = |share: fn(&LinkScore) -> f32| super::mean_of(scores.iter().map(|score| f64::from(share(score))));
        Self {
            links: scores.len(),
            found: scores.iter().filter(|score| score.found).count(),
            preferred: scores.iter().filter(|score| score.preferred()).count(),
            mean_share: mean(|score| score.share),
            mean_rival_share: mean(|score| score.rival_share),
        }
    }
}

/// The best that a fixed distance does: "the word `distance` places on".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FixedDistance {
    /// From query to key.
    pub distance: isize,
    /// How many links end there.
    pub found: usize,
}

impl FixedDistance {
    /// The distance at which most links end, the shortest of equals; distance −1 for no links.
    #[must_use]
    pub fn best(links: &[Places]) -> Self {
        let distance = |link: &Places| link.to.cast_signed() - link.from.cast_signed();
        let count = |wanted: isize| links.iter().filter(|link| distance(link) == wanted).count();
        let candidates = links.iter().map(distance).map(|distance| Self { distance, found: count(distance) });
        let nothing = Self { distance: -1, found: 0 };
        candidates.min_by_key(|best| (usize::MAX - best.found, best.distance.abs())).unwrap_or(nothing)
    }
}

/// Whether a head may be named after a relation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// How many of all heads would be expected to prefer as many links by tossing a coin for each; named heads stay
    /// below [`Verdict::MOST_BY_CHANCE`].
    pub by_chance: f64,
    /// It finds more than the best fixed distance does, and coins would not do it.
    pub named: bool,
}

impl Verdict {
    /// Above this expectation, chance explains the best of all heads (a sign test with Bonferroni's correction).
    pub const MOST_BY_CHANCE: f64 = 0.05;

    /// On the best of `num_heads` heads.
    #[must_use]
    pub fn new(score: &RelationScore, fixed: FixedDistance, num_heads: usize) -> Self {
        let by_chance = num_heads as f64 * at_least_heads(score.preferred, score.links);
        Self { by_chance, named: score.found > fixed.found && by_chance < Self::MOST_BY_CHANCE }
    }
}

/// The probability of at least `wanted` heads in `tosses` tosses of a fair coin.
fn at_least_heads(wanted: usize, tosses: usize) -> f64 {
    let mut ways = 1.0; // tosses over k
    let mut sum = 0.0;
    for k in 0..=tosses {
        if k >= wanted {
            sum += ways;
        }
        ways *= (tosses - k) as f64 / (k + 1) as f64;
    }
    sum / (tosses as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(sentence: &str) -> Vec<String> {
        ["[CLS]"].into_iter().chain(sentence.split(' ')).chain(["[SEP]"]).map(str::to_owned).collect()
    }

    #[test]
    fn every_label_has_its_three_words_in_its_sentence() {
        for link in &LINKS {
            let places = link.places(&tokens(link.sentence)).unwrap_or_else(|| panic!("{link:?}"));
            assert!(places.from != places.to && places.to != places.rival && places.from != places.rival, "{link:?}");
        }
        let counts = Relation::ALL.map(|relation| LINKS.iter().filter(|link| link.relation == relation).count());
        assert_eq!(counts, [3, 16, 8]);
    }

    #[test]
    fn other_sentences_have_no_places() {
        assert_eq!(LINKS[0].places(&tokens("the trophy")), None);
        assert_eq!(LINKS[0].places(&[]), None);
        let twice = tokens("flies like flies");
        assert_eq!(
            [place(&twice, "flies"), place(&twice, "flies.2"), place(&twice, "flies.3")],
            [Some(1), Some(3), None]
        );
    }

    #[test]
    fn a_link_is_found_when_no_other_word_gets_more() {
        let tokens = tokens("it , trophy suitcase"); // [CLS] it , trophy suitcase [SEP]
        let places = Places { from: 1, to: 3, rival: 4 };
        let score = |row: [f32; 6]| {
            let weights = [[0.0; 6], row].concat();
            LinkScore::new(&AttentionMap::new(&weights, 2, 6).unwrap(), &tokens, places)
        };
        let found = score([0.4, 0.2, 0.15, 0.1, 0.05, 0.1]);
        assert!(found.found && found.preferred(), "[CLS], itself, the comma and [SEP] are no other words");
        let missed = score([0.0, 0.0, 0.0, 0.4, 0.6, 0.0]);
        assert!(!missed.found && !missed.preferred());
        let tied = score([0.0, 0.0, 0.0, 0.5, 0.5, 0.0]);
        assert!(!tied.found && !tied.preferred(), "a head that cannot tell them apart has not found it");
    }

    #[test]
    fn the_best_fixed_distance_is_counted() {
        let links = [(5, 4), (9, 8), (7, 2)].map(|(from, to)| Places { from, to, rival: 0 });
        assert_eq!(FixedDistance::best(&links), FixedDistance { distance: -1, found: 2 });
        assert_eq!(FixedDistance::best(&[]).found, 0);
    }

    #[test]
    fn few_links_name_no_head() {
        let all = |links: usize| RelationScore { links, found: links, preferred: links, ..RelationScore::default() };
        let nothing = FixedDistance { distance: -1, found: 0 };
        assert!(!Verdict::new(&all(4), nothing, 72).named, "72 heads toss four times right 4.5 times");
        assert!((Verdict::new(&all(4), nothing, 72).by_chance - 4.5).abs() < 1e-12);
        assert!(Verdict::new(&all(16), nothing, 72).named);
        let as_distance = FixedDistance { distance: -1, found: 16 };
        assert!(!Verdict::new(&all(16), as_distance, 72).named, "the previous token would do as well");
        assert!((at_least_heads(0, 9) - 1.0).abs() < 1e-12);
    }
}
