#!/usr/bin/env bash
# Reads where each of the programs and libraries given looks for libraries, and fails where an entry is empty or relative: the
# loader would take libraries from whatever folder is the current one.
set -uo pipefail
[ $# -gt 0 ] || { echo "search_paths.sh: expected programs or libraries, found none"; exit 2; }
wrong=0 checked=0
for file in "$@"; do
  while IFS= read -r paths; do
    checked=$((checked + 1))
    while IFS= read -r entry; do
      # shellcheck disable=SC2016  # $ORIGIN is the loader's
      case $entry in
        '$ORIGIN' | '$ORIGIN/'* | /*) ;;
        *) echo "$file: search path \"$paths\": expected entries that begin with \$ORIGIN or /, found \"$entry\""; wrong=1 ;;
      esac
    done < <(tr ':' '\n' <<<"$paths")
  done < <(readelf -d "$file" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]$/\2/p')
done
[ $wrong -eq 0 ] && echo "$checked search paths in $# files name their folders"
exit $wrong
