#!/usr/bin/env bash
# Every relative link of a Markdown file, also one by reference (`[x]: path`), names a file that exists, and where it has an anchor, a heading of that
# page. docs/README.md lists every page of docs/. $1: the folder that has them, where it is not this tree.
set -uo pipefail
export LC_ALL=C.UTF-8
cd "${1:-$(dirname "$0")/..}" || exit 1
wrong=0

# anchors PAGE: those that a forge gives its headings.
anchors() {
  awk '/^ *```/ { code = !code } !code && /^#+ /' "$1" |
    sed -E -e 's/^#+ +//' -e 's/\[([^]]*)\]\([^)]*\)/\1/g' -e 's/.*/\L&/' -e 's/[^[:alnum:] _-]//g' -e 's/ /-/g' |
    awk '{ print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0 }'
}

while IFS= read -r page; do
  while IFS= read -r link; do
    case "$link" in http://* | https://* | mailto:*) continue ;; esac
    target=${link%%#*}
    file=$page
    [ -z "$target" ] || file=$(dirname "$page")/$target
    if [ ! -e "$file" ]; then
      echo "$page: link to $target, which does not exist"
      wrong=1
    elif [[ "$link" == *.md#* || "$link" == \#* ]] && ! grep -qxF -e "${link#*#}" <(anchors "$file"); then
      echo "$page: link to $link, of which page no heading has that anchor"
      wrong=1
    fi
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(([^)]+)\)$/\1/'; sed -nE 's/^ {0,3}\[[^]]+\]: +<?([^ >]+).*/\1/p' "$page")
done < <(find . -name '*.md' -not -path './build*')
for page in docs/*.md; do
  name=${page##*/}
  [ "$name" = README.md ] || grep -qF "]($name)" docs/README.md || { echo "docs/README.md does not list $name"; wrong=1; }
done
[ $wrong -eq 0 ] && echo "every link leads somewhere, and docs/README.md lists every page"
exit $wrong
