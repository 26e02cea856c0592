#!/usr/bin/env bash
# cuda/ mirrors cpu/: the same files for the same ops, and in each a Prepare for the same attribute structs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
wrong=0
prepares='Prepare(Exchange|Collective)?\((const program::[A-Za-z]+|absl::Span)'
stems=$(grep -lE "$prepares" cpu/ops/*.h cuda/ops/*.h | sed -E 's|.*/(.*)\.h|\1|' | sort -u)
count=$(wc -w <<<"$stems")
[ "$count" -ge 11 ] || { echo "expected at least 11 file stems that prepare ops in cpu/ops and cuda/ops, found $count"; wrong=1; }
for stem in $stems; do
  ops() { grep -ohE "$prepares" "$1/ops/$stem.h" | sort -u; }
  for folder in cpu cuda; do
    if ! [ -f "$folder/ops/$stem.h" ] || ! [ -f "$folder/ops/$stem.cc" ]; then echo "$folder/ops/ has no $stem.h and $stem.cc"; wrong=1; fi
  done
  if ! difference=$(diff <(ops cpu) <(ops cuda)); then
    echo "cpu/ops/$stem.h and cuda/ops/$stem.h prepare different ops:"
    echo "$difference"
    wrong=1
  fi
done
for stem in backend status task_context device ops/prepare load/loaded load/arena load/layout load/view; do
  for folder in cpu cuda; do
    [ -f "$folder/$stem.h" ] || { echo "$folder/ has no $stem.h"; wrong=1; }
  done
done
[ $wrong -eq 0 ] && echo "cuda/ mirrors cpu/"
exit $wrong
