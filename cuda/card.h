/* card.h: what Go asks NVIDIA's libraries before a card is opened. Lines that say why go to
 * why [card_why]. */
#ifndef WHALE_CARD_H
#define WHALE_CARD_H

#include "whale.h"

enum {
    card_why = 256,
    driver_least = 11040,  /* CUDA 11.4: graphs as they are used here; cuDriverGetVersion's way of writing */
    bfloat16_major = 8     /* sm_80 */
};

/* A card before it is used. Versions as NVIDIA writes them: 12040 is 12.4. */
typedef struct {
    int driver, ordinal, major, minor, multiprocessors, memory_khz, bus_bits;
    size_t most_shared;
    char name[128];
} driver_card;

/* path names the driver's library. BAD_SHAPE: there is no library; NO_DEVICE: it is too old, it has
 * no such card, or the card won't do. */
whale_status driver_probe(const char *path, int ordinal, driver_card *out, char *why);

/* The highest architecture (90 for sm_90) that NVRTC at a path knows and a card of major.minor runs:
 * of its generation and not newer. NO_DEVICE if there is none. */
whale_status driver_arch(const char *path, int major, int minor, int *arch, char *why);

/* Whether a library of cuBLASLt can be opened there and has what is needed; statuses as above. */
whale_status driver_blas(const char *path, char *why);

#endif
