//! `multihead devices`: every adapter, best first, with what matters to attention, and the built-in CPU.

use multihead::{AdapterSummary, Error, Gpu};

use super::args::DevicesArguments;
use super::{Outcome, print};

pub(super) async fn devices(arguments: &DevicesArguments) -> Result<Outcome, Error> {
    let adapters = Gpu::adapters().await;
    if arguments.json {
        adapters.iter().try_for_each(print::json)?;
    } else {
        print::text(&told(&adapters))?;
    }
    Ok(Outcome::Done)
}

fn told(adapters: &[AdapterSummary]) -> String {
    let mut text = String::new();
    for adapter in adapters {
        let AdapterSummary { name, backend, kind, driver, subgroup: [smallest, largest], features, limits } = adapter;
        text += &format!("{name}\n");
        text += &format!("  backend    {backend}, {kind}\n");
        text += &format!("  driver     {driver}\n");
        text += &format!("  subgroups  {smallest} to {largest} lanes\n");
        text += &format!("  features   {}\n", if features.is_empty() { "none".into() } else { features.join(", ") });
        for (limit, value) in limits {
            text += &format!("  {limit:<34} {value:>12}\n");
        }
        text += "\n";
    }
    if adapters.is_empty() {
        text += "No GPU adapter was found (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1).\n";
    }
    text + "cpu\n  built in, always there: --device cpu\n"
}
