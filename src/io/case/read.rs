//! From the tensors and metadata of a file to a [`Case`].

use super::{ABOUT_KEY, ATTENTION_KEY, Case, CaseOptions, Expected, Settings, TENSORS, TOKENS_KEY, prefix_of};
use crate::attention::{AttentionInputs, Mask};
use crate::error::Error;
use crate::io::archive::Archive;
use crate::io::layout::{Prefix, all_members, optional_weights, owner_of};
use crate::io::words::{nearest, shown};
use crate::shape::HostTensor;

impl Case {
    /// Everything but the weights of a separate file.
    pub(super) fn from_archive(archive: &Archive<'_>, options: &CaseOptions) -> Result<Self, Error> {
        let in_file = settings_of(archive)?;
        options.overrides.validate()?;
        let settings = in_file.overridden_by(&options.overrides);
        let prefix = prefix_of(&settings);
        // The file's own prefix still says which of its tensors are weights when a flag names another.
        refuse_unknown_tensors(archive, &[prefix_of(&in_file), prefix.clone()])?;
        let inputs = inputs_of(archive, &settings)?;
        let weights = match options.weights {
            Some(_) => None,
            None => optional_weights(archive, &prefix)?,
        };
        Ok(Self {
            about: archive.metadata(ABOUT_KEY).map(str::to_owned),
            tokens: tokens_of(archive)?,
            settings,
            inputs,
            weights,
            expected: Expected {
                output: floats(archive, "expected.output")?,
                attention_weights: floats(archive, "expected.attention_weights")?,
            },
        })
    }
}

fn settings_of(archive: &Archive<'_>) -> Result<Settings, Error> {
    match archive.metadata(ATTENTION_KEY) {
        Some(json) => Settings::from_json(json),
        None => Err(Error::Missing {
            what: "metadata `attention`".into(),
            hint: "a case file has JSON there, at least {\"num_heads\": 8} with its own number of heads".into(),
        }),
    }
}

fn tokens_of(archive: &Archive<'_>) -> Result<Option<Vec<Vec<String>>>, Error> {
    let Some(json) = archive.metadata(TOKENS_KEY) else {
        return Ok(None);
    };
    serde_json::from_str(json).map(Some).map_err(|error| {
        Error::Invalid(format!(
            "metadata `tokens` should be a JSON list of lists of strings, one list for each batch entry: {error}"
        ))
    })
}

/// A misspelt mask must not be ignored: whatever is neither a case file's tensor nor a weight is an error.
fn refuse_unknown_tensors(archive: &Archive<'_>, prefixes: &[Prefix]) -> Result<(), Error> {
    let known = |name: &str| TENSORS.contains(&name) || prefixes.iter().any(|prefix| prefix.owns(name));
    let Some(unknown) = archive.names().find(|name| !known(name)) else {
        return Ok(());
    };
    if let Some((prefix, _)) = owner_of(unknown) {
        let way_out = if prefix.is_empty() {
            "remove `prefix` to use them".to_owned()
        } else {
            format!("set `prefix` to \"{}\" to use them", shown(prefix))
        };
        return Err(Error::Invalid(format!(
            "tensor \"{}\" belongs to weights outside the prefix \"{}\"; {way_out}, or remove them",
            shown(unknown),
            prefixes.iter().map(|prefix| shown(&prefix.name(""))).next_back().unwrap_or_default(),
        )));
    }
    let members = prefixes.iter().flat_map(|prefix| all_members().map(|member| prefix.name(member)));
    let known_names: Vec<String> = TENSORS.iter().map(ToString::to_string).chain(members).collect();
    Err(Error::UnknownName {
        kind: "tensor".into(),
        name: shown(unknown),
        nearest: nearest(unknown, known_names.iter().map(String::as_str)).map(shown),
    })
}

fn inputs_of(archive: &Archive<'_>, settings: &Settings) -> Result<AttentionInputs, Error> {
    let query = activation(archive, "query", "(B, Lq, E)")?.ok_or_else(|| Error::Missing {
        what: "tensor \"query\"".into(),
        hint: "a case file needs one of shape (B, Lq, E)".into(),
    })?;
    Ok(AttentionInputs {
        query,
        key: activation(archive, "key", "(B, Lk, key width)")?,
        value: activation(archive, "value", "(B, Lk, value width)")?,
        mask: mask_of(archive, settings)?,
    })
}

fn mask_of(archive: &Archive<'_>, settings: &Settings) -> Result<Mask, Error> {
    let stored = |name: &str| {
        let present = archive.contains(name);
        present.then(|| archive.stored(name)).transpose()
    };
    Ok(Mask {
        valid_lens: stored("valid_lens")?.map(|lens| lens.integers()).transpose()?,
        attend_mask: stored("attend_mask")?.map(|mask| mask.booleans()).transpose()?,
        bias: stored("bias")?.map(|bias| bias.bias()).transpose()?,
        causal: settings.causal.unwrap_or(false),
        query_offset: settings.query_offset.unwrap_or(0),
        window: settings.window,
    })
}

/// Query, key or value, whose three axes are `axes`.
fn activation(archive: &Archive<'_>, name: &str, axes: &str) -> Result<Option<HostTensor>, Error> {
    match floats(archive, name)? {
        Some(tensor) if tensor.shape().rank() != 3 => Err(Error::WrongShape {
            what: name.into(),
            got: tensor.shape().clone(),
            expected: format!("should have 3 axes, {axes}"),
        }),
        tensor => Ok(tensor),
    }
}

fn floats(archive: &Archive<'_>, name: &str) -> Result<Option<HostTensor>, Error> {
    let present = archive.contains(name);
    present.then(|| archive.tensor(name)).transpose()
}
