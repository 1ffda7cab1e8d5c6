//! How a graph prints: a line per value, in the order of computing.

use std::fmt;

use super::{Columns, DType, Graph, HeadColumns, KeyBand, Node, Op, Scores, Source, Value, ValueId};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, value) in self.values() {
            let (kind, text) = match value.source {
                Source::Input => ("input", dtype_text(value)),
                Source::Parameter => ("parameter", String::new()),
                Source::Node(index) => {
                    let node = &self.nodes()[index];
                    (node.op.name(), self.formula(node))
                }
            };
            let mark = if self.outputs().contains(&id) { "→" } else { " " };
            let shape = value.shape.to_string();
            let line = format!("{mark} {kind:<16} {:<12} {shape:<20} {text}", value.name);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Graph {
    /// What a node computes, in the names of its operands: `query · W_qᵀ + b_q`.
    #[must_use]
    pub fn formula(&self, node: &Node) -> String {
        let name = |id: ValueId| self.value(id).name.as_str();
        match &node.op {
            Op::Matmul(op) => {
                let transposed = if op.transpose_rhs { "ᵀ" } else { "" };
                let [lhs, rhs] =
                    [(op.lhs, op.heads.lhs), (op.rhs, op.heads.rhs)].map(|(id, heads)| self.heads(id, heads));
                let mut text = format!("{lhs} · {rhs}{transposed}");
                if let Some(bias) = op.bias {
                    text += &format!(" + {}", name(bias));
                }
                if op.group > 1 {
                    text += &format!(", {} heads to each", op.group);
                }
                if op.skip_hidden {
                    text += ", hidden keys left out";
                }
                text
            }
            Op::Softmax(op) => {
                let masks = [op.valid_lens, op.attend_mask, op.bias];
                format!("{:.4} · {}{}", op.scale, name(op.scores), self.masked(masks, op.band, op.extra_keys))
            }
            Op::Dropout(op) => format!("{}, {} says which are kept", name(op.weights), name(op.pattern)),
            Op::Attention(op) => {
                let weights = format!("softmax({})", self.scores(&op.scores));
                let weights = op.dropout.map_or(weights.clone(), |_| format!("dropout({weights})"));
                let statistics = if op.statistics { ", with statistics" } else { "" };
                format!("{weights} · {}{statistics}", self.columns(op.value))
            }
            Op::AttentionWeights(op) => {
                format!("softmax({}) by the statistics of {}", self.scores(&op.scores), name(op.attention))
            }
            Op::Pack(op) => {
                let parts = op.parts.iter().map(|part| part.value.map_or("zeros", name));
                parts.collect::<Vec<_>>().join(", ")
            }
            Op::TransposeQkv(op) | Op::TransposeOutput(op) => {
                format!("{}, {} head{}", name(op.input), op.num_heads, if op.num_heads == 1 { "" } else { "s" })
            }
            Op::PartialAttention(op) => {
                let weights = format!("softmax({})", self.scores(&op.scores));
                let weights = op.dropout.map_or(weights.clone(), |_| format!("dropout({weights})"));
                let cached = op.lengths.map_or(String::new(), |id| format!(", as {} says", name(id)));
                format!("{} parts of {weights} · {}{cached}", op.parts, self.columns(op.value))
            }
            Op::MergePartials(op) => format!("{}, {} parts", name(op.partials), op.parts),
            Op::AppendRows(op) => {
                format!("{} with {} where {} says, in place", name(op.cache), self.columns(op.rows), name(op.lengths))
            }
            Op::AppendKey(op) => format!("{}, then {}", name(op.input), name(op.key)),
            Op::Copy(op) => format!("{}, strides {:?} to {:?}", name(op.input), op.from, op.to),
            Op::Custom(op) => op.inputs.iter().map(|&id| name(id)).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Graph {
    fn scores(&self, scores: &Scores) -> String {
        let Scores { query, key, valid_lens, attend_mask, bias, scale, .. } = scores;
        let masks = self.masked([*valid_lens, *attend_mask, *bias], scores.band, scores.extra_keys);
        format!("{scale:.4} · {} · {}ᵀ{masks}", self.columns(*query), self.columns(*key))
    }

    /// Heads side by side, or matrices in turn.
    fn heads(&self, id: ValueId, heads: Option<HeadColumns>) -> String {
        let whole = || self.value(id).name.clone();
        heads.map_or_else(whole, |HeadColumns { first, num_heads, head_dim }| {
            self.columns(Columns { tensor: id, first, count: num_heads * head_dim })
        })
    }

    fn columns(&self, columns: Columns) -> String {
        let value = self.value(columns.tensor);
        if value.shape.axes().last() == Some(&columns.count) {
            return value.name.clone();
        }
        format!("{}[{}..{}]", value.name, columns.first, columns.first + columns.count)
    }

    /// What is added to scores, and what hides keys: `valid_lens`, `attend_mask`, `bias`, band, learned keys.
    fn masked(&self, [lens, mask, bias]: [Option<ValueId>; 3], band: KeyBand, extra_keys: usize) -> String {
        let name = |id: ValueId| self.value(id).name.as_str();
        let mut text = bias.map_or(String::new(), |bias| format!(" + {}", name(bias)));
        for mask in [lens, mask].into_iter().flatten() {
            text += &format!(", {}", name(mask));
        }
        if band != KeyBand::ALL {
            text += &format!(", {band}");
        }
        if extra_keys > 0 {
            text += &format!(", {extra_keys} key always visible");
        }
        text
    }
}

impl fmt::Display for KeyBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.start > -Self::FAR, self.end < Self::FAR) {
            (false, false) => f.write_str("all keys"),
            (false, true) => write!(f, "key < query {:+}", self.end),
            (true, false) => write!(f, "key ≥ query {:+}", self.start),
            (true, true) => write!(f, "query {:+} ≤ key < query {:+}", self.start, self.end),
        }
    }
}

fn dtype_text(value: &Value) -> String {
    match value.dtype {
        DType::F32 => "",
        DType::U32 => "u32",
        DType::Bool => "bool",
        DType::F16 => "f16",
    }
    .into()
}
