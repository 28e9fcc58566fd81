/* attend_paged.h: attention over a paged cache: rows are put into runs and groups, then
 * attend.h does the work. */

/* Long runs first, since they take longest; runs of one token that begin on the same page
 * together. */
static int by_first_page(const void *x, const void *y) {
    const run *a = x, *b = y;
    if (a->tokens != b->tokens) return (a->tokens < b->tokens) - (a->tokens > b->tokens);
    if (a->pages[0] != b->pages[0]) return (a->pages[0] > b->pages[0]) - (a->pages[0] < b->pages[0]);
    return (a->row > b->row) - (a->row < b->row);
}

/* Positions that both runs have seen whole pages of, on the same pages, at most `most`. */
static int shared_positions(const run *a, const run *b, int P, int most) {
    int last = MIN(most, MIN(a->pos, b->pos) + 1) / P, i = 0;
    while (i < last && a->pages[i] == b->pages[i]) i++;
    return i * P;
}

/* Groups neighbours while at least half of the first one's keys stay shared. */
static int make_groups(group *groups, const run *runs, int n, int P, int most) {
    int count = 0;
    for (int i = 0; i < n;) {
        group g = {i, 1, 0};
        int shared = runs[i].pos + 1;
        while (runs[i].tokens == 1 && g.n < most && i + g.n < n && runs[i + g.n].tokens == 1) {
            int s = shared_positions(&runs[i], &runs[i + g.n], P, shared);
            if (s == 0 || s < (runs[i].pos + 1) / 2) break;
            shared = s, g.n++;
        }
        if (g.n > 1) g.shared = shared;
        groups[count++] = g;
        i += g.n;
    }
    return count;
}

/* Rows that continue the row before them, in the same sequence, form a run. */
static whale_status paged_attend(whale_device *dev, const whale_paged *a) {
    int G = a->H / a->K, bf16 = in_blocks16(dev, a->precision, a->P), block = MAX(1, (bf16 ? 4 : 1) * attend_rows / G), n = 0;
    whale_status st = whale_shared(dev, (size_t)a->T * (sizeof(run) + sizeof(group)));
    if (st != WHALE_OK) return st;
    run *runs = (run *)(void *)shared_of(dev);
    group *groups = (group *)(void *)(runs + a->T);
    for (int t = 0; t < a->T; t++) {
        run *last = n ? &runs[n - 1] : NULL;
        if (last && last->tokens < block && a->seq[t] == a->seq[t - 1] && a->pos[t] == a->pos[t - 1] + 1) last->tokens++;
        else runs[n++] = (run){t, 1, a->pos[t], a->kpages, a->vpages, a->page_table + (size_t)a->seq[t] * a->max_pages, NULL};
    }
    qsort(runs, (size_t)n, sizeof *runs, by_first_page);
    int count = make_groups(groups, runs, n, a->P, a->d % 16 == 0 || bf16 ? tall / G : 1);
    attend_job j = {.runs = runs, .groups = groups, .H = a->H, .K = a->K, .d = a->d, .P = a->P, .ldq = a->ldq, .ldo = a->ldo,
                    .ld = (size_t)a->K * (size_t)a->d, .bf16 = bf16, .scale = a->scale, .q = a->q, .o = a->o};
    return attend(dev, &j, count);
}
