#!/usr/bin/env bash
# Every program and shared library of the build at $1, by cmake/search_paths.sh; and that this notices an empty and a relative entry.
set -euo pipefail
check=$(dirname "$0")/../cmake/search_paths.sh
mapfile -t files < <(find "$1" -path "$1/CMakeFiles" -prune -o -type f \( -perm -u+x -o -name '*.so' \) -print |
  while read -r file; do [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] && echo "$file"; done)
"$check" "${files[@]}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'int main() {}' >"$folder/main.c"
# shellcheck disable=SC2016  # $ORIGIN is the loader's
for bad in '$ORIGIN:' ':$ORIGIN' '$ORIGIN:lib'; do
  cc "$folder/main.c" -o "$folder/bad" "-Wl,-rpath,$bad"
  if "$check" "$folder/bad" >/dev/null; then
    echo "a search path \"$bad\" was not noticed"
    exit 1
  fi
done
