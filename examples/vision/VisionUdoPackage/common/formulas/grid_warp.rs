//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 06f6fa6e265f6e45
//!
//! The formula of GridWarp on every core: its static values, and how to compute an element. It is the
//! module `formulas::grid_warp` in the crates of all cores.
//!
//!     # Pixels at places between -1 and 1, of the four around.
//!     require rank(image) == 4 and rank(grid) == 4 and dim(grid, 0) == dim(image, 0) and dim(grid, 3) == 2, "x and y for each pixel of each image"
//!     require outside == "fill" or outside == "border", "outside to be fill or border"
//!     require size(fill) == 1, "one number to fill with"
//!     warped[n < dim(image, 0), i < dim(grid, 1), j < dim(grid, 2), c < dim(image, 3)] =
//!         let x = ((grid[n, i, j, 0] + 1) * dim(image, 2) - 1) / 2 in
//!         let y = ((grid[n, i, j, 1] + 1) * dim(image, 1) - 1) / 2 in
//!         let u = if outside == "border" then clamp(x, 0, dim(image, 2) - 1) else x in
//!         let v = if outside == "border" then clamp(y, 0, dim(image, 1) - 1) else y in
//!         let left = int(floor(u)) in let right = u - left in
//!         let top = int(floor(v)) in let down = v - top in
//!         let above = (1 - right) * image[n, top, left, c else fill[0]] + right * image[n, top, left + 1, c else fill[0]] in
//!         let below = (1 - right) * image[n, top + 1, left, c else fill[0]] + right * image[n, top + 1, left + 1, c else fill[0]] in
//!         (1 - down) * above + down * below

use udo_api::{Error, Node};
use crate::reference::{
    Fault, List, extents, larger_f32, list_dims, list_item, list_len, list_size, list_unravel,
    place, smaller_f32, wanted,
};

/// Returns the plan of a node.
pub fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
    let extents_0 = extents(cx, 0, "image")?;
    let extents_1 = extents(cx, 1, "grid")?;
    let list_0 = cx.floats("fill")?;
    plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items), cx.text("outside")?, &[list_0.len() as i64], list_0)
        .map_err(wanted)
}

/// The data of a node that depends on its shapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    pub dims_image: List,
    pub has_image: bool,
    pub dims_grid: List,
    pub has_grid: bool,
    pub dims_fill: List,
    pub text_0: bool,
    pub text_1: bool,
    pub value_6: bool,
    pub value_8: bool,
    pub dims_warped: List,
}

/// Computes the plan, or returns the requirement that is not met.
pub fn plan(
    dims_image: Option<&[i64]>,
    dims_grid: Option<&[i64]>,
    outside: &str,
    dims_fill: &[i64],
    _fill: &[f64],
) -> Result<Plan, Fault> {
    let mut plan = Plan {
        has_image: dims_image.is_some(),
        dims_image: List::of(dims_image.unwrap_or_default()),
        has_grid: dims_grid.is_some(),
        dims_grid: List::of(dims_grid.unwrap_or_default()),
        dims_fill: List::of(dims_fill),
        text_0: outside == "fill",
        text_1: outside == "border",
        ..Plan::default()
    };
    {
        let t1: bool = if list_len(plan.dims_image) == 4_i64 {
            list_len(plan.dims_grid) == 4_i64
        } else {
            false
        };
        let t2: bool = if t1 {
            list_item(plan.dims_grid, 0_i64)? == list_item(plan.dims_image, 0_i64)?
        } else {
            false
        };
        let t3: bool = if t2 {
            list_item(plan.dims_grid, 3_i64)? == 2_i64
        } else {
            false
        };
        if !t3 {
            return Err(Fault("x and y for each pixel of each image"));
        }
    }
    {
        let t1: bool = if plan.text_0 {
            true
        } else {
            plan.text_1
        };
        if !t1 {
            return Err(Fault("outside to be fill or border"));
        }
    }
    {
        let t1 = list_size(plan.dims_fill) == 1_i64;
        if !t1 {
            return Err(Fault("one number to fill with"));
        }
    }
    {
        plan.value_6 = plan.text_1;
    }
    {
        plan.value_8 = plan.text_1;
    }
    {
        plan.dims_warped = list_dims(List::of(&[list_item(plan.dims_image, 0_i64)?, list_item(plan.dims_grid, 1_i64)?, list_item(plan.dims_grid, 2_i64)?, list_item(plan.dims_image, 3_i64)?]))?;
    }
    Ok(plan)
}

