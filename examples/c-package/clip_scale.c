/*
 * A package in C with one operator for the CPU: y = scale * min(max(x, low), high).
 *
 * `make` builds dist/libUdoClipScaleReg.so; README.md says how to run it. The library is the
 * registration library and holds the kernel too, so there is no second one.
 */
#include "udo_package.h"

#include <stdlib.h>
#include <string.h>

/* What the file says of the package before it is loaded; the Makefile fills it in. */
__asm__(".pushsection .udo.manifest,\"a\",@progbits\n.incbin \"" MANIFEST "\"\n.popsection\n");

/* What finalize works out for execute. */
typedef struct clip_scale {
    float low;
    float high;
    float scale;
} clip_scale;

static udo_status fail(const udo_error_sink *errors, const char *text) {
    if (errors != NULL) {
        errors->write(errors->ctx, (const uint8_t *)text, strlen(text));
    }
    return UDO_FAILED;
}

/* [describe-time, thread-safe] The output is of the input's type and shape. */
static udo_status infer(const udo_infer_args *args) {
    args->outputs[0] = args->node.inputs[0];
    return UDO_OK;
}

/* [finalize-time] Parameters come in the schema's order, checked and with their defaults. */
static udo_status finalize(const udo_finalize_args *args, udo_finalized *out) {
    const udo_param_value *params = args->node.params;
    clip_scale node = {
        .low = (float)params[0].float_value,
        .high = (float)params[1].float_value,
        .scale = (float)params[2].float_value,
    };
    if (!(node.low <= node.high)) {
        return fail(args->node.errors, "parameter \"low\" is above \"high\"");
    }
    clip_scale *state = malloc(sizeof(*state));
    if (state == NULL) {
        return fail(args->node.errors, "no memory for the kernel");
    }
    *state = node;
    *out = (udo_finalized){.state = state};
    return UDO_OK;
}

/* [execute-time, thread-safe, heap-free] Input and output may be the same memory. */
static udo_status execute(const udo_exec_args *args) {
    const clip_scale *node = args->state;
    const float *x = (const float *)args->tensors[0].data;
    float *y = (float *)args->tensors[1].data;
    for (size_t i = 0; i < args->tensors[0].len; i++) {
        float v = x[i];
        v = v < node->low ? node->low : v > node->high ? node->high : v;
        y[i] = node->scale * v;
    }
    return UDO_OK;
}

static const udo_kernel_vtable vtable = {
    .size = sizeof(udo_kernel_vtable), .finalize = finalize, .execute = execute, .free = free};

static const udo_port inputs[] = {{.name = UDO_TEXT("x"), .types = UDO_SET(UDO_F32)}};
static const udo_port outputs[] = {{.name = UDO_TEXT("y"), .types = UDO_SET(UDO_F32)}};
static const udo_param params[] = {
    {.name = UDO_TEXT("low"), .kind = UDO_PARAM_SCALAR, .dtype = UDO_F32},
    {.name = UDO_TEXT("high"), .kind = UDO_PARAM_SCALAR, .dtype = UDO_F32},
    {.name = UDO_TEXT("scale"),
     .kind = UDO_PARAM_SCALAR,
     .flags = UDO_OPTIONAL,
     .dtype = UDO_F32,
     .default_value = {.kind = UDO_VALUE_FLOAT, .float_value = 1.0}},
};
static const udo_op_def ops[] = {{
    .schema = {.name = UDO_TEXT("ClipScale"),
               .inputs = UDO_SLICE(inputs),
               .outputs = UDO_SLICE(outputs),
               .params = UDO_SLICE(params)},
    .infer = infer,
}};

static const udo_port_rule rules[] = {
    {.side = UDO_SIDE_INPUT, .port = 0, .types = UDO_SET(UDO_F32), .same_as = UDO_NOT_SAME},
    {.side = UDO_SIDE_OUTPUT, .port = 0, .same_as = 0},
};
static const udo_in_place pairs[] = {{.input = 0, .output = 0}};
static const udo_kernel_def kernels[] = {{
    .op = UDO_TEXT("ClipScale"),
    .core = {UDO_CPU, 0},
    .ports = UDO_SLICE(rules),
    .in_place = UDO_SLICE(pairs),
    .cost = UDO_COST_FAST,
    .vtable = &vtable,
}};

static const udo_package_v1 package = {
    .abi_version = UDO_ABI_VERSION,
    .size = sizeof(udo_package_v1),
    .fingerprint = UDO_ABI_FINGERPRINT,
    .name = UDO_TEXT("ClipScale"),
    .version = UDO_TEXT("0.1.0"),
    .sdk_version = UDO_TEXT(UDO_SDK_VERSION),
    .ops = UDO_TABLE(ops),
    .kernels = UDO_TABLE(kernels),
};

const udo_package_v1 *udo_package_query(uint32_t major) {
    return major == UDO_ABI_MAJOR ? &package : NULL;
}
