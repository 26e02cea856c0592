#!/usr/bin/env bash
# What progress on a terminal, --log, --report and --trace cost together: pairs of runs without and with them, in turn, the
# order turned round from pair to pair. Prints each pair's ratio of times, their median, and the ratio of two runs without.
set -euo pipefail
if [ $# -lt 4 ]; then
  echo "usage: bench/overhead.sh COLONNADE PAIRS STEPS TRAIN_FLAGS ..." >&2
  exit 2
fi
colonnade=$1 pairs=$2 steps=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run=("$colonnade" train "$@" "--steps=$steps" --json)
plain() { "${run[@]}" 2>/dev/null >"$folder/plain.json"; }
# script gives it a terminal.
watched() {
  local flags
  flags=("--log=$folder/log.jsonl" "--report=$folder/report.html" "--trace=$folder/trace.json")
  rm -f "$folder/log.jsonl"
  script -qec "$(printf '%q ' "${run[@]}" "${flags[@]}") >$(printf '%q' "$folder/watched.json")" /dev/null >/dev/null
}
rate() { jq .images_per_s "$folder/$1.json"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.4f\n", a / b }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

plain
before=$(rate plain)
for ((pair = 1; pair <= pairs; ++pair)); do
  if ((pair % 2)); then plain && watched; else watched && plain; fi
  ratio "$(rate plain)" "$(rate watched)" | tee -a "$folder/ratios"
  ratio "$before" "$(rate plain)" >>"$folder/noise"
  before=$(rate plain)
done
echo "median $(median <"$folder/ratios") (two runs without: $(median <"$folder/noise"))"
