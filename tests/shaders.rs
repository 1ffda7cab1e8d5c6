//! Every shader without a device: valid without any capability, small enough for everyone, laid out as Rust writes it.

use std::collections::HashMap;

use multihead::kernels::{self, Kernel};
use naga::back::{hlsl, msl, pipeline_constants, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, TypeInner};

/// What WebGPU guarantees to everyone.
const MAX_WORKGROUP_BYTES: u32 = 16_384;
const MAX_INVOCATIONS: u32 = 256;
const MAX_STORAGE_BUFFERS: usize = 8;

/// What naga takes and Tint, Chrome's compiler, refuses: the reason to ask both.
const LAX: [Kernel; 2] = [
    lax(
        "a shift beside a sum",
        "@group(0) @binding(1) var<storage, read_write> out: array<u32>;
         @compute @workgroup_size(8)
         fn main() { out[0] = out[1] << 2u + 1u; }",
    ),
    lax(
        "a barrier that not all invocations reach",
        "@group(0) @binding(1) var<storage, read_write> out: array<u32>;
         @compute @workgroup_size(8)
         fn main(@builtin(global_invocation_id) id: vec3u) {
             if (id.x >= 3) { return; }
             workgroupBarrier();
             out[id.x] = 1;
         }",
    ),
];

const fn lax(name: &'static str, wgsl: &'static str) -> Kernel {
    Kernel { name, op: "none", wgsl, num_reads: 0, params: (&[], 0), overrides: &[] }
}

fn parse(kernel: &Kernel) -> Module {
    naga::front::wgsl::parse_str(kernel.wgsl)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(kernel.wgsl)))
}

fn validate(kernel: &Kernel, module: &Module) -> ModuleInfo {
    Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(module)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(kernel.wgsl)))
}

/// The module with every override fixed, for each of the ways to fix them.
fn variants(kernel: &Kernel) -> Vec<(Module, ModuleInfo)> {
    let module = parse(kernel);
    let info = validate(kernel, &module);
    (0..1_u32 << kernel.overrides.len())
        .map(|bits| {
            let names = kernel.overrides.iter().enumerate();
            let constants = names.map(|(bit, name)| ((*name).to_owned(), f64::from(bits >> bit & 1))).collect();
            let entry = Some((naga::ShaderStage::Compute, "main"));
            let (module, info) = pipeline_constants::process_overrides(&module, &info, entry, &constants)
                .unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
            (module.into_owned(), info.into_owned())
        })
        .collect()
}

#[test]
fn there_are_kernels_and_their_names_are_their_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("shaders/ should be there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("an ASCII name"))
        .collect();
    let mut names: Vec<String> = kernels::all().map(|kernel| format!("{}.wgsl", kernel.name)).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
    assert!(names.len() >= 8);
}

#[test]
fn every_variant_translates_to_spirv_msl_and_hlsl() {
    for kernel in kernels::all() {
        for (module, info) in variants(kernel) {
            spv::write_vec(&module, &info, &spv::Options::default(), None)
                .unwrap_or_else(|error| panic!("{}: SPIR-V: {error}", kernel.name));
            let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
            let (msl, _) = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
                .unwrap_or_else(|error| panic!("{}: MSL: {error}", kernel.name));
            let options = hlsl::Options {
                shader_model: hlsl::ShaderModel::V5_1,
                fake_missing_bindings: true,
                ..hlsl::Options::default()
            };
            let mut text = String::new();
            hlsl::Writer::new(&mut text, &options, &hlsl::PipelineOptions::default())
                .write(&module, &info, None)
                .unwrap_or_else(|error| panic!("{}: HLSL: {error}", kernel.name));
            assert!(msl.contains("kernel") && text.contains("numthreads"), "{}", kernel.name);
        }
    }
}

/// Writes the list that web/dawn/compile.js reads, and sees to it that its negative controls are ones.
#[test]
fn every_shader_is_written_down_for_other_compilers() {
    let described = |kernel: &Kernel| {
        let Kernel { name, wgsl, num_reads, overrides, .. } = kernel;
        serde_json::json!({ "name": name, "wgsl": wgsl, "num_reads": num_reads, "overrides": overrides })
    };
    for kernel in &LAX {
        validate(kernel, &parse(kernel));
    }
    let kernels: Vec<_> = kernels::all().map(described).collect();
    let refused: Vec<_> = LAX.iter().map(described).collect();
    let list = serde_json::json!({ "kernels": kernels, "refused": refused });
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shaders.json");
    std::fs::write(file, list.to_string()).expect("the folder for what tests write should be there");
}

