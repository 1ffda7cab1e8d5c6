//! A header that claims huge tensors makes nothing huge: what is allocated stays within what the file really holds.

use std::path::PathBuf;

use multihead::io::Archive;
use multihead::{Case, CaseOptions};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The most bytes that were held at once during `work`, beyond what was held before.
fn peak_during<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (ALLOCATOR.peak_usage().saturating_sub(before), result)
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn claims_do_not_allocate() {
    const LARGE: usize = 1 << 20;
    let real = std::fs::read("tests/cases/r52_scores_128mib.safetensors").unwrap();
    let (peak, case) = peak_during(|| Case::from_bytes(&real, &CaseOptions::default()));
    assert!(case.is_ok());
    assert!(peak >= LARGE, "the allocator should notice a case of 2 MB, but counted {peak}");

    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("claim.safetensors");
    let claims = [
        // Header lengths.
        [&u64::MAX.to_le_bytes()[..], b"{}"].concat(),
        [&(1_u64 << 40).to_le_bytes()[..], b"{}"].concat(),
        [&90_000_000_u64.to_le_bytes()[..], b"{}"].concat(),
        // Tensors of 4 GB, of 16 EB, and of more than can be counted, with 4 bytes each.
        file(r#"{"query":{"dtype":"F32","shape":[1,1,1000000000],"data_offsets":[0,4000000000]}}"#, &[0; 4]),
        file(
            r#"{"query":{"dtype":"U8","shape":[1,1,9223372036854775807],"data_offsets":[0,9223372036854775807]}}"#,
            &[0; 4],
        ),
        file(r#"{"query":{"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,0]}}"#, &[0; 4]),
        file(r#"{"query":{"dtype":"F32","shape":[1,1,1000000000],"data_offsets":[0,4]}}"#, &[0; 4]),
    ];
    for claim in claims {
        std::fs::write(&path, &claim).unwrap();
        let (peak, result) = peak_during(|| Archive::from_bytes(&claim).map(|_| ()));
        assert!(result.is_err() && peak < LARGE, "{result:?} with {peak} bytes");
        let (peak, result) = peak_during(|| Archive::open(&path).map(|_| ()));
        assert!(result.is_err() && peak < LARGE, "{result:?} with {peak} bytes");
    }
}
