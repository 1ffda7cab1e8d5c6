//! The experiments hold the numbers that the text gives, on the adapter and on the CPU.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::BTreeSet;

use multihead::experiments::{alignment, copy_both, grouped_query, heads_are_free, self_and_cross, shapes, survey};
use multihead::heads::links::{LINKS, Relation};
use multihead::heads::{Change, HeadProducts, Pattern};
use multihead::{
    AttentionConfig, AttentionInputs, Case, CaseOptions, Comparison, CpuReason, Device, Expected, HostTensor, Linear,
    Mask, MultiHeadAttention, OutputByHead, Settings, Weights, io,
};
use support::layers::Spec;

const LAYERS: &str = "examples/data/heads/minilm_heads.safetensors";

fn devices() -> [Device; 2] {
    [Device::Gpu(support::gpu()), Device::Cpu(CpuReason::Chosen)]
}

fn cpu() -> Device {
    Device::Cpu(CpuReason::Chosen)
}

fn wait<T>(future: impl Future<Output = Result<T, multihead::Error>>) -> T {
    pollster::block_on(future).unwrap()
}

#[test]
fn one_head_loses_half_and_two_lose_nothing() {
    for device in devices() {
        let report = wait(copy_both::run(&device, &copy_both::Options::default()));
        let wanted: [&[[f32; 2]]; 6] = [
            &[[0.5, 0.5]],
            &[[0.7, 0.3]],
            &[[0.9, 0.1]],
            &[[1.0, 0.0]],
            &[[1.0, 0.0], [0.0, 1.0]],
            &[[0.88, 0.12], [0.12, 0.88]],
        ];
        assert_eq!(report.rows.len(), wanted.len());
        for (row, wanted) in report.rows.iter().zip(wanted) {
            let pairs = row.weights.iter().flatten().zip(wanted.iter().flatten());
            assert!(
                pairs.clone().count() == 2 * row.heads
                    && pairs.clone().all(|(got, wanted)| (got - wanted).abs() < 1e-6)
            );
            match row.heads {
                1 => assert!((0.706..=0.707).contains(&row.relative_error), "{row:?}"),
                _ => assert!(row.relative_error < 1e-5, "{row:?}"),
            }
        }
        assert!(report.control.relative_error > 0.1, "a readout of another mixture must miss the bound");
    }
}

/// The error is √½ but for sampling, whatever the seed: four standard deviations, and the fit's own m / 2N.
#[test]
fn one_heads_error_is_that_of_theory_for_every_seed() {
    for seed in 1..6 {
        let options = copy_both::Options { num_samples: 16_384, value_dim: 8, seed };
        let report = wait(copy_both::run(&cpu(), &options));
        let deviation = 0.25 / (16_384.0_f64 * 8.0).sqrt() / copy_both::THEORY;
        for row in &report.rows[..4] {
            let difference = row.relative_error - copy_both::THEORY;
            assert!(difference.abs() < 4.0 * deviation + 8.0 / (2.0 * 16_384.0), "seed {seed}: {row:?}");
        }
    }
}

#[test]
fn shapes_are_those_of_the_text() {
    for device in devices() {
        let report = wait(shapes::run(&device, &shapes::Options::default()));
        assert_eq!(report.calls.iter().map(|call| call.output.clone()).collect::<Vec<_>>(), [[2, 4, 100], [2, 4, 100]]);
        let shape = |call: usize, name: &str| {
            report.calls[call].steps.iter().find(|step| step.name == name).unwrap().shape.clone()
        };
        assert_eq!((shape(0, "key"), shape(1, "key")), (vec![2, 6, 100], vec![2, 9, 100]));
        assert_eq!((shape(0, "q_heads"), shape(0, "scores")), (vec![10, 4, 20], vec![10, 4, 6]));
        assert_eq!((shape(1, "scores"), shape(1, "joined")), (vec![10, 4, 9], vec![2, 4, 100]));
        let how = |name: &str| report.calls[0].steps.iter().find(|step| step.name == name).unwrap().how.as_str();
        assert_eq!(how("k_heads"), "k as (2, 6, 5, 20), then (2, 5, 6, 20)");
        assert_eq!(how("joined"), "heads as (2, 5, 4, 20), then (2, 4, 5, 20)");
    }
}

