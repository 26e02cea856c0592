#!/usr/bin/env bash
# Doxygen makes pages of the installed headers without a warning, and they have our comments. $1: the build folder.
set -euo pipefail
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
{ cat "$1/api/Doxyfile"; echo "OUTPUT_DIRECTORY = $folder"; } | doxygen - 2>&1 | tee "$folder/warnings"
[ ! -s "$folder/warnings" ] || { echo "expected no warnings"; exit 1; }

# page_has PAGE TEXT
page_has() {
  grep -qF -- "$2" "$folder/html/$1" || { echo "expected in $1: $2"; exit 1; }
}
# Each header has a page, which begins with what is in it.
headers=$(grep -oE '[^ "]+\.h"' "$1/api/Doxyfile" | wc -l)
pages=("$folder"/html/*_8h.html)
[ ${#pages[@]} -eq "$headers" ] || { echo "expected $headers pages of headers, found ${#pages[@]}"; exit 1; }
for page in "${pages[@]}"; do page_has "$(basename "$page")" 'Detailed Description'; done
page_has planner_8h.html 'Searches, and returns all judged plans: those that fit, the fastest first'
page_has planner_8h.html '   1. every named plan, on all devices and on fewer'                # a list keeps its lines
page_has fully__connected_8h.html 'y = x·Wᵀ + b      x [n,I]   W [O,I]   b [O]   y [n,O]'  # a formula and
page_has fully__connected_8h.html ' Shapes     one input of one dimension ([I] a sample)'     # what stands in columns theirs
page_has structcolonnade_1_1program_1_1Normalise.html 'x u8 [n,…,C] → y [n,C,…]'           # of behind the struct's name
# A comment behind a declaration that goes on below it is one.
page_has structcolonnade_1_1engine_1_1Machine.html '0: kernels or threads copy, any number at once'
echo "$headers headers have pages"
