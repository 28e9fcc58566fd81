/* chains.h: packed sequences and trees of them as chains of rows, for attention.
 *
 * A chain is a longest stretch of rows of which each follows the one before it. A plain
 * sequence is one chain; a tree has one for every path that leaves another, and what lies before
 * the chain's first position is the beginning of the chain above, or of those above that. */

typedef struct chain {
    int row, n, pos;           /* rows [row, row + n) at positions [pos, pos + n) */
    const struct chain *above; /* holds the row at position pos - 1; NULL if pos is 0 */
} chain;

/* The rows after `row` of its sequence that may see it, itself included, end here. */
INLINE int end_of(const int32_t *until, int row, int end) { return until ? until[row] : end; }

/* Writes the chains of all sequences to list, in the order of their rows, and returns how many
 * there are; list may be NULL. */
static int chains_of(const int32_t *start, const int32_t *until, int B, chain *list) {
    int n = 0;
    for (int b = 0; b < B; b++) {
        int first = n;
        for (int row = start[b], end = start[b + 1], length; row < end; row += length, n++) {
            for (length = 1; row + length < end && end_of(until, row + length - 1, end) > row + length;) length++;
            if (!list) continue;
            list[n] = (chain){row, length, 0, NULL};
            for (int c = n - 1; c >= first && list[n].above == NULL; c--) { /* the last row before this one that it follows */
                int seen = list[c].n;
                while (seen > 0 && until[list[c].row + seen - 1] <= row) seen--;
                if (seen > 0) list[n].above = list + c, list[n].pos = list[c].pos + seen;
            }
        }
    }
    return n;
}

/* The row at position j of the path that ends with c, and how many positions from there on, at
 * most n, are in rows that follow each other. */
INLINE int along(const chain *c, int j, int n, int *row) {
    int end = c->pos + c->n;
    for (; c->pos > j; c = c->above) end = c->pos;
    *row = c->row + j - c->pos;
    return MIN(n, end - j);
}
