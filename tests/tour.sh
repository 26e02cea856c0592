#!/usr/bin/env bash
# docs/tour.md is what docs/tour.sh writes with the command $1, but for numbers, which depend on the machine and the day: the same text, the same
# commands, each of which succeeds, and of those that simulate the same rows and columns.
set -euo pipefail
cd "$(dirname "$0")/.."
written=$(mktemp)
trap 'rm -f "$written"' EXIT
docs/tour.sh "$1" >"$written"
# What stands outside of output, and the commands.
outline() { awk '/^```/ {inside = !inside; next} !inside || /^\$ /' "$1"; }
diff <(outline docs/tour.md) <(outline "$written") || { echo "docs/tour.md is another: docs/tour.sh $1 >docs/tour.md writes it anew"; exit 1; }
# What they print that run nothing here, without numbers.
simulated() { awk '/^\$ colonnade (table|plan) / {inside = 1} /^```/ {inside = 0} inside' "$1" | sed -E 's/[-+]?[0-9.]+/N/g; s/ +/ /g'; }
diff <(simulated docs/tour.md) <(simulated "$written") || { echo "docs/tour.md has another output: docs/tour.sh $1 >docs/tour.md writes it anew"; exit 1; }
# What the page says of the others: that a line of it is there.
for line in 'test: top-1 [0-9.]+ %' '# Out of bounds values : 0 OK' '^conv_forward '; do
  grep -qE "$line" "$written" || { echo "expected a line \"$line\" in what docs/tour.sh writes"; exit 1; }
done
echo "the tour's commands run"
