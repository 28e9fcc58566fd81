/* run.h: inside of run.cpp and check.cpp. */
#ifndef WHALE_RUN_H
#define WHALE_RUN_H

#include "job.h"
#include "shim.h"

enum { simt_most_threads = 512, simt_most_shared = 227 << 10 };

typedef enum { fiber_new, fiber_ready, fiber_running, fiber_in_warp, fiber_in_block, fiber_done } fiber_state;

struct fiber {
    void *sp;
    char *stack;
    fiber_state state;
    const void *where; /* the barrier it waits at */
};

/* The tensor-core step of a warp, dense. */
struct simt_step { float a[16][16], b[16][8], c[16][8]; };

/* What a warp exchanges, twice in turns: a lane may be one exchange ahead of another. */
struct simt_warp {
    unsigned arrived, parity;
    uint32_t epoch;    /* grows with every __syncwarp */
    const void *where; /* the place where its lanes wait */
    unsigned char slots[2][32 * simt_slot];
    simt_step steps[2];
};

/* One for each thread of the machine that runs blocks. */
struct simt_engine {
    const simt_job *job;
    char *error;
    bool failed;
    uint32_t number; /* of the block, from 1 */
    uint32_t epoch;  /* grows with every block and every barrier */
    void *scheduler; /* its stack while a fiber runs */
    simt_view view;
    unsigned turns[simt_most_threads / 32], lanes[32];
    simt_warp warps[simt_most_threads / 32];
    fiber fibers[simt_most_threads];
    const simt_range *range; /* of the last access */
    simt_shadow *shadow;     /* of shared memory; check.cpp makes it */

    void fail(const char *text); /* keeps the first */
};

extern __thread simt_engine *simt_mine __attribute__((tls_model("initial-exec")));

#endif
