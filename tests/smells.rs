//! What compilers of some platform are known to refuse or to get wrong, looked for in every shader and in what naga
//! makes of it for Vulkan, Metal and DX12. Needs no device.

#[path = "support/wgsl.rs"]
mod wgsl;

use std::collections::{BTreeSet, HashMap};

use multihead::kernels::{self, Kernel};
use wgsl::{Translated, translate, variants_as_written};

const EARLY_RETURN: &str = "an early return before a barrier";
const DYNAMIC: &str = "a dynamic place in a vector or matrix that is written";
const INFINITE: &str = "an infinity or a NaN in the text";
const EXTENSION: &str = "an extension";
const POINTER: &str = "a pointer that Firefox refuses";
const CAPABILITY: &str = "a capability that not every Vulkan has";

/// A word for each smell in a shader, as it is written or as some driver gets it.
fn smells(kernel: &Kernel) -> BTreeSet<&'static str> {
    let code = without_comments(kernel.wgsl);
    if code.contains("enable ") {
        return [EXTENSION].into();
    }
    let mut found = smells_of_text(&code);
    if code.contains("ptr<storage") || code.contains("ptr<workgroup") {
        found.insert(POINTER);
    }
    for (module, info) in variants_as_written(kernel) {
        let Translated { spirv, msl, hlsl } = translate(kernel, &module, &info);
        assert!(msl.contains("kernel void") && hlsl.contains("numthreads"), "{}", kernel.name);
        found.extend(
            smells_of_text(&msl)
                .into_iter()
                .chain(smells_of_text(&hlsl))
                .chain(smells_of_spirv(&spirv, kernel.needs_subgroups())),
        );
    }
    found
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Smells of WGSL, MSL and HLSL, which are alike enough.
fn smells_of_text(text: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let functions = functions(text);
    if functions.values().any(|body| returns_before_a_barrier(body, &functions)) {
        found.insert(EARLY_RETURN);
    }
    if functions.values().any(|body| writes_a_dynamic_component(body, text)) {
        found.insert(DYNAMIC);
    }
    if words(text).any(|word| ["INFINITY", "NAN", "isnan", "isinf"].contains(&word)) || text.contains("1.#") {
        found.insert(INFINITE);
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The bodies of all functions by name: what stands in braces behind `name(…)`.
fn functions(text: &str) -> HashMap<&str, &str> {
    let mut found = HashMap::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (head, body) = rest.split_at(open);
        let mut depth = 0;
        let end = body.char_indices().find(|(_, letter)| {
            depth += match letter {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth == 0
        });
        let (body, behind) = body.split_at(end.map_or(body.len(), |(end, _)| end + 1));
        let head = head.rsplit([';', '}']).next().unwrap_or_default();
        // WGSL's and HLSL's attributes have parentheses too, so the name is the last word before one with a word behind.
        let name = head.match_indices('(').filter_map(|(at, _)| words(&head[..at]).last());
        let attributes = ["workgroup_size", "builtin", "numthreads", "buffer"];
        if let Some(name) = name.into_iter().find(|name| !attributes.contains(name)) {
            found.insert(name, body);
        }
        rest = behind;
    }
    found
}

fn has_barrier(body: &str, functions: &HashMap<&str, &str>) -> bool {
    last_barrier(body, functions).is_some()
}

/// Where the last barrier of a function stands, or the last call of a function that has one.
fn last_barrier(body: &str, functions: &HashMap<&str, &str>) -> Option<usize> {
    let calls = body.match_indices('(').filter_map(|(at, _)| Some((at, words(&body[..at]).last()?)));
    let is_barrier = |name: &str| name.to_lowercase().contains("barrier") || name == "workgroupUniformLoad";
    calls
        .filter(|(_, name)| {
            is_barrier(name)
                || functions.get(name).is_some_and(|&called| called != body && has_barrier(called, functions))
        })
        .map(|(at, _)| at)
        .next_back()
}

fn returns_before_a_barrier(body: &str, functions: &HashMap<&str, &str>) -> bool {
    // Of the statement that the barrier is in, `return publish(…)`, nothing comes before it.
    let statements_before = |at: usize| body[..at].rsplit_once(';').map_or("", |(before, _)| before);
    last_barrier(body, functions).is_some_and(|at| words(statements_before(at)).any(|word| word == "return"))
}

/// Whether `name[index] = …` or `name[index].x = …` is written where `name` is a vector or a matrix and the index no
/// number.
fn writes_a_dynamic_component(body: &str, text: &str) -> bool {
    let written = body.split([';', '{', '}']).filter_map(|statement| {
        let (place, _) = statement.split_once(" = ").or_else(|| statement.split_once(" += "))?;
        let (name, index) = place.trim().split_once('[')?;
        Some((name.rsplit(['.', ' ', '(']).next()?, index.split(']').next()?))
    });
    written
        .filter(|(_, index)| !index.trim_end_matches(['u', 'i']).chars().all(|letter| letter.is_ascii_digit()))
        .any(|(name, _)| is_vector(name, text))
}

/// Whether a name is declared as `float4 name`, `metal::uint2 name`, `name: vec4<f32>`, `var name = mat2x2<f32>(…)`.
fn is_vector(name: &str, text: &str) -> bool {
    let scalars = ["float", "uint", "int", "bool", "half"];
    let is_c_type = |word: &str| {
        let rest = scalars.iter().find_map(|scalar| word.strip_prefix(scalar)).unwrap_or_default();
        !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_digit() || letter == 'x')
    };
    let is_wgsl_type = |text: &str| text.starts_with("vec") || text.starts_with("mat");
    let goes_on = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        if goes_on(before.chars().next_back()) || goes_on(behind.chars().next()) {
            return false; // a part of another name
        }
        let (before, behind) = (before.trim_end(), behind.trim_start());
        let c_type = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let wgsl_type = behind.strip_prefix(':').or_else(|| behind.strip_prefix('='));
        // An array of vectors is an array: `float4 name[4]`.
        let is_array = behind.starts_with('[');
        (is_c_type(c_type) && !is_array) || wgsl_type.is_some_and(|behind| is_wgsl_type(behind.trim_start()))
    })
}

