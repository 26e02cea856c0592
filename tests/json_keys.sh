#!/usr/bin/env bash
# Compares the keys that sub-commands print with --json with those of docs/json.md, section by section: each that is printed is named there, and each of
# the first column is printed.
#   tests/json_keys.sh COLONNADE
set -euo pipefail
command=$1
source=$(cd "$(dirname "$0")/.." && pwd)
page=$source/docs/json.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
cd "$folder"
failures=0
for tool in jq cjpeg; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

# What all objects have, by the page's list.
# shellcheck disable=SC2016 # backticks are those of the page
common=$(grep '^\* \*\*Common keys' "$page" | grep -o '`[^`]*`' | tr -d '`')

section() { awk -v name="## \`$1\`" '/^## /{inside = index($0, name) == 1} inside' "$page"; }

# Keys of the objects on stdin, but for those of objects whose keys are flags, fields of a run or settings of a plan file.
keys() { jq -r 'del(.flags?, .plan_file?) | (.checkpoints | arrays | .[] | select(has("run")) | .run) |= {} | .. | objects | keys[]' | sort -u; }

check() {  # section, files of its objects, another section and pages to which it refers
  local name=$1 files=$2 others=$3 key text printed
  text=$(
    section "$name"
    for other in $others; do
      case $other in
        *.md) cat "$source/docs/$other" ;;
        *) section "$other" ;;
      esac
    done
  )
  # shellcheck disable=SC2086
  printed=$(cat $files | keys)
  for key in $printed; do
    if ! grep -qE "\`([a-z_]+\.)?$key(\[\])?\`" <<<"$text" && ! grep -qx "$key" <<<"$common"; then
      echo "docs/json.md, $name: the key \"$key\" is printed and not listed"
      failures=$((failures + 1))
    fi
  done
  # shellcheck disable=SC2016
  for key in $(section "$name" | grep '^| ' | cut -d'|' -f2 | grep -o '`[^`]*`' | sed 's/`//g; s/\[\]$//; s/.*\.//' | sort -u); do
    [ "$key" = verdict ] && continue # the heading of a table of its own
    if ! grep -qx "$key" <<<"$printed"; then
      echo "docs/json.md, $name: the key \"$key\" is listed and not printed"
      failures=$((failures + 1))
    fi
  done
}

run() { "$command" "$@" 2>stderr || { cat stderr >&2; exit 1; }; }

data=(--model=two_column --data=digits --width=0.25)
run train "${data[@]}" --epochs=3 --checkpoint=run1 --save=w.safetensors --ema=0.9 --eval-every=1e --until=top1:1 --json >train.json
run eval "${data[@]}" --init=w.safetensors --json >eval.json
bash "$source/docs/digit_images.sh" photos >/dev/null
run predict --model=two_column --data=digits --width=0.25 --init=w.safetensors --json photos/val/one >predict.json
run verify "${data[@]}" --devices=2 --json >verify.json
run plan --model=two_column --devices=2 --plan=auto --machine=titan-2013 --json >plan.json
run plan --model=two_column --devices=2 --plan=model --machine=titan-2013 --explain=conv2 --json >explained.json
run program --model=two_column --devices=2 --plan=model --summary --json >program.json
run simulate --model=two_column --devices=2 --machine=titan-2013 --json >simulate.json
run table --draws=20 --json >table.json
run io-bench --data=digits --threads=1 --json >io.json
run bench step --model=two_column --devices=2 --steps=3 --roofline=r.svg --against='echo images/s 5' --pairs=1 --json >step.json
run checkpoint show run1 --json >show.json
cp -r run1 damaged
printf x >"$(find damaged -name weights.safetensors | head -1)"
"$command" checkpoint verify damaged --json >damaged.json 2>/dev/null || true
run checkpoint export run1 --out=e.safetensors --json >export.json
run calibrate --model=two_column --devices=1 --out=c.json --json >calibrate.json

check train train.json "command_line.md records.md"
check eval eval.json train
check predict predict.json ""
check verify verify.json ""
check plan "plan.json explained.json simulate.json" ""
check program program.json ""
check table table.json ""
check io-bench io.json ""
check "bench step" step.json ""
check checkpoint "show.json damaged.json export.json" checkpoints.md
check calibrate calibrate.json ""
[ "$failures" = 0 ] && echo "what --json prints is what docs/json.md lists"
exit "$((failures > 0))"
