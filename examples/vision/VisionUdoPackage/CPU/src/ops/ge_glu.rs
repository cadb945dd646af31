//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 28c68010fd628d9d
//!
//! GeGlu on the CPU.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input, output,
    types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::new::<GeGluF32>("GeGlu", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32),
    input(1, types::F32),
    output(0, types::F32),
];

/// A first kernel: right, and as slow as loops over single elements are. Make it fast; its test holds it to the
/// reference.
struct GeGluF32 {
    loops: loops::Kept,
}

impl Kernel for GeGluF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let loops = loops::Kept::of(cx)?;
        Ok(Self { loops })
    }

    fn workspace(&self) -> Workspace {
        self.loops.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.loops.execute(io)
    }
}

/// What the reference says, element by element.
#[rustfmt::skip]
#[allow(clippy::all, dead_code, reason = "printed from the reference")]
mod loops {
    use udo_api::{Dim, Error, ExecError, FinalizeCx, Io, Node, Status, Workspace};

    /// What finalize keeps.
    pub struct Kept {
        plan: Plan,
    }

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
            })
        }

        pub fn workspace(&self) -> Workspace {
            Workspace::NONE.and::<f32>(self.plan.dims_z.size())
        }

        pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
            let Io { inputs, mut outputs, mut scratch, .. } = io;
            let input_0 = inputs.get::<f32>(0)?;
            let input_1 = if inputs.has(1) { inputs.get::<f32>(1)? } else { &[] };
            let scratch_0 = scratch.take::<f32>(self.plan.dims_z.size())?;
            let output_0 = outputs.take::<f32>(0)?;
            execute(&self.plan, input_0, input_1, scratch_0, output_0)
                .map_err(|Fault(_)| ExecError::of(Status::FAILED))?;
            Ok(())
        }
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

    pub fn execute(
        plan: &Plan,
        x: &[f32],
        bias: &[f32],
        z: &mut [f32],
        y: &mut [f32],
    ) -> Result<Plan, Fault> {
        let plan = *plan;
        {
            for number in 0..plan.dims_z.size() {
                z[number] = element_of_z(&plan, number, x, bias)?;
            }
        }
        {
            for number in 0..plan.dims_y.size() {
                y[number] = element_of_y(&plan, number, z)?;
            }
        }
        Ok(plan)
    }

    fn element_of_z(plan: &Plan, number: usize, x: &[f32], bias: &[f32]) -> Result<f32, Fault> {
        let here = list_unravel(number as i64, plan.dims_z);
        let t1: f32 = if plan.value_2 {
            let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t3: f32 = if t2 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                x[t2 as usize]
            };
            let t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
            let t5: f32 = if t4 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                bias[t4 as usize]
            };
            t3 + t5
        } else {
            let t6 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t7: f32 = if t6 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                x[t6 as usize]
            };
            t7
        };
        Ok(t1)
    }

    fn element_of_y(plan: &Plan, number: usize, z: &[f32]) -> Result<f32, Fault> {
        let at = list_unravel(number as i64, plan.dims_y);
        let t7 = list_len(list_slice(plan.dims_x, 0, -1_i64));
        let b = list_slice(at, 0, t7);
        let j = list_item(at, t7)?;
        let mut t1 = List::default();
        list_join(&mut t1, b)?;
        list_push(&mut t1, j.wrapping_add(plan.half))?;
        let t2 = place(plan.dims_z, t1);
        let t3: f32 = if t2 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            z[t2 as usize]
        };
        let gate = t3;
        let mut t4 = List::default();
        list_join(&mut t4, b)?;
        list_push(&mut t4, j)?;
        let t5 = place(plan.dims_z, t4);
        let t6: f32 = if t5 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            z[t5 as usize]
        };
        Ok(((t6 * 0.5_f32) * gate) * (1.0_f32 + erf_f32(gate / 2.0_f32.sqrt())))
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

    fn list_align(coords: List, dims: List) -> List {
        let skip = coords.len.saturating_sub(dims.len);
        let mut aligned = dims;
        for (axis, item) in aligned.items[..dims.len].iter_mut().enumerate() {
            *item = if *item == 1 { 0 } else { coords.items[(skip + axis).min(15)] };
        }
        aligned
    }

    fn list_unravel(number: i64, dims: List) -> List {
        let (mut coords, mut rest) = (dims, number);
        for item in coords.items[..dims.len].iter_mut().rev() {
            let dim = (*item).max(1);
            *item = rest.rem_euclid(dim);
            rest = rest.div_euclid(dim);
        }
        if dims.len > 0 {
            coords.items[0] += rest * dims.items[0].max(1);
        }
        coords
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

    /// By its series near 0, and by the continued fraction of its complement further out.
    fn erf_f32(x: f32) -> f32 {
        let x = x as f64;
        let (a, sign) = (x.abs(), 1.0_f64.copysign(x));
        if a.is_nan() || a > 6.0 {
            return (if a.is_nan() { x } else { sign }) as f32;
        }
        let scale = (-a * a).exp() / core::f64::consts::PI.sqrt();
        if a < 2.5 {
            let (mut term, mut sum, mut odd) = (a, a, 1.0);
            while term > sum * 1e-17 {
                odd += 2.0;
                term *= 2.0 * a * a / odd;
                sum += term;
            }
            return (sign * 2.0 * scale * sum) as f32;
        }
        let below = (1..=60).rev().fold(a, |below, n| a + n as f64 / 2.0 / below);
        (sign * (1.0 - scale / below)) as f32
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn a_small_node_is_as_the_reference_says() {
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .output_of::<f32>(&[2])
            .all();
        let wanted_0 = &[1.0371936919110194, -3.9998733150326675];
        assert_eq!(outputs[0].dims(), [2]);
        assert_near(&outputs[0].values::<f32>(), wanted_0, 1e-5);
    }
}
