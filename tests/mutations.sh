#!/usr/bin/env bash
# Runs many cases of the test that changes Programs at random (tests/cpu/mutation_test.cc), a thousand at a time.
set -euo pipefail
export LC_ALL=C

usage="usage: tests/mutations.sh CPU_TEST CASES [FIRST]

CPU_TEST is build/asan/tests/cpu_test, build/tsan/tests/cpu_test or that of another build. Prints what became of each thousand cases. Ends with 1 at
the first thousand that fails; mutation-FIRST.log then says why and mutation-FIRST.txt is the case that ran."
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "$usage" >&2
  exit 2
fi
test=$1 cases=$2 first=${3:-0} piece=1000
for number in "$cases" "$first"; do
  if ! [[ "$number" =~ ^[0-9]{1,9}$ ]]; then
    echo "mutations.sh: expected a number of cases, found \"$number\"" >&2
    exit 2
  fi
done
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
begin=$SECONDS
for ((from = first; from < first + cases; from += piece)); do
  count=$((first + cases - from < piece ? first + cases - from : piece))
  log=mutation-$from.log
  if ! COLONNADE_MUTATIONS=$count COLONNADE_MUTATIONS_FROM=$from COLONNADE_MUTATIONS_FILE=mutation-$from.txt \
    "$test" --gtest_filter='Mutation.WhatVerifyAcceptsRunsAsIfInSequence' >"$log" 2>&1; then
    echo "mutations.sh: a case of the $count from $from failed; see $log and mutation-$from.txt" >&2
    exit 1
  fi
  done_cases=$((from + count - first))
  echo "from $from: $(grep -E '^[0-9]+ cases( |: )' "$log" | paste -sd ' ')"
  echo "$done_cases of $cases cases, $(((SECONDS - begin) * (cases - done_cases) / done_cases)) s left" >&2
  rm -f "$log" "mutation-$from.txt"
done
