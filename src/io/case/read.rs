//! From the tensors and metadata of a file to a [`Case`].

use super::{
    ABOUT_KEY, ATTENTION_KEY, Case, CaseOptions, Expected, METADATA, Settings, TENSORS, TOKENS_KEY, prefix_of,
};
use crate::attention::{AttentionInputs, Mask, Training};
use crate::error::Error;
use crate::io::archive::Archive;
use crate::io::layout::{Prefix, all_members, optional_weights, owner_of};
use crate::io::words::{json_fault, nearest, shown};
use crate::shape::HostTensor;

impl Case {
    /// Everything but the weights of a separate file.
    pub(in crate::io) fn from_archive(archive: &Archive<'_>, options: &CaseOptions) -> Result<Self, Error> {
        refuse_unknown_metadata(archive)?;
        let in_file = settings_of(archive)?;
        options.overrides.validate()?;
        let settings = in_file.overridden_by(&options.overrides);
        let prefix = prefix_of(&settings);
        refuse_unknown_tensors(archive, &prefix_of(&in_file), &prefix)?;
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

/// Misspelt tokens must not be ignored either.
fn refuse_unknown_metadata(archive: &Archive<'_>) -> Result<(), Error> {
    match archive.metadata_keys().find(|key| !METADATA.contains(key)) {
        None => Ok(()),
        Some(unknown) => Err(Error::UnknownName {
            kind: "metadata field".into(),
            name: shown(unknown),
            nearest: nearest(unknown, METADATA).map(shown),
        }),
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
            "metadata `tokens` should be a JSON list of lists of strings, one list for each batch entry: {}",
            json_fault(&error)
        ))
    })
}

/// A misspelt mask must not be ignored: whatever is neither a case file's tensor nor a weight is an error.
///
/// The file's own prefix still says which of its tensors are weights when a flag names another.
fn refuse_unknown_tensors(archive: &Archive<'_>, own: &Prefix, effective: &Prefix) -> Result<(), Error> {
    let known = |name: &str| TENSORS.contains(&name) || own.owns(name) || effective.owns(name);
    let unknown = || archive.names().filter(|name| !known(name));
    // A forgotten prefix explains all that stands under it, LayerNorm too.
    if let Some((name, prefix)) = unknown().find_map(|name| Some((name, owner_of(name)?))) {
        return Err(misplaced_weight(name, prefix, effective));
    }
    let Some(name) = unknown().next() else {
        return Ok(());
    };
    let members = all_members().map(|member| effective.name(member));
    let known: Vec<String> = TENSORS.iter().map(ToString::to_string).chain(members).collect();
    Err(Error::UnknownName {
        kind: "tensor".into(),
        name: shown(name),
        nearest: nearest(name, known.iter().map(String::as_str)).map(shown),
    })
}

/// The error for a weight that stands under `prefix`, where nobody looks.
fn misplaced_weight(name: &str, prefix: &str, effective: &Prefix) -> Error {
    let (name, prefix) = (shown(name), shown(prefix));
    let looked = shown(&effective.name(""));
    Error::Invalid(match (prefix.is_empty(), effective.is_empty()) {
        (false, true) => format!(
            "tensor \"{name}\" is a weight under \"{prefix}\"; set `prefix` in the metadata `attention` to \"{prefix}\", or remove it"
        ),
        (false, false) => format!(
            "tensor \"{name}\" is a weight, but not under the prefix \"{looked}\"; set `prefix` to \"{prefix}\", or remove it"
        ),
        (true, _) => format!(
            "tensor \"{name}\" is a weight, but not under the prefix \"{looked}\"; leave `prefix` out, or remove the tensor"
        ),
    })
}

fn inputs_of(archive: &Archive<'_>, settings: &Settings) -> Result<AttentionInputs, Error> {
    let query = activation(archive, "query", "(B, Lq, E)")?.ok_or_else(|| Error::Missing {
        what: "tensor \"query\"".into(),
        hint: "a case file needs one of shape (B, Lq, E)".into(),
    })?;
    let key = activation(archive, "key", "(B, Lk, key width)")?;
    let value = activation(archive, "value", "(B, Lk, value width)")?;
    let num_keys = key.as_ref().unwrap_or(&query).shape().axes()[1];
    let mask = mask_of(archive, settings, num_keys)?;
    Ok(AttentionInputs { query, key, value, mask, training: training_of(settings)? })
}

/// A probability above 0 with a seed is training; a case is its step 0.
fn training_of(settings: &Settings) -> Result<Option<Training>, Error> {
    let Some(dropout) = settings.dropout.filter(|&dropout| dropout > 0.0) else {
        return Ok(None);
    };
    let seed = settings.seed.ok_or_else(|| Error::Missing {
        what: "`seed`".into(),
        hint: format!(
            "with dropout {dropout} the call is one of training, whose pattern follows from a seed; set dropout to 0 to evaluate"
        ),
    })?;
    Ok(Some(Training { dropout, seed, ..Training::default() }))
}

fn mask_of(archive: &Archive<'_>, settings: &Settings, num_keys: usize) -> Result<Mask, Error> {
    let stored = |name: &str| {
        let present = archive.contains(name);
        present.then(|| archive.stored(name)).transpose()
    };
    Ok(Mask {
        valid_lens: stored("valid_lens")?.map(|lens| lens.lengths(num_keys)).transpose()?,
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
