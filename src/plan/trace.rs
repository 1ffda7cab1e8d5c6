//! A profile as a file that trace viewers open.

use serde_json::{Value, json};

use super::{PlanStep, Profile, ProfileStep};

impl Profile {
    /// The profile in the trace event format, as JSON text that Perfetto and Chrome's `about:tracing` open: one complete
    /// event for each dispatch, times in microseconds.
    ///
    /// `device` names the row that the events stand in.
    #[must_use]
    pub fn to_chrome_trace(&self, device: &str) -> String {
        let named = json!({ "name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": { "name": device } });
        let events: Vec<_> = std::iter::once(named).chain(self.steps.iter().map(event)).collect();
        let clock = self.clock.to_string();
        json!({ "traceEvents": events, "displayTimeUnit": "ms", "otherData": { "clock": clock } }).to_string()
    }
}

fn event(profiled: &ProfileStep) -> Value {
    let PlanStep { op, variant, inputs, output, shape, workgroups, flops, .. } = &profiled.step;
    let microseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1e6;
    json!({
        "name": format!("{op} {output}"),
        "cat": op,
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": microseconds(profiled.start),
        "dur": microseconds(profiled.took),
        "args": {
            "kernel": variant,
            "inputs": inputs,
            "shape": shape,
            "workgroups": workgroups,
            "flops": flops,
            "gflops": profiled.gflops(),
        },
    })
}
