// The reference's side of `python3 conformance/run.py quant-count --target`: takes the arguments and the input that
// xtask/targets/quant_work takes. An instruction set is `reference`, for the functions that quantize files, or `activations`,
// for those that quantize activations while a model runs; these round otherwise.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ggml.h"
#include "ggml-quants.h"

void quantize_row_q8_0(const float * values, void * blocks, int64_t count);
void quantize_row_q8_1(const float * values, void * blocks, int64_t count);
void quantize_row_q8_K(const float * values, void * blocks, int64_t count);

// Of ggml-threading.cpp: there is one thread.
void ggml_critical_section_start(void) {}
void ggml_critical_section_end(void) {}

typedef void (*row_function)(const float * values, void * blocks, int64_t count);

// Those that ggml_quantize_chunk does not offer, and those of ggml-cpu.
static const struct {
    const char * isa;
    enum ggml_type type;
    row_function function;
} rows[] = {
    { "reference", GGML_TYPE_Q8_1, (row_function) quantize_row_q8_1_ref },
    { "reference", GGML_TYPE_Q8_K, (row_function) quantize_row_q8_K_ref },
    { "activations", GGML_TYPE_Q8_0, quantize_row_q8_0 },
    { "activations", GGML_TYPE_Q8_1, quantize_row_q8_1 },
    { "activations", GGML_TYPE_Q8_K, quantize_row_q8_K },
};

static int fail(const char * message) {
    fprintf(stderr, "%s\n", message);
    return 1;
}

int main(int count, char ** arguments) {
    if (count != 6) {
        return fail("expected five arguments");
    }
    const char * work = arguments[1];
    const int64_t row_len = atoll(arguments[4]);
    int times = atoi(arguments[5]);
    enum ggml_type type = GGML_TYPE_COUNT;
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const char * name = ggml_type_name((enum ggml_type) i);
        if (name && strcasecmp(name, arguments[2]) == 0) {
            type = (enum ggml_type) i;
        }
    }
    if (type == GGML_TYPE_COUNT) {
        return fail("no such type");
    }
    const size_t room = (size_t) 1 << 26;
    char * input = malloc(room);
    const size_t length = fread(input, 1, room, stdin);
    const size_t size = ggml_type_size(type), elements = (size_t) ggml_blck_size(type);
    if (strcmp(work, "dequantize") == 0) {
        const size_t values = length / size * elements;
        float * out = calloc(values, sizeof(float));
        const ggml_to_float_t function =
            type == GGML_TYPE_Q8_K ? (ggml_to_float_t) dequantize_row_q8_K : ggml_get_type_traits(type)->to_float;
        for (; times > 0; times--) {
            function(input, out, (int64_t) values);
        }
        return fwrite(out, sizeof(float), values, stdout) == values ? 0 : fail("not written");
    }
    const float * values = (const float *) input;
    const float * importance = NULL;
    size_t number = length / sizeof(float);
    if (strcmp(work, "importance") == 0) {
        importance = values;
        values += row_len;
        number -= (size_t) row_len;
    }
    const size_t bytes = number / elements * size;
    char * out = calloc(bytes, 1);
    row_function function = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].type == type && strcmp(rows[i].isa, arguments[3]) == 0) {
            function = rows[i].function;
        }
    }
    ggml_quantize_init(type);
    for (; times > 0; times--) {
        if (function) {
            function(values, out, (int64_t) number);
        } else {
            ggml_quantize_chunk(type, values, out, 0, (int64_t) number / row_len, row_len, importance);
        }
    }
    return fwrite(out, 1, bytes, stdout) == bytes ? 0 : fail("not written");
}