#[test]
fn heads_cost_no_parameters_and_no_products_but_exponentials() {
    let counted = heads_are_free::Options {
        num_hiddens: vec![8, 256, 504, 4096],
        heads: vec![1, 2, 4, 8],
        num_tokens: 77,
        runs: 0,
    };
    let report = wait(heads_are_free::run(&cpu(), &counted));
    assert_eq!(report.rows.len(), 16);
    for row in &report.rows {
        let (n, d) = (77, row.num_hiddens as u64);
        assert_eq!((row.parameters, row.flops), (4 * d * d, 8 * n * d * d + 4 * n * n * d), "{row:?}");
        assert_eq!((row.parameters_formula, row.flops_formula), (row.parameters, row.flops));
        assert_eq!((row.exponentials, row.median_ms), (row.heads as u64 * n * n, None));
        assert_eq!(row.exponentials_formula, row.exponentials);
    }
    let parameters = |width: usize| report.rows.iter().find(|row| row.num_hiddens == width).unwrap().parameters;
    assert_eq!((parameters(256), parameters(4096)), (262_144, 67_108_864));
    for device in devices() {
        let measured = heads_are_free::Options { num_tokens: 16, runs: 3, ..heads_are_free::Options::default() };
        let report = wait(heads_are_free::run(&device, &measured));
        assert_eq!(report.rows.len(), 4);
        assert!(report.rows.iter().all(|row| row.median_ms.unwrap() > 0.0));
    }
}

#[test]
fn letters_are_sharp_split_or_diffuse() {
    use alignment::Regime::{Diffuse, Sharp, Split};
    for device in devices() {
        let report = wait(alignment::run(&device, &alignment::Options::default()));
        let regimes: Vec<_> = report.letters.iter().map(|letter| letter.regime).collect();
        let expected = [Split(2), Split(2), Split(2), Diffuse, Split(2), Split(2), Sharp, Sharp, Split(2)];
        assert_eq!(regimes, expected, "a t t e n t i o n over t r a n s l a t i o n");
        assert!(report.separated);
    }
}

#[test]
fn regimes_separate_for_every_seed_when_embeddings_are_wide_and_not_when_they_are_narrow() {
    let separated = |embedding_dim: usize, seed: u64| {
        let options = alignment::Options { embedding_dim, seed, ..alignment::Options::default() };
        wait(alignment::run(&cpu(), &options)).separated
    };
    assert!((0..25).all(|seed| separated(1024, seed)));
    assert!((0..25).all(|seed| !separated(4, seed)));
}

#[test]
fn any_words_align_in_any_script() {
    use alignment::Regime::{Diffuse, Sharp, Split};
    let words: [(&str, &str, &[alignment::Regime]); 4] = [
        ("Дом", "модем", &[Diffuse, Sharp, Split(2)]),
        ("né", "ne\u{301}", &[Sharp, Sharp]), // é as one character and as two is one letter
        ("東京都", "京都", &[Diffuse, Sharp, Sharp]),
        ("👩‍🚀a", "a👩‍🚀👩‍🚀", &[Split(2), Sharp]),
    ];
    for (query, key, expected) in words {
        let options = alignment::Options { query: query.into(), key: key.into(), ..alignment::Options::default() };
        let report = wait(alignment::run(&cpu(), &options));
        let regimes: Vec<_> = report.letters.iter().map(|letter| letter.regime).collect();
        assert_eq!(regimes, expected, "{query} over {key}");
        assert!(report.separated, "{query} over {key}: {report}");
    }
}

#[test]
fn one_module_has_two_wirings() {
    for device in devices() {
        let report = wait(self_and_cross::run(&device, &self_and_cross::Options::default()));
        let [own, cross] = report.wirings.as_slice() else { panic!("two wirings") };
        assert_eq!(own.parameters, cross.parameters);
        assert_eq!((&own.output_shape, &cross.output_shape), (&vec![1, 6, 128], &vec![1, 6, 128]));
        assert_eq!((own.weights.shape().axes(), cross.weights.shape().axes()), (&[1, 2, 6, 6][..], &[1, 2, 6, 9][..]));
        assert!(report.cross_with_itself < 1e-6 && report.shuffled_keys < 1e-5, "{report}");
        assert!(report.shuffled_values > 0.05, "the comparison can fail: {report}");
    }
}

