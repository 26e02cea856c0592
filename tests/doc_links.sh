#!/usr/bin/env bash
# Every relative link of a Markdown file names a file that exists.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
wrong=0
while IFS= read -r page; do
  while IFS= read -r link; do
    target=${link%%#*}
    [ -z "$target" ] && continue
    case "$target" in http://* | https://* | mailto:*) continue ;; esac
    if [ ! -e "$(dirname "$page")/$target" ]; then
      echo "$page: link to $target, which does not exist"
      wrong=1
    fi
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(([^)]+)\)$/\1/')
done < <(find . -name '*.md' -not -path './build*')
[ $wrong -eq 0 ] && echo "every link leads somewhere"
exit $wrong
