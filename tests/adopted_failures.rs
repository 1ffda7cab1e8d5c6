//! What goes wrong on somebody else's device is an error of the call that met it: no panic, no stale numbers, nothing
//! for the owner's handler. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use multihead::graph::Rewriting;
use multihead::{
    AttentionInputs, Error, Gpu, HostTensor, Inputs, MultiHeadAttention, Plan, PlanOptions, RunOutput, Tensor,
};
use support::layers::Spec;
use support::random;
use support::users::{users_buffer, users_device};
use wgpu::BufferUsages as Usage;

/// A device with a handler that counts, or with wgpu's own, which panics.
struct Theirs {
    device: wgpu::Device,
    queue: wgpu::Queue,
    seen: Option<Arc<AtomicUsize>>,
}

impl Theirs {
    fn new(has_handler: bool) -> Self {
        let (device, queue) = users_device();
        let seen = has_handler.then(|| Arc::new(AtomicUsize::new(0)));
        if let Some(seen) = seen.clone() {
            device.on_uncaptured_error(Arc::new(move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            }));
        }
        Self { device, queue, seen }
    }

    fn num_seen(&self) -> usize {
        self.seen.as_ref().map_or(0, |seen| seen.load(Ordering::Relaxed))
    }
}

/// A layer on such a device, whose query lies in the owner's buffer.
struct Scene {
    theirs: Theirs,
    gpu: Gpu,
    layer: MultiHeadAttention,
    inputs: AttentionInputs,
    query: wgpu::Buffer,
    key: HostTensor,
}

impl Scene {
    fn new(has_handler: bool) -> Self {
        let theirs = Theirs::new(has_handler);
        let gpu = Gpu::adopt(&theirs.device, &theirs.queue).unwrap();
        let mut rng = fastrand::Rng::with_seed(51);
        let spec = Spec::new(1, 4, 4, 2, 4);
        let layer = spec.layer(&mut rng);
        let key = random(&mut rng, [1, 4, 8]);
        let inputs = AttentionInputs { key: Some(key.clone()), ..AttentionInputs::self_attention(key.clone()) };
        let query = users_buffer(&theirs.device, 128, Usage::STORAGE | Usage::COPY_DST);
        theirs.queue.write_buffer(&query, 0, bytemuck::cast_slice(key.data()));
        Self { theirs, gpu, layer, inputs, query, key }
    }

    fn plan_on(&self, query: &wgpu::Buffer) -> Result<Plan, Error> {
        let options = PlanOptions {
            tensors: [("query".to_owned(), Tensor::new(query))].into(),
            rewriting: Rewriting::OFF,
            ..PlanOptions::default()
        };
        pollster::block_on(self.layer.plan(&self.gpu, &self.inputs.call_shape(), false, &options))
    }

    fn run(&self, plan: &Plan) -> Result<RunOutput, Error> {
        pollster::block_on(plan.run(&Inputs::new().with("key", &self.key)))
    }

    fn upload(&self, plan: &Plan) -> Result<(), Error> {
        pollster::block_on(plan.upload(&Inputs::new().with("key", &self.key)))
    }
}