fn layer_cases() -> Vec<(String, Case)> {
    Case::open_all(LAYERS, &CaseOptions::default()).unwrap()
}

#[test]
fn all_72_heads_are_surveyed_alike_on_both_devices() {
    let cases = layer_cases();
    let [gpu, cpu] = devices().map(|device| wait(survey::run(&device, &cases)));
    assert_eq!((gpu.layers.len(), cpu.layers.len()), (6, 6));
    for (one, other) in gpu.layers.iter().zip(&cpu.layers) {
        assert_eq!((one.heads.len(), other.heads.len()), (12, 12));
        for (one, other) in one.heads.iter().zip(&other.heads) {
            assert!((one.entropy_bits - other.entropy_bits).abs() < 1e-4);
            assert!((one.without.relative - other.without.relative).abs() < 1e-4);
            assert_eq!(one.pattern, other.pattern);
        }
    }
    let previous = &gpu.layers[0].heads[2];
    assert_eq!(previous.pattern, Some(Pattern::Previous));
    assert!(previous.pattern_score > 0.99 && previous.effective_keys < 1.1, "{previous:?}");
    let heads = gpu.layers.iter().flat_map(|layer| &layer.heads);
    assert_eq!(heads.filter(|head| head.pattern_score > 0.99).count(), 1, "no other head is as pure");
}

#[test]
fn labelled_links_are_scored_and_no_head_is_named_for_luck() {
    let report = wait(survey::run(&cpu(), &layer_cases()));
    let links: Vec<usize> = report.relations.iter().map(|relation| relation.best.links).collect();
    assert_eq!(links, [3, 16, 8]);
    for relation in &report.relations {
        assert_eq!(relation.num_heads, 72);
        assert!(!relation.verdict.named, "{relation:?}");
    }
    let are = report.relations[1].links.iter().find(|link| link.from == "are").unwrap();
    assert_eq!((are.to.as_str(), are.rival.as_str()), ("keys", "cabinet"));
    assert!(are.best_share > 0.7 && are.best_rival_share < 0.1, "{are:?}");
}

/// (2·L, 2·L) whose first L rows pick numbers from `first` on.
fn picking(length: usize, first: usize) -> Linear {
    let mut weight = vec![0.0; 4 * length * length];
    for row in 0..length {
        weight[row * 2 * length + first + row] = 1.0;
    }
    Linear { weight: HostTensor::new([2 * length; 2], weight).unwrap(), bias: None }
}

/// All labelled sentences, padded: the first of two heads looks from every verb at its subject, the second looks at
/// everything alike. A token's 2·L numbers are a one of its own place among L, then one of the place it looks for.
fn case_that_knows_subjects() -> Case {
    let sentences: BTreeSet<&str> = LINKS.iter().map(|link| link.sentence).collect();
    let length = sentences.iter().map(|sentence| sentence.split(' ').count()).max().unwrap();
    let mut query = vec![0.0; sentences.len() * length * 2 * length];
    let mut tokens = Vec::new();
    for (entry, sentence) in sentences.iter().enumerate() {
        let mut words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
        words.resize(length, io::PADDING_TOKEN.into());
        let number = |row: usize, column: usize| (entry * length + row) * 2 * length + column;
        (0..length).for_each(|place| query[number(place, place)] = 1.0);
        let subjects = LINKS.iter().filter(|link| link.relation == Relation::VerbToSubject);
        subjects
            .filter_map(|link| link.places(&words))
            .for_each(|link| query[number(link.from, length + link.to)] = 9.0);
        tokens.push(words);
    }
    let query = HostTensor::new([sentences.len(), length, 2 * length], query).unwrap();
    let [w_k, w_q] = [0, length].map(|first| picking(length, first));
    let (w_v, w_o) = (w_k.clone(), w_k.clone());
    Case {
        about: None,
        tokens: Some(tokens),
        settings: Settings { num_heads: Some(2), scale: Some(1.0), ..Settings::default() },
        inputs: AttentionInputs::self_attention(query),
        weights: Some(Weights { w_q, w_k, w_v, w_o, bias_k: None, bias_v: None }),
        expected: Expected::default(),
    }
}

