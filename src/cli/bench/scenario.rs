//! What is measured: sizes, and random numbers of them.

use std::collections::BTreeMap;
use std::path::Path;

use multihead::graph::Matmul;
use multihead::{
    AttentionConfig, CallShape, DType, Error, Graph, GraphBuilder, HostTensor, Inputs, Linear, MultiHeadAttention,
    Weights, io,
};
use serde::Serialize;

/// One thing to measure.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// It takes long: only when it is asked for, and timed once.
    pub(super) large: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A square product.
    Product(usize),
    Attention(Sizes),
    /// The same, where the keys and values but the last are in a cache.
    Step(Sizes),
}

/// One call of attention, batch 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) num_queries: usize,
    /// `None` where the queries are the keys.
    pub(super) num_keys: Option<usize>,
    pub(super) num_hiddens: usize,
    pub(super) num_heads: usize,
    pub(super) num_kv_heads: usize,
    pub(super) causal: bool,
    pub(super) projections: bool,
    pub(super) with_weights: bool,
}

impl Sizes {
    fn layer(num_queries: usize, num_hiddens: usize, num_heads: usize) -> Self {
        Self {
            num_queries,
            num_keys: None,
            num_hiddens,
            num_heads,
            num_kv_heads: num_heads,
            causal: false,
            projections: true,
            with_weights: false,
        }
    }
}

/// A scenario as another program reads it.
#[derive(Serialize)]
struct Told {
    kind: &'static str,
    num_heads: usize,
    num_kv_heads: usize,
    causal: bool,
    with_weights: bool,
}

impl Scenario {
    pub(super) fn is_product(&self) -> bool {
        matches!(self.kind, Kind::Product(_))
    }

    pub(super) fn is_step(&self) -> bool {
        matches!(self.kind, Kind::Step(_))
    }

    /// The sizes that another program has to know beside the tensors.
    fn told(&self) -> Told {
        match self.kind {
            Kind::Product(_) => {
                Told { kind: "product", num_heads: 1, num_kv_heads: 1, causal: false, with_weights: false }
            }
            Kind::Attention(sizes) | Kind::Step(sizes) => {
                let Sizes { num_heads, num_kv_heads, causal, with_weights, .. } = sizes;
                Told { kind: "attention", num_heads, num_kv_heads, causal, with_weights }
            }
        }
    }
}

/// All scenarios, in the order in which they are measured.
fn all() -> Vec<Scenario> {
    let p1 = Sizes::layer(1024, 512, 8);
    let core = Sizes { projections: false, ..Sizes::layer(2048, 512, 8) };
    let mut named = vec![
        ("P1".to_owned(), p1),
        ("P2".into(), Sizes::layer(128, 768, 12)),
        ("P3".into(), Sizes { causal: true, ..Sizes::layer(2048, 512, 8) }),
        ("C/full".into(), core),
        ("C/causal".into(), Sizes { causal: true, ..core }),
    ];
    named.extend([1, 2, 4, 8, 16, 32, 64].map(|heads| (format!("H/{heads}"), Sizes::layer(512, 512, heads))));
    let decode = Sizes { num_keys: Some(4096), num_kv_heads: 4, projections: false, ..Sizes::layer(1, 1024, 16) };
    named.extend([
        ("X".into(), Sizes { num_keys: Some(1024), ..Sizes::layer(512, 512, 8) }),
        ("G/uncached".into(), decode),
        ("L".into(), Sizes::layer(8, 64, 4)),
        ("W".into(), Sizes { with_weights: true, ..p1 }),
    ]);
    let attentions = named.into_iter().map(|(name, sizes)| (name, Kind::Attention(sizes), false));
    let products = [512, 1024].map(|side| (format!("matmul/{side}"), Kind::Product(side), false));
    let memory = ("M".to_owned(), Kind::Attention(Sizes::layer(16_384, 512, 8)), true);
    let step = ("G".to_owned(), Kind::Step(decode), false);
    let all = attentions.chain([step]).chain(products).chain([memory]);
    all.map(|(name, kind, large)| Scenario { name, kind, large }).collect()
}

/// The scenarios of these names (`H` is all of `H/…`); without names, all but the one that takes long.
///
/// # Errors
/// [`Error::Invalid`] with the names there are.
pub(super) fn chosen(only: &[String]) -> Result<Vec<Scenario>, Error> {
    if only.is_empty() {
        return Ok(all().into_iter().filter(|scenario| !scenario.large).collect());
    }
    let is = |scenario: &Scenario, name: &str| {
        scenario.name.eq_ignore_ascii_case(name)
            || scenario.name.split_once('/').is_some_and(|(family, _)| family.eq_ignore_ascii_case(name))
    };
    if let Some(unknown) = only.iter().find(|name| !all().iter().any(|scenario| is(scenario, name))) {
        let names: Vec<_> = all().into_iter().map(|scenario| scenario.name).collect();
        return Err(Error::Invalid(format!("there is no scenario \"{unknown}\"; there are {}", names.join(", "))));
    }
    Ok(all().into_iter().filter(|scenario| only.iter().any(|name| is(scenario, name))).collect())
}

