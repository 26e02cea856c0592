#!/usr/bin/env bash
# Writes docs/tour.md: commands, and what they print on this machine. `docs/tour.sh COLONNADE >docs/tour.md`, with the built command.
set -euo pipefail
export COLUMNS=120
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
colonnade=$(realpath "$1")
cd "$folder"

# show ARGUMENTS: a command and all that it prints; where it says how far it is, the last of it.
show() {
  printf '\n```\n$ colonnade'
  printf ' %s' "$@"
  printf '\n'
  "$colonnade" "$@" 2>&1 | sed -e '/^step  *[0-9]*%/d' -e '/^planning: /d' -e 's/[[:space:]]*$//'
  printf '```\n'
}

cat <<'TEXT'
# A tour

What Colonnade prints, from a terminal. [tour.sh](tour.sh) writes this page (`docs/tour.sh build/quickstart/colonnade >docs/tour.md`), so that nothing here is
typed by hand; lines that show progress are left out. Times are those of two cores of one machine, with other work on it or not: run it on yours.

## Train

Two replicas of two columns: four devices, here threads of the CPU. The digits are part of the program.
TEXT
show train --model=two_column --data=digits --plan=hybrid --devices=4 --epochs=3 --save=digits.safetensors
cat <<'TEXT'

The weights know no plan: one device tests what four have trained.
TEXT
show eval --model=two_column --data=digits --init=digits.safetensors
cat <<'TEXT'

## The table

Krizhevsky's network of 2012 on the machine of Yadan et al. 2013: what they measured, and what the simulator says.
TEXT
show table --draws=20
cat <<'TEXT'

## Plan

What the planner chooses for four of those GPUs, and what it costs. [which_plan.md](which_plan.md#what-plan-prints) says what each column holds.
TEXT
show plan --model=alexnet2012 --batch=256 --devices=4 --plan=auto --machine=titan-2013
cat <<'TEXT'

## Measure

Transfers between devices, as nccl-tests prints them, and every device to every other.
TEXT
show bench transfers --operation=all_reduce -b 4K -e 4M -f 8 -g 4
cat <<'TEXT'

One training step: where its time goes.
TEXT
show bench step --model=two_column --batch=64 --devices=4 --plan=hybrid