/// The verdict can be yes.
#[test]
fn a_head_that_knows_subjects_is_named() {
    let cases = [("knowing".to_owned(), case_that_knows_subjects())];
    for device in devices() {
        let report = wait(survey::run(&device, &cases));
        let named: Vec<_> = report.relations.iter().filter(|relation| relation.verdict.named).collect();
        let [subjects] = named.as_slice() else { panic!("one relation is known: {named:?}") };
        assert_eq!((subjects.relation, subjects.best_head), (Relation::VerbToSubject, 0));
        assert_eq!((subjects.best.found, subjects.best.preferred, subjects.best.links), (16, 16, 16));
        let other = report.layers[0].heads[1].relations[1];
        assert_eq!((other.found, other.preferred), (0, 0), "a head that cannot tell words apart finds nothing");
    }
}

/// The keys of another sequence, padding and what the layer learned are nobody's next token.
#[test]
fn a_survey_asks_tokens_alone() {
    let mut rng = fastrand::Rng::with_seed(2);
    let spec = Spec { extra_key: true, ..Spec::new(2, 4, 4, 6, 2) };
    let tokens = ["a", "b", "c", io::PADDING_TOKEN].map(str::to_owned).to_vec();
    let valid_lens = Some(HostTensor::new([2], vec![4, 2]).unwrap());
    let inputs =
        AttentionInputs { key: None, value: None, ..spec.inputs(&mut rng, Mask { valid_lens, ..Mask::default() }) };
    let layer = spec.layer(&mut rng);
    let case = Case {
        about: None,
        tokens: Some(vec![tokens.clone(), tokens]),
        settings: Settings { num_heads: Some(spec.num_heads), ..Settings::default() },
        inputs: inputs.clone(),
        weights: layer.weights().cloned(),
        expected: Expected::default(),
    };
    let report = wait(survey::run(&cpu(), &[("layer".into(), case)]));
    let maps = wait(layer.run_with_weights(&cpu(), &inputs)).attention_weights.unwrap();
    let axes = maps.shape().axes().to_vec();
    assert_eq!(axes, [2, spec.num_heads, 4, 5], "four tokens and a learned key");
    let weight = |entry: usize, head: usize, row: usize, column: usize| {
        f64::from(maps.data()[((entry * axes[1] + head) * axes[2] + row) * axes[3] + column])
    };
    for head in &report.layers[0].heads {
        // Three tokens before the padding, and two by the valid length: the last of each has no next.
        let first = f64::midpoint(weight(0, head.head, 0, 1), weight(0, head.head, 1, 2));
        let expected = f64::midpoint(first, weight(1, head.head, 0, 1));
        assert!((head.share_on_next.unwrap() - expected).abs() < 1e-12, "{head:?}, expected {expected}");
    }
}

/// The output without these heads, by hiding all of their keys: a query without a key gives zeros.
fn output_without(
    device: &Device,
    layer: &MultiHeadAttention,
    inputs: &AttentionInputs,
    heads: &[usize],
) -> HostTensor {
    let sizes = layer.sizes(&inputs.call_shape()).unwrap();
    let (num_queries, num_keys) = (inputs.query().shape().axes()[1], inputs.key().shape().axes()[1]);
    let mask = (0..sizes.num_heads).flat_map(|head| vec![!heads.contains(&head); num_queries * num_keys]).collect();
    let attend_mask = Some(HostTensor::new([1, sizes.num_heads, num_queries, num_keys], mask).unwrap());
    let inputs = AttentionInputs { mask: Mask { attend_mask, ..inputs.mask.clone() }, ..inputs.clone() };
    wait(layer.run(device, &inputs)).output
}

#[test]
fn switching_off_by_algebra_is_switching_off() {
    let mut rng = fastrand::Rng::with_seed(6);
    let specs = [
        Spec::new(2, 5, 7, 4, 3),
        Spec { num_kv_heads: 2, value_dim: 5, biases: false, ..Spec::new(3, 4, 4, 6, 4) },
        Spec { num_kv_heads: 1, ..Spec::new(1, 1, 9, 5, 8) },
    ];
    for spec in specs {
        let layer = spec.layer(&mut rng);
        let inputs = spec.inputs(&mut rng, Mask::default());
        let counted = vec![spec.num_queries; spec.batch];
        for device in devices() {
            let run = wait(layer.run_by_head(&device, &inputs));
            let mut products = HeadProducts::new(spec.num_heads);
            products.add(&run, &counted).unwrap();
            for heads in [vec![0], vec![spec.num_heads - 1], vec![0, 2], (0..spec.num_heads).collect()] {
                let off = output_without(&device, &layer, &inputs, &heads);
                let expected = Change::between(&run.output, &off, &counted).unwrap();
                let got = products.without(&heads);
                assert!(
                    (got.relative - expected.relative).abs() < 1e-5,
                    "{spec:?} without {heads:?}: {got:?}, {expected:?}"
                );
                if expected.cosine.is_finite() {
                    assert!(
                        (got.cosine - expected.cosine).abs() < 1e-5,
                        "{spec:?} without {heads:?}: {got:?}, {expected:?}"
                    );
                }
            }
        }
    }
}

