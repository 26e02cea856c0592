#!/usr/bin/env bash
# Fuzzes every reader of files, or those named: tests/fuzz.sh [--seconds=N] [TARGET ...]. Each runs so long (600 s) from its corpus
# and what was found before; what ends it stays in build/fuzz/TARGET as crash-*, timeout-* or oom-*.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

seconds=600
if [[ "${1:-}" == --seconds=* ]]; then seconds=${1#--seconds=}; shift; fi
targets=("$@")
if [ $# -eq 0 ]; then for folder in tests/fuzz/corpus/*; do targets+=("${folder##*/}"); done; fi

CXX=${CXX:-clang++} cmake --preset asan -B build/fuzz -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link >/dev/null
cmake --build build/fuzz --target fuzzer
for target in "${targets[@]}"; do
  folder=build/fuzz/$target
  mkdir -p "$folder/found"
  echo "-- $target"
  COLONNADE_FUZZ_TARGET=$target UBSAN_OPTIONS=print_stacktrace=1 build/fuzz/tests/fuzzer "$folder/found" "tests/fuzz/corpus/$target" \
    -artifact_prefix="$folder/" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=32768 -print_final_stats=1 \
    -verbosity=0 -print_funcs=0
done
