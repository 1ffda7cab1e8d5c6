//! The labels.

use super::{LabelledLink, Relation};

const TROPHY: &str = "the trophy does not fit in the suitcase because it is too big .";
const KEYS: &str = "the keys to the old cabinet are on the kitchen table .";
const CAT: &str = "the cat sat on the mat and the dog sat on the rug .";
const RAIN: &str = "when the rain stopped , the children who had waited inside ran out to play .";
const NURSE: &str = "the nurse told the doctor that she would be late .";
const RIVER: &str = "in 1998 the river rose by three metres , but the bridge held .";
const HEADS: &str = "one head must average ; eight heads can each look somewhere else .";
const FLIES: &str = "time flies like an arrow ; fruit flies like a banana .";

/// The labelled links of eight sentences. `she` of the nurse's sentence may be either person and has no label.
#[rustfmt::skip]
pub const LINKS: [LabelledLink; 27] = [
    pronoun(TROPHY, "it", "trophy", "suitcase"),
    pronoun(RAIN, "who", "children", "rain"),
    pronoun(HEADS, "each", "heads", "head"),
    subject(TROPHY, "fit", "trophy", "suitcase"),
    subject(TROPHY, "does", "trophy", "suitcase"),
    subject(TROPHY, "is", "it", "suitcase"),
    subject(KEYS, "are", "keys", "cabinet"),
    subject(CAT, "sat", "cat", "mat"),
    subject(CAT, "sat.2", "dog", "mat"),
    subject(RAIN, "stopped", "rain", "children"),
    subject(RAIN, "ran", "children", "rain"),
    subject(RAIN, "waited", "children", "rain"),
    subject(NURSE, "told", "nurse", "doctor"),
    subject(NURSE, "would", "she", "doctor"),
    subject(RIVER, "rose", "river", "bridge"),
    subject(RIVER, "held", "bridge", "river"),
    subject(HEADS, "average", "head", "heads"),
    subject(HEADS, "look", "heads", "head"),
    subject(FLIES, "flies", "time", "arrow"),
    object(TROPHY, "in", "suitcase", "trophy"),
    object(KEYS, "to", "cabinet", "keys"),
    object(KEYS, "on", "table", "cabinet"),
    object(CAT, "on", "mat", "cat"),
    object(CAT, "on.2", "rug", "dog"),
    object(RIVER, "by", "metres", "river"),
    object(RIVER, "in", "1998", "river"),
    object(FLIES, "like", "arrow", "time"),
];

const fn pronoun(sentence: &'static str, from: &'static str, to: &'static str, rival: &'static str) -> LabelledLink {
    LabelledLink { sentence, relation: Relation::PronounToAntecedent, from, to, rival }
}

const fn subject(sentence: &'static str, from: &'static str, to: &'static str, rival: &'static str) -> LabelledLink {
    LabelledLink { sentence, relation: Relation::VerbToSubject, from, to, rival }
}

const fn object(sentence: &'static str, from: &'static str, to: &'static str, rival: &'static str) -> LabelledLink {
    LabelledLink { sentence, relation: Relation::PrepositionToObject, from, to, rival }
}
