//! One step of a cache that is full but for it: the keys and values of a scenario, the last of them new.

use std::collections::BTreeMap;

use multihead::{
    CacheOptions, CacheStorage, Device, Error, Gpu, HostTensor, KvCache, MultiHeadAttention, RunOutput, StepInputs,
    StepPlan, StepShape,
};
use web_time::Instant;

use super::Line;
use super::against::against;
use super::measure::{Samples, Timing};
use super::peer::Peer;
use super::scenario::{Scenario, Work};
use super::verify::Expected;

/// Rows that are cached at once: the more, the longer the prompt's plan takes to compile.
const CHUNK: usize = 256;

pub(super) async fn line<'a>(
    gpu: &'a Gpu,
    scenario: &'a Scenario,
    work: &Work,
    peers: &mut [Peer],
) -> Result<Line<'a>, Error> {
    let missing = || Error::Invalid(format!("the scenario {} has no cache", scenario.name));
    let [query, key, value] = ["query", "key", "value"].map(|name| work.input(name).ok_or_else(missing));
    let (rows, layer) = (Rows { query: query?, key: key?, value: value? }, work.layer.as_ref().ok_or_else(missing)?);
    let device = Device::Gpu(gpu.clone());
    let mut cache = rows.filled(&device, layer).await?;
    let cold = Instant::now();
    let step = layer.compile_step(&device, &cache, &rows.shape(1)).await?;
    let last = rows.inputs(cache.lengths()[0], 1)?;
    let first = step.run(&mut cache, &last).await?;
    let cold_ms = cold.elapsed().as_secs_f64() * 1e3;
    let output = BTreeMap::from([("joined".to_owned(), first.output)]);
    let expected = Expected::of(scenario, work)?;
    let verdict = expected.judge(&RunOutput { outputs: output, timing: first.timing })?;
    let Timing { median_ms, with_io_ms, spread_ms, record_us } = time(gpu, &step, &mut cache, &last, scenario).await?;
    let plan = step.plan().ok_or_else(missing)?;
    let peers = against(gpu, plan, scenario, work, &expected, peers)?;
    let ops: Vec<_> = plan.graph().nodes().iter().map(|node| node.op.name()).collect();
    Ok(Line {
        scenario: &scenario.name,
        device: &gpu.profile().name,
        variant: ops.join("+"),
        dispatches: step.num_dispatches(),
        tiles: Vec::new(),
        median_ms,
        with_io_ms,
        spread_ms,
        gflops: work.graph.flops() as f64 / median_ms / 1e6,
        ceiling_gflops: None,
        peak_bytes: plan.peak_bytes() + cache.bytes(),
        cold_ms,
        record_us,
        verdict,
        peers,
    })
}

/// Steps again and again at the same place: what is encoded reads the lengths of the last run.
async fn time(
    gpu: &Gpu,
    step: &StepPlan,
    cache: &mut KvCache,
    last: &StepInputs,
    scenario: &Scenario,
) -> Result<Timing, Error> {
    let plan = step.plan().ok_or_else(|| Error::Invalid("the step runs on the CPU".into()))?;
    let mut samples = Samples::new(scenario);
    while samples.are_too_few() {
        samples.submit(gpu, plan)?;
        cache.truncate(0, cache.lengths()[0] - 1)?;
        let before = Instant::now();
        step.run(cache, last).await?;
        samples.with_io.push(before.elapsed().as_secs_f64());
    }
    Ok(samples.timing())
}

/// One query row, (1, Lk, ·) keys and values.
struct Rows<'a> {
    query: &'a HostTensor,
    key: &'a HostTensor,
    value: &'a HostTensor,
}

impl Rows<'_> {
    fn shape(&self, rows: usize) -> StepShape {
        let width = |tensor: &HostTensor| tensor.shape().axes()[2];
        let [query, key, value] = [self.query, self.key, self.value].map(width);
        StepShape { key: Some(key), value: Some(value), ..StepShape::self_attention(rows, query) }
    }

    /// Rows from `first` on; all have the one query.
    fn inputs(&self, first: usize, count: usize) -> Result<StepInputs, Error> {
        let some = |tensor: &HostTensor| {
            let width = tensor.shape().axes()[2];
            HostTensor::new([1, count, width], tensor.data()[first * width..(first + count) * width].to_vec())
        };
        let query = HostTensor::new([1, count, self.query.shape().axes()[2]], self.query.data().repeat(count))?;
        Ok(StepInputs { key: Some(some(self.key)?), value: Some(some(self.value)?), ..StepInputs::new(query) })
    }

    /// All rows but the last.
    async fn filled(&self, device: &Device, layer: &MultiHeadAttention) -> Result<KvCache, Error> {
        let capacity = self.key.shape().axes()[1];
        let options = CacheOptions { batch: 1, capacity, storage: CacheStorage::F32 };
        let mut cache = layer.cache(device, &options, &self.shape(1)).await?;
        let chunk = layer.compile_step(device, &cache, &self.shape(CHUNK)).await?;
        for first in (0..capacity - 1).step_by(CHUNK) {
            chunk.run(&mut cache, &self.inputs(first, CHUNK.min(capacity - 1 - first))?).await?;
        }
        Ok(cache)
    }
}
