//! The settings of a call: the JSON in a case file's metadata key `attention`.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::header::UniqueKeys;
use super::words::{json_fault, nearest, shown};
use crate::error::{Error, number};

/// Every field of the metadata `attention`, under its own name, so that a message and the file agree.
const FIELDS: [&str; 11] = [
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "causal",
    "query_offset",
    "window",
    "scale",
    "prefix",
    "tolerance",
    "dropout",
    "seed",
];

/// The largest head count or width: sizes are 32-bit numbers on a device.
const MAX_COUNT: u64 = u32::MAX as u64;

/// What a case file says about its call besides tensors; what is `None` is not said.
///
/// # Example
/// ```
/// use multihead::Settings;
/// let in_file = Settings::from_json(r#"{"num_heads": 8, "causal": true}"#)?;
/// let flags = Settings { num_heads: Some(4), ..Settings::default() };
/// let settings = in_file.overridden_by(&flags);
/// assert_eq!((settings.num_heads, settings.causal), (Some(4), Some(true)));
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// Query heads, H; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_heads: Option<usize>,
    /// Key/value heads, G; at least 1; by default what the weights say, else H.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_kv_heads: Option<usize>,
    /// Width of a query or key head, d; at least 1; by default what the weights say, else E / H.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Whether a query sees only keys up to its position; by default not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causal: Option<bool>,
    /// Where the first query stands among the keys; any integer; by default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_offset: Option<i64>,
    /// Keys are visible nearer than this; at least 1; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// What scores are multiplied with, finite in f32; by default 1/√d.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Where the weights' names begin, `encoder.layer.3.`; a missing final dot is added; by default empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// t of |got − expected| ≤ t·(1 + |expected|); finite, at least 0; by default 1e-4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The probability, 0 to 1, of dropping a weight; above 0 the call is one of training and needs a seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// What the pattern of dropped weights follows from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Settings {
    /// Reads a JSON object; `null` says as little as an absent field.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a field that does not exist, [`Error::OutOfRange`] for a value of the wrong type or
    /// range, [`Error::Invalid`] for what is no JSON object or has a field twice.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let fields: UniqueKeys<Box<RawValue>> = serde_json::from_str(json).map_err(|error| {
            Error::Invalid(format!("metadata `attention` should be a JSON object: {}", json_fault(&error)))
        })?;
        let mut settings = Self::default();
        for (field, written) in &fields.0 {
            settings.set(field, written.get())?;
        }
        settings.validate()?;
        Ok(settings)
    }

    /// The JSON object that [`Settings::from_json`] reads back.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when a field has a value that reading would refuse.
    pub fn to_json(&self) -> Result<String, Error> {
        self.validate()?;
        serde_json::to_string(self).map_err(|error| Error::Invalid(format!("the settings cannot be written: {error}")))
    }

    /// These settings, except where `overrides` says otherwise.
    #[must_use]
    pub fn overridden_by(&self, overrides: &Self) -> Self {
        Self {
            num_heads: overrides.num_heads.or(self.num_heads),
            num_kv_heads: overrides.num_kv_heads.or(self.num_kv_heads),
            head_dim: overrides.head_dim.or(self.head_dim),
            causal: overrides.causal.or(self.causal),
            query_offset: overrides.query_offset.or(self.query_offset),
            window: overrides.window.or(self.window),
            scale: overrides.scale.or(self.scale),
            prefix: overrides.prefix.as_ref().or(self.prefix.as_ref()).cloned(),
            tolerance: overrides.tolerance.or(self.tolerance),
            dropout: overrides.dropout.or(self.dropout),
            seed: overrides.seed.or(self.seed),
        }
    }

    /// Checks every range that does not depend on a tensor.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] naming the first field that is outside, and its value.
    pub fn validate(&self) -> Result<(), Error> {
        let counts = [("num_heads", self.num_heads), ("num_kv_heads", self.num_kv_heads), ("head_dim", self.head_dim)];
        for (field, count) in counts {
            let fits = count.is_none_or(|count| (1..=MAX_COUNT).contains(&(count as u64)));
            require(fits, field, count.as_ref(), COUNT)?;
        }
        require(self.window != Some(0), "window", self.window.as_ref(), WINDOW)?;
        let scale_fits = self.scale.is_none_or(|scale| scale.abs() <= f64::from(f32::MAX));
        require(scale_fits, "scale", self.scale.map(number).as_ref(), SCALE)?;
        let within = |value: Option<f64>, limit: f64| value.is_none_or(|value| (0.0..=limit).contains(&value));
        require(within(self.tolerance, f64::MAX), "tolerance", self.tolerance.map(number).as_ref(), TOLERANCE)?;
        require(within(self.dropout, 1.0), "dropout", self.dropout.map(number).as_ref(), DROPOUT)
    }

    /// `written` is the value's JSON, which a refusal repeats: a parsed number need not print as it was written.
    fn set(&mut self, field: &str, written: &str) -> Result<(), Error> {
        if written == "null" && FIELDS.contains(&field) {
            return Ok(());
        }
        match field {
            "num_heads" => self.num_heads = Some(count(field, written)?),
            "num_kv_heads" => self.num_kv_heads = Some(count(field, written)?),
            "head_dim" => self.head_dim = Some(count(field, written)?),
            "causal" => {
                self.causal = Some(typed(field, written, Value::as_bool, "must be true or false")?);
            }
            "query_offset" => self.query_offset = Some(typed(field, written, Value::as_i64, OFFSET)?),
            "window" => self.window = Some(typed(field, written, Value::as_u64, WINDOW)?),
            "scale" => self.scale = Some(typed(field, written, Value::as_f64, SCALE)?),
            "prefix" => {
                self.prefix =
                    Some(typed(field, written, |value| value.as_str().map(str::to_owned), "must be a string")?);
            }
            "tolerance" => self.tolerance = Some(typed(field, written, Value::as_f64, TOLERANCE)?),
            "dropout" => self.dropout = Some(typed(field, written, Value::as_f64, DROPOUT)?),
            "seed" => self.seed = Some(typed(field, written, Value::as_u64, SEED)?),
            _ => {
                return Err(Error::UnknownName {
                    kind: "field of the metadata `attention`".into(),
                    name: shown(field),
                    nearest: nearest(field, FIELDS).map(str::to_owned),
                });
            }
        }
        Ok(())
    }
}

