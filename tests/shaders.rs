//! Every shader without a device: valid without any capability, small enough for everyone, laid out as Rust writes it.

#[path = "support/wgsl.rs"]
mod wgsl;

use std::collections::HashMap;

use multihead::kernels::{self, Kernel, Slot, Tile};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Module, TypeInner};
use wgsl::{parse, parse_text, texts, validate};

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
    Kernel { name, op: "none", wgsl, slots: &[Slot::Write], params: (&[], 0), overrides: &[] }
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

/// Writes the list that web/package/test/shaders/compile.js reads, and sees to it that its negative controls are ones.
#[test]
fn every_shader_is_written_down_for_other_compilers() {
    let slot = |slot: &Slot| match slot {
        Slot::Read(_) => "read",
        Slot::ReadTexels(_) => "read-texels",
        Slot::Write => "write",
        Slot::WriteTexels => "write-texels",
    };
    let described = |kernel: &Kernel| {
        let Kernel { name, slots, overrides, .. } = kernel;
        let slots: Vec<_> = slots.iter().map(slot).collect();
        let described = |wgsl: String| {
            let subgroups = kernel.needs_subgroups();
            serde_json::json!({
                "name": name, "wgsl": wgsl, "slots": slots, "overrides": overrides, "subgroups": subgroups, "unrolled": wgsl != kernel.wgsl
            })
        };
        texts(kernel).into_iter().map(described).collect::<Vec<_>>()
    };
    for kernel in &LAX {
        validate(kernel, &parse(kernel));
    }
    let kernels: Vec<_> = kernels::all().flat_map(described).collect();
    let refused: Vec<_> = LAX.iter().flat_map(described).collect();
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
    // A workgroup of what is unrolled for subgroups is one subgroup without memory, and the text takes long to read.
    let of = |kernel: &Kernel| if kernel.needs_subgroups() { vec![kernel.wgsl.to_owned()] } else { texts(kernel) };
    for (kernel, text) in kernels::all().flat_map(|kernel| of(kernel).into_iter().map(move |text| (kernel, text))) {
        let module = parse_text(kernel.name, &text);
        let [entry] = module.entry_points.as_slice() else {
            panic!("{} should have one entry point", kernel.name);
        };
        assert_eq!(entry.name, "main", "{}", kernel.name);
        assert!(entry.workgroup_size.iter().product::<u32>() <= MAX_INVOCATIONS, "{}", kernel.name);
        let bytes = workgroup_bytes(&module);
        assert!(bytes <= MAX_WORKGROUP_BYTES, "{}: {bytes} bytes of workgroup memory", kernel.name);
    }
}

fn workgroup_bytes(module: &Module) -> u32 {
    let variables = module.global_variables.iter().filter(|(_, variable)| variable.space == AddressSpace::WorkGroup);
    let sizes = module.to_ctx();
    variables.map(|(_, variable)| module.types[variable.ty].inner.size(sizes).next_multiple_of(16)).sum()
}

/// What the host counts on is what the text says.
#[test]
fn tiles_are_what_their_texts_compute() {
    let kernel = kernels::all().find(|kernel| kernel.name == "matmul_tiled").expect("the kernel should be in the list");
    let mut found = Vec::new();
    for tile in Tile::ALL {
        let module = parse_text(kernel.name, &kernel.text(&tile.text_constants()));
        let [rows, cols] = tile.sides();
        let lanes = module.entry_points[0].workgroup_size;
        assert_eq!(
            lanes.map(|lanes| lanes as usize),
            [rows * cols / if rows * cols == 128 * 128 { 64 } else { 16 }, 1, 1],
            "{tile}"
        );
        found.push((tile.to_string(), lanes[0], workgroup_bytes(&module)));
    }
    let named = |name: &str, lanes, bytes| (name.to_owned(), lanes, bytes);
    let expected = [
        named("64×64", 256, 8320),
        named("32×32", 64, 4224),
        named("32×128", 256, 10_368),
        named("128×128", 256, 8256),
    ];
    assert_eq!(found, expected);
}

