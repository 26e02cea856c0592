#!/usr/bin/env bash
# Runs the tests of single operations, and a network whose images are folded, on a GPU under compute-sanitizer: memcheck finds accesses
# out of bounds and misaligned ones, racecheck and synccheck races and misplaced barriers in shared memory. $1: gpu_test.
# $2: seconds that each of the four may take (default: 600; a GPU is lent for ten minutes at a time).
set -uo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: tests/gpu/memcheck.sh GPU_TEST [SECONDS]" >&2
  exit 2
fi
if ! command -v compute-sanitizer >/dev/null; then
  echo "compute-sanitizer not found; it is part of the CUDA toolkit (Debian: cuda-sanitizer-13-0)" >&2
  exit 69
fi
gpu_test=$1 limit=${2:-600}
operations='*GpuOpCases.NormalNumbersInF32*:*GpuOpCases.RoundedNumbersInBf16*'
# Those whose kernels share memory.
sums=
for kind in batch_norm bias check_finite count conv fully layer_norm softmax squared sum update; do
  of_kind="*GpuOpCases.NormalNumbersInF32/$kind*:*GpuOpCases.RoundedNumbersInBf16/$kind*"
  "$gpu_test" --gtest_list_tests --gtest_filter="$of_kind" | grep "/$kind" >/dev/null || { echo "no test of $kind" >&2; exit 1; }
  sums+="$of_kind:"
done
failed=0
check() {
  local tool=$1 tests=$2
  timeout -k 15 "$limit" compute-sanitizer --tool "$tool" --error-exitcode 1 "$gpu_test" --gtest_filter="$tests" && return
  echo "$tool: status $?" >&2
  failed=1
}
check memcheck "*GpuZoo*Graphs*lenet*bf16*"
check memcheck "$operations"
check racecheck "$sums"
check synccheck "$sums"
exit $failed
