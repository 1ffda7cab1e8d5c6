//! What the browser is shown: the test's page, the package, case files, shaders.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::report::{BROKEN, WRONG};
use crate::site::Site;
use crate::{tint, web};

/// Cases that exercise different parts of the graph and are small: SwiftShader is slow.
const CASES: [&str; 9] = [
    "valid_lens_per_query",
    "torch_bias_kv",
    "r14_causal_and_mask",
    "llama_gqa_8_2",
    "value_dim_6",
    "head_dim_7",
    "nan_visible",
    "r54_no_keys",
    "dropout_gqa_causal",
];

/// Reads everything from the workspace at `root`.
pub(super) fn site(root: &Path) -> Result<Site> {
    let mut site = Site::default();
    let package = root.join(web::PACKAGE);
    site.add_folder("/", &package.join("test/browser"))?;
    site.add_file("/package/index.js", &package.join("index.js"))?;
    for folder in ["src", "wasm"] {
        site.add_folder(&format!("/package/{folder}/"), &package.join(folder))?;
    }
    site.add_file("/shaders/variants.js", &root.join(tint::FOLDER).join("variants.js"))?;
    site.add_file("/shaders.json", &root.join(tint::LIST))?;
    let mut names = Vec::new();
    for name in CASES {
        site.add_file(&format!("/cases/{name}"), &case(root, name))?;
        names.push(name);
    }
    let right = fs::read(case(root, CASES[0])).context("a case should be there")?;
    for (name, bytes) in [(WRONG, with_wrong_answer(right)?), (BROKEN, b"no case".to_vec())] {
        site.add(&format!("/cases/{name}"), bytes);
        names.push(name);
    }
    site.add("/cases.json", serde_json::to_vec(&names)?);
    Ok(site)
}

fn case(root: &Path, name: &str) -> std::path::PathBuf {
    root.join(format!("tests/cases/{name}.safetensors"))
}

/// The case with 1 added to the first number of its expected output: a check that passes it checks nothing.
fn with_wrong_answer(mut case: Vec<u8>) -> Result<Vec<u8>> {
    let (length, rest) = case.split_first_chunk().context("a case file should begin with its header's length")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let header: serde_json::Value =
        serde_json::from_slice(rest.get(..length).context("a case file should hold its header")?)?;
    let offset = header["expected.output"]["data_offsets"][0].as_u64().context("a case should have an answer")?;
    let place = 8 + length + usize::try_from(offset)?;
    let number = case.get_mut(place..).and_then(|bytes| bytes.first_chunk_mut::<4>());
    let number = number.context("a case file should hold its answer")?;
    *number = (f32::from_le_bytes(*number) + 1.0).to_le_bytes();
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_differs_in_one_number() {
        let header = br#"{"query":{"data_offsets":[0,8]},"expected.output":{"data_offsets":[8,16]}}"#;
        let mut case = (header.len() as u64).to_le_bytes().to_vec();
        case.extend(header);
        case.extend([0; 16]);
        let wrong = with_wrong_answer(case.clone()).expect("an answer to change");
        let place = case.len() - 8;
        assert_eq!(wrong[place..place + 4], 1.0_f32.to_le_bytes());
        assert_eq!((&wrong[..place], &wrong[place + 4..]), (&case[..place], &case[place + 4..]));
        assert!(with_wrong_answer(b"no case".to_vec()).is_err());
    }
}