/// The instructions of a SPIR-V module: opcode and operands.
fn instructions(spirv: &[u32]) -> Vec<(u32, &[u32])> {
    const HEADER: usize = 5;
    let mut rest = &spirv[HEADER..];
    let mut found = Vec::new();
    while let [first, ..] = rest {
        let (instruction, behind) = rest.split_at((first >> 16) as usize);
        found.push((first & 0xffff, &instruction[1..]));
        rest = behind;
    }
    found
}

/// Opcodes of SPIR-V.
mod op {
    pub(super) const CAPABILITY: u32 = 17;
    pub(super) const TYPE_VECTOR: u32 = 23;
    pub(super) const TYPE_MATRIX: u32 = 24;
    pub(super) const TYPE_ARRAY: u32 = 28;
    pub(super) const TYPE_RUNTIME_ARRAY: u32 = 29;
    pub(super) const TYPE_STRUCT: u32 = 30;
    pub(super) const TYPE_POINTER: u32 = 32;
    pub(super) const CONSTANT: u32 = 43;
    pub(super) const FUNCTION: u32 = 54;
    pub(super) const FUNCTION_PARAMETER: u32 = 55;
    pub(super) const FUNCTION_END: u32 = 56;
    pub(super) const FUNCTION_CALL: u32 = 57;
    pub(super) const VARIABLE: u32 = 59;
    pub(super) const STORE: u32 = 62;
    pub(super) const ACCESS_CHAIN: u32 = 65;
    pub(super) const VECTOR_INSERT_DYNAMIC: u32 = 78;
    pub(super) const CONTROL_BARRIER: u32 = 224;
    pub(super) const RETURN: u32 = 253;
    pub(super) const RETURN_VALUE: u32 = 254;
}

