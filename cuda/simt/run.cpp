/* run.cpp: runs the blocks of a kernel launch on the CPU, thread by thread.
 *
 * A thread of a block is a fiber with its own stack. It runs until it must wait for its warp or
 * its block; then the next one runs, in the order the job asks for. So between two barriers the
 * threads run one after the other, not interleaved, and a missing barrier shows in at least one
 * of two opposite orders. The checked build (check.cpp) finds it in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "run.h"

__thread simt_view *simt_now __attribute__((tls_model("initial-exec")));
__thread simt_engine *simt_mine __attribute__((tls_model("initial-exec")));

/* ---- fibers ---- */

enum { stack_bytes = 128 << 10 };

#if defined(__x86_64__)
extern "C" void simt_switch(void **save, void *to);
__asm__(".text\n.hidden simt_switch\n.globl simt_switch\n.type simt_switch,@function\nsimt_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size simt_switch,.-simt_switch\n");
static void *prepare(char *stack, void (*entry)()) {
    void **top = (void **)(stack + stack_bytes);
    *--top = NULL; /* where a return from entry would go: it never does */
    *--top = (void *)entry;
    return top - 6;
}
#elif defined(__aarch64__)
extern "C" void simt_switch(void **save, void *to);
__asm__(".text\n.hidden simt_switch\n.globl simt_switch\n.type simt_switch,%function\nsimt_switch:\n"
        "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
        "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
        "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n");
static void *prepare(char *stack, void (*entry)()) {
    void **top = (void **)(stack + stack_bytes - 160);
    top[11] = (void *)entry;
    return top;
}
#else
#error "simt knows x86-64 and aarch64"
#endif

static void wait(fiber_state why) {
    simt_engine *e = simt_mine;
    fiber *f = &e->fibers[simt_now->thread.x];
    f->state = why;
    simt_switch(&f->sp, e->scheduler);
}

static void fiber_main() {
    simt_mine->job->kernel(simt_mine->job->args);
    wait(fiber_done);
    abort(); /* a fiber that is done is not resumed */
}

static const size_t all_stacks = (size_t)simt_most_threads * stack_bytes;

/* Frees a thread's engine when the thread ends. */
struct simt_owner {
    simt_engine *engine;
    ~simt_owner() {
        if (!engine) return;
        munmap(engine->fibers[0].stack, all_stacks);
        free(engine->view.shared);
        free(engine->shadow);
        free(engine);
        simt_mine = NULL;
    }
};
static thread_local simt_owner owner;

static simt_engine *new_engine() {
    simt_engine *e = (simt_engine *)calloc(1, sizeof *e);
    if (!e) return NULL;
    char *stacks = (char *)mmap(NULL, all_stacks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    e->view.shared = (unsigned char *)aligned_alloc(128, simt_most_shared);
    if (stacks == MAP_FAILED || !e->view.shared) return NULL;
    owner.engine = e;
    for (int i = 0; i < simt_most_threads; i++) e->fibers[i].stack = stacks + (size_t)i * stack_bytes;
    return e;
}

/* ---- what a warp does together ---- */

static simt_warp *my_warp() { return &simt_mine->warps[simt_now->thread.x / 32]; }

/* Counts a lane in; answers whether it is the last, and then lets the others go on. */
static bool last_lane(simt_warp *w, const void *where) {
    simt_engine *e = simt_mine;
    if (w->arrived == 0) w->where = where;
    else if (w->where != where) e->fail("lanes of one warp wait at different places");
    if (++w->arrived < 32) return false;
    w->arrived = 0;
    w->parity ^= 1;
    unsigned base = simt_now->thread.x / 32 * 32;
    for (unsigned i = 0; i < 32; i++)
        if (base + i != simt_now->thread.x) e->fibers[base + i].state = fiber_ready;
    return true;
}

__attribute__((noinline)) const unsigned char *simt_exchange(const void *mine, size_t size) {
    simt_warp *w = my_warp();
    unsigned char *slots = w->slots[w->parity];
    memcpy(slots + simt_now->thread.x % 32 * simt_slot, mine, size);
    if (!last_lane(w, __builtin_return_address(0))) wait(fiber_in_warp);
    return slots;
}

__attribute__((noinline)) void simt_syncwarp() {
    simt_warp *w = my_warp();
    if (last_lane(w, __builtin_return_address(0))) w->epoch++;
    else wait(fiber_in_warp);
}

/* Both factors and the sum of a step, dense. */
static void step(simt_step *s) {
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            for (int c = 0; c < 8; c++) s->c[r][c] += s->a[r][k] * s->b[k][c];
}

__attribute__((noinline)) void simt_mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    simt_warp *w = my_warp();
    simt_step *s = &w->steps[w->parity];
    unsigned g = simt_now->thread.x % 32 / 4, t = simt_now->thread.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = g + i % 2 * 8, col = t + i / 2 * 8;
        s->a[row][col] = __uint_as_float(a[i] << 16);
        s->a[row][col + 1] = __uint_as_float(a[i] & 0xffff0000u);
        s->c[g + i / 2 * 8][t + i % 2] = c[i];
    }
    for (unsigned i = 0; i < 2; i++) {
        s->b[t + i * 8][g] = __uint_as_float(b[i] << 16);
        s->b[t + i * 8 + 1][g] = __uint_as_float(b[i] & 0xffff0000u);
    }
    if (last_lane(w, __builtin_return_address(0))) step(s);
    else wait(fiber_in_warp);
    for (unsigned i = 0; i < 4; i++) c[i] = s->c[g + i / 2 * 8][t + i % 2];
}

