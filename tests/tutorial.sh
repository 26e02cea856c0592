#!/usr/bin/env bash
# The commands of docs/tutorial.md, run in their order in a fresh folder with the command $1: there are eleven, each succeeds, and prints the lines that the
# page shows, but for numbers. A block ```sh is run; a block without a word is what is printed; ```text is what depends on the machine.
set -euo pipefail
page=$(realpath "$(dirname "$0")/../docs/tutorial.md")
colonnade=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# As the page has it: beside docs/, with the command on the PATH, without a GPU. What is kept for a user is kept in the folder.
ln -s "$(dirname "$page")" "$folder/docs"
mkdir "$folder/tutorial"
cd "$folder/tutorial"
export PATH=${colonnade%/*}:$PATH XDG_CACHE_HOME=$folder/cache CUDA_VISIBLE_DEVICES=

without_numbers() { sed -E -e 's/-?[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?/#/g' -e 's/\<(device|thread)s\>/\1/g' -e 's/[[:space:]]+/ /g' -e 's/^ //; s/ $//' "$@"; }

# check_shown: the lines of "$folder/shown" are among those of "$folder/printed".
check_shown() {
  local line
  while IFS= read -r line; do
    [ -z "$line" ] || [ "$line" = … ] || grep -qxF -e "$line" <(without_numbers "$folder/printed") ||
      { printf 'the page shows a line that is not printed:\n  %s\n' "$line"; cat "$folder/printed"; exit 1; }
  done < <(without_numbers "$folder/shown")
}

commands=0 inside=no
: >"$folder/printed"
while IFS= read -r line; do  # one that ends with a backslash goes on
  case "$inside $line" in
    'no ```sh') inside=commands ;;
    'no ```') inside=output; : >"$folder/shown" ;;
    'no ```'*) inside=other ;;
    'no '*) ;;
    'output ```') check_shown; inside=no ;;
    *' ```') inside=no ;;
    output*) printf '%s\n' "$line" >>"$folder/shown" ;;
    commands*)
      [[ "$line" != colonnade\ * ]] || commands=$((commands + 1))
      echo "$line"
      begin=$SECONDS
      bash -euo pipefail -c "$line" >"$folder/printed" 2>&1 </dev/null || { code=$?; cat "$folder/printed"; echo "exit code $code: $line"; exit 1; }
      echo "  $((SECONDS - begin)) s"
      ;;
  esac
done < <(sed -E ':again; /\\$/ { N; s/ *\\\n */ /; b again }' "$page")
[ $commands -eq 11 ] || { echo "docs/tutorial.md has $commands commands, expected eleven"; exit 1; }
echo "the eleven commands of the tutorial run"