fn smells_of_spirv(spirv: &[u32], subgroups: bool) -> BTreeSet<&'static str> {
    const SHADER: u32 = 1;
    // Of kernels that are chosen only where there are subgroups: GroupNonUniform and its kinds, vote to quad.
    const SUBGROUPS: std::ops::RangeInclusive<u32> = 61..=68;
    let all = instructions(spirv);
    let mut found = BTreeSet::new();
    if all.iter().any(|(op, operands)| {
        *op == op::CAPABILITY && operands[0] != SHADER && !(subgroups && SUBGROUPS.contains(&operands[0]))
    }) {
        found.insert(CAPABILITY);
    }
    if returns_before_a_barrier_in_spirv(&all) {
        found.insert(EARLY_RETURN);
    }
    if writes_a_dynamic_component_in_spirv(&all) {
        found.insert(DYNAMIC);
    }
    found
}

fn last_barrier_in_spirv(function: u32, functions: &HashMap<u32, &[(u32, &[u32])]>) -> Option<usize> {
    let is_barrier = |(op, operands): &(u32, &[u32])| {
        *op == op::CONTROL_BARRIER
            || *op == op::FUNCTION_CALL && last_barrier_in_spirv(operands[2], functions).is_some()
    };
    functions.get(&function)?.iter().rposition(is_barrier)
}

fn returns_before_a_barrier_in_spirv(all: &[(u32, &[u32])]) -> bool {
    let functions: HashMap<u32, &[(u32, &[u32])]> = all
        .split_inclusive(|(op, _)| *op == op::FUNCTION_END)
        .filter_map(|part| {
            let start = part.iter().position(|(op, _)| *op == op::FUNCTION)?;
            Some((part[start].1[1], &part[start..]))
        })
        .collect();
    let returns = |(op, _): &(u32, &[u32])| [op::RETURN, op::RETURN_VALUE].contains(op);
    functions
        .iter()
        .any(|(&id, body)| last_barrier_in_spirv(id, &functions).is_some_and(|at| body[..at].iter().any(returns)))
}

fn writes_a_dynamic_component_in_spirv(all: &[(u32, &[u32])]) -> bool {
    let constants: HashMap<u32, u32> =
        all.iter().filter(|(op, _)| *op == op::CONSTANT).map(|(_, operands)| (operands[1], operands[2])).collect();
    let types: HashMap<u32, (u32, &[u32])> = all
        .iter()
        .filter(|(op, _)| (op::TYPE_VECTOR..=op::TYPE_POINTER).contains(op))
        .map(|&(op, operands)| (operands[0], (op, &operands[1..])))
        .collect();
    let typed = [op::VARIABLE, op::FUNCTION_PARAMETER, op::ACCESS_CHAIN];
    let type_of: HashMap<u32, u32> =
        all.iter().filter(|(op, _)| typed.contains(op)).map(|(_, operands)| (operands[1], operands[0])).collect();
    // Whether the indices pass a vector or a matrix by one that the compiler does not know.
    let is_dynamic = |operands: &[u32]| {
        let mut inside =
            type_of.get(&operands[2]).and_then(|pointer| types.get(pointer)).map(|(_, pointer)| pointer[1]);
        operands[3..].iter().any(|index| {
            let Some(&(op, parts)) = inside.and_then(|inside| types.get(&inside)) else { return false };
            inside = match op {
                op::TYPE_STRUCT => constants.get(index).map(|&member| parts[member as usize]),
                op::TYPE_VECTOR | op::TYPE_MATRIX | op::TYPE_ARRAY | op::TYPE_RUNTIME_ARRAY => Some(parts[0]),
                _ => None,
            };
            [op::TYPE_VECTOR, op::TYPE_MATRIX].contains(&op) && !constants.contains_key(index)
        })
    };
    let chains = all.iter().filter(|(op, operands)| *op == op::ACCESS_CHAIN && is_dynamic(operands));
    let dynamic: BTreeSet<u32> = chains.map(|(_, operands)| operands[1]).collect();
    all.iter()
        .any(|(op, operands)| *op == op::VECTOR_INSERT_DYNAMIC || *op == op::STORE && dynamic.contains(&operands[0]))
}

