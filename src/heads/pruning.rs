//! Which heads can be switched off, and what that does to the output: exactly, for any set of heads, from one run.
//!
//! The output is b + ∑ cₕ, a bias and one contribution for each head ([`OutputByHead`]). Switching heads off (Michel,
//! Levy, Neubig 2019, "Are Sixteen Heads Really Better than One?", §2.3: ξₕ = 0) takes their contributions away, and
//! the length of what is taken away, its angle with the output and so both numbers of a [`Change`] follow from the
//! scalar products of the contributions with each other and with the output. [`HeadProducts`] keeps these H² + H + 1
//! numbers, summed in 64 bits over as many runs as one likes.

use serde::Serialize;

use super::Change;
use crate::attention::OutputByHead;
use crate::error::Error;

/// The scalar products from which every pruning follows.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadProducts {
    num_heads: usize,
    /// cₕ · cₖ, (H, H).
    contributions: Vec<f64>,
    /// o · cₕ, (H,).
    with_output: Vec<f64>,
    /// o · o.
    output: f64,
}

/// A head that was switched off, and what became of the output with all those before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PruningStep {
    /// The head.
    pub head: usize,
    /// The output without this head and all of the steps before, against the whole output.
    #[serde(flatten)]
    pub change: Change,
}

impl HeadProducts {
    /// No rows yet, of a layer with so many heads.
    #[must_use]
    pub fn new(num_heads: usize) -> Self {
        let contributions = vec![0.0; num_heads * num_heads];
        Self { num_heads, contributions, with_output: vec![0.0; num_heads], output: 0.0 }
    }

    /// Adds the rows of a run, of which the first `counted[b]` of batch entry b count.
    ///
    /// # Errors
    /// [`Error::WrongShape`] where the run has another number of heads, or `counted` is not as long as B.
    pub fn add(&mut self, run: &OutputByHead, counted: &[usize]) -> Result<(), Error> {
        let &[batch, num_heads, rows, width] = run.contributions.shape().axes() else {
            unreachable!("contributions should have four axes");
        };
        if num_heads != self.num_heads || batch != counted.len() {
            return Err(Error::WrongShape {
                what: "contributions".into(),
                got: run.contributions.shape().clone(),
                expected: format!("{} batch entries of {} heads were expected", counted.len(), self.num_heads),
            });
        }
        let output_width = run.output.shape().axes()[2];
        for (entry, &counted) in counted.iter().enumerate() {
            for row in 0..counted.min(rows) {
                let part = |head: usize| {
                    let start = ((entry * num_heads + head) * rows + row) * width;
                    &run.contributions.data()[start..start + width]
                };
                let start = (entry * rows + row) * output_width;
                self.add_row(&run.output.data()[start..start + output_width], part, run.summed);
            }
        }
        Ok(())
    }

    /// One token: its output and the parts.
    fn add_row<'a>(&mut self, output: &[f32], part: impl Fn(usize) -> &'a [f32], summed: bool) {
        self.output += dot(output, output);
        for head in 0..self.num_heads {
            let own = part(head);
            let diagonal = dot(own, own);
            self.contributions[head * self.num_heads + head] += diagonal;
            // Side by side, heads share no number with each other, and each stands in the output as it is.
            self.with_output[head] += if summed { dot(output, own) } else { diagonal };
            for other in (0..head).filter(|_| summed) {
                let product = dot(own, part(other));
                self.contributions[head * self.num_heads + other] += product;
                self.contributions[other * self.num_heads + head] += product;
            }
        }
    }

    /// What switching these heads off does to the output.
    ///
    /// # Panics
    /// When a head is not below H.
    #[must_use]
    pub fn without(&self, heads: &[usize]) -> Change {
        let pairs = heads.iter().flat_map(|&head| heads.iter().map(move |&other| (head, other)));
        let taken: f64 = pairs.map(|(head, other)| self.contributions[head * self.num_heads + other]).sum();
        let with_output: f64 = heads.iter().map(|&head| self.with_output[head]).sum();
        Change::of_products(self.output, -with_output, taken)
    }

    /// What switching each head off alone does: (H,).
    #[must_use]
    pub fn without_each(&self) -> Vec<Change> {
        (0..self.num_heads).map(|head| self.without(&[head])).collect()
    }

    /// All heads in the greedy order: next goes whichever head leaves the output nearest to what it was with all.
    ///
    /// Greedy is not best: another set of as many heads may change less.
    #[must_use]
    pub fn greedy_order(&self) -> Vec<PruningStep> {
        let mut gone: Vec<usize> = Vec::new();
        let mut steps = Vec::new();
        while gone.len() < self.num_heads {
            let left = (0..self.num_heads).filter(|head| !gone.contains(head));
            let tried = left.map(|head| (head, self.without(&[gone.as_slice(), &[head]].concat())));
            let (head, change) =
                tried.min_by(|(_, a), (_, b)| a.relative.total_cmp(&b.relative)).expect("a head should be left");
            gone.push(head);
            steps.push(PruningStep { head, change });
        }
        steps
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::HostTensor;

    /// One token; two heads of which the contributions are given, and a bias.
    fn run(parts: [[f32; 2]; 2], bias: [f32; 2]) -> OutputByHead {
        let output = [0, 1].map(|i| parts[0][i] + parts[1][i] + bias[i]).to_vec();
        OutputByHead {
            output: HostTensor::new([1, 1, 2], output).unwrap(),
            attention_weights: HostTensor::new([1, 2, 1, 1], vec![1.0; 2]).unwrap(),
            contributions: HostTensor::new([1, 2, 1, 2], parts.concat()).unwrap(),
            summed: true,
        }
    }

    #[test]
    fn products_say_what_removing_says() {
        let mut products = HeadProducts::new(2);
        products.add(&run([[1.0, 2.0], [-3.0, 0.5]], [0.25, 1.0]), &[1]).unwrap();
        let output: [f64; 2] = [-1.75, 3.5];
        let without_0: [f64; 2] = [-2.75, 1.5];
        let length = |v: [f64; 2]| v[0].hypot(v[1]);
        let change = products.without(&[0]);
        assert!((change.relative - 5.0_f64.sqrt() / length(output)).abs() < 1e-12);
        let cosine = (output[0] * without_0[0] + output[1] * without_0[1]) / length(output) / length(without_0);
        assert!((change.cosine - cosine).abs() < 1e-12);
        assert_eq!(products.without(&[]), Change { relative: 0.0, cosine: 1.0 });
    }

    #[test]
    fn a_head_that_cancels_another_goes_after_one_that_does_nothing() {
        let mut products = HeadProducts::new(2);
        products.add(&run([[5.0, 0.0], [0.0, 1e-3]], [0.0, 0.0]), &[1]).unwrap();
        let order: Vec<usize> = products.greedy_order().iter().map(|step| step.head).collect();
        assert_eq!(order, [1, 0]);
        let last = products.greedy_order()[1].change;
        assert!((last.relative - 1.0).abs() < 1e-12, "without any head nothing is left: {last:?}");
    }

    #[test]
    fn another_number_of_heads_is_refused() {
        assert!(HeadProducts::new(3).add(&run([[0.0; 2]; 2], [0.0; 2]), &[1]).is_err());
        assert!(HeadProducts::new(2).add(&run([[0.0; 2]; 2], [0.0; 2]), &[]).is_err());
    }
}
