/* isa_portable.c: the operators in plain C, for machines without the others and for tests. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "lanes_portable.h"
#include "isa.h"
#include "product8.h"

OPS_TABLE(whale_ops_portable);
