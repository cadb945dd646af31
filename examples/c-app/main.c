/* Runs a model over tensors of ones, and prints what came out: app MODEL [CORES] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <udo.h>

/* Ends the program with what an error says, if it is one. */
static void check(udo_error_t *error) {
    if (error == NULL) return;
    fprintf(stderr, "error: %s\n", udo_error_message(error));
    udo_error_release(error);
    exit(1);
}

/* Prints the dimensions of a tensor, and the first of its elements if they are f32. */
static void print(const char *name, const udo_tensor_t *tensor) {
    udo_tensor_spec_t *spec = NULL;
    udo_dtype_t dtype = 0;
    int64_t dims[16];
    size_t rank = 0;
    uint64_t elements = 0;
    check(udo_tensor_spec(tensor, &spec));
    check(udo_tensor_spec_dtype(spec, &dtype));
    check(udo_tensor_spec_rank(spec, &rank));
    check(udo_tensor_spec_dims(spec, dims, sizeof dims / sizeof *dims));
    check(udo_tensor_spec_elements(spec, &elements));
    printf("%s: [", name);
    for (size_t i = 0; i < rank; i++) printf("%s%lld", i == 0 ? "" : ",", (long long)dims[i]);
    printf("]");
    if (dtype == UDO_DTYPE_F32 && elements > 0) {
        float *values = malloc(elements * sizeof *values);
        if (values == NULL) exit(1);
        check(udo_tensor_read(tensor, values, elements * sizeof *values));
        for (uint64_t i = 0; i < elements && i < 4; i++) printf(" %g", (double)values[i]);
        free(values);
    }
    printf("\n");
    udo_tensor_spec_release(spec);
}

/* A tensor for an input: ones where it has f32, else zeros. Open dimensions are 1. */
static udo_tensor_t *ones(const udo_device_t *device, const udo_model_t *model, size_t index) {
    udo_tensor_spec_t *asked = NULL, *spec = NULL;
    udo_tensor_t *tensor = NULL;
    udo_dtype_t dtype = 0;
    int64_t dims[16];
    size_t rank = 0;
    uint64_t size = 0;
    check(udo_model_input_spec(model, index, &asked));
    check(udo_tensor_spec_dtype(asked, &dtype));
    check(udo_tensor_spec_rank(asked, &rank));
    check(udo_tensor_spec_dims(asked, dims, sizeof dims / sizeof *dims));
    for (size_t i = 0; i < rank; i++) dims[i] = dims[i] < 0 ? 1 : dims[i];
    check(udo_tensor_spec_create(dtype, dims, rank, &spec));
    check(udo_tensor_spec_byte_size(spec, &size));
    check(udo_tensor_create(device, spec, &tensor));
    char *bytes = calloc(1, size + 1);
    if (bytes == NULL) exit(1);
    const float one = 1;
    for (uint64_t at = 0; dtype == UDO_DTYPE_F32 && at < size; at += sizeof one) memcpy(bytes + at, &one, sizeof one);
    check(udo_tensor_write(tensor, bytes, size));
    free(bytes);
    udo_tensor_spec_release(spec);
    udo_tensor_spec_release(asked);
    return tensor;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [CORES]\n", argv[0]);
        return 2;
    }
    udo_runtime_t *runtime = NULL;
    udo_device_t *cpu = NULL;
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_load_options_t options = {.size = sizeof options, .fallback = UDO_FALLBACK_CPU, .cores = argc > 2 ? argv[2] : NULL};
    check(udo_runtime_create(NULL, &runtime));
    check(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    check(udo_model_load_file(runtime, argv[1], &options, &model));
    check(udo_session_create(model, NULL, &session));

    size_t input_count = 0, output_count = 0;
    check(udo_model_input_count(model, &input_count));
    check(udo_model_output_count(model, &output_count));
    udo_tensor_t **inputs = calloc(input_count + 1, sizeof *inputs), **outputs = calloc(output_count + 1, sizeof *outputs);
    if (inputs == NULL || outputs == NULL) return 1;
    for (size_t i = 0; i < input_count; i++) inputs[i] = ones(cpu, model, i);
    check(udo_session_run(session, (const udo_tensor_t *const *)inputs, input_count, outputs, output_count));
    for (size_t i = 0; i < output_count; i++) {
        const char *name = NULL;
        check(udo_model_output_name(model, i, &name));
        print(name, outputs[i]);
        udo_tensor_release(outputs[i]);
    }
    for (size_t i = 0; i < input_count; i++) udo_tensor_release(inputs[i]);
    free(inputs);
    free(outputs);
    udo_session_release(session);
    udo_model_release(model);
    udo_device_release(cpu);
    udo_runtime_release(runtime);
    return 0;
}
