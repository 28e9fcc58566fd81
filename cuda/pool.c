/* pool.c: the parking worker pool of the CPU device.
 *
 * Workers look for a job for some microseconds and then sleep in the kernel, so an idle
 * device costs nothing and a machine shared with others is not held up. A worker that wakes
 * after the caller has done the job alone finds it closed and goes back to sleep; the caller
 * waits only for workers that are inside the job. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

enum { spin_ns = 20000 };

struct whale_pool {
    int workers;
    pthread_t *thread;
    _Atomic unsigned epoch;   /* grows by one with every job and at the end */
    atomic_int sleepers;      /* workers asleep on epoch */
    atomic_int open;          /* the job below may be entered */
    atomic_int inside;        /* workers that entered it, or are about to find it closed */
    atomic_int caller_sleeps; /* the caller is asleep on inside */
    atomic_int stop;
    atomic_int next;          /* the next piece to hand out */
    whale_piece *f;           /* the job; written only while closed and nobody is inside */
    const void *job;
    int n;
};

typedef struct { whale_pool *pool; int number; } worker_arg;

static void sleep_while(void *word, unsigned seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void wake(void *word, int how_many) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, how_many, NULL, NULL, 0);
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void work(whale_pool *p, int thread) {
    int i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->n) p->f(p->job, i, thread);
}

/* Takes part in the open job, if there is one. */
static void visit(whale_pool *p, int thread) {
    atomic_fetch_add(&p->inside, 1);
    if (atomic_load(&p->open)) work(p, thread);
    if (atomic_fetch_sub(&p->inside, 1) == 1 && atomic_load(&p->caller_sleeps)) wake(&p->inside, 1);
}

static void *worker(void *arg) {
    whale_pool *p = ((worker_arg *)arg)->pool;
    int thread = ((worker_arg *)arg)->number;
    free(arg);
    unsigned seen = 0;
    for (;;) {
        long long until = now_ns() + spin_ns;
        while (atomic_load(&p->epoch) == seen && now_ns() < until)
            for (int i = 0; i < 16; i++) pause_cpu();
        while (atomic_load(&p->epoch) == seen) {
            atomic_fetch_add(&p->sleepers, 1);
            sleep_while(&p->epoch, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        if (atomic_load(&p->stop)) return NULL;
        seen = atomic_load(&p->epoch);
        visit(p, thread);
    }
}

whale_pool *whale_pool_start(int threads) {
    whale_pool *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->thread = calloc((size_t)threads, sizeof *p->thread);
    for (int i = 1; p->thread && i < threads; i++) {
        worker_arg *arg = malloc(sizeof *arg);
        if (!arg) break;
        *arg = (worker_arg){p, i};
        if (pthread_create(&p->thread[p->workers], NULL, worker, arg) != 0) {
            free(arg);
            break;
        }
        p->workers++;
    }
    if (p->workers == threads - 1) return p;
    whale_pool_stop(p);
    return NULL;
}

void whale_pool_stop(whale_pool *p) {
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->epoch, 1);
    wake(&p->epoch, INT_MAX);
    for (int i = 0; i < p->workers; i++) pthread_join(p->thread[i], NULL);
    free(p->thread);
    free(p);
}

static void wait_until_empty(whale_pool *p) {
    long long until = now_ns() + spin_ns;
    while (atomic_load(&p->inside) != 0 && now_ns() < until)
        for (int i = 0; i < 16; i++) pause_cpu();
    int left;
    atomic_store(&p->caller_sleeps, 1);
    while ((left = atomic_load(&p->inside)) != 0) sleep_while(&p->inside, (unsigned)left);
    atomic_store(&p->caller_sleeps, 0);
}

void whale_pool_run(whale_pool *p, whale_piece *f, const void *job, int n) {
    if (!p || n < 2) {
        for (int i = 0; i < n; i++) f(job, i, 0);
        return;
    }
    p->f = f;
    p->job = job;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers) > 0) wake(&p->epoch, MIN(p->workers, n - 1));
    work(p, 0);
    atomic_store(&p->open, 0);
    wait_until_empty(p);
}
