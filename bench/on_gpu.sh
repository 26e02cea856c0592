#!/usr/bin/env bash
# All that wants a GPU, in one command: tests, memcheck, plans against one device, speed beside a peer, equal bits' cost, transfers,
# a profile, accuracy, busy and idle time. Run it where a GPU is, on a build folder or the folder that the target `pack` makes.
#
#   bench/on_gpu.sh PROGRAMS OUT [PART …]     parts: tests memcheck verify speed accuracy transfers profile activity; all without
#
# Writes OUT/PART.txt and prints a line for each run: its exit status, seconds, what was run; OUT/PART.?????? is of one that runs.
# DTYPES, if set, are some of "fp32 tf32 bf16": `verify`, `speed`, `accuracy` and `activity` (which has none of fp32) take many minutes in all three, where a GPU is lent
# for ten. PEER, if set, is a command that times the same step: it is given "--net M --batch 256 --dtype D", M alexnet or resnet50,
# and should print one line. `activity` writes OUT/activity_M_D.json and, of PEER, OUT/activity_M_peer_D.json: busy and idle time,
# kernels, memory. IMAGES, if set, is a data set of 28 x 28 images, such as Fashion-MNIST, on which `accuracy` trains lenet too.
# Ends with 69 where there is no GPU, and with 1 where one is there but the CUDA driver module cannot be loaded.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,12p' "$0" >&2; exit 2; }
programs=$(cd "$1" && pwd) || exit 66
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 74
shift 2
parts=("$@")
all=(tests memcheck verify speed accuracy transfers profile activity)
[ $# -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
  [[ " ${all[*]} " == *" $part "* ]] || { echo "no part \"$part\"; expected some of ${all[*]}" >&2; exit 2; }
done
for dtype in ${DTYPES:=fp32 tf32 bf16}; do
  [[ " fp32 tf32 bf16 " == *" $dtype "* ]] || { echo "DTYPES: expected some of fp32, tf32 and bf16, found \"$dtype\"" >&2; exit 2; }
done
here=$(cd "$(dirname "$0")" && pwd)

find_program() {
  for folder in "$programs" "$programs/bin" "$programs/lib" "$programs/tests" "$programs/bench"; do
    [ -x "$folder/$1" ] && { echo "$folder/$1"; return; }
  done
  echo "$1 is not in $programs; build it, or give another folder" >&2
  return 1
}
colonnade=$(find_program colonnade) && gpu_test=$(find_program gpu_test) || exit 66

memcheck=$here/memcheck.sh  # in a pack; else in the source
[ -x "$memcheck" ] || memcheck=$here/../tests/gpu/memcheck.sh

one_gpu=("$colonnade" bench plans --backend=cuda --batch=256 --devices=1 --machine=hgx-h100)
gpus=$(timeout -k 15 60 "$colonnade" info --json | grep -o '"compute_capability"' | wc -l)  # those that are not hidden

failed=0
# run PART SECONDS COMMAND …
run() {
  local part=$1 limit=$2 begin=$SECONDS status own line
  shift 2
  # Into a file of its own first: lines of what runs at the same time must not mix.
  own=$(mktemp "$out/$part.XXXXXX")
  echo "\$ $*" >"$own"
  timeout -k 15 "$limit" "$@" >>"$own" 2>&1  # a training notes SIGTERM, and ends after its step
  status=$?
  cat "$own" >>"$out/$part.txt" && rm "$own"
  [ $status -eq 0 ] || failed=1
  line=${*//"$programs/"/}
  echo "$part: status $status, $((SECONDS - begin)) s: ${line//"$out/"/}"
  return $status
}

# record REPORT COMMAND …: what the GPUs did, into OUT/REPORT
record() {
  local report=$out/$1
  shift
  rm -f "$report"
  run activity 300 env CUDA_INJECTION64_PATH="$library" COLONNADE_GPU_ACTIVITY="$report" "$@"
  [ -s "$report" ] || { echo "activity: no ${report##*/}; is libcupti in LD_LIBRARY_PATH?"; failed=1; }
}

# 69 alone says that there is no GPU; whatever else is wrong, the tests tell more of it.
message=$(timeout -k 15 120 "$colonnade" train --model=two_column --data=digits --backend=cuda --steps=1 2>&1 >/dev/null)
status=$?
[ $status -eq 0 ] || echo "$message" >&2
[ $status -eq 69 ] && exit 69
[ $status -eq 0 ] || { failed=1; echo "a step on a GPU: status $status"; }

for part in "${parts[@]}"; do
  : >"$out/$part.txt"
  case $part in
    tests)
      cudnn_test=$(find_program cudnn_test) || { failed=1; continue; }
      run tests 300 "$cudnn_test" --gtest_brief=1 '--gtest_filter=*CudnnEngines*'
      # In processes of their own, since a GPU that has failed refuses all that its process asks for afterwards. In one of their own the
      # networks whose graphs span all streams, which say the most.
      run tests 120 "$gpu_test" --gtest_brief=1 '--gtest_filter=*Graphs*two_column*:*Graphs*lenet*:*Graphs*resnet20*'
      # All at once, on a GPU that several processes may use: they wait for the host more than for the GPU. It copies states of
      # hundreds of megabytes, whose pages are kept.
      pages=GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592
      shards=()
      for shard in 0 1 2 3 4 5 6 7; do
        run tests 300 env $pages OMP_NUM_THREADS=$((($(nproc) + 7) / 8)) GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=$shard \
          "$gpu_test" --gtest_brief=1 &
        shards+=($!)
      done
      for shard in "${shards[@]}"; do wait "$shard" || failed=1; done ;;
    memcheck) run memcheck 570 "$memcheck" "$gpu_test" 130 ;;
    verify)
      for dtype in $DTYPES; do
        for model in alexnet2012 alexnet; do
          for plan in "data --devices=2" "model --devices=2" "hybrid --devices=4" "owt --devices=4"; do
            # shellcheck disable=SC2206
            verify=("$colonnade" verify --backend=cuda --model=$model --plan=$plan --dtype=$dtype --batch=16 --steps=6 --json)
            # A step that is no graph is an error.
            run verify 100 "${verify[@]}" --collectives=peer --cuda-graphs=on
            # On GPUs of their own devices have NCCL.
            if [[ $gpus -lt ${plan##*=} ]]; then
              echo "verify: NCCL left out for ${plan##*=} devices, since there are $gpus GPUs"
            else
              run verify 100 "${verify[@]}" --collectives=nccl
            fi
          done
        done
      done
      # The same task by task: where only this agrees, graphs are to blame.
      run verify 100 "$colonnade" verify --backend=cuda --model=alexnet --plan=hybrid --devices=4 --batch=16 --steps=6 \
        --collectives=peer --cuda-graphs=off --json
      # Sums over devices in f32, which a search times, too.
      run verify 100 "$colonnade" verify --backend=cuda --model=alexnet --plan=model --devices=2 --dtype=bf16 --batch=16 \
        --search-algorithms="$out/algorithms.json" --json ;;
    speed)
      # In turn, since machines have moods. The line `single` is the step on one GPU: by cuDNN's ranking, and as a search has found.
      for _ in 1 2 3; do
        for dtype in $DTYPES; do
          for model in alexnet resnet50; do
            step=("${one_gpu[@]}" "--model=$model" "--dtype=$dtype" --slices=10)
            run speed 300 "${step[@]}"
            run speed 300 "${step[@]}" --search-algorithms="$out/algorithms.json"
            # shellcheck disable=SC2086
            [ -z "${PEER:-}" ] || run speed 300 $PEER --net $model --batch 256 --dtype $dtype
          done
        done
      done
      run speed 300 "${one_gpu[@]}" --model=alexnet --dtype=tf32 --slices=20 --deterministic ;;
    accuracy)
      for dtype in $DTYPES; do
        run accuracy 300 "$colonnade" train --backend=cuda --model=two_column --data=digits --plan=hybrid --devices=4 \
          --epochs=20 --dtype="$dtype" --json
        [ -z "${IMAGES:-}" ] || run accuracy 300 "$colonnade" train --backend=cuda --model=lenet --data="$IMAGES" --plan=hybrid \
          --devices=4 --epochs=3 --dtype="$dtype" --json
      done ;;
    transfers) run transfers 300 "$colonnade" bench transfers --backend=cuda --json ;;
    profile)
      run profile 300 "$colonnade" calibrate --backend=cuda --model=alexnet --batch=256 --dtype=tf32 --out="$out/gpus.json"
      run profile 300 "$colonnade" table --backend=cuda --model=alexnet --batch=256 --dtype=tf32 --machine="$out/gpus.json" --json ;;
    activity)
      library=$(find_program libcolonnade_gpu_activity.so) || { failed=1; continue; }
      for dtype in $DTYPES; do
        [ "$dtype" != fp32 ] || continue
        for model in alexnet resnet50; do
          step=("${one_gpu[@]}" "--model=$model" "--dtype=$dtype" --slices=5 --search-algorithms="$out/algorithms.json")
          run activity 300 "${step[@]}"  # so that the search is over when recording begins
          record "activity_${model}_$dtype.json" "${step[@]}"
          # shellcheck disable=SC2086
          [ -z "${PEER:-}" ] || record "activity_${model}_peer_$dtype.json" $PEER --net $model --batch 256 --dtype $dtype
        done
      done ;;
  esac
done
exit $failed