/// `W_o` with a head's columns set to zero, another way to the same.
#[test]
fn contributions_sum_to_the_output_and_zeroed_columns_take_theirs_away() {
    let case = Case::open("examples/data/minilm_trophy_layer1.safetensors", &CaseOptions::default()).unwrap();
    let layer = case.attention().unwrap();
    for device in devices() {
        let run = wait(layer.run_by_head(&device, &case.inputs));
        let bias = case.weights.as_ref().unwrap().w_o.bias.as_ref().unwrap();
        assert!(largest_difference(&summed(&run, bias, None), run.output.data()) < 1e-5);
        let zeroed =
            MultiHeadAttention::new(case.config().unwrap(), without_columns(case.weights.as_ref().unwrap(), 7));
        let expected = wait(zeroed.unwrap().run(&device, &case.inputs)).output;
        assert!(largest_difference(&summed(&run, bias, Some(7)), expected.data()) < 1e-5);
        assert!(
            largest_difference(&summed(&run, bias, Some(8)), expected.data()) > 1e-2,
            "another head is not the same"
        );
    }
}

fn summed(run: &OutputByHead, bias: &HostTensor, left_out: Option<usize>) -> Vec<f32> {
    let &[batch, num_heads, rows, width] = run.contributions.shape().axes() else { panic!("four axes") };
    let mut sum = bias.data().repeat(batch * rows);
    for (place, &part) in run.contributions.data().iter().enumerate() {
        let (head, row, column) = (place / (rows * width) % num_heads, place / width % rows, place % width);
        let entry = place / (num_heads * rows * width);
        if Some(head) != left_out {
            sum[(entry * rows + row) * width + column] += part;
        }
    }
    sum
}

fn without_columns(weights: &Weights, head: usize) -> Weights {
    let weight = &weights.w_o.weight;
    let data =
        weight.data().iter().enumerate().map(|(place, &w)| if place % 384 / 32 == head { 0.0 } else { w }).collect();
    let w_o = Linear { weight: HostTensor::new(weight.shape().clone(), data).unwrap(), ..weights.w_o.clone() };
    Weights { w_o, ..weights.clone() }
}

/// NaN shows, and so do more numbers on one side.
fn largest_difference(one: &[f32], other: &[f32]) -> f64 {
    let [one, other] = [one, other].map(|data| HostTensor::new([data.len()], data.to_vec()).unwrap());
    Comparison::new("numbers", &one, &other, 0.0).max_error
}

/// Every step is the best of those left, and the curve ends where only the bias of the output is left.
#[test]
fn pruning_is_greedy_and_ends_without_heads() {
    let cases = &layer_cases()[..1];
    let report = wait(survey::run(&cpu(), cases));
    let layer = &report.layers[0];
    let case = &cases[0].1;
    let run = wait(case.attention().unwrap().run_by_head(&cpu(), &case.inputs));
    let length = |tokens: &Vec<String>| tokens.iter().filter(|token| *token != io::PADDING_TOKEN).count();
    let counted: Vec<usize> = case.tokens.as_ref().unwrap().iter().map(length).collect();
    let mut products = HeadProducts::new(12);
    products.add(&run, &counted).unwrap();
    let mut gone = Vec::new();
    assert_eq!(layer.pruning.len(), 12);
    for step in &layer.pruning {
        let with = |head: usize| products.without(&[gone.as_slice(), &[head]].concat());
        assert!(!gone.contains(&step.head), "no head goes twice");
        assert_eq!(step.change, with(step.head));
        let left = (0..12).filter(|head| !gone.contains(head));
        assert!(left.map(with).all(|other| step.change.relative <= other.relative), "{step:?} after {gone:?}");
        gone.push(step.head);
    }
    let bias = case.weights.as_ref().unwrap().w_o.bias.as_ref().unwrap();
    let rows = run.output.data().len() / bias.data().len();
    let nothing = HostTensor::new(run.output.shape().clone(), bias.data().repeat(rows)).unwrap();
    let (last, end) = (layer.pruning[11].change, Change::between(&run.output, &nothing, &counted).unwrap());
    assert!(
        (last.relative - end.relative).abs() < 1e-5 && (last.cosine - end.cosine).abs() < 1e-5,
        "{last:?}, {end:?}"
    );
    assert!(layer.pruning[10].change.relative < end.relative - 1e-3, "one head less is not the end");
}