#[test]
fn a_shader_that_needs_a_feature_would_be_refused() {
    let needs_subgroups = "@compute @workgroup_size(1) fn main() { _ = subgroupAdd(1u); }";
    let module = naga::front::wgsl::parse_str(needs_subgroups).expect("naga knows the function");
    assert!(Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module).is_err());
}

#[test]
fn every_kernel_fits_what_webgpu_guarantees() {
    for kernel in kernels::all() {
        let module = parse(kernel);
        let [entry] = module.entry_points.as_slice() else {
            panic!("{} should have one entry point", kernel.name);
        };
        assert_eq!(entry.name, "main", "{}", kernel.name);
        assert!(entry.workgroup_size.iter().product::<u32>() <= MAX_INVOCATIONS, "{}", kernel.name);
        let sizes = module.to_ctx();
        let bytes: u32 = module
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
            .map(|(_, variable)| module.types[variable.ty].inner.size(sizes).next_multiple_of(16))
            .sum();
        assert!(bytes <= MAX_WORKGROUP_BYTES, "{}: {bytes} bytes of workgroup memory", kernel.name);
    }
}

/// Parameters at 0, inputs read-only from 1 on, the output last.
#[test]
fn every_kernel_keeps_the_binding_rule() {
    for kernel in kernels::all() {
        let module = parse(kernel);
        let bindings: HashMap<u32, AddressSpace> = module
            .global_variables
            .iter()
            .filter_map(|(_, variable)| Some((variable.binding?.binding, variable.space)))
            .collect();
        let last = kernel.num_reads + 1;
        assert_eq!(bindings.len(), last as usize + 1, "{}", kernel.name);
        assert_eq!(bindings[&0], AddressSpace::Uniform, "{}", kernel.name);
        for binding in 1..=last {
            let AddressSpace::Storage { access } = bindings[&binding] else {
                panic!("{}: binding {binding} should be a storage buffer", kernel.name);
            };
            assert_eq!(access.contains(naga::StorageAccess::STORE), binding == last, "{}: {binding}", kernel.name);
        }
        assert!(last as usize <= MAX_STORAGE_BUFFERS, "{}", kernel.name);
    }
}

/// Fields of a shader's uniform struct with their offsets, and its size.
fn params_of(kernel: &Kernel, module: &Module) -> (Vec<(String, usize)>, usize) {
    let uniform = module.global_variables.iter().find(|(_, variable)| variable.space == AddressSpace::Uniform);
    let (_, variable) = uniform.unwrap_or_else(|| panic!("{} should have parameters", kernel.name));
    let TypeInner::Struct { members, span } = &module.types[variable.ty].inner else {
        panic!("{}: parameters should be a struct", kernel.name);
    };
    let fields = members.iter().map(|member| (member.name.clone().unwrap_or_default(), member.offset as usize));
    (fields.collect(), *span as usize)
}

#[test]
fn parameters_lie_where_rust_writes_them() {
    for kernel in kernels::all() {
        let (fields, size) = params_of(kernel, &parse(kernel));
        let (rust_fields, rust_size) = kernel.params;
        let rust_fields: Vec<_> = rust_fields.iter().map(|&(name, offset)| (name.to_owned(), offset)).collect();
        assert_eq!((fields, size), (rust_fields, rust_size), "{}", kernel.name);
    }
}

#[test]
fn overrides_are_those_the_list_names() {
    for kernel in kernels::all() {
        let module = parse(kernel);
        let mut found: Vec<_> = module.overrides.iter().filter_map(|(_, item)| item.name.as_deref()).collect();
        let mut named = kernel.overrides.to_vec();
        found.sort_unstable();
        named.sort_unstable();
        assert_eq!(found, named, "{}", kernel.name);
    }
}

