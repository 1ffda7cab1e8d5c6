//! Compiling a graph for a device profile: which kernel works on which block, bound to which bytes. No device in sight.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use super::PlanOptions;
use crate::error::{Error, ON_THE_CPU};
use crate::gpu::DeviceProfile;
use crate::graph::footprint::Block;
use crate::graph::schedule::{InTextures, Limits, Schedule, Step, WINDOW_STEP, window_bytes, window_start};
use crate::graph::{DType, Graph, Node, Op, Source, ValueId};
use crate::kernels::{self, Chosen, Launch, Request, Slot, Tiles, texels};

/// Where a value's bytes are while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A buffer of its own: inputs, parameters, outputs.
    Own(ValueId),
    /// One of the shared buffers of intermediate values.
    Shared(usize),
}

/// What a shader sees at one of its bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Bytes of a buffer.
    Buffer(Home, Range<u64>),
    /// A texture, by its number.
    Texels(usize),
    /// The operand is absent, or has another slot.
    Absent,
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dispatch {
    pub(crate) node: usize,
    pub(crate) block: Block,
    pub(crate) launch: Launch,
    /// What each slot of the kernel holds.
    pub(crate) bindings: Vec<(Slot, Binding)>,
}

/// Values that lie in textures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Textures {
    /// Rows of each texture.
    pub(crate) rows: Vec<u32>,
    /// Which texture a value lies in.
    pub(crate) homes: BTreeMap<ValueId, usize>,
}

/// A graph compiled for a profile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) dispatches: Vec<Dispatch>,
    /// Sizes in bytes of the shared buffers.
    pub(crate) shared: Vec<u64>,
    /// Sizes in bytes of the buffers of inputs, parameters and outputs.
    pub(crate) own: Vec<(ValueId, u64)>,
    pub(crate) textures: Textures,
}

impl Program {
    /// Compiles `graph` with the preferred kernels and the size of dispatches that `options` want; `places` says which
    /// inputs, parameters and outputs lie in buffers of the user's, and where.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] with the numbers, where a value or a piece of it is too large for the device;
    /// [`Error::OutOfRange`] where a user's kernel would have to bind a place that no binding can start at.
    pub(crate) fn new(
        graph: &Graph,
        profile: &DeviceProfile,
        options: &PlanOptions,
        places: &Places,
    ) -> Result<Self, Error> {
        let preferred = &options.preferred_kernels[..];
        let alignment = profile.offset_alignment.max(4);
        // A window into a user's buffer starts up to an alignment before its first element.
        let spare = if places.is_empty() { 0 } else { alignment };
        let binding_bytes = profile.max_binding_bytes.min(MOST_BINDING_BYTES).saturating_sub(spare);
        let limits = Limits { binding_bytes, alignment, work: options.dispatch_work(profile) };
        let users = places.keys().copied().collect();
        let texels = texels::assign(&texels::Question { graph, profile, preferred, users });
        let mut schedule = Schedule::new(graph, limits, &texels)?;
        schedule.steps.retain(|step| !graph.nodes()[step.node].is_packing());
        let mut own = own_buffers(graph, &texels.values);
        own.retain(|(id, _)| !places.contains_key(id));
        let (homes, shared, textures) = share(graph, &schedule, &texels.values);
        let sizes = own.iter().map(|&(id, bytes)| (Home::Own(id), bytes));
        let sizes = sizes.chain(shared.iter().enumerate().map(|(index, &bytes)| (Home::Shared(index), bytes)));
        let named = sizes.map(|(home, bytes)| (told(graph, home), bytes));
        let readback = ("a buffer for all outputs".into(), readback_bytes(graph, places));
        for (what, bytes) in named.chain([readback]) {
            check_buffer(what, bytes, profile)?;
        }
        let storage = Storage { homes, textures: &textures, texels: &texels, places };
        let tiles = &options.tiles;
        let compiler = Compiler { graph, profile, preferred, tiles, limits, schedule: &schedule, storage };
        let dispatches = schedule.steps.iter().map(|step| compiler.dispatch(step)).collect::<Result<_, _>>()?;
        Ok(Self { dispatches, shared, own, textures })
    }

    /// Bytes of all buffers and textures, alive at once: parameters, inputs, outputs and intermediates.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let own = self.own.iter().map(|(_, bytes)| bytes);
        let textures = self.textures.rows.iter().map(|&rows| texels::bytes(rows));
        own.chain(&self.shared).sum::<u64>() + textures.sum::<u64>()
    }
}

/// Compilers of some platforms find a word by a 32-bit count of bytes.
const MOST_BINDING_BYTES: u64 = 1 << 31;