/// What breaks between two runs, and whether the device is lost by it.
type Sabotage = (&'static str, fn(&Scene, &Plan), bool);

#[test]
fn whatever_breaks_before_a_run_is_that_runs_error() {
    let sabotages: [Sabotage; 5] = [
        ("the user's buffer", |scene, _| scene.query.destroy(), false),
        ("the plan's input", |_, plan| plan.buffer("key").unwrap().destroy(), false),
        ("the plan's parameter", |_, plan| plan.buffer("W_q").unwrap().destroy(), false),
        ("the device", |scene, _| scene.theirs.device.destroy(), true),
        (
            "the device, which has noticed",
            |scene, _| {
                scene.theirs.device.destroy();
                let _ = scene.theirs.device.poll(wgpu::PollType::wait_indefinitely());
            },
            true,
        ),
    ];
    for has_handler in [false, true] {
        for (what, sabotage, is_lost) in sabotages {
            let scene = Scene::new(has_handler);
            let plan = scene.plan_on(&scene.query).unwrap();
            assert!(scene.run(&plan).is_ok(), "{what}: before");
            sabotage(&scene, &plan);
            for time in ["first", "second"] {
                let error = scene.run(&plan).unwrap_err();
                assert_eq!(matches!(error, Error::DeviceLost { .. }), is_lost, "{what}, {time}: {error}");
                assert!(is_lost || error.to_string().contains("destroyed"), "{what}, {time}: {error}");
            }
            assert_eq!(scene.upload(&plan).is_err(), is_lost || what == "the plan's input", "{what}: upload");
            assert_eq!(pollster::block_on(plan.poison()).is_err(), is_lost, "{what}: poison");
            assert_eq!(scene.plan_on(&scene.query).is_err(), is_lost || what == "the user's buffer", "{what}: compile");
            assert_eq!(scene.theirs.num_seen(), 0, "{what}: the owner's handler was called");
        }
    }
}

#[test]
fn a_mapped_buffer_is_an_error_until_it_is_unmapped() {
    for has_handler in [false, true] {
        let scene = Scene::new(has_handler);
        let mapped = scene.theirs.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("still mapped"),
            size: 128,
            usage: Usage::STORAGE,
            mapped_at_creation: true,
        });
        let plan = scene.plan_on(&mapped).unwrap();
        let error = scene.run(&plan).unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }) && error.to_string().contains("still mapped"), "{error}");
        mapped.unmap();
        assert!(scene.run(&plan).is_ok());
        assert_eq!(scene.theirs.num_seen(), 0);
    }
}

#[test]
fn a_buffer_of_another_device_is_an_error_of_the_plan() {
    for has_handler in [false, true] {
        let (scene, others) = (Scene::new(has_handler), Theirs::new(has_handler));
        let same_instance = users_buffer(&others.device, 128, Usage::STORAGE);
        let error = scene.plan_on(&same_instance).unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }), "{error}");
        assert_eq!(scene.theirs.num_seen() + others.num_seen(), 0);
    }
}

#[test]
fn a_queue_of_another_device_is_not_adopted() {
    for has_handler in [false, true] {
        let (one, other) = (Theirs::new(has_handler), Theirs::new(has_handler));
        let refusals = [(&one, &other), (&other, &one)].map(|(device, queue)| {
            // Work under way and work to be flushed make no difference.
            let buffer = users_buffer(&queue.device, 1 << 20, Usage::COPY_DST);
            queue.queue.write_buffer(&buffer, 0, &vec![1; 1 << 20]);
            Gpu::adopt(&device.device, &queue.queue).unwrap_err()
        });
        for refusal in refusals {
            assert!(matches!(refusal, Error::Invalid(_)), "{refusal}");
        }
        assert_eq!(one.num_seen() + other.num_seen(), 0);
        assert!(Gpu::adopt(&one.device, &one.queue).is_ok() && Gpu::adopt(&other.device, &other.queue).is_ok());
    }
}

#[test]
fn a_dead_device_is_not_adopted_and_compiles_nothing() {
    for has_handler in [false, true] {
        let dead = Theirs::new(has_handler);
        dead.device.destroy();
        let refusal = Gpu::adopt(&dead.device, &dead.queue).unwrap_err();
        assert!(matches!(refusal, Error::DeviceLost { .. }), "{refusal}");
        let scene = Scene::new(has_handler);
        scene.theirs.device.destroy();
        assert!(matches!(scene.gpu.check(), Err(Error::DeviceLost { .. })));
        assert!(matches!(scene.plan_on(&scene.query), Err(Error::DeviceLost { .. })));
        assert_eq!(dead.num_seen() + scene.theirs.num_seen(), 0);
    }
}

/// Error scopes belong to a thread, so none may be open while a future waits.
#[test]
fn a_run_may_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let scene = Scene::new(false);
    let plan = scene.plan_on(&scene.query).unwrap();
    let inputs = Inputs::new().with("key", &scene.key);
    let run = plan.run(&inputs);
    is_send(&run);
    std::thread::scope(|scope| scope.spawn(|| pollster::block_on(run).map(drop)).join().unwrap()).unwrap();
}
