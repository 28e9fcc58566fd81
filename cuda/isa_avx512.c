/* isa_avx512.c: the operators for AVX512; op.c chooses this table if the machine has it. */
#if defined(__x86_64__)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#include "lanes_avx512.h"
#include "isa.h"

#pragma GCC target("avx512bf16")
#include "product16.h"
#include "blocks16.h"
#include "attend16.h"
#include "attend16_back.h"

#pragma GCC target("avx512vnni")
#define HAS_VNNI /* runs only if the processor has it too */
#include "product8.h"

OPS_TABLE(whale_ops_avx512);
#endif