/// Where in a user's buffer a value lies: its first byte, and the end of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) end: u64,
}

/// The values that lie in buffers of the user's.
pub(crate) type Places = BTreeMap<ValueId, Place>;

/// The smallest buffer; a binding of nothing is an error in WebGPU.
pub(crate) const SMALLEST_BUFFER: u64 = WINDOW_STEP;

/// A buffer's size: as much as its last binding may want.
fn buffer_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(WINDOW_STEP).max(SMALLEST_BUFFER)
}

/// Inputs, outputs, and the parameters that a dispatch reads from a buffer.
fn own_buffers(graph: &Graph, texels: &BTreeSet<ValueId>) -> Vec<(ValueId, u64)> {
    let read = |id: ValueId| {
        let mut running = graph.nodes().iter().filter(|node| !node.is_packing());
        !texels.contains(&id) && running.any(|node| node.op.operands().contains(&Some(id)))
    };
    let own = |id: ValueId, source: Source| match source {
        Source::Input => true,
        Source::Parameter => read(id),
        Source::Node(_) if graph.resident(id) != id => false,
        Source::Node(index) => graph.outputs().contains(&id) || (graph.nodes()[index].is_packing() && read(id)),
    };
    let values = graph.values().filter(|&(id, value)| own(id, value.source));
    values.map(|(id, value)| (id, buffer_bytes(value.bytes()))).collect()
}

/// Places that values take in turns: size and the last step of whoever has it now.
#[derive(Default)]
struct Shared(Vec<(u64, usize)>);

impl Shared {
    /// A place that nobody else uses during this life.
    fn take(&mut self, size: u64, life: &RangeInclusive<usize>) -> usize {
        let free = self.0.iter_mut().enumerate().filter(|(_, (_, until))| until < life.start());
        if let Some((index, place)) = free.min_by_key(|(_, (have, _))| have.abs_diff(size)) {
            *place = (size.max(place.0), *life.end());
            return index;
        }
        self.0.push((size, *life.end()));
        self.0.len() - 1
    }
}

/// Gives each intermediate value a buffer or a texture that nobody else uses during its life; what is given once keeps its own.
fn share(graph: &Graph, schedule: &Schedule, texels: &BTreeSet<ValueId>) -> (Vec<Option<Home>>, Vec<u64>, Textures) {
    let lifetimes = schedule.lifetimes(graph);
    let mut homes: Vec<Option<Home>> = vec![None; graph.values().count()];
    for (id, _) in own_buffers(graph, texels) {
        homes[id.0] = Some(Home::Own(id));
    }
    let last = schedule.steps.len();
    let mut newcomers: Vec<(ValueId, RangeInclusive<usize>)> = graph
        .values()
        .filter(|&(id, _)| graph.resident(id) == id && (homes[id.0].is_none() || texels.contains(&id)))
        .filter_map(|(id, value)| {
            let passing = matches!(value.source, Source::Node(index) if !graph.nodes()[index].is_packing());
            Some((id, if passing { lifetimes[id.0].clone()? } else { 0..=last }))
        })
        .filter(|(id, _)| texels.contains(id) || lifetimes[id.0].is_some())
        .collect();
    newcomers.sort_by_key(|(_, life)| *life.start());
    let (mut buffers, mut textures, mut in_textures) = (Shared::default(), Shared::default(), BTreeMap::new());
    for (id, life) in newcomers {
        if texels.contains(&id) {
            in_textures.insert(id, textures.take(texels::rows(graph, id).into(), &life));
        } else {
            let bytes = buffer_bytes(stored_bytes(graph, schedule, id));
            homes[id.0] = Some(Home::Shared(buffers.take(bytes, &life)));
        }
    }
    for (id, _) in graph.values() {
        homes[id.0] = homes[graph.resident(id).0];
    }
    let rows = textures.0.into_iter().map(|(rows, _)| u32::try_from(rows).unwrap_or(u32::MAX)).collect();
    (homes, buffers.0.into_iter().map(|(bytes, _)| bytes).collect(), Textures { rows, homes: in_textures })
}

/// Bytes that are stored of a value at a time: all, or the largest block.
fn stored_bytes(graph: &Graph, schedule: &Schedule, id: ValueId) -> u64 {
    let value = graph.value(id);
    if !schedule.scratch.contains(&id) {
        return value.bytes();
    }
    schedule
        .steps
        .iter()
        .filter(|step| graph.nodes()[step.node].output == id)
        .map(|step| value.dtype.bytes(graph.output_footprint(&graph.nodes()[step.node], &step.block).len()))
        .max()
        .unwrap_or(0)
}

