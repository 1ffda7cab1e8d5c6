//! A scenario here and at peers, in turn: a machine that slows down slows all of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use multihead::io::Archive;
use multihead::{Error, Gpu, Plan};
use serde::Serialize;

use super::measure;
use super::peer::Peer;
use super::scenario::{Scenario, Work};
use super::verify::{Expected, Verdict};

/// How often each has its turn.
const ROUNDS: usize = 7;

/// Before each turn: threads of the one before may go on looking for work for a while, and would take a core from the next.
const PAUSE: Duration = Duration::from_millis(20);

/// A peer beside us.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Against {
    Timed {
        median_ms: f64,
        /// Our speed as a multiple of the peer's: the median of the rounds.
        speed: f64,
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// It is not timed: its answer is beyond the yardstick.
    Wrong {
        wrong: Verdict,
    },
    Cannot {
        cannot: String,
    },
}

/// Each peer beside us, by its name.
pub(super) fn against(
    gpu: &Gpu,
    plan: &Plan,
    scenario: &Scenario,
    work: &Work,
    expected: &Expected,
    peers: &mut [Peer],
) -> Result<BTreeMap<String, Against>, Error> {
    if peers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let folder = tempfile::tempdir().map_err(|source| Error::Io { action: "make a folder".into(), source })?;
    let path = folder.path().join("scenario.safetensors");
    work.write(scenario, &path)?;
    let mut prepared = Vec::new();
    for peer in &mut *peers {
        prepared.push(prepare(peer, &path, &folder.path().join("answer.safetensors"), expected)?);
    }
    let mut turns = vec![Vec::new(); peers.len()];
    for _ in 0..if scenario.large { 1 } else { ROUNDS } {
        thread::sleep(PAUSE);
        let ours = measure::burst(gpu, plan)?;
        for ((peer, prepared), turns) in peers.iter_mut().zip(&prepared).zip(&mut turns) {
            if prepared.is_ok() {
                thread::sleep(PAUSE);
                turns.push([ours, peer.time()?]);
            }
        }
    }
    let beside = prepared.into_iter().zip(turns).map(|(prepared, turns)| told(prepared, &turns));
    Ok(peers.iter().map(|peer| peer.name.clone()).zip(beside).collect())
}

/// The verdict on the peer's answer, or what is to be said instead of a time.
fn prepare(
    peer: &mut Peer,
    scenario: &Path,
    answer: &Path,
    expected: &Expected,
) -> Result<Result<Verdict, Against>, Error> {
    if let Some(cannot) = peer.prepare(scenario, answer)? {
        return Ok(Err(Against::Cannot { cannot }));
    }
    let output = Archive::open(answer).and_then(|file| file.tensor("output"));
    let verdict = output.and_then(|output| expected.output(&output)).map_err(|error| peer.blamed(&error))?;
    Ok(if verdict.agrees() { Ok(verdict) } else { Err(Against::Wrong { wrong: verdict }) })
}

fn told(prepared: Result<Verdict, Against>, turns: &[[f64; 2]]) -> Against {
    let verdict = match prepared {
        Ok(verdict) => verdict,
        Err(instead) => return instead,
    };
    let mut theirs: Vec<_> = turns.iter().map(|[_, theirs]| theirs * 1e3).collect();
    let mut speeds: Vec<_> = turns.iter().map(|[ours, theirs]| theirs / ours).collect();
    Against::Timed { median_ms: measure::median(&mut theirs), speed: measure::median(&mut speeds), verdict }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::peer::PeerCommand;
    use super::super::scenario;
    use super::*;

    use multihead::{HostTensor, io};

    /// What is said of a peer that answers with this tensor of this name, at scenario L.
    fn prepared(name: &str, tensor: &HostTensor) -> Result<Result<Verdict, Against>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let [canned, answer] = ["canned", "answer"].map(|name| folder.path().join(name));
        io::write_tensors(&canned, &[(name, tensor)], &[]).unwrap();
        let script = format!("read question; cp {} {}; echo '\"ready\"'", canned.display(), answer.display());
        std::fs::write(folder.path().join("peer.sh"), script).unwrap();
        let command: PeerCommand = format!("canned=sh {}", folder.path().join("peer.sh").display()).parse().unwrap();
        let (_, _, expected) = small();
        prepare(&mut Peer::start(&command).unwrap(), Path::new("scenario"), &answer, &expected)
    }

    fn small() -> (Scenario, Work, Expected) {
        let scenario = scenario::chosen(&["L".into()]).unwrap().remove(0);
        let work = Work::new(&scenario).unwrap();
        let expected = Expected::of(&scenario, &work).unwrap();
        (scenario, work, expected)
    }

    /// The right answer with every number changed.
    fn answer(change: impl Fn(f32) -> f32) -> HostTensor {
        let (_, work, _) = small();
        let got = multihead::reference::interpret::<f32>(&work.graph, &work.parameters(), &work.inputs()).unwrap();
        let output = &got["output"];
        HostTensor::new(output.shape().clone(), output.data().iter().map(|&number| change(number)).collect()).unwrap()
    }

    #[test]
    fn a_right_answer_is_timed_and_a_wrong_one_is_not() {
        assert!(prepared("output", &answer(|number| number)).unwrap().is_ok());
        for wrong in [answer(|number| number * 1.02), answer(|_| f32::NAN), answer(|number| number / 0.0)] {
            let said = prepared("output", &wrong).unwrap().unwrap_err();
            let Against::Wrong { wrong } = told(Err(said), &[]) else { panic!("it should be wrong") };
            assert!(wrong.max_error > wrong.allowed_error, "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_there_is_the_peers_fault() {
        let error = prepared("outptu", &answer(|number| number)).unwrap_err().to_string();
        assert!(error.contains("the peer canned") && error.contains("output"), "{error}");
        let error = prepared("output", &HostTensor::new([2, 3], vec![0.0; 6]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("the peer canned") && error.contains("(2, 3)"), "{error}");
    }

    #[test]
    fn speeds_are_medians_of_pairs() {
        let verdict = Verdict { max_error: 1e-7, allowed_error: 1e-6 };
        let told = told(Ok(verdict), &[[1.0, 2.0], [4.0, 4.0], [1.0, 3.0]]);
        assert_eq!(told, Against::Timed { median_ms: 3000.0, speed: 2.0, verdict });
    }
}