#[test]
fn pooling_saves_cache_and_changes_the_output() {
    let case = Case::open("examples/data/minilm_trophy_layer1.safetensors", &CaseOptions::default()).unwrap();
    for device in devices() {
        let report = wait(grouped_query::run(&device, &[("layer".into(), case.clone())]));
        let rows = &report.layers[0].rows;
        let groups: Vec<usize> = rows.iter().map(|row| row.num_kv_heads).collect();
        let bytes: Vec<usize> = rows.iter().map(|row| row.cache_bytes_per_token).collect();
        assert_eq!(groups, [12, 6, 4, 3, 2, 1]);
        assert_eq!(bytes, [3072, 1536, 1024, 768, 512, 256], "G · (32 + 32) numbers of 4 bytes");
        assert!(
            rows[0].mean.relative < 1e-6 && rows[0].first.relative < 1e-6,
            "as many groups as heads change nothing"
        );
        for pair in rows.windows(2) {
            assert!(pair[1].mean.cosine < pair[0].mean.cosine, "fewer heads, further away: {pair:?}");
            assert!(pair[1].mean.relative < pair[1].first.relative, "the mean is the better start: {pair:?}");
        }
    }
}

/// Heads that are copies of each other lose nothing when they are pooled.
#[test]
fn pooling_copies_changes_nothing() {
    use grouped_query::{Pooling, pooled};
    let mut rng = fastrand::Rng::with_seed(3);
    let spec = Spec { num_kv_heads: 2, extra_key: true, ..Spec::new(2, 3, 5, 6, 4) };
    let grouped = spec.layer(&mut rng);
    let weights = grouped.weights().unwrap().clone();
    let repeat = |linear: &Linear| {
        let data = |data: &[f32]| data.chunks(data.len() / 2).flat_map(|head| head.repeat(3)).collect::<Vec<f32>>();
        let weight = HostTensor::new([24, 24], data(linear.weight.data())).unwrap();
        Linear { weight, bias: linear.bias.as_ref().map(|bias| HostTensor::new([24], data(bias.data())).unwrap()) }
    };
    let extra = |extra: &Option<HostTensor>| {
        let data = extra.as_ref().unwrap().data().chunks(4).flat_map(|head| head.repeat(3)).collect();
        Some(HostTensor::new([1, 1, 24], data).unwrap())
    };
    let many = Weights {
        w_k: repeat(&weights.w_k),
        w_v: repeat(&weights.w_v),
        bias_k: extra(&weights.bias_k),
        bias_v: extra(&weights.bias_v),
        ..weights.clone()
    };
    let layer = MultiHeadAttention::new(AttentionConfig::new(6), many.clone()).unwrap();
    let inputs = spec.inputs(&mut rng, Mask::default());
    let sizes = layer.sizes(&inputs.call_shape()).unwrap();
    for pooling in [Pooling::Mean, Pooling::First] {
        let again = pooled(&many, sizes, 2, pooling).unwrap();
        assert!(largest_difference(again.w_k.weight.data(), weights.w_k.weight.data()) < 1e-6);
        let again = MultiHeadAttention::new(AttentionConfig::new(6), again).unwrap();
        let [one, other] = [&layer, &again].map(|layer| wait(layer.run(&cpu(), &inputs)).output);
        assert!(largest_difference(one.data(), other.data()) < 1e-5);
    }
    assert!(pooled(&many, sizes, 4, Pooling::Mean).is_err() && pooled(&many, sizes, 0, Pooling::Mean).is_err());
}
