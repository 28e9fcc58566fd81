/* amx.h: what product16.h asks of AMX: blocks of a product of bfloat16 pairs on tile registers.
 *
 * A piece of a job calls begin, then multiply as often as it likes, then end, all on one thread:
 * the shape of the tiles is a thread's own. */
#ifndef WHALE_AMX_H
#define WHALE_AMX_H

#include <stddef.h>

enum { amx_tall = 32 }; /* rows of a block: two tiles */

/* c[r][n] = (load ? c[r][n] : 0) + sum over pairs of a by b, 16 pairs at a step. */
typedef struct {
    const float *a; /* tiles of 16 rows by 16 pairs, along the pairs, then the next 16 rows; zero beyond rows and pairs */
    const float *b; /* 16 columns of a pair, [pairs][16]; the next 16 columns at + bv */
    size_t bv;
    float *c;       /* row r at c + r*cr */
    size_t cr;
    int pairs, load, rows, cols; /* rows <= amx_tall */
} amx_block;

typedef struct {
    const char *isa;
    void (*begin)(void);
    void (*multiply)(const amx_block *);
    void (*end)(void);
} whale_amx;

/* isa "amx-emulated": the definition of the instructions in C, for tests. "amx" or "": the
 * instructions, if processor and kernel grant them and they multiply as the definition says. Else NULL. */
const whale_amx *whale_find_amx(const char *isa);

#endif