const COUNT: &str = "must be a whole number between 1 and 4294967295";
const OFFSET: &str = "must be a whole number of 64 bits";
const WINDOW: &str = "must be a whole number between 1 and 18446744073709551615";
const SCALE: &str = "must be a finite 32-bit float";
const TOLERANCE: &str = "must be a finite number, at least 0";
const DROPOUT: &str = "must be a number between 0 and 1";
const SEED: &str = "must be a whole number between 0 and 18446744073709551615";

/// A number of heads or channels.
fn count(field: &str, written: &str) -> Result<usize, Error> {
    let count = |value: &Value| value.as_u64()?.try_into().ok();
    typed(field, written, count, COUNT)
}

/// The value in its type, or the error that says which is needed.
fn typed<T>(field: &str, written: &str, convert: impl Fn(&Value) -> Option<T>, allowed: &str) -> Result<T, Error> {
    // What is JSON but no value, like 1e999, is as little of the type as a value of another.
    let value = serde_json::from_str(written).ok();
    value.as_ref().and_then(convert).ok_or_else(|| out_of_range(field, written, allowed))
}

fn require<T: ToString>(fits: bool, field: &str, value: Option<&T>, allowed: &str) -> Result<(), Error> {
    match value {
        Some(value) if !fits => Err(out_of_range(field, &value.to_string(), allowed)),
        _ => Ok(()),
    }
}

