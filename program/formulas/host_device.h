// COLONNADE_HOST_DEVICE marks functions that run on the host and inside CUDA kernels.
#ifndef COLONNADE_PROGRAM_FORMULAS_HOST_DEVICE_H_
#define COLONNADE_PROGRAM_FORMULAS_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define COLONNADE_HOST_DEVICE __host__ __device__
#else
#define COLONNADE_HOST_DEVICE
#endif

#endif  // COLONNADE_PROGRAM_FORMULAS_HOST_DEVICE_H_