/// WGSL cannot include a file, so text that several variants share is compared instead.
#[test]
fn softmax_variants_share_one_text_for_a_row_of_scores() {
    let common = |kernel: &Kernel| {
        let (_, rest) = kernel.wgsl.split_once("// --- One row of scores").expect("the text should begin");
        let (text, _) = rest.split_once("// --- End of the common text").expect("the text should end");
        text.to_owned()
    };
    let texts: Vec<_> = kernels::all().filter(|kernel| kernel.op == "softmax").map(common).collect();
    assert!(texts.len() >= 2 && texts[0].len() > 1000);
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

/// The register variants of matmul differ in how they load, in nothing else.
#[test]
fn register_variants_share_one_text_after_loading() {
    let common = |name: &str| {
        let kernel = kernels::all().find(|kernel| kernel.name == name).expect("the kernel should be in the list");
        let (_, rest) = kernel.wgsl.split_once("// Four rows of `rhs` from k on").expect("the text should begin");
        rest.to_owned()
    };
    assert_eq!(common("matmul_register"), common("matmul_register_vec4"));
}

#[test]
fn every_shader_explains_itself() {
    for kernel in kernels::all() {
        let header: Vec<_> = kernel.wgsl.lines().take_while(|line| line.starts_with("//")).collect();
        let header = header.join("\n");
        assert!(header.starts_with(&format!("// {}", kernel.op)), "{}: the header names the op", kernel.name);
        for word in ["One invocation =", "Chosen", "Arithmetic intensity", "→ out"] {
            assert!(header.contains(word), "{}: the header should say \"{word}\"", kernel.name);
        }
        assert!(kernel.wgsl.lines().all(|line| line.chars().count() <= 120), "{}: lines of 120", kernel.name);
    }
}

/// What compilers of some platform are known to refuse or to get wrong.
#[test]
fn no_shader_has_a_known_smell() {
    for kernel in kernels::all() {
        let found = smells(kernel.wgsl);
        assert!(found.is_empty(), "{}: {found:?}", kernel.name);
    }
}

#[test]
fn the_smells_would_be_found() {
    let shader = |body: &str| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> out: array<f32>;
             var<workgroup> tile: array<f32, 4>;
             @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) lane: u32) {{ {body} }}"
        )
    };
    assert!(smells(&shader("tile[lane] = 1.0; workgroupBarrier(); out[lane] = tile[3u - lane];")).is_empty());
    let early = shader("if lane > 2u { return; } workgroupBarrier(); out[lane] = tile[lane];");
    let vector = shader("var v = vec4<f32>(); v[lane] = 1.0; out[lane] = v.x;");
    let matrix = shader("var m = mat2x2<f32>(); m[lane & 1u] = vec2<f32>(1.0); out[lane] = m[0].x;");
    for (wgsl, smell) in [(early, "return"), (vector, "dynamic"), (matrix, "dynamic")] {
        assert!(smells(&wgsl).iter().any(|found| found.contains(smell)), "{wgsl}");
    }
    assert!(!smells("enable f16;\n@compute @workgroup_size(1) fn main() {}").is_empty());
}

/// A word for each smell in a shader.
fn smells(wgsl: &str) -> Vec<&'static str> {
    let code: Vec<_> = wgsl.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    if code.contains("enable ") {
        found.push("an extension");
        return found;
    }
    if code.contains("ptr<storage") || code.contains("ptr<workgroup") {
        found.push("a pointer that Firefox refuses");
    }
    let (_, main) = code.split_once("fn main(").expect("an entry point");
    if main.rsplit_once("Barrier()").is_some_and(|(before, _)| before.contains("return")) {
        found.push("an early return before a barrier");
    }
    let module = naga::front::wgsl::parse_str(wgsl).expect("the shader should parse");
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module).expect("a valid shader");
    let entries =
        module.entry_points.iter().enumerate().map(|(index, entry)| (&entry.function, info.get_entry_point(index)));
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    if functions.chain(entries).any(|(function, info)| indexes_a_vector(&module, function, info)) {
        found.push("a dynamic place in a vector or matrix that is written");
    }
    found
}

/// Whether a variable that is a vector or a matrix is indexed by a number that is not known to the compiler.
fn indexes_a_vector(module: &Module, function: &naga::Function, info: &naga::valid::FunctionInfo) -> bool {
    function.expressions.iter().any(|(_, expression)| {
        let naga::Expression::Access { base, .. } = expression else {
            return false;
        };
        match info[*base].ty.inner_with(&module.types) {
            TypeInner::Pointer { base, .. } => {
                matches!(module.types[*base].inner, TypeInner::Vector { .. } | TypeInner::Matrix { .. })
            }
            TypeInner::ValuePointer { size, .. } => size.is_some(),
            _ => false,
        }
    })
}
