//! How far an output moved.

use serde::Serialize;

use crate::error::Error;
use crate::shape::HostTensor;

/// The difference between an output o and what it was changed to, o′, all counted rows as one vector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// ‖o′ − o‖ / ‖o‖: 0 = nothing happened.
    pub relative: f64,
    /// The cosine of the angle between o and o′: 1 = they point the same way.
    pub cosine: f64,
}

impl Change {
    /// From ‖o‖², o·(o′ − o) and ‖o′ − o‖². NaN where o, or for the cosine o′, is zero.
    pub(super) fn of_products(output: f64, output_with_move: f64, step: f64) -> Self {
        let step = step.max(0.0);
        let moved = (output + 2.0 * output_with_move + step).max(0.0);
        Self { relative: (step / output).sqrt(), cosine: (output + output_with_move) / (output * moved).sqrt() }
    }

    /// Between two outputs (B, Lq, E), of which the first `counted[b]` rows of batch entry b count.
    ///
    /// # Errors
    /// [`Error::WrongShape`] where the outputs are not of one shape with three axes, or `counted` is not as long as B.
    ///
    /// # Example
    /// ```
    /// use multihead::{HostTensor, heads::Change};
    /// let [before, after] = [[3.0, 4.0], [3.0, 0.0]].map(|row| HostTensor::new([1, 1, 2], row.to_vec()));
    /// let change = Change::between(&before?, &after?, &[1])?;
    /// assert_eq!((change.relative, change.cosine), (0.8, 0.6));
    /// # Ok::<(), multihead::Error>(())
    /// ```
    pub fn between(before: &HostTensor, after: &HostTensor, counted: &[usize]) -> Result<Self, Error> {
        let &[batch, rows, width] = before.shape().axes() else {
            return Err(wrong("output", before, "must have three axes, (B, Lq, E)"));
        };
        if after.shape() != before.shape() || counted.len() != batch {
            return Err(wrong("the changed output", after, &format!("must have shape {}", before.shape())));
        }
        let (mut output, mut output_with_move, mut step) = (0.0, 0.0, 0.0);
        for (entry, &counted) in counted.iter().enumerate() {
            let range = entry * rows * width..(entry * rows + counted.min(rows)) * width;
            for (&before, &after) in before.data()[range.clone()].iter().zip(&after.data()[range]) {
                let (before, moved) = (f64::from(before), f64::from(after) - f64::from(before));
                output += before * before;
                output_with_move += before * moved;
                step += moved * moved;
            }
        }
        Ok(Self::of_products(output, output_with_move, step))
    }
}

fn wrong(what: &str, tensor: &HostTensor, expected: &str) -> Error {
    Error::WrongShape { what: what.into(), got: tensor.shape().clone(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_does_not_count_and_nothing_moved_is_no_change() {
        let before = HostTensor::new([1, 2, 1], vec![2.0, 5.0]).unwrap();
        let after = HostTensor::new([1, 2, 1], vec![2.0, -9.0]).unwrap();
        assert_eq!(Change::between(&before, &after, &[1]).unwrap(), Change { relative: 0.0, cosine: 1.0 });
        assert!(Change::between(&before, &after, &[2]).unwrap().cosine < 0.0);
    }

    #[test]
    fn other_shapes_are_refused() {
        let [one, two] = [1, 2].map(|rows| HostTensor::new([1, rows, 1], vec![1.0; rows]).unwrap());
        assert!(Change::between(&one, &two, &[1]).is_err());
        assert!(Change::between(&one, &one, &[]).is_err());
    }
}
