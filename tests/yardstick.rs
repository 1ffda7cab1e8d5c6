//! The measure that other tests trust, tested: it fails where it should. Needs no device.

mod support;

use support::first_difference;

const TRUTH: [f64; 4] = [1.0, -2.0, 0.5, 0.0];

fn differs(got: &[f32]) -> bool {
    let naive = TRUTH.map(|x| f64_to_f32(x) * (1.0 + f32::EPSILON));
    first_difference(got, &TRUTH, &naive).is_some()
}

fn f64_to_f32(x: f64) -> f32 {
    num_traits::ToPrimitive::to_f32(&x).expect("a number")
}

#[test]
fn the_truth_passes() {
    assert!(!differs(&[1.0, -2.0, 0.5, 0.0]));
    assert!(!differs(&[1.000_000_1, -2.0, 0.5, 1e-7]));
}

#[test]
fn a_two_per_cent_error_fails_in_every_place() {
    for place in 0..3 {
        let mut got = TRUTH.map(f64_to_f32);
        got[place] *= 1.02;
        assert!(differs(&got), "{got:?}");
    }
}

#[test]
fn a_hundred_thousandth_fails() {
    assert!(differs(&[1.000_01, -2.0, 0.5, 0.0]));
}

#[test]
fn nan_infinity_and_a_wrong_length_fail() {
    assert!(differs(&[1.0, f32::NAN, 0.5, 0.0]));
    assert!(differs(&[1.0, -2.0, f32::INFINITY, 0.0]));
    assert!(differs(&[1.0, -2.0, 0.5]));
    assert!(differs(&[1.0, -2.0, 0.5, 0.0, 0.0]));
}

#[test]
fn a_naive_result_that_is_no_number_allows_nothing() {
    for naive in [f32::INFINITY, f32::NAN] {
        assert!(first_difference(&[1.0, 3.0], &[1.0, 2.0], &[1.0, naive]).is_some());
    }
}

#[test]
fn a_number_where_nan_should_be_fails() {
    assert!(first_difference(&[1.0], &[f64::NAN], &[f32::NAN]).is_some());
    assert!(first_difference(&[f32::NAN], &[f64::NAN], &[f32::NAN]).is_none());
}
