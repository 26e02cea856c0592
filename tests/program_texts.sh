#!/usr/bin/env bash
# Prints one line for each model, plan, number of devices, mode and, but for fp32, type: the hash of the Program's text, or "refused"
# (exit code 2); of any other end its exit code, which makes this one's 1.
#   tests/program_texts.sh COLONNADE                 the lines
#   tests/program_texts.sh COLONNADE EXPECTED_FILE   compares them with a file of such lines; exit 1 where they differ
# A change that should not change what is computed leaves every line as it was.
set -euo pipefail
command=$1
texts() {
  local model plan devices mode dtype text code wrong=0
  for model in two_column lenet alexnet2012 alexnet resnet20 googlenet_bn resnext50_32x4d; do
    for plan in single data model hybrid owt; do
      for devices in 1 2 4 8; do
        [ "$plan" = single ] && [ "$devices" != 1 ] && continue
        for mode in train eval; do
          for dtype in fp32 bf16; do
            printf '%s %s %s %s ' "$model" "$plan" "$devices" "$mode"
            [ "$dtype" = fp32 ] || printf '%s ' "$dtype"
            code=0
            text=$("$command" program --model="$model" --plan="$plan" --devices="$devices" --batch=64 --mode="$mode" \
              --dtype="$dtype" 2>/dev/null) || code=$?
            case $code in
              0) sha256sum <<<"$text" | cut -c1-32 ;;
              2) echo refused ;;
              *) echo "expected a Program or a refusal, exit code 0 or 2, found exit code $code"; wrong=1 ;;
            esac
          done
        done
      done
    done
  done
  return $wrong
}
if [ $# -lt 2 ]; then
  texts
elif ! diff "$2" <(texts); then
  echo "the lines above differ: < expected, > found; where that is intended, write them anew: $0 COLONNADE > $2"
  exit 1
else
  echo "$(wc -l <"$2") Program texts are as they were"
fi
