#!/usr/bin/env bash
# Makes $2 a folder that runs on a machine without Abseil and oneDNN: the programs of build $1, stripped, with the shared libraries
# that they need, but for the C library and CUDA's. There, put the folders of CUDA's libraries (cuDNN, cuBLAS, CUPTI, and
# NCCL if there is one) into LD_LIBRARY_PATH.
set -euo pipefail
if [ $# -ne 2 ]; then
  echo "usage: cmake/pack.sh BUILD PACK" >&2
  exit 2
fi
build=$1 pack=$2
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib"
cp "$build/colonnade" "$pack/bin/"
for test in gpu_test cudnn_test; do
  if [ -f "$build/tests/$test" ]; then cp "$build/tests/$test" "$pack/bin/"; fi
done
source=$(dirname "$0")/..
cp "$source/bench/on_gpu.sh" "$source/tests/gpu/memcheck.sh" "$pack/"
for library in libcolonnade_cuda_driver.so bench/libcolonnade_gpu_activity.so; do
  if [ -f "$build/$library" ]; then cp "$build/$library" "$pack/lib/"; fi
done
mapfile -t files < <(find "$pack/bin" "$pack/lib" -type f)
strip "${files[@]}"
# libpthread and others are links to the C library.
for file in "${files[@]}"; do ldd "$file"; done |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/lib(cuda|cudart|cudnn|cublas|cupti|nv)[A-Za-z_]*' |
  while read -r library; do cp -L "$library" "$pack/lib/"; done
mapfile -t ours < <(find "$pack/lib" -name "libcolonnade*")
"$source/cmake/search_paths.sh" "$pack"/bin/* "${ours[@]}"
du -sh "$pack"
