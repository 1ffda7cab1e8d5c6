//! The products of a plan among whose tiles there is a choice.

use crate::error::Error;
use crate::graph::{DType, Graph, GraphBuilder, Matmul, Op};
use crate::kernels::{ProductClass, Tile};
use crate::plan::PlanSummary;

/// Products of one class, as the largest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) class: ProductClass,
    /// Names of the values that they write.
    pub(super) outputs: Vec<String>,
    /// Matrices, M, N.
    sizes: [usize; 3],
    /// K.
    inner: usize,
    /// Left matrices to a right one.
    group: usize,
    has_bias: bool,
    /// The tile that it takes unmeasured.
    pub(super) usual: Tile,
    /// Of the largest, and of all together.
    flops: [u64; 2],
}

/// The products that a plan leaves to `matmul_tiled`, by class; those with the most work first. Empty ones are left out.
pub(super) fn of(summary: &PlanSummary) -> Vec<Product> {
    let mut products: Vec<Product> = Vec::new();
    let tiled = summary.steps.iter().filter(|step| step.variant == "matmul_tiled" && step.flops > 0);
    for step in tiled {
        let Op::Matmul(op) = &summary.graph.nodes()[step.node].op else { continue };
        let inner = summary.graph.inner(op);
        let class = ProductClass::of(op, step.shape, inner);
        // A block may end in the middle of a group.
        let group = if step.shape[0].is_multiple_of(op.group) { op.group } else { 1 };
        let (sizes, has_bias, flops) = (step.shape, op.bias.is_some(), [step.flops; 2]);
        let usual = Tile::usual(sizes, summary.profile.kind);
        let new = Product { class, outputs: vec![step.output.clone()], sizes, inner, group, has_bias, usual, flops };
        match products.iter_mut().find(|product| product.class == class) {
            Some(known) => known.join(new),
            None => products.push(new),
        }
    }
    products.sort_by_key(|product| std::cmp::Reverse(product.flops[1]));
    products
}

impl Product {
    fn join(&mut self, other: Self) {
        let all = self.flops[1].saturating_add(other.flops[1]);
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.extend(other.outputs.iter().filter(|name| !outputs.contains(name)).cloned().collect::<Vec<_>>());
        if other.flops[0] > self.flops[0] {
            *self = other;
        }
        self.outputs = outputs;
        self.flops[1] = all;
    }

    /// Bytes of its operands and of what it writes.
    pub(super) fn bytes(&self) -> u64 {
        let ([batches, rows, cols], inner) = (self.sizes, self.inner);
        let tensors = [[batches, rows, inner], [batches / self.group, inner, cols], [batches, rows, cols]];
        let bytes = |axes: [usize; 3]| axes.iter().fold(4_u64, |bytes, &axis| bytes.saturating_mul(axis as u64));
        tensors.into_iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// A graph of this product alone, of operands whose matrices lie one after the other.
    pub(super) fn graph(&self) -> Result<Graph, Error> {
        let ([batches, rows, cols], inner) = (self.sizes, self.inner);
        let ProductClass { transpose_rhs, skip_hidden, .. } = self.class;
        let mut builder = GraphBuilder::new();
        let lhs = builder.input("lhs", [batches, rows, inner], DType::F32)?;
        let right = if transpose_rhs { [cols, inner] } else { [inner, cols] };
        let rhs = builder.input("rhs", [batches / self.group, right[0], right[1]], DType::F32)?;
        let bias = if self.has_bias { Some(builder.input("bias", [cols], DType::F32)?) } else { None };
        let op = Matmul { bias, transpose_rhs, group: self.group, skip_hidden, ..Matmul::of(lhs, rhs) };
        let out = builder.matmul("out", op)?;
        Ok(builder.finish(&[out]))
    }
}

/// A product for tests of what is done with one.
#[cfg(test)]
pub(super) fn example(rows: usize) -> Product {
    let mut builder = GraphBuilder::new();
    let lhs = builder.input("lhs", [1, rows, 8], DType::F32).expect("a legal input");
    let op = Matmul::of(lhs, lhs);
    let class = ProductClass::of(&op, [1, rows, 4], 8);
    let outputs = vec![format!("out{rows}")];
    let usual = Tile::Square64;
    Product { class, outputs, sizes: [1, rows, 4], inner: 8, group: 1, has_bias: false, usual, flops: [1, 1] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{AdapterKind, DeviceProfile};

    /// Three projections, one of them apart in kind, and a larger product.
    fn summary() -> PlanSummary {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", [1, 60, 32], DType::F32).unwrap();
        let wide = builder.input("wide", [1, 32, 500], DType::F32).unwrap();
        let mut outputs = Vec::new();
        for (name, cols) in [("a", 17), ("b", 32)] {
            let rhs = builder.input(&format!("W_{name}"), [1, 32, cols], DType::F32).unwrap();
            outputs.push(builder.matmul(name, Matmul::of(x, rhs)).unwrap());
        }
        let turned = builder.input("W_c", [1, 32, 32], DType::F32).unwrap();
        outputs.push(builder.matmul("c", Matmul { transpose_rhs: true, ..Matmul::of(x, turned) }).unwrap());
        outputs.push(builder.matmul("d", Matmul::of(x, wide)).unwrap());
        PlanSummary::new(&builder.finish(&outputs), &DeviceProfile::portable()).unwrap()
    }

    #[test]
    fn products_of_a_class_are_one_and_the_largest_stands_for_all() {
        let products = of(&summary());
        let told: Vec<_> = products.iter().map(|product| (product.outputs.join(" "), product.sizes)).collect();
        let expected = [("d", [1, 60, 500]), ("a b", [1, 60, 32]), ("c", [1, 60, 32])];
        assert_eq!(told, expected.map(|(names, sizes)| (names.to_owned(), sizes)));
        assert_eq!(products[1].flops, [2 * 60 * 32 * 32, 2 * 60 * 32 * 49]);
        assert_eq!(products[1].bytes(), 4 * (60 * 32 + 32 * 32 + 60 * 32));
    }

    #[test]
    fn a_product_alone_is_of_its_own_class() {
        for product in of(&summary()) {
            let graph = product.graph().unwrap();
            assert_eq!(product.bytes(), graph.values().map(|(_, value)| value.bytes()).sum::<u64>());
            let alone = PlanSummary::new(&graph, &DeviceProfile::portable()).unwrap();
            let [again] = &of(&alone)[..] else { panic!("one product") };
            assert_eq!((again.class, again.sizes, again.inner), (product.class, product.sizes, product.inner));
        }
    }

    #[test]
    fn a_plan_for_a_cpu_adapter_leaves_no_product_to_it() {
        let kind = AdapterKind::Cpu;
        let profile = DeviceProfile { kind, ..DeviceProfile::portable() };
        let graph = of(&summary())[0].graph().unwrap();
        assert_eq!(of(&PlanSummary::new(&graph, &profile).unwrap()), []);
    }
}