#[test]
fn no_shader_has_a_known_smell_in_any_language() {
    for kernel in kernels::all() {
        let found = smells(kernel);
        assert!(found.is_empty(), "{}: {found:?}", kernel.name);
    }
}

/// A kernel of the body of `main`, with two helpers: one has a barrier, one calls it.
fn with_body(body: &str) -> Kernel {
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read_write> out: array<f32>;
         var<workgroup> tile: array<f32, 4>;
         fn publish(lane: u32) -> f32 {{ tile[lane] = 1.0; workgroupBarrier(); return tile[3u - lane]; }}
         fn through(lane: u32) -> f32 {{ return publish(lane); }}
         fn early(lane: u32) -> f32 {{ if lane > 2u {{ return 0.0; }} workgroupBarrier(); return tile[lane]; }}
         @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) lane: u32) {{ {body} }}"
    );
    kernel(wgsl)
}

fn kernel(wgsl: String) -> Kernel {
    let wgsl = Box::leak(wgsl.into_boxed_str());
    Kernel { name: "smell", op: "none", wgsl, slots: &[], params: (&[], 0), overrides: &[] }
}

/// Each smell, by each of the ways to look for it.
#[test]
fn the_smells_would_be_found_in_every_language() {
    let languages = |kernel: &Kernel| {
        let [(module, info)] = &variants_as_written(kernel)[..] else { panic!("one variant") };
        let Translated { spirv, msl, hlsl } = translate(kernel, module, info);
        [
            smells_of_text(&without_comments(kernel.wgsl)),
            smells_of_text(&msl),
            smells_of_text(&hlsl),
            smells_of_spirv(&spirv, kernel.needs_subgroups()),
        ]
    };
    let without_early = |body: &str| {
        let kernel_with = with_body(body).wgsl;
        let (before, rest) = kernel_with.split_once("         fn early").expect("the helper");
        let (_, behind) = rest.split_once('\n').expect("the next line");
        kernel(format!("{before}{behind}"))
    };
    let clean = without_early("out[lane] = through(lane); if lane > 2u { return; } out[0] = 2.0;");
    assert!(smells(&clean).is_empty(), "{:?}", languages(&clean));
    let cases = [
        (without_early("if lane > 2u { return; } workgroupBarrier(); out[lane] = tile[lane];"), EARLY_RETURN),
        (without_early("if lane > 2u { return; } out[lane] = publish(lane);"), EARLY_RETURN),
        (without_early("if lane > 2u { return; } out[lane] = through(lane);"), EARLY_RETURN),
        (with_body("out[lane] = early(lane);"), EARLY_RETURN),
        (without_early("var v = vec4<f32>(out[1]); v[lane] = 1.0; out[lane] = v.x + v.y;"), DYNAMIC),
        (without_early("var m = mat2x2<f32>(); m[lane & 1u] = vec2<f32>(out[1]); out[lane] = m[0].x;"), DYNAMIC),
    ];
    for (kernel, smell) in cases {
        for (language, found) in ["WGSL", "MSL", "HLSL", "SPIR-V"].into_iter().zip(languages(&kernel)) {
            assert_eq!(found, [smell].into(), "{language}: {}", kernel.wgsl);
        }
    }
}

#[test]
fn the_smells_of_one_language_would_be_found() {
    let extension = kernel("enable f16;\n@compute @workgroup_size(1) fn main() {}".into());
    assert_eq!(smells(&extension), [EXTENSION].into());
    assert_eq!(smells_of_text("float f() { return INFINITY; }"), [INFINITE].into());
    assert_eq!(smells_of_text("float f() { return 1.#INF; }"), [INFINITE].into());
    let capability = [0, 0, 0, 0, 0, 2 << 16 | op::CAPABILITY, 9];
    assert_eq!(smells_of_spirv(&capability, true), [CAPABILITY].into());
    let subgroups = [0, 0, 0, 0, 0, 2 << 16 | op::CAPABILITY, 61];
    assert_eq!(smells_of_spirv(&subgroups, false), [CAPABILITY].into());
    assert!(smells_of_spirv(&subgroups, true).is_empty());
}