fn out_of_range(field: &str, value: &str, allowed: &str) -> Error {
    Error::OutOfRange { what: field.into(), value: shown(value), allowed: allowed.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"num_heads":8,"num_kv_heads":2,"head_dim":24,"causal":true,"query_offset":-3,"window":5,"scale":0.1,"prefix":"encoder.layer.3.","tolerance":0.002,"dropout":0.5,"seed":7}"#;

    fn refusal(json: &str) -> String {
        Settings::from_json(json).expect_err("these settings should be refused").to_string()
    }

    #[test]
    fn every_field_is_read_and_written_back() {
        let settings = Settings::from_json(FULL).unwrap();
        assert_eq!(settings.to_json().unwrap(), FULL);
        let written: UniqueKeys<Value> = serde_json::from_str(FULL).unwrap();
        let mut fields = FIELDS.to_vec();
        fields.sort_unstable();
        assert_eq!(written.0.keys().collect::<Vec<_>>(), fields);
    }

    #[test]
    fn nothing_said_is_nothing_set() {
        assert_eq!(Settings::from_json("{}").unwrap(), Settings::default());
        let null = Settings::from_json(r#"{"window": null}"#).unwrap();
        assert_eq!(null, Settings::default());
        assert_eq!(Settings::default().to_json().unwrap(), "{}");
    }

    #[test]
    fn every_field_can_be_overridden() {
        let full = Settings::from_json(FULL).unwrap();
        let nothing = Settings::default();
        assert_eq!(nothing.overridden_by(&full), full);
        assert_eq!(full.overridden_by(&nothing), full);
        let flags = Settings { causal: Some(false), ..Settings::default() };
        assert_eq!(full.overridden_by(&flags).causal, Some(false));
    }

    #[test]
    fn floats_come_back_to_the_bit() {
        for scale in [0.1, 1.0 / 3.0, 2.225_073_858_507_201_4e-308, -123_456_789.123_456_79] {
            let settings = Settings { scale: Some(scale), ..Settings::default() };
            let json = settings.to_json().unwrap();
            assert_eq!(Settings::from_json(&json).unwrap(), settings, "{json}");
        }
    }

    #[test]
    fn misspelt_fields_are_refused_with_the_closest() {
        insta::assert_snapshot!(refusal(r#"{"num_head": 8}"#), @r#"unknown field of the metadata `attention` "num_head"; did you mean "num_heads"?"#);
        insta::assert_snapshot!(refusal(r#"{"casual": null}"#), @r#"unknown field of the metadata `attention` "casual"; did you mean "causal"?"#);
        insta::assert_snapshot!(refusal(r#"{"0": 1}"#), @r#"unknown field of the metadata `attention` "0""#);
    }

    #[test]
    fn text_that_is_no_object_is_refused() {
        insta::assert_snapshot!(refusal(""), @"metadata `attention` should be a JSON object: EOF while parsing a value at line 1 column 0");
        insta::assert_snapshot!(refusal("[]"), @"metadata `attention` should be a JSON object: invalid type: sequence, expected a JSON object at line 1 column 0");
        insta::assert_snapshot!(refusal(r#"{"num_heads": 8} x"#), @"metadata `attention` should be a JSON object: trailing characters at line 1 column 18");
        insta::assert_snapshot!(refusal(r#"{"num_heads": 8, "num_heads": 4}"#), @r#"metadata `attention` should be a JSON object: "num_heads" appears twice at line 1 column 32"#);
        insta::assert_snapshot!(refusal(r#"{"scale": NaN}"#), @"metadata `attention` should be a JSON object: expected value at line 1 column 11");
        insta::assert_snapshot!(refusal(r#"{"scale": 1e999}"#), @"scale is 1e999, but must be a finite 32-bit float");
    }

    #[test]
    fn values_of_the_wrong_type_are_refused() {
        insta::assert_snapshot!(refusal(r#"{"num_heads": "8"}"#), @r#"num_heads is "8", but must be a whole number between 1 and 4294967295"#);
        insta::assert_snapshot!(refusal(r#"{"num_heads": 8.5}"#), @"num_heads is 8.5, but must be a whole number between 1 and 4294967295");
        insta::assert_snapshot!(refusal(r#"{"causal": 1}"#), @"causal is 1, but must be true or false");
        insta::assert_snapshot!(refusal(r#"{"query_offset": 9223372036854775808}"#), @"query_offset is 9223372036854775808, but must be a whole number of 64 bits");
        insta::assert_snapshot!(refusal(r#"{"window": 18446744073709551616}"#), @"window is 18446744073709551616, but must be a whole number between 1 and 18446744073709551615");
        insta::assert_snapshot!(refusal(r#"{"query_offset": -36893488147419103232}"#), @"query_offset is -36893488147419103232, but must be a whole number of 64 bits");
        insta::assert_snapshot!(refusal(r#"{"seed": 1.0}"#), @"seed is 1.0, but must be a whole number between 0 and 18446744073709551615");
        insta::assert_snapshot!(refusal(r#"{"window": true}"#), @"window is true, but must be a whole number between 1 and 18446744073709551615");
        insta::assert_snapshot!(refusal(r#"{"scale": [0.5]}"#), @"scale is [0.5], but must be a finite 32-bit float");
        insta::assert_snapshot!(refusal(r#"{"prefix": {"a": 1}}"#), @r#"prefix is {"a": 1}, but must be a string"#);
        insta::assert_snapshot!(refusal(r#"{"seed": -1}"#), @"seed is -1, but must be a whole number between 0 and 18446744073709551615");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        insta::assert_snapshot!(refusal(r#"{"num_heads": 0}"#), @"num_heads is 0, but must be a whole number between 1 and 4294967295");
        insta::assert_snapshot!(refusal(r#"{"num_heads": -8}"#), @"num_heads is -8, but must be a whole number between 1 and 4294967295");
        insta::assert_snapshot!(refusal(r#"{"num_kv_heads": 1e30}"#), @"num_kv_heads is 1e30, but must be a whole number between 1 and 4294967295");
        insta::assert_snapshot!(refusal(r#"{"head_dim": 4294967296}"#), @"head_dim is 4294967296, but must be a whole number between 1 and 4294967295");
        insta::assert_snapshot!(refusal(r#"{"window": 0}"#), @"window is 0, but must be a whole number between 1 and 18446744073709551615");
        insta::assert_snapshot!(refusal(r#"{"window": -5}"#), @"window is -5, but must be a whole number between 1 and 18446744073709551615");
        insta::assert_snapshot!(refusal(r#"{"scale": 1e39}"#), @"scale is 1e39, but must be a finite 32-bit float");
        insta::assert_snapshot!(refusal(r#"{"tolerance": -0.001}"#), @"tolerance is -0.001, but must be a finite number, at least 0");
        insta::assert_snapshot!(refusal(r#"{"dropout": 1.5}"#), @"dropout is 1.5, but must be a number between 0 and 1");
        for legal in [r#"{"scale": 0}"#, r#"{"scale": -2}"#, r#"{"dropout": 1}"#, r#"{"tolerance": 0}"#] {
            assert!(Settings::from_json(legal).is_ok(), "{legal}");
        }
    }

    #[test]
    fn flags_are_held_to_the_same_ranges() {
        let refusal = |settings: Settings| settings.validate().unwrap_err().to_string();
        let nothing = Settings::default;
        insta::assert_snapshot!(refusal(Settings { tolerance: Some(f64::NAN), ..nothing() }), @"tolerance is NaN, but must be a finite number, at least 0");
        insta::assert_snapshot!(refusal(Settings { tolerance: Some(f64::INFINITY), ..nothing() }), @"tolerance is inf, but must be a finite number, at least 0");
        insta::assert_snapshot!(refusal(Settings { dropout: Some(f64::NAN), ..nothing() }), @"dropout is NaN, but must be a number between 0 and 1");
        insta::assert_snapshot!(refusal(Settings { scale: Some(f64::NAN), ..nothing() }), @"scale is NaN, but must be a finite 32-bit float");
        insta::assert_snapshot!(refusal(Settings { window: Some(0), ..nothing() }), @"window is 0, but must be a whole number between 1 and 18446744073709551615");
    }
}
