// A library to load before libllama (LD_PRELOAD): writes the graphs that ggml's allocator is given to the file GRAPH_MEMORY, for
// `graph_memory.py`. Structures are those of ggml's headers, of the release that libllama is of.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "ggml-alloc.h"
#include "ggml-impl.h"

static void write_tensor(FILE * out, const char * kind, struct ggml_tensor * tensor, int buffer) {
    fprintf(out, "%s\t%p\t%d\t%s\t%s\t%s\t%lldx%lldx%lldx%lld\t%zu\t%d\t%d\t%p\t%zu\t", kind, (void *) tensor, buffer, ggml_op_desc(tensor),
            tensor->name, ggml_type_name(tensor->type), (long long) tensor->ne[0], (long long) tensor->ne[1], (long long) tensor->ne[2],
            (long long) tensor->ne[3], ggml_nbytes(tensor), tensor->flags, tensor->data != NULL || tensor->buffer != NULL,
            (void *) tensor->view_src, tensor->view_offs);
    for (int place = 0; place < GGML_MAX_SRC; place++) {
        if (tensor->src[place]) {
            fprintf(out, "%p ", (void *) tensor->src[place]);
        }
    }
    fprintf(out, "\t%d", ggml_op_can_inplace(tensor->op));
    for (int dimension = 0; dimension < GGML_MAX_DIMS; dimension++) {
        fprintf(out, "\t%zu", tensor->nb[dimension]);
    }
    fputc('\n', out);
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t allocator, struct ggml_cgraph * graph, const int * node_buffers, const int * leaf_buffers, size_t * sizes) {
    void * base = dlopen("libggml-base.so.0", RTLD_LAZY | RTLD_NOLOAD);
    void (*reserve)(ggml_gallocr_t, struct ggml_cgraph *, const int *, const int *, size_t *) = dlsym(base, "ggml_gallocr_reserve_n_size");
    reserve(allocator, graph, node_buffers, leaf_buffers, sizes);
    FILE * out = fopen(getenv("GRAPH_MEMORY"), "a");
    if (!out) {
        return;
    }
    fprintf(out, "graph\t%zu\n", sizes[0]);
    for (int place = 0; place < graph->n_leafs; place++) {
        write_tensor(out, "leaf", graph->leafs[place], leaf_buffers ? leaf_buffers[place] : 0);
    }
    for (int place = 0; place < graph->n_nodes; place++) {
        struct ggml_tensor * node = graph->nodes[place];
        // Sources that are in no list, such as copies of inputs.
        for (int source = 0; source < GGML_MAX_SRC; source++) {
            if (node->src[source]) {
                write_tensor(out, "source", node->src[source], -1);
            }
        }
        write_tensor(out, "node", node, node_buffers ? node_buffers[place] : 0);
    }
    fclose(out);
}
