// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 6d32dc943cef2c7f
//
// GeGlu on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which convert to and from float.
//
// The compiler also sees common/reference.cl and the node's static values, as constants: PLAN and
// the other names in capitals that are not defined here.

// Data that depends on shapes. Work items copy it, since a compiler misread lists in constants.
typedef struct {
    List dims_x;
    long has_x;
    List dims_bias;
    long has_bias;
    long value_0;
    long value_1;
    long value_2;
    List dims_z;
    List dims_y;
} Plan;

__constant Plan KNOWN = PLAN;

__kernel void ge_glu_z(
    __global const UDO_STORAGE *x,
#ifdef HAS_bias
    __global const UDO_STORAGE *bias,
#endif
    __global float *z
) {
#ifndef HAS_bias
    __global const UDO_STORAGE *bias = 0;
#endif
    const Plan plan = KNOWN;
    const long number = (long)get_global_id(0);
    if (number >= list_count(plan.dims_z)) {
        return;
    }
    const List here = list_unravel(number, plan.dims_z);
    float t1;
    if (plan.value_2) {
        const long t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        float t3;
        if (t2 < 0) {
            t3 = NAN;
        } else {
            t3 = UDO_LOAD(x, t2);
        }
        const long t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
        float t5;
        if (t4 < 0) {
            t5 = NAN;
        } else {
            t5 = UDO_LOAD(bias, t4);
        }
        t1 = t3 + t5;
    } else {
        const long t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        float t3;
        if (t2 < 0) {
            t3 = NAN;
        } else {
            t3 = UDO_LOAD(x, t2);
        }
        t1 = t3;
    }
    const float value = t1;
    z[number] = value;
}

__kernel void ge_glu_y(
    __global const float *z,
    __global UDO_STORAGE *y
) {
    const Plan plan = KNOWN;
    const long number = (long)get_global_id(0);
    if (number >= list_count(plan.dims_y)) {
        return;
    }
    const List at = list_unravel(number, plan.dims_y);
    const long t7 = list_len(list_slice(plan.dims_x, 0, -1L));
    const List b = list_slice(at, 0, t7);
    const long j = list_item(at, t7);
    List t1 = (List){0, {0}};
    list_join(&t1, b);
    list_push(&t1, int_add(j, plan.value_0));
    const long t2 = place(plan.dims_z, t1);
    float t3;
    if (t2 < 0) {
        t3 = NAN;
    } else {
        t3 = z[t2];
    }
    const float gate = t3;
    List t4 = (List){0, {0}};
    list_join(&t4, b);
    list_push(&t4, j);
    const long t5 = place(plan.dims_z, t4);
    float t6;
    if (t5 < 0) {
        t6 = NAN;
    } else {
        t6 = z[t5];
    }
    const float value = ((t6 * 0.5f) * gate) * (1.0f + erf(gate / sqrt(2.0f)));
    UDO_STORE(y, number, value);
}
