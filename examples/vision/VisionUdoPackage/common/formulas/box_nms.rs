//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config a8c34f4be3f91770
//!
//! The formula of BoxNms on every core: its static values, and how to compute an element. It is the
//! module `formulas::box_nms` in the crates of all cores.
//!
//!     # Boxes x0, y0, x1, y1 by score, without those that have too much in common with one that is kept.
//!     let n = dim(boxes, 0)
//!     require rank(boxes) == 2 and rank(scores) == 1 and dim(boxes, 1) == 4 and dim(scores, 0) == n, "four corners and a score for each box"
//!     let area[i < n] = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
//!     let common[i < n, j < n] =
//!         max(0, min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0]))
//!         * max(0, min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1]))
//!     kept = select[r < n; s](true, by = scores[r], limit = limit,
//!         unless = common[s, r] > threshold * (area[s] + area[r] - common[s, r]))

use udo_api::{Error, Node};
use crate::reference::{
    Fault, List, extents, larger_f32, list_align, list_dims, list_item, list_len, list_unravel,
    place, smaller_f32, wanted,
};

/// Returns the plan of a node.
pub fn of_node(cx: &Node<'_>, least: bool) -> Result<Plan, Error> {
    let extents_0 = extents(cx, 0, "boxes")?;
    let extents_1 = extents(cx, 1, "scores")?;
    plan(least, extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items), cx.float("threshold")?, cx.int("limit")?)
        .map_err(wanted)
}

/// The data of a node that depends on its shapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    pub dims_boxes: List,
    pub has_boxes: bool,
    pub dims_scores: List,
    pub has_scores: bool,
    pub threshold: f64,
    pub limit: i64,
    pub n: i64,
    pub dims_area: List,
    pub dims_common: List,
    pub dims_part_2: List,
    pub dims_kept: List,
}

/// Computes the plan, or returns the requirement that is not met.
pub fn plan(
    least: bool,
    dims_boxes: Option<&[i64]>,
    dims_scores: Option<&[i64]>,
    threshold: f64,
    limit: i64,
) -> Result<Plan, Fault> {
    let mut plan = Plan {
        has_boxes: dims_boxes.is_some(),
        dims_boxes: List::of(dims_boxes.unwrap_or_default()),
        has_scores: dims_scores.is_some(),
        dims_scores: List::of(dims_scores.unwrap_or_default()),
        threshold,
        limit,
        ..Plan::default()
    };
    {
        plan.n = list_item(plan.dims_boxes, 0_i64)?;
    }
    {
        let t1: bool = if list_len(plan.dims_boxes) == 2_i64 {
            list_len(plan.dims_scores) == 1_i64
        } else {
            false
        };
        let t2: bool = if t1 {
            list_item(plan.dims_boxes, 1_i64)? == 4_i64
        } else {
            false
        };
        let t3: bool = if t2 {
            list_item(plan.dims_scores, 0_i64)? == plan.n
        } else {
            false
        };
        if !t3 {
            return Err(Fault("four corners and a score for each box"));
        }
    }
    {
        plan.dims_area = list_dims(List::of(&[plan.n]))?;
    }
    {
        plan.dims_common = list_dims(List::of(&[plan.n, plan.n]))?;
    }
    {
        plan.dims_part_2 = list_dims(if least { List::of(&[0]) } else { List::of(&[plan.n.min(plan.limit)]) })?;
    }
    {
        plan.dims_kept = list_dims(plan.dims_part_2)?;
    }
    Ok(plan)
}

/// Computes an element of `area`.
pub fn element_of_area<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    boxes: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let at = list_unravel(number as i64, plan.dims_area);
    let i = list_item(at, 0)?;
    let t1 = place(plan.dims_boxes, List::of(&[i, 2_i64]));
    let t2: f32 = if t1 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t1 as usize)?
    };
    let t3 = place(plan.dims_boxes, List::of(&[i, 0_i64]));
    let t4: f32 = if t3 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t3 as usize)?
    };
    let t5 = place(plan.dims_boxes, List::of(&[i, 3_i64]));
    let t6: f32 = if t5 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t5 as usize)?
    };
    let t7 = place(plan.dims_boxes, List::of(&[i, 1_i64]));
    let t8: f32 = if t7 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t7 as usize)?
    };
    Ok((t2 - t4) * (t6 - t8))
}

/// Computes an element of `common`.
pub fn element_of_common<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    boxes: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let at = list_unravel(number as i64, plan.dims_common);
    let i_2 = list_item(at, 0)?;
    let j = list_item(at, 1)?;
    let t1 = place(plan.dims_boxes, List::of(&[i_2, 2_i64]));
    let t2: f32 = if t1 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t1 as usize)?
    };
    let t3 = place(plan.dims_boxes, List::of(&[j, 2_i64]));
    let t4: f32 = if t3 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t3 as usize)?
    };
    let t5 = place(plan.dims_boxes, List::of(&[i_2, 0_i64]));
    let t6: f32 = if t5 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t5 as usize)?
    };
    let t7 = place(plan.dims_boxes, List::of(&[j, 0_i64]));
    let t8: f32 = if t7 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t7 as usize)?
    };
    let t9 = place(plan.dims_boxes, List::of(&[i_2, 3_i64]));
    let t10: f32 = if t9 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t9 as usize)?
    };
    let t11 = place(plan.dims_boxes, List::of(&[j, 3_i64]));
    let t12: f32 = if t11 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t11 as usize)?
    };
    let t13 = place(plan.dims_boxes, List::of(&[i_2, 1_i64]));
    let t14: f32 = if t13 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t13 as usize)?
    };
    let t15 = place(plan.dims_boxes, List::of(&[j, 1_i64]));
    let t16: f32 = if t15 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        boxes(t15 as usize)?
    };
    Ok(larger_f32(0.0_f32, smaller_f32(t2, t4) - larger_f32(t6, t8)) * larger_f32(0.0_f32, smaller_f32(t10, t12) - larger_f32(t14, t16)))
}

/// Computes an element of `kept`.
pub fn element_of_kept<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    part_2: impl Fn(usize) -> Result<i64, E>,
) -> Result<i64, E> {
    let here = list_unravel(number as i64, plan.dims_kept);
    let t1 = place(plan.dims_part_2, list_align(here, plan.dims_part_2));
    let t2: i64 = if t1 < 0 {
        return Err(Fault("indices inside of the tensor").into());
    } else {
        part_2(t1 as usize)?
    };
    Ok(t2)
}