/// Parameters at 0, then what the kernel's slots say.
#[test]
fn every_kernel_keeps_the_binding_rule() {
    for kernel in kernels::all() {
        let module = parse(kernel);
        let bindings: HashMap<u32, AddressSpace> = module
            .global_variables
            .iter()
            .filter_map(|(_, variable)| Some((variable.binding?.binding, variable.space)))
            .collect();
        assert_eq!(bindings.len(), kernel.slots.len() + 1, "{}", kernel.name);
        assert_eq!(bindings[&0], AddressSpace::Uniform, "{}", kernel.name);
        for (slot, binding) in kernel.slots.iter().zip(1..) {
            let fits = match (slot, bindings[&binding]) {
                (Slot::Read(_), AddressSpace::Storage { access }) => !access.contains(naga::StorageAccess::STORE),
                (Slot::Write, AddressSpace::Storage { access }) => access.contains(naga::StorageAccess::STORE),
                (Slot::ReadTexels(_) | Slot::WriteTexels, AddressSpace::Handle) => true,
                _ => false,
            };
            assert!(fits, "{}: {slot:?} at {binding}", kernel.name);
        }
        let buffers = kernel.slots.iter().filter(|slot| matches!(slot, Slot::Read(_) | Slot::Write)).count();
        assert!(buffers <= MAX_STORAGE_BUFFERS, "{}", kernel.name);
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
    // The one that reads texels takes four keys at a time.
    let texts: Vec<_> = kernels::all()
        .filter(|kernel| kernel.op == "softmax")
        .filter_map(|kernel| between(kernel, "// --- One row of scores", "// --- End of the common text"))
        .collect();
    assert!(texts.len() >= 2 && texts[0].len() > 1000);
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

fn between(kernel: &Kernel, start: &str, end: &str) -> Option<String> {
    let (_, rest) = kernel.wgsl.split_once(start)?;
    Some(rest.split_once(end).expect("the text should end").0.to_owned())
}

#[test]
fn transpositions_share_one_text_for_the_places_of_an_element() {
    let texts: Vec<_> = kernels::all()
        .filter(|kernel| kernel.op.starts_with("transpose"))
        .map(|kernel| between(kernel, "// --- Places of one element", "// --- End of the places"))
        .collect();
    assert!(texts.len() >= 4 && texts[0].as_ref().is_some_and(|text| text.len() > 500));
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn attention_variants_share_one_text_for_a_row_and_for_a_score() {
    let of_attention = || kernels::all().filter(|kernel| kernel.op.starts_with("attention"));
    let rows: Vec<_> =
        of_attention().map(|kernel| between(kernel, "// --- One row", "// --- End of the row")).collect();
    assert!(rows.len() >= 4 && rows[0].as_ref().is_some_and(|text| text.len() > 1000));
    assert!(rows.windows(2).all(|pair| pair[0] == pair[1]));
    let scores = kernels::all().filter_map(|kernel| between(kernel, "// --- One score", "// --- End of the score"));
    let scores: Vec<_> = scores.collect();
    assert!(scores.len() >= 4 && scores[0].len() > 500);
    assert!(scores.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn attentions_from_texels_share_one_text_for_where_heads_start() {
    let texts: Vec<_> = kernels::all()
        .filter_map(|kernel| between(kernel, "// --- Where heads start", "// --- End of where"))
        .collect();
    assert!(texts.len() >= 3 && texts[0].len() > 500);
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Every kernel that drops weights drops the same: all of them, of whatever op.
#[test]
fn kernels_that_drop_weights_share_one_text_for_which() {
    let texts: Vec<_> = kernels::all()
        .filter(|kernel| kernel.wgsl.contains("fn philox"))
        .map(|kernel| between(kernel, "// --- Dropped weights", "// --- End of dropped weights"))
        .collect();
    assert!(texts.len() >= 5 && texts[0].as_ref().is_some_and(|text| text.len() > 1000));
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn products_share_one_text_for_where_a_matrix_starts() {
    let texts: Vec<_> = kernels::all()
        .filter(|kernel| kernel.op == "matmul")
        .map(|kernel| between(kernel, "// --- Where a matrix starts", "// --- End of the start"))
        .collect();
    assert!(texts.len() >= 4 && texts[0].as_ref().is_some_and(|text| text.len() > 200));
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

/// What differs from kernel to kernel has another name, but for how a kernel loads, multiplies and stores.
#[test]
fn functions_of_one_name_are_one_text() {
    let own = ["main", "row_of", "score_of", "product", "store", "store4"];
    let mut texts = std::collections::BTreeMap::new();
    let mut met_again = 0;
    for kernel in kernels::all() {
        for (start, _) in kernel.wgsl.match_indices("\nfn ") {
            let (text, _) = kernel.wgsl[start..].split_once("\n}\n").expect("a function should end");
            let name = text[4..].split_once('(').expect("a function has parameters").0;
            if own.contains(&name) || name.starts_with("load_") {
                continue;
            }
            let (first, known) = *texts.entry(name).or_insert((kernel.name, text));
            assert_eq!(known, text, "{name} of {first} and of {}", kernel.name);
            met_again += usize::from(first != kernel.name);
        }
    }
    assert!(met_again > 30, "{met_again}");
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
