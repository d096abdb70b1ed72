// SPDX-License-Identifier: GPL-2.0
#include <rdma/iter.h>

int probe;
