//! From the tensors of a layout to [`Weights`] in D2L's form: split, transposed, checked.

use super::{EXTRA_KEY, Layout, Parts, Prefix, Storage};
use crate::attention::{Linear, Weights};
use crate::error::Error;
use crate::io::archive::Archive;
use crate::shape::{HostTensor, Shape};

/// A tensor with its full name, for the sentences about it.
struct Named {
    name: String,
    tensor: HostTensor,
}

/// Reads the members of a complete `layout`.
pub(super) fn weights(archive: &Archive<'_>, prefix: &Prefix, layout: &Layout) -> Result<Weights, Error> {
    let reader = Reader { archive, prefix, storage: layout.storage };
    let [q, k, v] = reader.input_weights(&layout.weights)?;
    let rows = [&q, &k, &v].map(|weight| rows_of(&weight.tensor));
    let [q_bias, k_bias, v_bias] = reader.input_biases(&layout.biases, rows)?;
    let [output_weight, output_bias] = layout.output;
    let output = reader.weight(output_weight)?;
    let output_bias = reader.optional(output_bias)?;
    let [name_k, name_v] = EXTRA_KEY;
    let [bias_k, bias_v] = if layout.extra_key { [reader.extra(name_k)?, reader.extra(name_v)?] } else { [None, None] };
    Ok(Weights {
        w_q: linear(q, q_bias)?,
        w_k: linear(k, k_bias)?,
        w_v: linear(v, v_bias)?,
        w_o: linear(output, output_bias)?,
        bias_k,
        bias_v,
    })
}

struct Reader<'a> {
    archive: &'a Archive<'a>,
    prefix: &'a Prefix,
    storage: Storage,
}

impl Reader<'_> {
    fn required(&self, member: &str) -> Result<Named, Error> {
        let name = self.prefix.name(member);
        let tensor = self.archive.tensor(&name)?;
        Ok(Named { name, tensor })
    }

    fn optional(&self, member: &str) -> Result<Option<Named>, Error> {
        let present = self.archive.contains(&self.prefix.name(member));
        present.then(|| self.required(member)).transpose()
    }

    /// A weight of two axes, as (out, in).
    fn weight(&self, member: &str) -> Result<Named, Error> {
        let weight = self.required(member)?;
        let axes = match self.storage {
            Storage::OutIn => "(out, in)",
            Storage::InOut => "(in, out)",
        };
        let &[first, second] = weight.tensor.shape().axes() else {
            return Err(weight.wrong_shape(format!("a weight should have 2 axes, {axes}")));
        };
        match self.storage {
            Storage::OutIn => Ok(weight),
            Storage::InOut => weight.map(|data| ([second, first].into(), transposed(&data, first, second))),
        }
    }

    /// W of q, k and v.
    fn input_weights(&self, parts: &Parts) -> Result<[Named; 3], Error> {
        match parts {
            Parts::Separate([q, k, v]) => Ok([self.weight(q)?, self.weight(k)?, self.weight(v)?]),
            Parts::Stacked(member) => {
                let stack = self.weight(member)?;
                let rows = rows_of(&stack.tensor);
                if !rows.is_multiple_of(3) {
                    let stored = self.required(member)?;
                    return Err(stored.wrong_shape(format!(
                        "its {rows} outputs should be three equal parts, one each for q, k and v"
                    )));
                }
                stack.split([rows / 3; 3])
            }
        }
    }

    /// b of q, k and v, given the rows of each W.
    fn input_biases(&self, parts: &Parts, rows: [usize; 3]) -> Result<[Option<Named>; 3], Error> {
        match parts {
            Parts::Separate([q, k, v]) => Ok([self.optional(q)?, self.optional(k)?, self.optional(v)?]),
            Parts::Stacked(member) => {
                let Some(stack) = self.optional(member)? else {
                    return Ok([const { None }; 3]);
                };
                // No overflow: the header's check keeps each of them far below what a usize holds.
                let total = rows.iter().sum::<usize>();
                if stack.tensor.shape() != &[total] {
                    let [q, k, v] = rows;
                    return Err(stack.wrong_shape(format!(
                        "should have shape ({total},), one number for each of the {q} + {k} + {v} rows of the weights"
                    )));
                }
                stack.split(rows).map(|parts| parts.map(Some))
            }
        }
    }

    /// `bias_k` or `bias_v`, (1, 1, ·).
    fn extra(&self, member: &str) -> Result<Option<HostTensor>, Error> {
        match self.optional(member)? {
            Some(extra) if !matches!(extra.tensor.shape().axes(), [1, 1, _]) => {
                Err(extra.wrong_shape("should have shape (1, 1, width)".into()))
            }
            extra => Ok(extra.map(|extra| extra.tensor)),
        }
    }
}

impl Named {
    fn wrong_shape(&self, expected: String) -> Error {
        Error::WrongShape { what: self.name.clone(), got: self.tensor.shape().clone(), expected }
    }

    fn map(self, change: impl FnOnce(Vec<f32>) -> (Shape, Vec<f32>)) -> Result<Self, Error> {
        let (shape, data) = change(self.tensor.into_data());
        Ok(Self { name: self.name, tensor: HostTensor::new(shape, data)? })
    }

    /// Three tensors of so many rows each, together all rows of this one.
    fn split(self, rows: [usize; 3]) -> Result<[Self; 3], Error> {
        let Self { name, tensor } = self;
        let row_axes = tensor.shape().axes()[1..].to_vec();
        let row_len: usize = row_axes.iter().product();
        let mut rest = tensor.data();
        let mut next = |rows: usize| {
            let (part, after) = rest.split_at(rows * row_len);
            rest = after;
            let axes = [&[rows], row_axes.as_slice()].concat();
            let tensor = HostTensor::new(Shape::new(axes), part.to_vec())?;
            Ok(Self { name: name.clone(), tensor })
        };
        let [q, k, v] = rows;
        Ok([next(q)?, next(k)?, next(v)?])
    }
}

fn rows_of(weight: &HostTensor) -> usize {
    weight.shape().axes()[0]
}

/// (rows, cols) row-major → (cols, rows) row-major.
fn transposed(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    // An empty matrix may claim any number of columns; there is nothing to walk over.
    if data.is_empty() {
        return Vec::new();
    }
    // out[col][row] = in[row][col]
    (0..cols).flat_map(|col| (0..rows).map(move |row| data[row * cols + col])).collect()
}

/// Joins W and b, which must have one number for each row of W.
fn linear(weight: Named, bias: Option<Named>) -> Result<Linear, Error> {
    let bias = match bias {
        Some(bias) if bias.tensor.shape() != &[rows_of(&weight.tensor)] => {
            let rows = rows_of(&weight.tensor);
            return Err(bias.wrong_shape(format!(
                "should have shape ({rows},), one number for each row of \"{}\" {}",
                weight.name,
                weight.tensor.shape()
            )));
        }
        bias => bias.map(|bias| bias.tensor),
    };
    Ok(Linear { weight: weight.tensor, bias })
}