/// The size of the buffer that takes the outputs to the host, those in a user's buffer left out.
pub(crate) fn readback_bytes(graph: &Graph, places: &Places) -> u64 {
    let outputs = graph.outputs().iter().filter(|id| !places.contains_key(id)).map(|&id| graph.value(id).bytes());
    outputs.fold(0, u64::saturating_add).max(SMALLEST_BUFFER)
}

fn told(graph: &Graph, home: Home) -> String {
    match home {
        Home::Own(id) => format!("{} {}", graph.value(id).name, graph.value(id).shape),
        Home::Shared(_) => "a buffer of intermediate values".into(),
    }
}

fn check_buffer(what: String, bytes: u64, profile: &DeviceProfile) -> Result<(), Error> {
    if bytes <= profile.max_buffer_bytes {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what,
        need: bytes,
        have: profile.max_buffer_bytes,
        unit: "bytes",
        limit: format!("the largest buffer of \"{}\"", profile.name),
        hint: format!("do not ask for the attention weights, cut the batch into pieces, {ON_THE_CPU}"),
    })
}

/// Where values lie.
struct Storage<'a> {
    /// In which buffer.
    homes: Vec<Option<Home>>,
    textures: &'a Textures,
    /// What lies in them.
    texels: &'a InTextures,
    places: &'a Places,
}

/// What the kernel of a node binds.
fn slots(node: &Node, kernel: &Chosen) -> Vec<Slot> {
    match kernel {
        Chosen::Ours(name) => kernels::named(name).slots.to_vec(),
        Chosen::Users(_) => (0..node.op.operands().len()).map(Slot::Read).chain([Slot::Write]).collect(),
    }
}

struct Compiler<'a> {
    graph: &'a Graph,
    profile: &'a DeviceProfile,
    preferred: &'a [&'static str],
    tiles: &'a Tiles,
    limits: Limits,
    schedule: &'a Schedule,
    storage: Storage<'a>,
}

