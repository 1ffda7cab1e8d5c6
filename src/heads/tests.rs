use super::*;

const ALL: CountedQueries = CountedQueries { num_valid: None, query_offset: 0, num_placed_keys: None };

/// Statistics of the only head of (1, 1, Lq, Lk) weights.
fn of_one_head(rows: &[&[f32]], counted: CountedQueries) -> HeadStatistics {
    let weights =
        HostTensor::new([1, 1, rows.len(), rows[0].len()], rows.concat()).expect("rows should be equally long");
    statistics(&weights, 0, counted).expect("the weights should be usable").remove(0)
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-7, "got {got}, expected {expected}");
}

#[test]
fn a_uniform_row_of_four_has_two_bits() {
    let head = of_one_head(&[&[0.25; 4]], ALL);
    assert_close(head.entropy_bits, 2.0);
}

#[test]
fn a_one_hot_row_has_no_entropy_and_no_minus_sign() {
    let head = of_one_head(&[&[0.0, 1.0, 0.0]], ALL);
    assert_eq!(head.entropy_bits.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn rows_without_a_visible_key_do_not_count() {
    let head = of_one_head(&[&[0.5, 0.5], &[0.0, 0.0], &[1.0, 0.0]], ALL);
    assert_eq!(head.num_counted, 2);
    assert_close(head.entropy_bits, 0.5);
    assert_close(head.share_on_first, 0.75);
}

#[test]
fn padding_queries_do_not_count() {
    let counted = CountedQueries { num_valid: Some(1), ..ALL };
    let head = of_one_head(&[&[0.5, 0.5], &[0.0, 1.0]], counted);
    assert_eq!(head.num_counted, 1);
    assert_close(head.entropy_bits, 1.0);
    let half = Link { query: 0, key: 0, weight: 0.5 };
    assert_eq!(head.strongest, Some(half), "the first of equals");
}

#[test]
fn shares_go_by_position() {
    let rows: [&[f32]; 3] = [&[1.0, 0.0, 0.0], &[0.6, 0.4, 0.0], &[0.2, 0.5, 0.3]];
    let head = of_one_head(&rows, ALL);
    assert_close(head.share_on_self, (1.0 + 0.4 + 0.3) / 3.0);
    assert_close(head.share_on_previous, f64::midpoint(0.6, 0.5)); // query 0 has no previous
    assert_close(head.share_on_next, 0.0); // causal; query 2 has no next
    assert_close(head.share_on_first, (1.0 + 0.6 + 0.2) / 3.0);
}

#[test]
fn effective_keys_and_distance_are_those_of_the_rows() {
    let head = of_one_head(&[&[0.5, 0.5, 0.0], &[0.0, 1.0, 0.0], &[0.5, 0.0, 0.5]], ALL);
    assert_close(head.effective_keys, (2.0 + 1.0 + 2.0) / 3.0);
    assert_close(head.mean_distance, (0.5 + 0.0 + 1.0) / 3.0);
}

#[test]
fn a_query_offset_moves_the_positions() {
    let counted = CountedQueries { query_offset: 2, ..ALL };
    let head = of_one_head(&[&[0.1, 0.2, 0.7]], counted); // one query, at position 2
    assert_close(head.share_on_self, 0.7);
    assert_close(head.share_on_previous, 0.2);
    assert_close(head.mean_distance, 0.2 + 2.0 * 0.1);
    for query_offset in [i64::MIN, i64::MAX] {
        let far = CountedQueries { query_offset, ..ALL };
        assert!(of_one_head(&[&[0.5, 0.5]], far).share_on_previous.is_nan());
    }
}

#[test]
fn padding_and_learned_keys_are_nobodys_neighbours() {
    let rows: [&[f32]; 2] = [&[0.2, 0.5, 0.3], &[0.1, 0.4, 0.5]]; // two tokens, and a key that was learned
    let head = of_one_head(&rows, CountedQueries { num_placed_keys: Some(2), ..ALL });
    assert_close(head.share_on_next, 0.5); // query 1 has no next
    assert_close(head.mean_distance, f64::midpoint(0.5, 0.1));
    assert_close(head.entropy_bits, of_one_head(&rows, ALL).entropy_bits); // the weight is there all the same
    let more = CountedQueries { num_placed_keys: Some(9), ..ALL };
    assert_close(of_one_head(&rows, more).share_on_next, of_one_head(&rows, ALL).share_on_next);
}

#[test]
fn nan_shows_and_does_not_panic() {
    let head = of_one_head(&[&[1.0, 0.0], &[f32::NAN, 0.9]], ALL);
    assert_eq!(head.num_counted, 2);
    assert!(head.entropy_bits.is_nan());
    assert!(head.share_on_first.is_nan());
    let strongest = head.strongest.expect("two rows count");
    assert_eq!((strongest.query, strongest.key), (1, 0));
    assert!(strongest.weight.is_nan());
}

#[test]
fn infinite_and_negative_weights_show_in_the_entropy() {
    for weight in [f32::INFINITY, -0.5] {
        let head = of_one_head(&[&[0.5, weight]], ALL);
        assert!(!head.entropy_bits.is_finite(), "weight {weight} gave {} bits", head.entropy_bits);
    }
}

#[test]
fn nothing_to_count_gives_no_number() {
    for rows in [&[&[][..], &[]][..], &[&[0.0, 0.0]]] {
        let head = of_one_head(rows, ALL);
        assert_eq!((head.num_counted, head.strongest), (0, None));
        assert!(head.entropy_bits.is_nan());
    }
}

#[test]
fn more_queries_than_there_are_is_an_error() {
    let weights = HostTensor::new([1, 1, 2, 1], vec![1.0, 1.0]).expect("2 numbers");
    let counted = CountedQueries { num_valid: Some(3), ..ALL };
    let error = statistics(&weights, 0, counted).expect_err("there are two queries");
    assert_eq!(error.to_string(), "the number of queries to count is 3, but there are 2");
}

#[test]
fn tokens_of_the_tokenizer_are_special() {
    for token in ["[CLS]", "[PAD]", "<s>", "<|endoftext|>"] {
        assert!(is_special_token(token), "{token}");
    }
    for token in ["trophy", "[", "[]", "<", "a]", "[a", ""] {
        assert!(!is_special_token(token), "{token}");
    }
}
