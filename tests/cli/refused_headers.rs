//! Files that are no safetensors file, or one that lies.

use crate::cases::{CaseFile, raw_file};
use crate::program::Sentences;

/// A header of a query (1, 1, 1) and one more entry, and its data.
fn lying(entry: &str, data_bytes: usize) -> Vec<u8> {
    let header = format!(
        r#"{{"__metadata__":{{"attention":"{{\"num_heads\":1}}"}},"query":{{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}},{entry}}}"#
    );
    raw_file(&header, &vec![0; data_bytes])
}

fn key(shape: &str, offsets: &str) -> String {
    format!(r#""key":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn what_is_no_safetensors_file_is_refused() {
    let sound = CaseFile::new(r#"{"num_heads":1}"#).floats("query", &[1, 1, 1], &[1.0]).bytes();
    let mut sentences = Sentences::default();
    sentences.bytes("an empty file", &[]);
    sentences.bytes("seven bytes", &[1; 7]);
    sentences.bytes("a text file", b"Attention is all you need, and the rest is engineering.\n");
    sentences.bytes("a file of zeros", &[0; 4096]);
    sentences.bytes("a header that is no JSON", &raw_file("{query: 1}", &[]));
    sentences.bytes("a header that is a list", &raw_file("[]", &[]));
    sentences
        .bytes("a header that is not UTF-8", &[&[2_u64.to_le_bytes().as_slice(), &[0xFF, 0xFE]].concat()[..]].concat());
    sentences.bytes("a header as long as the address space", &[&u64::MAX.to_le_bytes()[..], b"{}"].concat());
    sentences.bytes("a header longer than the file", &[&1000_u64.to_le_bytes()[..], b"{}"].concat());
    sentences.bytes("cut inside the header", &sound[..50]);
    sentences.bytes("cut inside the data", &sound[..sound.len() - 1]);
    sentences.bytes("one byte too many", &[&sound[..], &[0]].concat());
    insta::assert_snapshot!(sentences);
}

#[test]
fn headers_that_lie_are_refused() {
    let mut sentences = Sentences::default();
    sentences.bytes("overlapping", &lying(&key("[1,1,1]", "[2,6]"), 6));
    sentences.bytes("gapped", &lying(&key("[1,1,1]", "[8,12]"), 12));
    sentences.bytes("backwards", &lying(&key("[1,1,1]", "[8,4]"), 8));
    sentences.bytes("duplicate", &lying(r#""query":{"dtype":"F32","shape":[1,1,1],"data_offsets":[4,8]}"#, 8));
    sentences.bytes("beyond the end", &lying(&key("[1,1,1000000]", "[4,4000004]"), 8));
    sentences.bytes("fewer bytes than the shape", &lying(&key("[1,1,1000000]", "[4,8]"), 8));
    sentences.bytes("more bytes than the shape", &lying(&key("[1,1,1]", "[4,12]"), 12));
    sentences.bytes("a size that overflows", &lying(&key("[4294967296,4294967296,4]", "[4,8]"), 8));
    sentences.bytes("an axis beyond 64 bits", &lying(&key("[18446744073709551616]", "[4,8]"), 8));
    sentences.bytes("a negative axis", &lying(&key("[-1,1,1]", "[4,8]"), 8));
    sentences.bytes("an unknown type", &lying(r#""key":{"dtype":"F31","shape":[1,1,1],"data_offsets":[4,8]}"#, 8));
    sentences.bytes("no offsets", &lying(r#""key":{"dtype":"F32","shape":[1,1,1]}"#, 8));
    insta::assert_snapshot!(sentences);
}
