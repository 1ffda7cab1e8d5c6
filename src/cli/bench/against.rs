//! A scenario here and at peers, in turn: a machine that slows down slows all of them.

use multihead::io::Archive;
use multihead::{Error, Gpu, Plan};
use serde::Serialize;

use super::measure;
use super::peer::Peer;
use super::scenario::{Scenario, Work};
use super::verify;

/// How often each has its turn.
const ROUNDS: usize = 7;

/// A peer beside us.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Against {
    Timed {
        median_ms: f64,
        /// Our speed as a multiple of the peer's: the median of the rounds.
        speed: f64,
        max_error: Option<f64>,
    },
    Cannot {
        cannot: String,
    },
}

/// Each peer's answer, in the order of the peers.
pub(super) fn against(
    gpu: &Gpu,
    plan: &Plan,
    scenario: &Scenario,
    work: &Work,
    peers: &mut [Peer],
) -> Result<Vec<Against>, Error> {
    let folder = tempfile::tempdir().map_err(|source| Error::Io { action: "make a folder".into(), source })?;
    let path = folder.path().join("scenario.safetensors");
    work.write(scenario, &path)?;
    let mut prepared = Vec::new();
    for peer in &mut *peers {
        let answer = folder.path().join("answer.safetensors");
        prepared.push(match peer.prepare(&path, &answer)? {
            Some(cannot) => Err(cannot),
            None => Ok(verify::max_error(scenario, work, &Archive::open(&answer)?.tensor("output")?)?),
        });
    }
    let mut turns = vec![Vec::new(); peers.len()];
    for _ in 0..ROUNDS {
        let ours = measure::burst(gpu, plan)?;
        for ((peer, prepared), turns) in peers.iter_mut().zip(&prepared).zip(&mut turns) {
            if prepared.is_ok() {
                turns.push([ours, peer.time()?]);
            }
        }
    }
    Ok(prepared.into_iter().zip(turns).map(|(prepared, turns)| told(prepared, &turns)).collect())
}

fn told(prepared: Result<f64, String>, turns: &[[f64; 2]]) -> Against {
    let max_error = match prepared {
        Ok(error) => error.is_finite().then_some(error),
        Err(cannot) => return Against::Cannot { cannot },
    };
    let mut theirs: Vec<_> = turns.iter().map(|[_, theirs]| theirs * 1e3).collect();
    let mut speeds: Vec<_> = turns.iter().map(|[ours, theirs]| theirs / ours).collect();
    Against::Timed { median_ms: measure::median(&mut theirs), speed: measure::median(&mut speeds), max_error }
}