impl Compiler<'_> {
    fn dispatch(&self, step: &Step) -> Result<Dispatch, Error> {
        let node = &self.graph.nodes()[step.node];
        let operands = (0..node.op.operands().len()).map(Some).chain([None]);
        // A user's shader takes the length of a binding for the length of the tensor.
        let exact = matches!(node.op, Op::Custom(_));
        let (buffers, bases): (Vec<_>, Vec<_>) =
            operands.map(|operand| self.binding(self.graph.footprint(node, operand, &step.block), exact)).unzip();
        let launch = kernels::launch(&Request {
            graph: self.graph,
            node,
            block: &step.block,
            profile: self.profile,
            preferred: self.preferred,
            tiles: self.tiles,
            texels: &self.storage.texels.values,
            reads_texels: self.storage.texels.readers.contains(&step.node),
            bases: &bases,
        });
        let longest = launch.workgroups.into_iter().max().unwrap_or(0);
        if longest > self.profile.max_workgroups {
            return Err(Error::LimitExceeded {
                what: format!("{} on {}", launch.kernel.name(), self.graph.value(node.output).name),
                need: longest.into(),
                have: self.profile.max_workgroups.into(),
                unit: "workgroups in one dimension",
                limit: format!("the most of \"{}\"", self.profile.name),
                hint: "give each workgroup more to do, or cut the work into pieces".into(),
            });
        }
        let most_rounds = kernels::most_rounds(self.profile);
        if launch.rounds > most_rounds {
            return Err(Error::LimitExceeded {
                what: format!("{} on {}", launch.kernel.name(), self.graph.value(node.output).name),
                need: launch.rounds,
                have: most_rounds,
                unit: "rounds of loops in one invocation",
                limit: "the most before a CPU adapter ends loops by itself".into(),
                hint: format!("cut the keys into pieces, use another device, {ON_THE_CPU}"),
            });
        }
        if let Chosen::Users(kernel) = &launch.kernel {
            self.check_starts(node, &kernel.name, &bases)?;
        }
        let slots = slots(node, &launch.kernel);
        let bindings = slots.iter().map(|&slot| (slot, self.filled(node, slot, &slots, &buffers))).collect();
        Ok(Dispatch { node: step.node, block: step.block.clone(), bindings, launch })
    }

    /// `buffers` are those of the operands and then of the output.
    fn filled(&self, node: &Node, slot: Slot, slots: &[Slot], buffers: &[Binding]) -> Binding {
        let operand = |index: usize| node.op.operands()[index];
        let (id, index) = match slot {
            Slot::Read(index) | Slot::ReadTexels(index) => (operand(index), index),
            Slot::Write | Slot::WriteTexels => (Some(node.output), buffers.len() - 1),
        };
        let texture = id.and_then(|id| self.storage.textures.homes.get(&id));
        match (slot, texture) {
            (Slot::ReadTexels(_) | Slot::WriteTexels, Some(&texture)) => Binding::Texels(texture),
            // What is read from its texture may be more than a binding holds.
            (Slot::Read(index), Some(_)) if slots.contains(&Slot::ReadTexels(index)) => Binding::Absent,
            // An input in a texture lies in its buffer too.
            (Slot::Read(_) | Slot::Write, _) => buffers[index].clone(),
            _ => Binding::Absent,
        }
    }

    /// A user's kernel finds its tensors at the start of their bindings, which start where the device lets them.
    fn check_starts(&self, node: &Node, kernel: &str, bases: &[u32]) -> Result<(), Error> {
        let bound = node.op.operands().into_iter().flatten().chain([node.output]);
        let Some((id, _)) = bound.zip(bases).find(|(_, base)| **base != 0) else {
            return Ok(());
        };
        let offset = self.storage.places.get(&id).map_or(0, |place| place.offset);
        let (name, alignment) = (&self.graph.value(id).name, self.limits.alignment);
        Err(Error::OutOfRange {
            what: format!("the offset of {name}, which {kernel} binds,"),
            value: offset.to_string(),
            allowed: format!(
                "must be a multiple of {alignment} bytes; move it, or give it strides, with which it is copied"
            ),
        })
    }

    /// The bytes to bind for a footprint, and what brings an element's place into them, modulo 2³².
    fn binding(&self, footprint: Option<(ValueId, Range<usize>)>, exact: bool) -> (Binding, u32) {
        let Some((id, range)) = footprint else {
            return (Binding::Absent, 0);
        };
        let Some(home) = self.storage.homes[id.0] else {
            return (Binding::Absent, 0);
        };
        // Of a value that is never stored whole, the buffer holds this block from its first byte on.
        let stored_from = if self.schedule.scratch.contains(&id) { range.start } else { 0 };
        let dtype = self.graph.value(id).dtype;
        let place = self.storage.places.get(&self.graph.resident(id));
        let of_bytes = |bytes: u64| match dtype {
            DType::F32 | DType::U32 => bytes / 4,
            DType::Bool => bytes * 8,
            DType::F16 => bytes / 2,
        };
        let origin = of_bytes(place.map_or(0, |place| place.offset));
        let shift = usize::try_from(origin).expect("an offset inside a buffer should fit");
        let range = range.start - stored_from + shift..range.end - stored_from + shift;
        let start = window_start(dtype, range.start, self.limits.alignment);
        let whole_groups = start + window_bytes(dtype, &range, self.limits.alignment);
        let end = if exact { dtype.bytes(range.end) } else { whole_groups };
        // Whole groups of four words may end behind a user's buffer; no kernel reads there.
        let end = place.map_or(end, |place| end.min(place.end));
        let base = kernels::wrapped(origin)
            .wrapping_sub(kernels::wrapped(stored_from as u64))
            .wrapping_sub(kernels::wrapped(of_bytes(start)));
        (Binding::Buffer(home, start..end), base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, Matmul};

    /// A kernel that reads four words at a time finds the last group of its window whole.
    #[test]
    fn bindings_end_at_whole_groups_of_four_words_inside_their_buffers() {
        let mut builder = GraphBuilder::new();
        let lhs = builder.input("lhs", [1, 9, 4], DType::F32).unwrap();
        let rhs = builder.input("rhs", [1, 4, 12], DType::F32).unwrap();
        let op = Matmul::of(lhs, rhs);
        let out = builder.matmul("out", op).unwrap();
        let graph = builder.finish(&[out]);
        let mut num_blocks = 0;
        let options = PlanOptions { preferred_kernels: vec!["matmul_register_vec4"], ..PlanOptions::default() };
        for max_binding_bytes in [176, 208, 240, 4096] {
            let profile = DeviceProfile { max_binding_bytes, offset_alignment: 32, ..DeviceProfile::portable() };
            let program = Program::new(&graph, &profile, &options, &Places::new()).unwrap();
            num_blocks += program.dispatches.len();
            for (_, binding) in program.dispatches.iter().flat_map(|dispatch| &dispatch.bindings) {
                let Binding::Buffer(home, range) = binding else { continue };
                let bytes = range.end - range.start;
                assert!(bytes % 16 == 0 && bytes <= max_binding_bytes, "{binding:?}");
                let buffer = program.own.iter().find(|(id, _)| *home == Home::Own(*id));
                assert!(buffer.is_none_or(|&(_, size)| range.end <= size), "{binding:?}");
            }
        }
        assert!(num_blocks > 8, "{num_blocks} blocks are no test of splitting");
    }
}