/// Computes an element of `warped`.
pub fn element_of_warped<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    grid: impl Fn(usize) -> Result<f32, E>,
    image: impl Fn(usize) -> Result<f32, E>,
    fill: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let at = list_unravel(number as i64, plan.dims_warped);
    let n = list_item(at, 0)?;
    let i = list_item(at, 1)?;
    let j = list_item(at, 2)?;
    let c = list_item(at, 3)?;
    let t1 = place(plan.dims_grid, List::of(&[n, i, j, 0_i64]));
    let t2: f32 = if t1 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        grid(t1 as usize)?
    };
    let x = (((t2 + 1.0_f32) * (list_item(plan.dims_image, 2_i64)? as f32)) - 1.0_f32) / 2.0_f32;
    let t3 = place(plan.dims_grid, List::of(&[n, i, j, 1_i64]));
    let t4: f32 = if t3 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        grid(t3 as usize)?
    };
    let y = (((t4 + 1.0_f32) * (list_item(plan.dims_image, 1_i64)? as f32)) - 1.0_f32) / 2.0_f32;
    let t5: f32 = if plan.value_6 {
        smaller_f32(larger_f32(x, 0.0_f32), list_item(plan.dims_image, 2_i64)?.wrapping_sub(1_i64) as f32)
    } else {
        x
    };
    let u = t5;
    let t6: f32 = if plan.value_8 {
        smaller_f32(larger_f32(y, 0.0_f32), list_item(plan.dims_image, 1_i64)?.wrapping_sub(1_i64) as f32)
    } else {
        y
    };
    let v = t6;
    let left = u.floor() as i64;
    let right = u - (left as f32);
    let top = v.floor() as i64;
    let down = v - (top as f32);
    let t7 = place(plan.dims_image, List::of(&[n, top, left, c]));
    let t8: f32 = if t7 < 0 {
        let t9 = place(plan.dims_fill, List::of(&[0_i64]));
        let t10: f32 = if t9 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            fill(t9 as usize)?
        };
        t10
    } else {
        image(t7 as usize)?
    };
    let t11 = place(plan.dims_image, List::of(&[n, top, left.wrapping_add(1_i64), c]));
    let t12: f32 = if t11 < 0 {
        let t13 = place(plan.dims_fill, List::of(&[0_i64]));
        let t14: f32 = if t13 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            fill(t13 as usize)?
        };
        t14
    } else {
        image(t11 as usize)?
    };
    let above = ((1.0_f32 - right) * t8) + (right * t12);
    let t15 = place(plan.dims_image, List::of(&[n, top.wrapping_add(1_i64), left, c]));
    let t16: f32 = if t15 < 0 {
        let t17 = place(plan.dims_fill, List::of(&[0_i64]));
        let t18: f32 = if t17 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            fill(t17 as usize)?
        };
        t18
    } else {
        image(t15 as usize)?
    };
    let t19 = place(plan.dims_image, List::of(&[n, top.wrapping_add(1_i64), left.wrapping_add(1_i64), c]));
    let t20: f32 = if t19 < 0 {
        let t21 = place(plan.dims_fill, List::of(&[0_i64]));
        let t22: f32 = if t21 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            fill(t21 as usize)?
        };
        t22
    } else {
        image(t19 as usize)?
    };
    let below = ((1.0_f32 - right) * t16) + (right * t20);
    Ok(((1.0_f32 - down) * above) + (down * below))
}
