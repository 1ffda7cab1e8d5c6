//! Where a layer's names begin in a file, and which beginnings a file offers.

use std::collections::BTreeSet;

use super::{LAYOUTS, Layout};
use crate::error::Error;
use crate::io::archive::Archive;
use crate::io::words::{listed, nearest, shown};

/// The beginning of a layer's tensor names: empty, or ending in a dot, so that `layer.1` never means `layer.10` too.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::io) struct Prefix(String);

impl Prefix {
    /// Adds the final dot where it is missing.
    pub(in crate::io) fn new(written: &str) -> Self {
        let dot = if written.is_empty() || written.ends_with('.') { "" } else { "." };
        Self(format!("{written}{dot}"))
    }

    pub(in crate::io) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A member's full name.
    pub(in crate::io) fn name(&self, member: &str) -> String {
        format!("{}{member}", self.0)
    }

    /// Whether a name stands under the prefix; an empty one has nothing under it but the layouts' own names.
    pub(in crate::io) fn owns(&self, name: &str) -> bool {
        if self.is_empty() { super::all_members().any(|member| member == name) } else { name.starts_with(&self.0) }
    }

    /// ` under the prefix "…"`, or nothing.
    pub(super) fn place(&self) -> String {
        if self.is_empty() { String::new() } else { format!(" under the prefix \"{}\"", shown(&self.0)) }
    }

    /// The error for a prefix where there should be weights.
    pub(super) fn holds_no_weights(&self, archive: &Archive<'_>) -> Error {
        let offered = offered(archive);
        let under: Vec<&str> = archive.names().filter(|name| name.starts_with(&self.0)).collect();
        if under.is_empty() && !offered.is_empty() {
            return Error::UnknownName {
                kind: "weight prefix".into(),
                name: shown(&self.0),
                nearest: nearest(&self.0, offered.iter().copied()).or(offered.first().copied()).map(shown),
            };
        }
        let way_out = if offered.is_empty() {
            "name a file with the weights of one attention layer".into()
        } else {
            format!("set `prefix` to one of {}", listed(offered))
        };
        Error::Missing {
            what: format!("a known weight layout{}", self.place()),
            hint: format!("found {}: {way_out}", listed(under)),
        }
    }
}

/// The prefix and member that a name is made of, if it ends like one of a layout's weights or biases.
pub(in crate::io) fn owner_of(name: &str) -> Option<(&str, &'static str)> {
    let mut members = LAYOUTS.iter().flat_map(Layout::members);
    members.find_map(|member| Some((split(name, member)?, member)))
}

/// The prefixes under which a file has the queries' weight of some layout.
fn offered<'a>(archive: &'a Archive<'_>) -> BTreeSet<&'a str> {
    let markers = LAYOUTS.iter().map(|layout| layout.weights.names()[0]);
    let markers: Vec<&str> = markers.collect();
    let split = |name| markers.iter().find_map(|marker| split(name, marker));
    archive.names().filter_map(split).collect()
}

/// What stands before `member`, if that is a prefix.
fn split<'a>(name: &'a str, member: &str) -> Option<&'a str> {
    let prefix = name.strip_suffix(member)?;
    (prefix.is_empty() || prefix.ends_with('.')).then_some(prefix)
}
