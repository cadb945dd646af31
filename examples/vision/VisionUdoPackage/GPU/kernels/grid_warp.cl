// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 0ab7984a0153f910
//
// GridWarp on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which convert to and from float.
//
// The compiler also sees common/reference.cl and the node's static values, as constants: PLAN and
// the other names in capitals that are not defined here.

// Data that depends on shapes. Work items copy it, since a compiler misread lists in constants.
typedef struct {
    List dims_input_0;
    long has_input_0;
    List dims_grid;
    long has_grid;
    List dims_fill;
    long text_0;
    long text_1;
    long value_6;
    long value_8;
    List dims_warped;
} Plan;

__constant Plan KNOWN = PLAN;
__constant float fill[] = LIST_fill;

__kernel void grid_warp_warped(
    __global const UDO_STORAGE *grid,
    __global const UDO_STORAGE *input_0,
    __global UDO_STORAGE *warped
) {
    const Plan plan = KNOWN;
    const long number = (long)get_global_id(0);
    if (number >= list_count(plan.dims_warped)) {
        return;
    }
    const List at = list_unravel(number, plan.dims_warped);
    const long n = list_item(at, 0);
    const long i = list_item(at, 1);
    const long j = list_item(at, 2);
    const long c = list_item(at, 3);
    const long t1 = place(plan.dims_grid, (List){4, {n, i, j, 0L}});
    float t2;
    if (t1 < 0) {
        t2 = NAN;
    } else {
        t2 = UDO_LOAD(grid, t1);
    }
    const float x = (((t2 + 1.0f) * ((float)list_item(plan.dims_input_0, 2L))) - 1.0f) / 2.0f;
    const long t3 = place(plan.dims_grid, (List){4, {n, i, j, 1L}});
    float t4;
    if (t3 < 0) {
        t4 = NAN;
    } else {
        t4 = UDO_LOAD(grid, t3);
    }
    const float y = (((t4 + 1.0f) * ((float)list_item(plan.dims_input_0, 1L))) - 1.0f) / 2.0f;
    float t5;
    if (plan.value_6) {
        t5 = smaller(larger(x, 0.0f), (float)int_sub(list_item(plan.dims_input_0, 2L), 1L));
    } else {
        t5 = x;
    }
    const float u = t5;
    float t6;
    if (plan.value_8) {
        t6 = smaller(larger(y, 0.0f), (float)int_sub(list_item(plan.dims_input_0, 1L), 1L));
    } else {
        t6 = y;
    }
    const float v = t6;
    const long left = whole(floor(u));
    const float right = u - ((float)left);
    const long top = whole(floor(v));
    const float down = v - ((float)top);
    const long t7 = place(plan.dims_input_0, (List){4, {n, top, left, c}});
    float t8;
    if (t7 < 0) {
        const long t9 = place(plan.dims_fill, (List){1, {0L}});
        float t10;
        if (t9 < 0) {
            t10 = NAN;
        } else {
            t10 = fill[t9];
        }
        t8 = t10;
    } else {
        t8 = UDO_LOAD(input_0, t7);
    }
    const long t11 = place(plan.dims_input_0, (List){4, {n, top, int_add(left, 1L), c}});
    float t12;
    if (t11 < 0) {
        const long t13 = place(plan.dims_fill, (List){1, {0L}});
        float t14;
        if (t13 < 0) {
            t14 = NAN;
        } else {
            t14 = fill[t13];
        }
        t12 = t14;
    } else {
        t12 = UDO_LOAD(input_0, t11);
    }
    const float above = ((1.0f - right) * t8) + (right * t12);
    const long t15 = place(plan.dims_input_0, (List){4, {n, int_add(top, 1L), left, c}});
    float t16;
    if (t15 < 0) {
        const long t17 = place(plan.dims_fill, (List){1, {0L}});
        float t18;
        if (t17 < 0) {
            t18 = NAN;
        } else {
            t18 = fill[t17];
        }
        t16 = t18;
    } else {
        t16 = UDO_LOAD(input_0, t15);
    }
    const long t19 = place(plan.dims_input_0, (List){4, {n, int_add(top, 1L), int_add(left, 1L), c}});
    float t20;
    if (t19 < 0) {
        const long t21 = place(plan.dims_fill, (List){1, {0L}});
        float t22;
        if (t21 < 0) {
            t22 = NAN;
        } else {
            t22 = fill[t21];
        }
        t20 = t22;
    } else {
        t20 = UDO_LOAD(input_0, t19);
    }
    const float below = ((1.0f - right) * t16) + (right * t20);
    const float value = ((1.0f - down) * above) + (down * below);
    UDO_STORE(warped, number, value);
}
