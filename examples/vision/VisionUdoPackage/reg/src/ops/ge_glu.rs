//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config fd92b88c6322941d
//!
//! GeGlu: what its outputs look like.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{DType, Error, InferCx, Op, OpDef, OpSchema, TensorDesc};

use crate::schema::ge_glu as schema;

pub(crate) const OP: OpDef = OpDef::of::<GeGlu>();

struct GeGlu;

impl Op for GeGlu {
    const SCHEMA: OpSchema = schema::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shapes = shapes::outputs(cx)?;
        let of = cx.input(0)?.dtype().unwrap_or(DType::F32);
        cx.set_output(0, TensorDesc::new(of, shapes[0]))?;
        Ok(())
    }
}

/// Shapes as the reference says them.
#[rustfmt::skip]
#[allow(clippy::all, dead_code, reason = "printed from the reference")]
mod shapes {
    use udo_api::{Dim, Error, InferCx, Node, Shape};

    /// The shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx)?;
        Ok([
            shape(cx, plan.dims_y, plan.dims_y)?,
        ])
    }

    /// What is known of a node with its shapes.
    fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
        let extents_0 = extents(cx, 0, "x")?;
        let extents_1 = extents(cx, 1, "bias")?;
        plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items))
            .map_err(wanted)
    }

    fn wanted(Fault(wanted): Fault) -> Error {
        Error::new(["wanted ", wanted].concat())
    }

    fn extents(cx: &Node<'_>, index: usize, name: &str) -> Result<Option<List>, Error> {
        if !cx.has_input(index) {
            return Ok(None);
        }
        let input = cx.input(index)?;
        let shape = input.full_shape();
        if shape.iter().any(|dim| matches!(dim, Dim::UpTo(_))) {
            let text = ["input ", name, " has an extent that each run says, wanted known ones"];
            return Err(Error::new(text.concat()));
        }
        let mut extents = [0; 8];
        for (to, dim) in extents.iter_mut().zip(shape.dims()) {
            *to = *dim as i64;
        }
        Ok(Some(List::of(&extents[..shape.dims().len()])))
    }

    /// The shape of an output: bounded where the elements decide, and open as soon as an input is.
    fn shape(cx: &InferCx<'_>, most: List, least: List) -> Result<Shape, Error> {
        let mut is_open = false;
        for index in 0..cx.input_count() {
            is_open |= cx.has_input(index)
                && cx.input(index)?.full_shape().iter().any(|dim| matches!(dim, Dim::Open(_)));
        }
        let mut dims = [Dim::Fixed(0); 8];
        for (to, (&most, &least)) in dims.iter_mut().zip(most.items().iter().zip(least.items())) {
            *to = match most as usize {
                bound if most != least => Dim::UpTo(bound),
                extent if is_open => Dim::Open(extent),
                extent => Dim::Fixed(extent),
            };
        }
        Shape::of_dims(&dims[..most.items().len()])
    }

    #[derive(Debug, Clone, Copy, Default)]
    pub struct Plan {
        pub dims_x: List,
        pub has_x: bool,
        pub dims_bias: List,
        pub has_bias: bool,
        pub half: i64,
        pub value_1: bool,
        pub value_2: bool,
        pub dims_z: List,
        pub dims_y: List,
    }

    pub fn plan(
        dims_x: Option<&[i64]>,
        dims_bias: Option<&[i64]>,
    ) -> Result<Plan, Fault> {
        let mut plan = Plan::default();
        plan.has_x = dims_x.is_some();
        plan.dims_x = List::of(dims_x.unwrap_or_default());
        plan.has_bias = dims_bias.is_some();
        plan.dims_bias = List::of(dims_bias.unwrap_or_default());
        {
            plan.half = int_floor_div(list_item(plan.dims_x, -1_i64)?, 2_i64)?;
        }
        {
            if !(list_item(plan.dims_x, -1_i64)? == 2_i64.wrapping_mul(plan.half)) {
                return Err(Fault("an even last axis"));
            }
        }
        {
            plan.value_1 = plan.has_bias;
        }
        {
            let t1: bool = if plan.value_1 {
                let t2: bool = if list_len(plan.dims_bias) == 1_i64 {
                    list_item(plan.dims_bias, 0_i64)? == 2_i64.wrapping_mul(plan.half)
                } else {
                    false
                };
                t2
            } else {
                true
            };
            if !t1 {
                return Err(Fault("a number of bias for each number of the last axis"));
            }
        }
        {
            plan.value_2 = plan.has_bias;
        }
        {
            let t1 = if plan.value_2 {
                list_broadcast(plan.dims_x, plan.dims_bias)?
            } else {
                plan.dims_x
            };
            plan.dims_z = list_dims(t1)?;
        }
        {
            let mut t1 = List::default();
            list_join(&mut t1, list_slice(plan.dims_x, 0, -1_i64))?;
            list_push(&mut t1, plan.half)?;
            plan.dims_y = list_dims(t1)?;
        }
        Ok(plan)
    }

    /// What was wanted of shapes, parameters or elements, and is not so.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Fault(pub &'static str);

    /// A few integers: extents, coordinates or axes.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct List {
        len: usize,
        items: [i64; 16],
    }

    impl List {
        /// The list of these items.
        pub fn of(items: &[i64]) -> Self {
            let mut list = Self::default();
            for (to, item) in list.items.iter_mut().zip(items) {
                *to = *item;
            }
            list.len = items.len().min(16);
            list
        }

        /// The items.
        pub fn items(&self) -> &[i64] {
            &self.items[..self.len]
        }

        /// How many elements a tensor of these extents has.
        pub fn size(&self) -> usize {
            self.items().iter().map(|item| (*item).max(0) as usize).product()
        }
    }

    fn list_dims(dims: List) -> Result<List, Fault> {
        let is_fine = dims.len <= 8 && dims.items().iter().all(|dim| *dim >= 0);
        if is_fine { Ok(dims) } else { Err(Fault("extents of 0 or more, and rank 8 at most")) }
    }

    fn list_len(list: List) -> i64 {
        list.len as i64
    }

    fn list_push(list: &mut List, item: i64) -> Result<(), Fault> {
        let Some(place) = list.items.get_mut(list.len) else {
            return Err(Fault("lists of 16 items at most"));
        };
        *place = item;
        list.len += 1;
        Ok(())
    }

    fn list_join(list: &mut List, other: List) -> Result<(), Fault> {
        other.items().iter().try_for_each(|item| list_push(list, *item))
    }

    fn list_item(list: List, at: i64) -> Result<i64, Fault> {
        let place = if at < 0 { at + list.len as i64 } else { at };
        let item = usize::try_from(place).ok().and_then(|place| list.items().get(place));
        item.copied().ok_or(Fault("an item or axis that there is"))
    }

    fn list_slice(list: List, from: i64, to: i64) -> List {
        let len = list.len as i64;
        let place = |at: i64| (if at < 0 { at + len } else { at }).clamp(0, len) as usize;
        let (from, to) = (place(from), place(to));
        List::of(if from < to { &list.items()[from..to] } else { &[] })
    }

    fn list_broadcast(a: List, b: List) -> Result<List, Fault> {
        let (long, short) = if a.len < b.len { (b, a) } else { (a, b) };
        let mut dims = long;
        let skip = long.len - short.len;
        for (dim, of) in dims.items[skip..long.len].iter_mut().zip(short.items()) {
            if *dim == 1 {
                *dim = *of;
            } else if *of != 1 && of != dim {
                return Err(Fault("shapes that broadcast"));
            }
        }
        Ok(dims)
    }

    /// The number of the element at these coordinates, or -1 where they are outside.
    fn place(dims: List, coords: List) -> i64 {
        if dims.len != coords.len {
            return -1;
        }
        let mut number = 0;
        for (at, dim) in coords.items().iter().zip(dims.items()) {
            if *at < 0 || at >= dim {
                return -1;
            }
            number = number * dim + at;
        }
        number
    }

    fn int_floor_div(a: i64, b: i64) -> Result<i64, Fault> {
        let rest = a.checked_rem(b).or(if b == 0 { None } else { Some(0) }).ok_or(Fault("divisors other than 0"))?;
        Ok(a.wrapping_div(b) - i64::from(rest != 0 && (rest < 0) != (b < 0)))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;
    use udo_testing::{Bench, tensor};

    use super::OP;

    #[test]
    fn the_shapes_of_a_small_node_are_those_of_the_reference() {
        let node = Bench::op(OP, &[])
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]));
        let outputs = node.infer().unwrap();
        let wanted_0: &[Dim] = &[Dim::Fixed(2)];
        assert!(outputs[0].full_shape().iter().eq(wanted_0.iter().copied()));
    }
}
