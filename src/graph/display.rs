//! How a graph prints: a line per value, in the order of computing.

use std::fmt;

use super::{DType, Graph, KeyBand, Node, Op, Source, Value, ValueId};

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
    /// What a node computes, in the names of its operands.
    pub(crate) fn formula(&self, node: &Node) -> String {
        let name = |id: ValueId| self.value(id).name.as_str();
        match &node.op {
            Op::Matmul(op) => {
                let transposed = if op.transpose_rhs { "ᵀ" } else { "" };
                let mut text = format!("{} · {}{transposed}", name(op.lhs), name(op.rhs));
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
                let mut text = format!("{:.4} · {}", op.scale, name(op.scores));
                if let Some(bias) = op.bias {
                    text += &format!(" + {}", name(bias));
                }
                for mask in [op.valid_lens, op.attend_mask].into_iter().flatten() {
                    text += &format!(", {}", name(mask));
                }
                if op.band != KeyBand::ALL {
                    text += &format!(", {}", op.band);
                }
                if op.extra_keys > 0 {
                    text += &format!(", {} key always visible", op.extra_keys);
                }
                text
            }
            Op::TransposeQkv(op) | Op::TransposeOutput(op) => {
                format!("{}, {} head{}", name(op.input), op.num_heads, if op.num_heads == 1 { "" } else { "s" })
            }
            Op::AppendKey(op) => format!("{}, then {}", name(op.input), name(op.key)),
            Op::Copy(op) => format!("{}, strides {:?} to {:?}", name(op.input), op.from, op.to),
            Op::Custom(op) => op.inputs.iter().map(|&id| name(id)).collect::<Vec<_>>().join(", "),
        }
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
    }
    .into()
}
