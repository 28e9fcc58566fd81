/* isa_avx2.c: the operators for AVX2; op.c chooses this table if the machine has it. */
#if defined(__x86_64__)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#pragma GCC target("avx2,fma")
#include "lanes_avx2.h"
#include "isa.h"
#include "product8.h"

OPS_TABLE(whale_ops_avx2);
#endif
