//! The sizes of one call, found from configuration, weights and inputs, which must agree.

use super::config::{at_least_one, divides};
use super::{AttentionConfig, CallShape, Linear, Weights};
use crate::error::Error;
use crate::shape::Shape;

/// Heads and widths of a layer or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSizes {
    /// Query heads, H.
    pub num_heads: usize,
    /// Key/value heads, G.
    pub num_kv_heads: usize,
    /// Width of one query or key head, d.
    pub head_dim: usize,
    /// Width of one value head, dv.
    pub value_dim: usize,
}

impl HeadSizes {
    /// From the rows of the projections, which must agree with what the configuration says.
    pub(super) fn of_weights(config: &AttentionConfig, weights: &Weights) -> Result<Self, Error> {
        let num_heads = config.num_heads;
        let [query_rows, num_hiddens] = matrix("W_q", &weights.w_q)?;
        let [key_rows, _] = matrix("W_k", &weights.w_k)?;
        let [value_rows, _] = matrix("W_v", &weights.w_v)?;
        let [output_rows, output_cols] = matrix("W_o", &weights.w_o)?;
        let head_dim = divides("W_q's row count", query_rows, "num_heads", num_heads)?;
        agree("head_dim", config.head_dim, head_dim, "W_q's row count / num_heads")?;
        at_least_one("W_q's row count / num_heads", head_dim)?;
        let num_kv_heads = divides("W_k's row count", key_rows, "head_dim", head_dim)?;
        agree("num_kv_heads", config.num_kv_heads, num_kv_heads, "W_k's row count / head_dim")?;
        at_least_one("W_k's row count / head_dim", num_kv_heads)?;
        divides("num_heads", num_heads, "num_kv_heads", num_kv_heads)?;
        let value_dim = divides("W_v's row count", value_rows, "num_kv_heads", num_kv_heads)?;
        at_least_one("W_v's row count / num_kv_heads", value_dim)?;
        if [output_rows, output_cols] != [num_hiddens, num_heads * value_dim] {
            return Err(Error::WrongShape {
                what: "W_o".into(),
                got: weights.w_o.weight.shape().clone(),
                expected: format!(
                    "W_q {} and W_v {} with {num_heads} heads need (E, H·dv) = ({num_hiddens}, {})",
                    weights.w_q.weight.shape(),
                    weights.w_v.weight.shape(),
                    num_heads * value_dim
                ),
            });
        }
        let sizes = Self { num_heads, num_kv_heads, head_dim, value_dim };
        sizes.check_extra_key(weights)?;
        Ok(sizes)
    }

    /// Without weights: from the widths of query, key and value, which hold heads side by side.
    pub(super) fn of_call(config: &AttentionConfig, call: &CallShape) -> Result<Self, Error> {
        let num_heads = config.num_heads;
        let num_kv_heads = config.num_kv_heads.unwrap_or(num_heads);
        let [query_width, key_width, value_width] =
            [&call.query, call.key(), call.value()].map(|shape| shape.axes()[2]);
        let head_dim = divides("the query's width E", query_width, "num_heads", num_heads)?;
        agree("head_dim", config.head_dim, head_dim, "E / num_heads")?;
        at_least_one("the query's width E / num_heads", head_dim)?;
        if num_kv_heads.checked_mul(head_dim) != Some(key_width) {
            let advice =
                if config.num_kv_heads.is_none() { "; give num_kv_heads if there are fewer of them" } else { "" };
            return Err(Error::WrongShape {
                what: "key".into(),
                got: call.key().clone(),
                expected: format!(
                    "query {} with num_heads {num_heads} has head_dim {head_dim}, so num_kv_heads {num_kv_heads} need a key width of {num_kv_heads}·{head_dim}{advice}",
                    call.query
                ),
            });
        }
        let value_dim = divides("the value's width", value_width, "num_kv_heads", num_kv_heads)?;
        at_least_one("the value's width / num_kv_heads", value_dim)?;
        Ok(Self { num_heads, num_kv_heads, head_dim, value_dim })
    }

    fn check_extra_key(&self, weights: &Weights) -> Result<(), Error> {
        let widths = [("bias_k", &weights.bias_k, self.head_dim), ("bias_v", &weights.bias_v, self.value_dim)];
        for (name, tensor, width) in widths {
            let needed = Shape::from([1, 1, self.num_kv_heads * width]);
            match tensor {
                Some(tensor) if tensor.shape() != &needed => {
                    return Err(Error::WrongShape {
                        what: name.into(),
                        got: tensor.shape().clone(),
                        expected: format!("the projections need {needed}"),
                    });
                }
                _ => {}
            }
        }
        if weights.bias_k.is_some() == weights.bias_v.is_some() {
            return Ok(());
        }
        let (there, missing) = if weights.bias_k.is_some() { ("bias_k", "bias_v") } else { ("bias_v", "bias_k") };
        Err(Error::Missing { what: missing.into(), hint: format!("{there} is given, and both make the extra key") })
    }
}

/// (out, in) of a projection, whose bias must fit.
fn matrix(name: &str, linear: &Linear) -> Result<[usize; 2], Error> {
    let &[rows, cols] = linear.weight.shape().axes() else {
        return Err(Error::WrongShape {
            what: name.into(),
            got: linear.weight.shape().clone(),
            expected: "a projection has two axes, (out, in)".into(),
        });
    };
    match &linear.bias {
        Some(bias) if bias.shape() != &[rows] => Err(Error::WrongShape {
            what: format!("the bias of {name}"),
            got: bias.shape().clone(),
            expected: format!("{name} {} needs ({rows},)", linear.weight.shape()),
        }),
        _ => at_least_one(&format!("the width that {name} takes"), cols).map(|()| [rows, cols]),
    }
}

fn agree(what: &str, given: Option<usize>, found: usize, source: &str) -> Result<(), Error> {
    match given {
        Some(given) if given != found => Err(Error::OutOfRange {
            what: what.into(),
            value: given.to_string(),
            allowed: format!("{source} is {found}; leave {what} out, or give {found}"),
        }),
        _ => Ok(()),
    }
}

/// Checks that query, key and value have three axes, one batch, and keys as many values.
pub(super) fn check_sequences(call: &CallShape) -> Result<(), Error> {
    let named = [("query", &call.query), ("key", call.key()), ("value", call.value())];
    for (name, shape) in named {
        if shape.rank() != 3 {
            return Err(Error::WrongShape {
                what: name.into(),
                got: shape.clone(),
                expected: "must have three axes, (batch, length, width)".into(),
            });
        }
    }
    let [query, key, value] = named;
    same_axis(key, 0, query)?;
    same_axis(value, 0, key)?;
    same_axis(value, 1, key)
}

fn same_axis((what, got): (&str, &Shape), axis: usize, (other, shape): (&str, &Shape)) -> Result<(), Error> {
    if got.axes()[axis] == shape.axes()[axis] {
        return Ok(());
    }
    let of = ["batch", "length"][axis];
    Err(Error::WrongShape {
        what: what.into(),
        got: got.clone(),
        expected: format!("{other} {shape} has another {of}"),
    })
}

/// Checks that a projection takes what it is given.
pub(super) fn check_width(name: &str, linear: &Linear, input: &str, shape: &Shape) -> Result<(), Error> {
    let needed = linear.weight.shape().axes()[1];
    if shape.axes()[2] == needed {
        return Ok(());
    }
    Err(Error::WrongShape {
        what: input.into(),
        got: shape.clone(),
        expected: format!("{name} {} needs a width of {needed}", linear.weight.shape()),
    })
}
