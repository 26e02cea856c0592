#!/usr/bin/env bash
# The large networks of the zoo, narrow and on small images, under every plan on 2, 4 and 8 devices against one device.
set -euo pipefail
export LC_ALL=C

usage="usage: tests/verify_matrix.sh COLONNADE [DTYPE...]

DTYPE is fp64 (reference kernels), fp32, bf16 or bf16_reference (reference kernels); all four where none is given. Prints a line for each case: what verify says,
and its largest relative errors of the loss, the gradients and what a step changes of parameters and running statistics. Ends with 1 if a case
disagrees. MODELS, PLANS and DEVICES in the environment choose some of them: MODELS='vgg16 resnet50' PLANS=hybrid DEVICES=4."
if [ $# -lt 1 ]; then
  echo "$usage" >&2
  exit 2
fi
command=$1
shift
dtypes=("$@")
[ $# -gt 0 ] || dtypes=(fp64 fp32 bf16 bf16_reference)
read -ra models <<<"${MODELS:-resnet50 resnext50_32x4d googlenet googlenet_bn vgg16}"
read -ra plans <<<"${PLANS:-data model hybrid owt auto}"
read -ra counts <<<"${DEVICES:-2 4 8}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The planner splits such small networks only where arithmetic is slow beside the links.
jq '.name = "slow-arithmetic" | .flops_per_sec.value /= 1000 | .ops[].points[].rate /= 1000 | .memory_bytes_per_sec.value /= 300' \
  "$(dirname "$0")/../bench/machines/hgx-h100.json" >"$work/machine.json"

# As small as a network may be that keeps every layer. Images of 33x33 end as 2x2 in residual networks, so that no normalisation is over a few
# values alone; of half the width ResNeXt's groups have two channels (where a group has one, the next normalisation undoes the scale of the one
# before it, whose gradient is zero but for roundings). At googlenet_bn's own rate, 0.01, weights that begin as 1 change so little that their rounding to
# f32 exceeds the bound of changes.
flags_of_model() {
  case $1 in
    lenet | two_column) echo --width=1 ;;
    alexnet) echo --width=0.125 --input-size=96 ;;
    resnet20) echo --width=0.5 ;;
    resnet*) echo --width=0.125 --input-size=33 ;;
    resnext*) echo --width=0.5 --input-size=33 ;;
    googlenet) echo --width=0.125 --input-size=96 --auxiliary-heads=on --label-smoothing=0.1 ;;
    googlenet_bn) echo --width=0.125 --input-size=64 --auxiliary-heads=on --label-smoothing=0.1 --lr=0.1 ;;
    *) echo --width=0.125 --input-size=32 ;;
  esac
}
flags_of_dtype() {
  case $1 in
    fp64) echo --kernels=reference ;;
    bf16_reference) echo --dtype=bf16 --kernels=reference ;;
    *) echo --dtype="$1" ;;
  esac
}
numbers='[.max_relative_error.loss, .max_relative_error.gradient, .max_relative_error.parameter, .tolerance.gradient]'

disagree=0 cases=0
verify() {  # model, plan, devices, dtype
  local said=agrees flags rc=0
  read -ra flags <<<"$(flags_of_model "$1") $(flags_of_dtype "$4")"
  "$command" verify --model="$1" --plan="$2" --devices="$3" "${flags[@]}" --classes=10 --batch=8 --steps=1 --data=synthetic \
    --machine="$work/machine.json" --json >"$work/json" 2>"$work/log" || rc=$?
  if [ $rc -ne 0 ]; then
    said=disagrees disagree=$((disagree + 1))
  fi
  cases=$((cases + 1))
  if [ -s "$work/json" ]; then
    jq -r "$numbers | @tsv" "$work/json" | while read -r loss gradient change bound; do
      printf '%-15s %-6s %d %s %-9s loss %-8.2g gradient %-8.2g change %-8.2g bound %.2g\n' "$1" "$2" "$3" "$4" $said "$loss" "$gradient" \
        "$change" "$bound"
    done
  else
    printf '%-15s %-6s %d %s %-9s %s\n' "$1" "$2" "$3" "$4" $said "$(grep '^colonnade: ' "$work/log" || echo "exit status $rc")"
  fi
}

for dtype in "${dtypes[@]}"; do
  for model in "${models[@]}"; do
    for plan in "${plans[@]}"; do
      for devices in "${counts[@]}"; do
        [ "$plan" = hybrid ] && [ "$devices" -lt 4 ] && continue  # columns alone: the model plan
        verify "$model" "$plan" "$devices" "$dtype"
      done
    done
  done
done
if [ $cases -eq 0 ]; then
  echo "verify_matrix.sh: expected at least one case, found none of the plans ${plans[*]} on ${counts[*]} devices (hybrid takes 4 or more)" >&2
  exit 2
fi
echo "$cases cases, $disagree disagree"
[ $disagree -eq 0 ]
