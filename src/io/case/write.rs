//! From a [`Case`] to a file that reads back the same.

use std::path::Path;

use super::{ABOUT_KEY, ATTENTION_KEY, Case, Settings, TOKENS_KEY, prefix_of};
use crate::attention::{Linear, Training, Weights};
use crate::error::Error;
use crate::io::atomic::write_atomically;
use crate::io::layout::Prefix;
use crate::io::tensor_file::{Numbers, TensorFile};

impl Case {
    /// The bytes of a case file that [`Case::from_bytes`] reads back: floats as F32, weights in D2L's layout.
    ///
    /// What `settings` and `inputs` both speak of (`causal`, `query_offset`, `window`, `dropout`, `seed`) is written as the
    /// inputs have it, and `prefix` only where there are weights.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when reading would refuse a setting, [`Error::Invalid`] for a step of training beyond the first
    /// one, or weights after dropout, which the file cannot say.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.with_file(|file| file.write(&mut bytes).map_err(|source| Error::Io { action: "write".into(), source }))?;
        Ok(bytes)
    }

    /// Writes [`Case::to_bytes`] to a file, whole or not at all.
    ///
    /// # Errors
    /// Those of [`Case::to_bytes`], and [`Error::File`] around [`Error::Io`] when the system refuses.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.with_file(|file| write_atomically(path, |writer| file.write(writer)))
    }

    fn with_file(&self, write: impl FnOnce(&TensorFile<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.check_training()?;
        let attention = self.settings_to_write().to_json()?;
        let tokens = self
            .tokens
            .as_ref()
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| Error::Invalid(format!("`tokens` cannot be written: {error}")))?;
        let metadata = [
            (ATTENTION_KEY, Some(attention.as_str())),
            (ABOUT_KEY, self.about.as_deref()),
            (TOKENS_KEY, tokens.as_deref()),
        ];
        let metadata: Vec<(&str, &str)> = metadata.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let weights = self.named_weights();
        let mut tensors = self.named_inputs();
        tensors.extend(weights.iter().map(|(name, numbers)| (name.as_str(), *numbers)));
        write(&TensorFile::new(tensors, &metadata)?)
    }

    /// A case file is step 0 of training, and its weights are those before dropout.
    fn check_training(&self) -> Result<(), Error> {
        match self.inputs.training {
            Some(Training { step, returns_dropped, .. }) if step > 0 || returns_dropped => {
                Err(Error::Invalid(format!(
                    "a case file says what step 0 of training gives, with weights before dropout; this call is step {step}{}",
                    if returns_dropped { " and returns weights after dropout" } else { "" }
                )))
            }
            _ => Ok(()),
        }
    }

    fn settings_to_write(&self) -> Settings {
        let mask = &self.inputs.mask;
        let said = &self.settings;
        Settings {
            causal: (mask.causal || said.causal.is_some()).then_some(mask.causal),
            query_offset: (mask.query_offset != 0 || said.query_offset.is_some()).then_some(mask.query_offset),
            window: mask.window,
            dropout: self.inputs.training.map(|training| training.dropout).or(said.dropout.filter(|&p| p == 0.0)),
            seed: self.inputs.training.map(|training| training.seed).or(said.seed),
            prefix: said.prefix.clone().filter(|_| self.weights.is_some()),
            ..said.clone()
        }
    }

    fn named_inputs(&self) -> Vec<(&str, Numbers<'_>)> {
        let inputs = &self.inputs;
        let floats = [
            ("query", Some(&inputs.query)),
            ("key", inputs.key.as_ref()),
            ("value", inputs.value.as_ref()),
            ("bias", inputs.mask.bias.as_ref()),
            ("expected.output", self.expected.output.as_ref()),
            ("expected.attention_weights", self.expected.attention_weights.as_ref()),
        ];
        let floats = floats.into_iter().filter_map(|(name, tensor)| Some((name, tensor?.into())));
        let lens = inputs.mask.valid_lens.as_ref().map(Numbers::Integers);
        let mask = inputs.mask.attend_mask.as_ref().map(Numbers::Booleans);
        floats
            .chain(lens.map(|numbers| ("valid_lens", numbers)))
            .chain(mask.map(|numbers| ("attend_mask", numbers)))
            .collect()
    }

    /// The weights under D2L's names, prefixed as the settings say.
    fn named_weights(&self) -> Vec<(String, Numbers<'_>)> {
        let Some(weights) = &self.weights else {
            return Vec::new();
        };
        let prefix = prefix_of(&self.settings);
        let Weights { w_q, w_k, w_v, w_o, bias_k, bias_v } = weights;
        let linears = [("W_q", w_q), ("W_k", w_k), ("W_v", w_v), ("W_o", w_o)];
        let extra = [("bias_k", bias_k), ("bias_v", bias_v)];
        let extra = extra.into_iter().filter_map(|(name, tensor)| Some((prefix.name(name), tensor.as_ref()?.into())));
        linears.into_iter().flat_map(|(name, linear)| members(&prefix, name, linear)).chain(extra).collect()
    }
}

fn members<'a>(prefix: &Prefix, name: &str, linear: &'a Linear) -> Vec<(String, Numbers<'a>)> {
    let bias = linear.bias.as_ref();
    let bias = bias.map(|bias| (prefix.name(&format!("{name}.bias")), bias.into()));
    let weight = (prefix.name(&format!("{name}.weight")), (&linear.weight).into());
    [weight].into_iter().chain(bias).collect()
}
