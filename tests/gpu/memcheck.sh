#!/usr/bin/env bash
# Runs the tests of single operations on a GPU under compute-sanitizer's memcheck, which finds accesses out of bounds, misaligned
# ones and leaks. $1: gpu_test.
set -euo pipefail
if ! command -v compute-sanitizer >/dev/null; then
  echo "compute-sanitizer not found; it is part of the CUDA toolkit (Debian: cuda-sanitizer-13-0)" >&2
  exit 69
fi
compute-sanitizer --tool memcheck --leak-check full --error-exitcode 1 "$1" --gtest_filter='*GpuOpCases*'
