//! Shaders parsed, validated and translated by naga, without a device.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]
#![allow(unreachable_pub, reason = "a module of a test crate has nobody to be reached by")]

use multihead::kernels::{Kernel, Tile};
use naga::Module;
use naga::back::{hlsl, msl, pipeline_constants, spv};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};

/// The texts that a kernel is compiled from: as it stands, and with its loops unrolled for what the host makes of it.
pub fn texts(kernel: &Kernel) -> Vec<String> {
    let text = |constants: Vec<(&'static str, u32)>| kernel.text(&constants).into_owned();
    std::iter::once(kernel.wgsl.to_owned()).chain(forms(kernel).into_iter().map(text)).collect()
}

/// The constants that the host sets, in the extremes of what it sets them to.
fn forms(kernel: &Kernel) -> Vec<Vec<(&'static str, u32)>> {
    match kernel.name {
        "matmul_tiled" => Tile::ALL.map(Tile::text_constants).to_vec(),
        "matmul_rows" => [1, 8].map(|rows| vec![("ROWS", rows)]).to_vec(),
        "attention_tiled" => [(8, 1), (16, 8)].map(|(down, sums)| vec![("LANES_DOWN", down), ("SUMS", sums)]).to_vec(),
        "attention_texels_wide" => {
            [(8, 1), (8, 4), (16, 1), (16, 2)].map(|(rows, cols)| vec![("ROWS", rows), ("COLS", cols)]).to_vec()
        }
        "attention_panels" => {
            // Heads of 8, of 32, of 12 and 4 words.
            let names = ["LANES", "LANES_LOG2", "ROWS", "HEAD", "VALUE", "LOADS"];
            let names = names.into_iter().chain(["QUERY_LOADS", "VALUE_LOADS", "GROUPS", "PADDED", "PASS"]);
            let forms = [
                [8, 3, 64, 2, 2, 16, 1, 1, 1, 2, 8],
                [4, 2, 24, 8, 8, 8, 2, 2, 8, 8, 8],
                [16, 4, 64, 3, 1, 16, 1, 1, 1, 4, 8],
            ];
            forms.map(|form| names.clone().zip(form).collect()).to_vec()
        }
        "matmul_panels" => [(4, 8, 8), (8, 1, 0), (8, 8, 8), (16, 7, 4)]
            .map(|(lanes, deep, whole)| vec![("LANES", lanes), ("DEEP", deep), ("WHOLE", whole)])
            .to_vec(),
        _ if kernel.needs_subgroups() => [4, 8, 16].map(|lanes| vec![("LANES", lanes)]).to_vec(),
        _ => Vec::new(),
    }
}

pub fn parse(kernel: &Kernel) -> Module {
    parse_text(kernel.name, kernel.wgsl)
}

pub fn validate(kernel: &Kernel, module: &Module) -> ModuleInfo {
    // The portable tier needs nothing of a device but what WebGPU's core has: pairs of halves in words are part of it, and
    // missing only in the OpenGL that naga knows too.
    let core = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let needs = if kernel.needs_subgroups() { core | Capabilities::SUBGROUP } else { core };
    let mut validator = Validator::new(ValidationFlags::all(), needs);
    let operations = if kernel.needs_subgroups() { SubgroupOperationSet::all() } else { SubgroupOperationSet::empty() };
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(operations);
    validator.validate(module).unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(kernel.wgsl)))
}

pub fn parse_text(name: &str, wgsl: &str) -> Module {
    naga::front::wgsl::parse_str(wgsl).unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(wgsl)))
}

/// The modules of every text with every override fixed, for each of the ways to fix them.
pub fn variants(kernel: &Kernel) -> Vec<(Module, ModuleInfo)> {
    texts(kernel).iter().flat_map(|text| variants_of(kernel, &parse_text(kernel.name, text))).collect()
}

/// The modules of a kernel's text as it stands: unrolled it says the same, many times over.
pub fn variants_as_written(kernel: &Kernel) -> Vec<(Module, ModuleInfo)> {
    variants_of(kernel, &parse(kernel))
}

fn variants_of(kernel: &Kernel, module: &Module) -> Vec<(Module, ModuleInfo)> {
    let info = validate(kernel, module);
    (0..1_u32 << kernel.overrides.len())
        .map(|bits| {
            let names = kernel.overrides.iter().enumerate();
            let constants = names.map(|(bit, name)| ((*name).to_owned(), f64::from(bits >> bit & 1))).collect();
            let entry = Some((naga::ShaderStage::Compute, "main"));
            let (module, info) = pipeline_constants::process_overrides(module, &info, entry, &constants)
                .unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
            (module.into_owned(), info.into_owned())
        })
        .collect()
}

/// What a driver's compiler is given.
#[derive(Debug)]
pub struct Translated {
    pub spirv: Vec<u32>,
    pub msl: String,
    pub hlsl: String,
}

/// A module without overrides in the languages of Vulkan, Metal and DX12.
pub fn translate(kernel: &Kernel, module: &Module, info: &ModuleInfo) -> Translated {
    let (name, subgroups) = (kernel.name, kernel.needs_subgroups());
    let spirv = spv::write_vec(module, info, &spv::Options::default(), None)
        .unwrap_or_else(|error| panic!("{name}: SPIR-V: {error}"));
    let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
    let (msl, _) = msl::write_string(module, info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|error| panic!("{name}: MSL: {error}"));
    let options = hlsl::Options {
        // Wave operations came with 6.0.
        shader_model: if subgroups { hlsl::ShaderModel::V6_0 } else { hlsl::ShaderModel::V5_1 },
        fake_missing_bindings: true,
        ..hlsl::Options::default()
    };
    let mut hlsl = String::new();
    hlsl::Writer::new(&mut hlsl, &options, &hlsl::PipelineOptions::default())
        .write(module, info, None)
        .unwrap_or_else(|error| panic!("{name}: HLSL: {error}"));
    Translated { spirv, msl, hlsl }
}
