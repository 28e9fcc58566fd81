/* peer.c: what main.go's decode case does, with llama.cpp's own C interface and its batched
 * decode: peer_llama FILE.gguf BACKENDS BATCH THREADS LENGTH TOKENS REPEATS
 *
 * BATCH sequences with prompts of LENGTH random ids of their own; every step decodes one id of
 * each in one call and samples from the whole softmax at temperature 1. Memory-mapped weights,
 * flash attention, 16-bit cache. One line of JSON; times are those of the decode steps. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static llama_token sample(const float *z, int n) {
    static float e[1 << 18];
    float top = -INFINITY, sum = 0, upto = 0;
    for (int i = 0; i < n; i++) top = z[i] > top ? z[i] : top;
    for (int i = 0; i < n; i++) e[i] = expf(z[i] - top);
    for (int i = 0; i < n; i++) sum += e[i];
    float u = (float)drand48() * sum;
    for (int i = 0; i < n; i++)
        if ((upto += e[i]) > u) return i;
    return n - 1;
}

static void put(struct llama_batch *b, llama_token id, int pos, int seq, int logits) {
    int i = b->n_tokens++;
    b->token[i] = id, b->pos[i] = pos, b->n_seq_id[i] = 1, b->seq_id[i][0] = seq, b->logits[i] = (int8_t)logits;
}

static int fail(const char *what) { return fprintf(stderr, "peer_llama: %s\n", what), 1; }

int main(int argc, char **argv) {
    if (argc != 8) return fail("FILE.gguf BACKENDS BATCH THREADS LENGTH TOKENS REPEATS");
    int batch = atoi(argv[3]), threads = atoi(argv[4]), length = atoi(argv[5]), tokens = atoi(argv[6]), repeats = atoi(argv[7]);
    llama_log_set(NULL, NULL);
    ggml_backend_load_all_from_path(argv[2]);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params()); /* maps the file */
    if (!model) return fail("model");
    struct llama_context_params cp = llama_context_default_params();
    cp.n_seq_max = (uint32_t)batch;
    cp.n_ctx = (uint32_t)(batch * ((length + tokens + 255) / 256 * 256));
    cp.n_batch = cp.n_ubatch = 512;
    cp.n_threads = cp.n_threads_batch = threads;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    struct llama_context *ctx = llama_init_from_model(model, cp);
    if (!ctx) return fail("context");
    int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (vocab > 1 << 18) return fail("vocabulary");
    struct llama_batch b = llama_batch_init(512, 0, 1);
    double cpu = 0, wall = 0;
    llama_token *last = calloc((size_t)batch, sizeof *last);
    for (int run = 0; run <= repeats; run++) { /* the first does not count */
        llama_memory_clear(llama_get_memory(ctx), true);
        for (int s = 0; s < batch; s++) {
            b.n_tokens = 0;
            for (int i = 0; i < length; i++) put(&b, 1000 + (llama_token)(drand48() * 40000) % (vocab - 1000), i, s, i == length - 1);
            if (llama_decode(ctx, b)) return fail("prompt");
            last[s] = sample(llama_get_logits_ith(ctx, length - 1), vocab);
        }
        double c0 = seconds(CLOCK_PROCESS_CPUTIME_ID), w0 = seconds(CLOCK_MONOTONIC);
        for (int t = 1; t < tokens; t++) {
            b.n_tokens = 0;
            for (int s = 0; s < batch; s++) put(&b, last[s], length + t - 1, s, 1);
            if (llama_decode(ctx, b)) return fail("decode");
            for (int s = 0; s < batch; s++) last[s] = sample(llama_get_logits_ith(ctx, s), vocab);
        }
        if (run > 0) cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - c0, wall += seconds(CLOCK_MONOTONIC) - w0;
    }
    const char *name = argv[1];
    for (const char *p = name; *p; p++)
        if (*p == '/') name = p + 1;
    printf("{\"Who\":\"llama.cpp\",\"Case\":\"decode\",\"Shape\":\"135m\",\"Precision\":\"%.*s\",\"Threads\":%d,\"Batch\":%d,\"Length\":%d,"
           "\"Repeats\":%d,\"tokens\":%d,\"cpu_s\":%.4f,\"wall_s\":%.4f}\n",
           (int)(strlen(name) > 5 ? strlen(name) - 5 : 0), name, threads, batch, length, repeats, repeats * batch * (tokens - 1), cpu, wall);
    return 0;
}