/// A scenario's graph with random numbers for it.
pub(super) struct Work {
    pub(super) graph: Graph,
    /// Where the graph is that of a layer.
    pub(super) layer: Option<MultiHeadAttention>,
    parameters: BTreeMap<&'static str, HostTensor>,
    inputs: BTreeMap<&'static str, HostTensor>,
}

impl Work {
    pub(super) fn new(scenario: &Scenario) -> Result<Self, Error> {
        let mut random = Random(fastrand::Rng::with_seed(41));
        match scenario.kind {
            Kind::Product(side) => Self::product(side, &mut random),
            Kind::Attention(sizes) | Kind::Step(sizes) => Self::attention(sizes, &mut random),
        }
    }

    fn product(side: usize, random: &mut Random) -> Result<Self, Error> {
        Ok(Self {
            graph: product(side, side)?,
            layer: None,
            parameters: [("W", random.tensor(&[side, side], 1.0)?)].into(),
            inputs: [("query", random.tensor(&[1, side, side], 1.0)?)].into(),
        })
    }

    fn attention(sizes: Sizes, random: &mut Random) -> Result<Self, Error> {
        let Sizes { num_queries, num_hiddens, num_heads, num_kv_heads, .. } = sizes;
        let config = AttentionConfig { num_kv_heads: Some(num_kv_heads), ..AttentionConfig::new(num_heads) };
        let kv_width = num_hiddens / num_heads * num_kv_heads;
        let mut parameters = BTreeMap::new();
        let layer = if sizes.projections {
            let spread = 2.0 / (num_hiddens as f32).sqrt();
            let mut linear = |name: &'static str, rows: usize| -> Result<Linear, Error> {
                let weight = random.tensor(&[rows, num_hiddens], spread)?;
                parameters.insert(name, weight.clone());
                Ok(Linear { weight, bias: None })
            };
            let [w_q, w_k] = [linear("W_q", num_hiddens)?, linear("W_k", kv_width)?];
            let [w_v, w_o] = [linear("W_v", kv_width)?, linear("W_o", num_hiddens)?];
            MultiHeadAttention::new(config, Weights { w_q, w_k, w_v, w_o, bias_k: None, bias_v: None })?
        } else {
            MultiHeadAttention::core(config)?
        };
        let mut inputs: BTreeMap<_, _> = [("query", random.tensor(&[1, num_queries, num_hiddens], 2.0)?)].into();
        let width = if sizes.projections { num_hiddens } else { kv_width };
        let names: &[&'static str] = match (sizes.num_keys, sizes.projections) {
            (None, true) => &[],
            (Some(_), true) => &["key"],
            (_, false) => &["key", "value"],
        };
        for name in names {
            let length = sizes.num_keys.unwrap_or(num_queries);
            inputs.insert(name, random.tensor(&[1, length, width], 2.0)?);
        }
        let shape = |name: &str| inputs.get(name).map(|tensor| tensor.shape().clone());
        let call = CallShape {
            key: shape("key"),
            value: shape("value"),
            causal: sizes.causal,
            ..CallShape::self_attention(inputs["query"].shape().clone())
        };
        let graph = layer.graph(&call, sizes.with_weights)?;
        Ok(Self { graph, layer: Some(layer), parameters, inputs })
    }

    pub(super) fn parameters(&self) -> Inputs<'_> {
        self.parameters.iter().fold(Inputs::new(), |all, (name, tensor)| all.with(name, tensor))
    }

    pub(super) fn inputs(&self) -> Inputs<'_> {
        self.inputs.iter().fold(Inputs::new(), |all, (name, tensor)| all.with(name, tensor))
    }

    /// Writes the scenario for another program: sizes as JSON in the metadata, inputs and parameters by their names.
    pub(super) fn write(&self, scenario: &Scenario, path: &Path) -> Result<(), Error> {
        let sizes = serde_json::to_string(&scenario.told()).expect("sizes should have a text");
        let tensors: Vec<_> =
            self.inputs.iter().chain(&self.parameters).map(|(&name, tensor)| (name, tensor)).collect();
        io::write_tensors(path, &tensors, &[("scenario", &sizes)])
    }

    pub(super) fn input(&self, name: &str) -> Option<&HostTensor> {
        self.inputs.get(name)
    }
}

/// `query` (1, rows, side) times `W` (side, side).
pub(super) fn product(rows: usize, side: usize) -> Result<Graph, Error> {
    let mut builder = GraphBuilder::new();
    let lhs = builder.input("query", [1, rows, side], DType::F32)?;
    let rhs = builder.parameter("W", [side, side])?;
    let op = Matmul::of(lhs, rhs);
    let output = builder.matmul("output", op)?;
    Ok(builder.finish(&[output]))
}

/// Numbers that are the same in every run. Zeros would be faster than what is measured elsewhere.
struct Random(fastrand::Rng);

impl Random {
    /// Evenly spread over ±`spread` / 2.
    fn tensor(&mut self, axes: &[usize], spread: f32) -> Result<HostTensor, Error> {
        let len = axes.iter().product();
        HostTensor::new(axes.to_vec(), (0..len).map(|_| (self.0.f32() - 0.5) * spread).collect())
    }
}
