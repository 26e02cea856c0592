#!/usr/bin/env bash
# Runs the examples, which stand as $1/NAME/NAME, and checks the facts that they print.
# shellcheck disable=SC2016 # what stands in single quotes is for awk
set -euo pipefail
export LC_ALL=C OMP_WAIT_POLICY=passive  # tests run beside each other

# run NAME: what it prints, shown and kept in $out.
run() {
  out=$(cd "$1" && "./$2/$2") || { echo "$out"; echo "$2: failed"; exit 1; }
  echo "== $2"; echo "$out"
}
# expect WHAT AWK: a program that exits with 0 if what was printed is as it should be.
expect() { awk "$2" <<<"$out" || { echo "expected $1"; exit 1; }; }
# says REGEX: a line of what was printed.
says() { grep -qE "$1" <<<"$out" || { echo "expected a line \"$1\""; exit 1; }; }

run "$1" own_network
says '^loss [0-9.]+ -> [0-9.]+ on 4 devices$'
expect "the loss to fall to a quarter" '{ exit !($2 > 4 * $4) }'

run "$1" own_training_loop
says '^93 % reached after [0-9]+ epochs$'
expect "all of 360 test samples in each epoch" '/^epoch/ && $12 != 360 { wrong = 1 } END { exit wrong || NR < 2 }'
expect "the training loss to fall to half" '$2 == 1 { first = $6 } /^epoch/ { last = $6 } END { exit !(first > 2 * last) }'
expect "the rate to be halved behind a test loss that has not fallen, and nowhere else" \
  '/^epoch/ { if (NR > 1 && ($4 < 0.6 * rate) != risen) wrong = 1; risen = NR > 1 && $9 >= least
              if (NR == 1 || $9 < least) least = $9; rate = $4 } END { exit wrong }'

expect "training to go back to the best epoch before where the test loss has not fallen, and nowhere else" \
  '/^back to/ { if (!risen || $6 != best) wrong = 1; risen = 0; next }
   /^epoch/ { if (risen) wrong = 1; epoch = $2; risen = epoch > 1 && $9 >= least; if (!risen) { least = $9; best = epoch } }
   END { exit wrong || !(epoch > 2) }'

run "$1" own_dataset
expect "the loss to fall to a quarter" '/^drawings, 2000 of them: loss/ { found = $6 > 4 * $8 } END { exit !found }'
expect "four in five of 500 other drawings to be right" '/^of others/ { found = $3 > 400 && $5 == 500 } END { exit !found }'

run "$1" fine_tuning
expect "the loss to fall to a quarter" '/^ten digits: loss/ { found = $4 > 4 * $6 } END { exit !found }'
expect "the loss to fall to half, two layers frozen and more of 360 right than a last layer over random ones gets" \
  '/^even or odd: loss/ { found = $5 > 2 * $7 && $8 == 2 && $11 > 333 && $13 == 360 } END { exit !found }'

run "$1" plan_without_training
says '^alexnet, a batch of 256, on dgx1-v100$'
says '^[0-9]+ plans simulated; none takes less than [0-9.]+ ms. The choice, by layer:$'
expect "six plans, the fastest first, each time in its interval" \
  '/ to / { ++rows; sub(/^choice: /, ""); if (!($3 >= last && $4 < $3 && $3 < $6)) wrong = 1; last = $3 } END { exit wrong || rows != 6 }'
expect "the choice to be the fastest, and a bound that it does not go below" \
  '/^choice:/ { choice = $4; line = NR } / simulated; / { bound = $8 } END { exit !(line == 3 && bound > 0 && bound <= choice) }'
says '^  classifier.1 +(column|row|batch|replicate)'

run "$1" verify_own_plan
says 'no layer "conv_2" that can be split; did you mean "conv2"\?$'
says '^f32, 3 steps on 4 devices: equal to one device; '
says '^double, 3 steps on 4 devices: equal to one device; '
expect "differences that are granted, but not none" '/ differ by / { sub(/,/, "", $14); if (!($14 + 0 > 0 && $14 + 0 <= $16)) wrong = 1 } END { exit wrong }'
