//! Random graphs: a table of small recipes, each of which adds a node or a few that belong together.

use udo_api::{DType, Element, Shape};
use udo_runtime::Tensor;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_test_support::random::Random;

/// Values with more elements than this get no more readers.
const MOST: usize = 4000;

/// A random graph, and what to call its ends.
pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<(String, Vec<usize>)>,
    pub(crate) outputs: Vec<String>,
}

impl Case {
    /// Whether it has filters of 3 by 3, which a convolution of images of open extents may pack for another algorithm.
    pub(crate) fn has_wide_filters(&self) -> bool {
        let mut constants = self.graph.value_ids().filter_map(|id| self.graph.constant(id));
        constants.any(|constant| matches!(constant.dims(), [_, _, 3, 3]))
    }
}

/// A value that a node can read.
#[derive(Clone, Debug)]
struct Operand {
    id: ValueId,
    dims: Vec<usize>,
    /// Whether a run may find fewer elements.
    bounded: bool,
    /// Whether it comes out of a `DequantizeLinear`.
    encoded: bool,
}

impl Operand {
    fn rank(&self) -> usize {
        self.dims.len()
    }

    fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether both could be parts of one join along `axis`.
    fn concatenates_with(&self, other: &Self, axis: usize) -> bool {
        let alike = |at: usize| at == axis || self.dims[at] == other.dims[at];
        !other.bounded && other.rank() == self.rank() && (0..self.rank()).all(alike)
    }
}

struct Maker {
    graph: Graph,
    values: Vec<Operand>,
    random: Random,
}

type Recipe = fn(&mut Maker, &Operand);

/// Nodes that may consume a value with fixed dimensions; a recipe that does not apply adds nothing.
const RECIPES: &[Recipe] = &[
    Maker::elementwise,
    Maker::elementwise,
    Maker::elementwise,
    Maker::sum,
    Maker::sum,
    Maker::clip,
    Maker::view,
    Maker::reshape_to_rank_4,
    Maker::transpose,
    Maker::join,
    Maker::join,
    Maker::join_of_fresh_parts,
    Maker::join_of_fresh_parts,
    Maker::channels_last,
    Maker::channels_last,
    Maker::conv,
    Maker::conv,
    Maker::pool,
    Maker::product,
    Maker::normalize,
    Maker::normalize,
    Maker::broadcast,
    Maker::fork,
    Maker::fork,
    Maker::split,
    Maker::split,
    Maker::rest,
    Maker::rest,
    Maker::bound,
    Maker::on_gpu,
    Maker::quantize,
    Maker::quantize,
];

/// The graph of a seed.
pub(crate) fn random(random: Random) -> Case {
    let mut maker = Maker { graph: Graph::new("random"), values: Vec::new(), random };
    let mut inputs = Vec::new();
    for index in 0..=maker.random.below(2) {
        let dims = maker.input_dims();
        let name = format!("x{index}");
        let id = maker.graph.add_input(&name, DType::F32, dims.iter().map(|&d| DimSpec::Fixed(d)));
        maker.values.push(Operand { id, dims: dims.clone(), bounded: false, encoded: false });
        inputs.push((name, dims));
    }
    for _ in 0..3 + maker.random.below(20) {
        maker.step();
    }
    let last = maker.values.len() - 1;
    let mut outputs = vec![maker.values[last].id];
    for _ in 0..maker.random.below(3) {
        let id = maker.any().id;
        if !outputs.contains(&id) {
            outputs.push(id);
        }
    }
    let name = |id: &ValueId| maker.graph.values[id.index()].name.clone();
    let names = outputs.iter().map(name).collect();
    maker.graph.outputs = outputs;
    Case { graph: maker.graph, inputs, outputs: names }
}

impl Maker {
    fn input_dims(&mut self) -> Vec<usize> {
        match self.random.below(12) {
            0 | 1 => vec![2, 3],
            2 | 3 => vec![6],
            4 => vec![1, 4, 1, 1],
            // Nothing along some axis.
            5 => vec![1, self.random.pick(&[0, 2]), self.random.pick(&[0, 1]), 2],
            _ => vec![
                1 + self.random.below(2),
                self.random.pick(&[1, 2, 3, 5, 8]),
                1 + self.random.below(3),
                1 + self.random.below(4),
            ],
        }
    }

