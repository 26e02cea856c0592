#!/usr/bin/env bash
# Runs the tests of single operations, and a network whose images are folded, on a GPU under compute-sanitizer: memcheck finds accesses
# out of bounds, misaligned ones and leaks, racecheck and synccheck races and misplaced barriers in shared memory. $1: gpu_test.
set -euo pipefail
if ! command -v compute-sanitizer >/dev/null; then
  echo "compute-sanitizer not found; it is part of the CUDA toolkit (Debian: cuda-sanitizer-13-0)" >&2
  exit 69
fi
operations='*GpuOpCases*'
compute-sanitizer --tool memcheck --leak-check full --error-exitcode 1 "$1" --gtest_filter="$operations:*GpuZoo*lenet*bf16*"
compute-sanitizer --tool racecheck --error-exitcode 1 "$1" --gtest_filter="$operations"
compute-sanitizer --tool synccheck --error-exitcode 1 "$1" --gtest_filter="$operations"
