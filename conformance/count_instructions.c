// A plugin of QEMU that says on standard error how many instructions a program executed. What it takes of QEMU's interface is
// declared here, so that no header is needed; VERSION is the interface's, which each release of QEMU accepts some of.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t id, struct qemu_plugin_tb * block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb * block, void (*)(unsigned int cpu, void * data), int flags, void * data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t id, void * data), void * data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb * block);

__attribute__((visibility("default"))) int qemu_plugin_version = VERSION;

static uint64_t executed;

static void on_execution(unsigned int cpu, void * data) {
    (void) cpu;
    executed += (uintptr_t) data;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb * block) {
    (void) id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_execution, 0, (void *) (uintptr_t) qemu_plugin_tb_n_insns(block));
}

static void on_exit_of_program(qemu_plugin_id_t id, void * data) {
    (void) id;
    (void) data;
    fprintf(stderr, "instructions %" PRIu64 "\n", executed);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void * info, int count, char ** arguments) {
    (void) info;
    (void) count;
    (void) arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
    return 0;
}