    /// A value, rather one of the last ones.
    fn any(&mut self) -> Operand {
        let count = self.values.len();
        let at = if self.random.once_in(3) {
            self.random.below(count)
        } else {
            count - 1 - self.random.below(count.min(4))
        };
        self.values[at].clone()
    }

    fn any_like(&mut self, x: &Operand) -> Operand {
        let alike: Vec<_> =
            self.values.iter().filter(|v| v.dims == x.dims && !v.bounded).cloned().collect();
        self.random.pick(&alike)
    }

    fn step(&mut self) {
        let x = self.any();
        if x.len() > MOST {
            return;
        }
        if x.bounded {
            return self.follow_bounded(&x);
        }
        let recipe = self.random.pick(RECIPES);
        recipe(self, &x);
    }

    fn reals(&mut self, dims: &[usize]) -> ValueId {
        let numbers = self.random.reals(dims.iter().product());
        self.constant(dims, &numbers)
    }

    fn constant<T: Element>(&mut self, dims: &[usize], elements: &[T]) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        let shape = Shape::new(dims).unwrap();
        self.graph.add_constant(&name, Tensor::from_slice(shape, elements).unwrap())
    }

    fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
        outputs: &[&[usize]],
    ) -> Operand {
        let first = self.values.len();
        for dims in outputs {
            let id = self.graph.add_value(&format!("v{}", self.graph.values.len()));
            let dims = dims.to_vec();
            self.values.push(Operand { id, dims, bounded: false, encoded: false });
        }
        let ids: Vec<ValueId> = self.values[first..].iter().map(|v| v.id).collect();
        let mut node = Node::new(op, 17, inputs, &ids);
        node.attrs.extend(attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())));
        self.graph.add_node(node);
        self.values[first].clone()
    }

    /// A node with one input and an output like it.
    fn unary(&mut self, op: &str, x: &Operand) -> Operand {
        self.node(op, &[x.id], &[], &[&x.dims])
    }

    fn follow_bounded(&mut self, x: &Operand) {
        let op = self.random.pick(&["Relu", "Identity", "Sigmoid", "Add"]);
        let inputs = match op {
            "Add" if self.random.once_in(2) => vec![x.id, self.reals(&[1])],
            "Add" => vec![x.id, x.id],
            _ => vec![x.id],
        };
        self.node(op, &inputs, &[], &[&x.dims]);
        if let Some(y) = self.values.last_mut() {
            y.bounded = true;
        }
    }

    fn elementwise(&mut self, x: &Operand) {
        let op = self
            .random
            .pick(&["Twice", "Thrice", "Relu", "Relu", "Sigmoid", "Identity", "Dropout"]);
        self.unary(op, x);
    }

    fn sum(&mut self, x: &Operand) {
        let op = self.random.pick(&["Add", "Add", "Weighted", "Sum"]);
        let mut inputs = vec![x.id, self.any_like(x).id];
        if op == "Sum" {
            inputs.push(self.any_like(x).id);
        }
        self.node(op, &inputs, &[], &[&x.dims]);
    }

    fn clip(&mut self, x: &Operand) {
        let bounds = [0.0f32, self.random.pick(&[1.0, 6.0])].map(|b| self.constant(&[], &[b]));
        self.node("Clip", &[x.id, bounds[0], bounds[1]], &[], &[&x.dims]);
    }

    fn view(&mut self, x: &Operand) {
        let row = [x.len()];
        if self.random.once_in(2) {
            self.node("Flat", &[x.id], &[], &[&row]);
        } else {
            let shape = self.constant(&[1], &[-1i64]);
            self.node("Reshape", &[x.id, shape], &[], &[&row]);
        }
    }

    fn reshape_to_rank_4(&mut self, x: &Operand) {
        let divisor = |random: &mut Random, of: usize, most: usize| {
            let divisors: Vec<usize> = (1..=most).filter(|d| of.is_multiple_of(*d)).collect();
            random.pick(&divisors)
        };
        if x.len() == 0 {
            return;
        }
        let channels = divisor(&mut self.random, x.len(), 6);
        let height = divisor(&mut self.random, x.len() / channels, 3);
        let dims = [1, channels, height, x.len() / channels / height];
        let shape = self.constant(&[4], &dims.map(|d| i64::try_from(d).unwrap()));
        self.node("Reshape", &[x.id, shape], &[], &[&dims]);
    }

    fn transpose(&mut self, x: &Operand) {
        let mut axes: Vec<usize> = (0..x.rank()).collect();
        for last in (1..x.rank()).rev() {
            axes.swap(last, self.random.below(last + 1));
        }
        let dims: Vec<usize> = axes.iter().map(|&axis| x.dims[axis]).collect();
        let perm = axes.into_iter().map(|axis| i64::try_from(axis).unwrap()).collect();
        self.node("Transpose", &[x.id], &[("perm", Attr::Ints(perm))], &[&dims]);
    }

    /// The axis of a join: the last, the channels, or any.
    fn join_axis(&mut self, x: &Operand) -> Option<usize> {
        match self.random.below(5) {
            0 | 1 if x.rank() == 4 => Some(1),
            2 if x.rank() > 0 => Some(self.random.below(x.rank())),
            _ => x.rank().checked_sub(1),
        }
    }

    fn joined(&mut self, parts: &[Operand], axis: usize) {
        let mut dims = parts[0].dims.clone();
        dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
        let ids: Vec<ValueId> = parts.iter().map(|p| p.id).collect();
        let last = axis + 1 == dims.len();
        let own = self.random.pick(&["Beside", "BesideStrided", "Concat"]);
        if last && own != "Concat" {
            self.node(own, &ids, &[], &[&dims]);
            return;
        }
        let counted = i64::try_from(axis).unwrap();
        let from_the_end = counted - i64::try_from(dims.len()).unwrap();
        let axis = self.random.pick(&[counted, from_the_end]);
        self.node("Concat", &ids, &[("axis", Attr::Int(axis))], &[&dims]);
    }

    fn join(&mut self, x: &Operand) {
        let Some(axis) = self.join_axis(x) else { return };
        let mates: Vec<_> =
            self.values.iter().filter(|v| x.concatenates_with(v, axis)).cloned().collect();
        let mut parts = vec![x.clone()];
        for _ in 0..=self.random.below(3) {
            parts.push(self.random.pick(&mates));
        }
        self.joined(&parts, axis);
    }

    /// Parts that nobody else reads, mostly; such concats can be left out.
    fn join_of_fresh_parts(&mut self, x: &Operand) {
        let Some(axis) = self.join_axis(x) else { return };
        let mates: Vec<_> =
            self.values.iter().filter(|v| x.concatenates_with(v, axis)).cloned().collect();
        let mut parts = Vec::new();
        for index in 0..2 + self.random.below(3) {
            let from = if index == 0 { x.clone() } else { self.random.pick(&mates) };
            match self.random.below(8) {
                0 => parts.push(self.unary("Relu", &from)),
                1 if axis == 1 && from.rank() == 4 && from.len() > 0 => {
                    let kernel = self.random.pick(&[1, 1, 3]);
                    let sums = self.convolved(&from, kernel);
                    parts.push(self.unary("Relu", &sums));
                }
                3 if axis == 1 && from.rank() == 4 && from.len() > 0 => {
                    parts.push(self.convolved(&from, 1));
                }
                4 if from.rank() == 4 && from.len() > 0 => parts.push(self.pooled(&from)),
                5 if axis + 1 == from.rank() && from.len() > 0 => {
                    parts.push(self.multiplied(&from));
                }
                6 => parts.push(self.unary("Thrice", &from)),
                2 => {
                    parts.push(self.node("Fork", &[from.id], &[], &[&from.dims, &from.dims]));
                    if self.random.once_in(2) {
                        parts.extend(self.values.last().cloned());
                    }
                }
                _ => parts.push(self.unary("Twice", &from)),
            }
        }
        if self.random.once_in(3) {
            let read_before = self.random.pick(&parts);
            let other = self.unary("Twice", &read_before);
            parts.extend(self.random.once_in(2).then_some(other));
        }
        let read_after = self.random.pick(&parts);
        let parts: Vec<_> =
            parts.iter().filter(|p| x.concatenates_with(p, axis)).cloned().collect();
        if parts.is_empty() {
            return;
        }
        self.joined(&parts, axis);
        if self.random.once_in(3) {
            self.unary("Relu", &read_after);
        }
    }

    fn channels_last(&mut self, x: &Operand) {
        if x.rank() == 4 {
            let op = self.random.pick(&["Channel", "Channel", "ChannelIn", "ChannelOut"]);
            self.unary(op, x);
        }
    }

    fn convolved(&mut self, x: &Operand, kernel: usize) -> Operand {
        let filters = 1 + self.random.below(6);
        let mut inputs = vec![x.id, self.reals(&[filters, x.dims[1], kernel, kernel])];
        if self.random.once_in(2) {
            inputs.push(self.reals(&[filters]));
        }
        let pads = Attr::Ints(vec![i64::try_from(kernel / 2).unwrap(); 4]);
        let dims = [x.dims[0], filters, x.dims[2], x.dims[3]];
        self.node("Conv", &inputs, &[("pads", pads)], &[&dims])
    }

    fn conv(&mut self, x: &Operand) {
        if x.rank() != 4 || x.len() == 0 {
            return;
        }
        let kernel = self.random.pick(&[1, 1, 3]);
        let sums = self.convolved(x, kernel);
        match self.random.below(5) {
            0 => self.normalize(&sums),
            1 => self.elementwise(&sums),
            2 => self.quantized_sums(&sums),
            _ => {}
        }
    }

    fn pooled(&mut self, x: &Operand) -> Operand {
        let op = self.random.pick(&["MaxPool", "AveragePool"]);
        // A mean has the encoding of its input, if that has one, and lies between two of its steps: the DSP would round it.
        let x = if op == "AveragePool" { &self.unary("Twice", x) } else { x };
        let ints = |n: i64, count| Attr::Ints(vec![n; count]);
        let attrs = [("kernel_shape", ints(3, 2)), ("pads", ints(1, 4))];
        self.node(op, &[x.id], &attrs, &[&x.dims])
    }

    fn pool(&mut self, x: &Operand) {
        if x.rank() == 4 && x.len() > 0 {
            self.pooled(x);
        }
    }

    fn multiplied(&mut self, x: &Operand) -> Operand {
        let mut dims = x.dims.clone();
        let depth = dims.pop().unwrap_or(1);
        let cols = 1 + self.random.below(6);
        dims.push(cols);
        let right = self.reals(&[depth, cols]);
        self.node("MatMul", &[x.id, right], &[], &[&dims])
    }

    fn product(&mut self, x: &Operand) {
        if x.rank() > 0 && x.len() > 0 {
            self.multiplied(x);
        }
    }

    /// A normalization. Of a convolution's sums, which may take it into their weights, one by powers of two, so that
    /// every rounding is the same in both ways.
    fn normalize(&mut self, x: &Operand) {
        if x.rank() != 4 || x.len() == 0 {
            return;
        }
        let channels = x.dims[1];
        let made_by = |node: &Node| node.outputs.contains(&Some(x.id));
        let of_conv = self.graph.nodes.iter().any(|node| node.op == "Conv" && made_by(node));
        let statistics = if of_conv {
            let scale: Vec<f32> =
                (0..channels).map(|_| self.random.pick(&[0.5, 1.0, -2.0])).collect();
            [scale, vec![0.0; channels], vec![0.0; channels], vec![1.0; channels]]
        } else {
            let variance = self.random.reals(channels).into_iter().map(|v| v.abs() + 0.5).collect();
            let [scale, shift, mean] = [(); 3].map(|()| self.random.reals(channels));
            [scale, shift, mean, variance]
        };
        let statistics = statistics.map(|numbers| self.constant(&[channels], &numbers));
        let inputs = [&[x.id][..], &statistics].concat();
        self.node("BatchNormalization", &inputs, &[("epsilon", Attr::Float(0.0))], &[&x.dims]);
    }

    fn broadcast(&mut self, x: &Operand) {
        let &[_, channels, _, width] = &x.dims[..] else { return };
        let shapes = [vec![1, channels, 1, 1], vec![channels, 1, 1], vec![1], vec![width]];
        let dims = self.random.pick(&shapes);
        let factor = self.reals(&dims);
        self.node("Mul", &[x.id, factor], &[], &[&x.dims]);
    }

    fn fork(&mut self, x: &Operand) {
        self.node("Fork", &[x.id], &[], &[&x.dims, &x.dims]);
    }

    /// An axis with several places, and one of them that is not the first.
    fn cut(&mut self, x: &Operand) -> Option<(usize, usize)> {
        let long: Vec<usize> = (0..x.rank()).filter(|&axis| x.dims[axis] > 1).collect();
        let axis = *long.get(self.random.below(long.len().max(1)))?;
        Some((axis, 1 + self.random.below(x.dims[axis] - 1)))
    }

    fn split(&mut self, x: &Operand) {
        let Some((axis, first)) = self.cut(x) else { return };
        let sizes = [first, x.dims[axis] - first];
        let [left, right] = sizes.map(|size| {
            let mut dims = x.dims.clone();
            dims[axis] = size;
            dims
        });
        let sizes = self.constant(&[2], &sizes.map(|s| i64::try_from(s).unwrap()));
        let axis = i64::try_from(axis).unwrap();
        self.node("Split", &[x.id, sizes], &[("axis", Attr::Int(axis))], &[&left, &right]);
    }

    /// Slices off the first elements along an axis.
    fn rest(&mut self, x: &Operand) {
        let Some((axis, start)) = self.cut(x) else { return };
        let mut dims = x.dims.clone();
        dims[axis] -= start;
        let [axis, start] = [axis, start].map(|n| Attr::Int(i64::try_from(n).unwrap()));
        self.node("Rest", &[x.id], &[("axis", axis), ("start", start)], &[&dims]);
    }

    fn bound(&mut self, x: &Operand) {
        if x.rank() != 1 {
            return;
        }
        self.unary("Positive", x);
        if let Some(y) = self.values.last_mut() {
            y.bounded = true;
        }
    }

    fn on_gpu(&mut self, x: &Operand) {
        self.unary("TwiceOnGpu", x);
    }

    /// An operator between values with encodings, so that the DSP can take it. Steps are powers of two: what the
    /// DSP computes from quantized values is what the CPU computes from the numbers that they stand for.
    fn quantize(&mut self, x: &Operand) {
        let x = if x.encoded { x.clone() } else { self.requantized(x) };
        let y = match self.random.below(6) {
            0 => self.unary("Relu", &x),
            1 => self.node("Add", &[x.id, x.id], &[], &[&x.dims]),
            2 => self.node("Mul", &[x.id, x.id], &[], &[&x.dims]),
            3 if x.rank() == 4 && x.len() > 0 => {
                let kernel = Attr::Ints(vec![1, 1]);
                self.node("MaxPool", &[x.id], &[("kernel_shape", kernel)], &[&x.dims])
            }
            4 => self.unary("Identity", &x),
            _ => self.unary("TwiceOnDsp", &x),
        };
        if !self.random.once_in(6) {
            self.requantized(&y);
        }
    }

    /// The value as 8 bits hold it.
    /// Sums, or what becomes of them, as quantized values of any type.
    fn quantized_sums(&mut self, x: &Operand) {
        let x = match self.random.below(3) {
            0 => self.unary("Relu", x),
            1 => {
                let residual = self.any_like(x).id;
                self.node("Add", &[x.id, residual], &[], &[&x.dims])
            }
            _ => x.clone(),
        };
        let zero_point = match self.random.below(4) {
            0 => self.constant(&[], &[128u8]),
            1 => self.constant(&[], &[-5i8]),
            2 => self.constant(&[], &[40_000u16]),
            _ => self.constant(&[], &[0i16]),
        };
        let scale = self.random.pick(&[0.01, 0.0625, 0.3]);
        self.requantized_by(&x, scale, zero_point);
    }

    fn requantized(&mut self, x: &Operand) -> Operand {
        let scale = self.random.pick(&[0.03125f32, 0.0625, 0.25]);
        let zero_point = self.random.pick(&[0u8, 100, 128]);
        let zero_point = self.constant(&[], &[zero_point]);
        self.requantized_by(x, scale, zero_point)
    }

    /// Quantized values of the zero point's type, and what they stand for.
    fn requantized_by(&mut self, x: &Operand, scale: f32, zero_point: ValueId) -> Operand {
        let scale = self.constant(&[], &[scale]);
        let quantized = self.node("QuantizeLinear", &[x.id, scale, zero_point], &[], &[&x.dims]);
        // Quantized values are nobody else's business.
        self.values.pop();
        let y = self.node("DequantizeLinear", &[quantized.id, scale, zero_point], &[], &[&x.dims]);
        if let Some(last) = self.values.last_mut() {
            last.encoded = true;
        }
        Operand { encoded: true, ..y }
    }
}
