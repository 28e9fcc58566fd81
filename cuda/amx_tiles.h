/* amx_tiles.h: a block of a product on tiles 0..7, in terms of TILE_ZERO, TILE_LOAD, TILE_DOT and
 * TILE_STORE, which isa_amx.c defines: by instructions, then by their definition in C. The order of
 * additions of an element depends on the number of pairs alone. */

/* Tile i of C holds rows 16 * (i / 2) and columns 16 * (i % 2) of what is left at c; a tile that is
 * not whole goes by way of edge. */
#define C_LOAD(i) \
    do { \
        float *at_ = c + (size_t)(i / 2 * 16) * p->cr + i % 2 * 16; \
        if (!p->load) TILE_ZERO(i); \
        else if (rows[i / 2] == 16 && cols[i % 2] == 16) TILE_LOAD(i, at_, p->cr); \
        else { \
            edge_copy(edge, 16, at_, p->cr, rows[i / 2], cols[i % 2]); \
            TILE_LOAD(i, edge, 16); \
        } \
    } while (0)
#define C_STORE(i) \
    do { \
        float *at_ = c + (size_t)(i / 2 * 16) * p->cr + i % 2 * 16; \
        if (rows[i / 2] == 16 && cols[i % 2] == 16) TILE_STORE(i, at_, p->cr); \
        else { \
            TILE_STORE(i, edge, 16); \
            edge_copy(at_, p->cr, edge, 16, rows[i / 2], cols[i % 2]); \
        } \
    } while (0)
/* Pairs that B lacks are zeros, as in A: what lies behind a panel is not B's. */
#define B_LOAD(i, from) \
    do { \
        if (left >= 16) TILE_LOAD(i, from, 16); \
        else { \
            memset(edge, 0, sizeof edge); \
            memcpy(edge, from, (size_t)left * 64); \
            TILE_LOAD(i, edge, 16); \
        } \
    } while (0)

TILE_FUNCTION void MULTIPLY(const amx_block *p) {
    _Alignas(64) float edge[256] = {0};
    const int rows[2] = {MIN(16, p->rows), p->rows - 16}, steps = (p->pairs + 15) / 16;
    const int deep = rows[1] > 0;
    for (int at = 0; at < p->cols; at += 32) {
        const int cols[2] = {MIN(16, p->cols - at), MIN(16, p->cols - at - 16)};
        const int wide = cols[1] > 0;
        float *c = p->c + at;
        const float *a = p->a, *b = p->b + (size_t)(at / 16) * p->bv;
        C_LOAD(0);
        if (wide) C_LOAD(1);
        if (deep) C_LOAD(2);
        if (wide && deep) C_LOAD(3);
        for (int left = p->pairs; left > 0; left -= 16, a += 256, b += 256) {
            TILE_LOAD(4, a, 16);
            B_LOAD(6, b);
            TILE_DOT(0, 4, 6);
            if (deep) {
                TILE_LOAD(5, a + steps * 256, 16);
                TILE_DOT(2, 5, 6);
            }
            if (!wide) continue;
            B_LOAD(7, b + p->bv);
            TILE_DOT(1, 4, 7);
            if (deep) TILE_DOT(3, 5, 7);
        }
        C_STORE(0);
        if (wide) C_STORE(1);
        if (deep) C_STORE(2);
        if (wide && deep) C_STORE(3);
    }
}

#undef C_LOAD
#undef C_STORE
#undef B_LOAD
#undef TILE_FUNCTION
#undef TILE_ZERO
#undef TILE_LOAD
#undef TILE_DOT
#undef TILE_STORE
#undef MULTIPLY