__attribute__((noinline)) void simt_barrier() {
    simt_mine->fibers[simt_now->thread.x].where = __builtin_return_address(0);
    wait(fiber_in_block);
}

/* ---- blocks ---- */

static void resume(simt_engine *e, fiber *f) {
    if (f->state == fiber_new) f->sp = prepare(f->stack, fiber_main);
    f->state = fiber_running;
    e->view.thread.x = (unsigned)(f - e->fibers);
    simt_switch(&e->scheduler, f->sp);
}

/* Runs the lanes of a warp until each waits for its block or is done. */
static void run_warp(simt_engine *e, unsigned warp) {
    for (bool ran = true; ran && !e->failed;) {
        ran = false;
        for (unsigned i = 0; i < 32 && !e->failed; i++) {
            fiber *f = &e->fibers[warp * 32 + e->lanes[i]];
            if (f->state != fiber_new && f->state != fiber_ready) continue;
            ran = true;
            resume(e, f);
        }
    }
}

/* All threads wait for the block, or all are done: anything else never ends. */
static bool all_in(simt_engine *e, fiber_state state) {
    for (unsigned t = 0; t < e->job->threads; t++)
        if (e->fibers[t].state != state) return false;
    return true;
}

static void shuffle(unsigned *order, unsigned n, uint64_t *seed) {
    for (unsigned i = n; i > 1; i--) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        unsigned j = (unsigned)(*seed >> 33) % i, x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
}

static void order_threads(simt_engine *e, uint64_t *seed) {
    unsigned warps = e->job->threads / 32;
    for (unsigned i = 0; i < warps; i++) e->turns[i] = e->job->order == simt_reverse ? warps - 1 - i : i;
    for (unsigned i = 0; i < 32; i++) e->lanes[i] = e->job->order == simt_reverse ? 31 - i : i;
    if (e->job->order == simt_shuffle) shuffle(e->turns, warps, seed), shuffle(e->lanes, 32, seed);
}

static void run_block(simt_engine *e, uint64_t number) {
    unsigned threads = e->job->threads, warps = threads / 32;
    uint64_t seed = number * 0x9e3779b97f4a7c15u + 1;
    memset(e->view.shared, 0xff, e->job->shared); /* floats that are not numbers */
    memset(e->warps, 0, sizeof e->warps[0] * warps);
    for (unsigned t = 0; t < threads; t++) e->fibers[t].state = fiber_new;
    for (;;) {
        e->epoch++;
        order_threads(e, &seed);
        for (unsigned i = 0; i < warps && !e->failed; i++) run_warp(e, e->turns[i]);
        if (e->failed || all_in(e, fiber_done)) return;
        if (!all_in(e, fiber_in_block)) {
            e->fail("some threads wait that others left or passed by");
            return;
        }
        for (unsigned t = 0; t < threads; t++) {
            if (e->fibers[t].where != e->fibers[0].where) e->fail("threads of one block wait at different barriers");
            e->fibers[t].state = fiber_ready;
        }
    }
}

void simt_engine::fail(const char *text) {
    if (failed) return;
    failed = true;
    snprintf(error, 256, "kernel %s, block %u,%u,%u, thread %u: %s", job->name, view.block.x, view.block.y, view.block.z,
             view.thread.x, text);
}

extern "C" __attribute__((visibility("default"))) int simt_blocks(const simt_job *job, uint64_t first, uint64_t last, char *error) {
    if (!simt_mine) simt_mine = new_engine();
    simt_engine *e = simt_mine;
    if (!e || job->threads > simt_most_threads || job->threads % 32 || job->shared > simt_most_shared) {
        snprintf(error, 256, "kernel %s: block of %u threads with %zu bytes shared is not possible", job->name, job->threads, job->shared);
        return 1;
    }
    e->job = job;
    e->error = error;
    e->failed = false;
    simt_now = &e->view;
    e->view.grid_dim = {job->grid[0], job->grid[1], job->grid[2]};
    e->view.block_dim = {job->threads, 1, 1};
    e->view.thread = {0, 0, 0};
    for (uint64_t b = first; b < last && !e->failed; b++) {
        e->number = (uint32_t)b + 1;
        e->view.block = {(unsigned)(b % job->grid[0]), (unsigned)(b / job->grid[0] % job->grid[1]),
                         (unsigned)(b / job->grid[0] / job->grid[1])};
        run_block(e, b);
    }
    return e->failed;
}
