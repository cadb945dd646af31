//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 6e9a4670baa29425
//!
//! The formula of GeGlu on every core: its static values, and how to compute an element. It is the
//! module `formulas::ge_glu` in the crates of all cores.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{Error, Node};
use crate::reference::{
    Fault, List, erf_f32, extents, int_floor_div, list_align, list_broadcast, list_dims, list_item,
    list_join, list_len, list_push, list_slice, list_unravel, place, wanted,
};

/// Returns the plan of a node.
pub fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
    let extents_0 = extents(cx, 0, "x")?;
    let extents_1 = extents(cx, 1, "bias")?;
    plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items))
        .map_err(wanted)
}

/// The data of a node that depends on its shapes.
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

/// Computes the plan, or returns the requirement that is not met.
pub fn plan(dims_x: Option<&[i64]>, dims_bias: Option<&[i64]>) -> Result<Plan, Fault> {
    let mut plan = Plan {
        has_x: dims_x.is_some(),
        dims_x: List::of(dims_x.unwrap_or_default()),
        has_bias: dims_bias.is_some(),
        dims_bias: List::of(dims_bias.unwrap_or_default()),
        ..Plan::default()
    };
    {
        plan.half = int_floor_div(list_item(plan.dims_x, -1_i64)?, 2_i64)?;
    }
    {
        let t1 = list_item(plan.dims_x, -1_i64)? == 2_i64.wrapping_mul(plan.half);
        if !t1 {
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

/// Computes an element of `z`.
pub fn element_of_z<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    x: impl Fn(usize) -> Result<f32, E>,
    bias: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let here = list_unravel(number as i64, plan.dims_z);
    let t1: f32 = if plan.value_2 {
        let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        let t3: f32 = if t2 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            x(t2 as usize)?
        };
        let t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
        let t5: f32 = if t4 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            bias(t4 as usize)?
        };
        t3 + t5
    } else {
        let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        let t3: f32 = if t2 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            x(t2 as usize)?
        };
        t3
    };
    Ok(t1)
}

/// Computes an element of `y`.
pub fn element_of_y<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    z: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let at = list_unravel(number as i64, plan.dims_y);
    let t7 = list_len(list_slice(plan.dims_x, 0, -1_i64));
    let b = list_slice(at, 0, t7);
    let j = list_item(at, t7)?;
    let mut t1 = List::default();
    list_join(&mut t1, b)?;
    list_push(&mut t1, j.wrapping_add(plan.half))?;
    let t2 = place(plan.dims_z, t1);
    let t3: f32 = if t2 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        z(t2 as usize)?
    };
    let gate = t3;
    let mut t4 = List::default();
    list_join(&mut t4, b)?;
    list_push(&mut t4, j)?;
    let t5 = place(plan.dims_z, t4);
    let t6: f32 = if t5 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        z(t5 as usize)?
    };
    Ok(((t6 * 0.5_f32) * gate) * (1.0_f32 + erf_f32(gate / 2.0_f32.sqrt())))
}
