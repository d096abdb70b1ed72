#include "trace/trace-hw_rnic.h"
