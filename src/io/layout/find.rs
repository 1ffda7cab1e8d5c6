//! Which layout stands under a prefix, and whether it is whole.

use std::collections::BTreeSet;

use super::{LAYOUTS, Layout, Prefix};
use crate::error::Error;
use crate::io::archive::Archive;
use crate::io::words::listed;

/// A layout and those of its members that are in the file.
struct Candidate {
    layout: &'static Layout,
    found: BTreeSet<&'static str>,
}

/// The one layout under `prefix`, complete; `None` when no member of any is there.
pub(super) fn layout_under(archive: &Archive<'_>, prefix: &Prefix) -> Result<Option<&'static Layout>, Error> {
    let present = |member: &&str| archive.contains(&prefix.name(member));
    let candidates: Vec<Candidate> = LAYOUTS
        .iter()
        .map(|layout| Candidate { layout, found: layout.members().filter(present).collect() })
        .filter(|candidate| !candidate.found.is_empty())
        .collect();
    match best(candidates).as_slice() {
        [] => Ok(None),
        [only] => {
            complete(only, archive, prefix)?;
            Ok(Some(only.layout))
        }
        [first, second, ..] => Err(two_layouts(first, second, prefix)),
    }
}

/// Drops each candidate whose members another explains too: `out_proj.weight` belongs to both of `torch.nn`.
fn best(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if kept.iter().any(|other| other.found.is_superset(&candidate.found)) {
            continue;
        }
        kept.retain(|other| !candidate.found.is_superset(&other.found));
        kept.push(candidate);
    }
    kept
}

fn two_layouts(first: &Candidate, second: &Candidate, prefix: &Prefix) -> Error {
    let full_names = |candidate: &Candidate| {
        let names: Vec<String> = candidate.found.iter().map(|member| prefix.name(member)).collect();
        listed(names.iter().map(String::as_str))
    };
    Error::Invalid(format!(
        "two weight layouts stand{}: {} with {}, and {} with {}; keep one",
        prefix.place(),
        first.layout.name,
        full_names(first),
        second.layout.name,
        full_names(second),
    ))
}

/// Refuses a layout of which something is missing, listing what was found.
fn complete(candidate: &Candidate, archive: &Archive<'_>, prefix: &Prefix) -> Result<(), Error> {
    let Candidate { layout, found } = candidate;
    let mut missing: Vec<String> = Vec::new();
    let mut demand = |members: &[&str]| {
        let absent = members.iter().filter(|&member| !found.contains(member));
        missing.extend(absent.map(|member| prefix.name(member)));
    };
    demand(&layout.required().collect::<Vec<_>>());
    for group in layout.groups() {
        if group.iter().any(|member| found.contains(member)) {
            demand(&group);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = found.iter().map(|member| prefix.name(member)).collect();
    let mut hint = format!("found {}", listed(known.iter().map(String::as_str)));
    // A misspelt member is among the names that no layout knows.
    let others = archive
        .names()
        .filter(|&name| !prefix.is_empty() && prefix.owns(name) && !known.iter().any(|known| known == name));
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        hint = format!("{hint}, and of no layout {}", listed(others));
    }
    let each = if missing.len() > 1 { "each of " } else { "" };
    let missing = listed(missing.iter().map(String::as_str));
    Err(Error::Missing { what: format!("{each}{missing} of the {} layout", layout.name), hint })
}
