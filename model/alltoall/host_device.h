// Lets the geometry headers (workspace.h, routing.h) be the same text for the host compiler and for nvcc.
#pragma once

#if defined(__CUDACC__)
#define A2ASIM_HOST_DEVICE __host__ __device__
#else
#define A2ASIM_HOST_DEVICE
#endif
