#!/usr/bin/env bash
# The scripts for users: help, wrong words, a system without apt-get, and the pack of the command in the build at $1, which runs.
set -uo pipefail
build=$1
cd "$(dirname "$0")/.." || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong=0

# Runs a command: its exit code, and a part of what it says.
expect() {  # code, part, command ...
  local code=$1 part=$2 said found=0
  shift 2
  said=$("$@" 2>&1 </dev/null) || found=$?
  if [ $found -ne "$code" ] || [[ "$said" != *"$part"* ]]; then
    printf '%s\n  expected exit code %d and "%s", found %d and:\n%s\n' "$*" "$code" "$part" $found "$said"
    wrong=1
  fi
}

for script in ./check ./quickstart ./install-packages; do
  expect 0 "usage: $script" "$script" --help
  expect 2 "usage: $script" "$script" --no-such-word
done
expect 2 'found "nowhere"' ./check style nowhere
expect 2 "expected one as the first word" ./check style one cpu
expect 2 'of base' ./check one gpu
expect 2 'found ""' ./check one
expect 2 "usage: cmake/pack.sh" cmake/pack.sh
expect 2 "usage: tests/gpu/memcheck.sh" tests/gpu/memcheck.sh

# A folder's tests, as if `check` had built them.
mkdir -p "$folder/source/tests" "$folder/source/build/debug/tests" "$folder/stubs"
cp check "$folder/source/check"
cp tests/CMakeLists.txt "$folder/source/tests/CMakeLists.txt"
ln -s "$build/tests/base_test" "$folder/source/build/debug/tests/base_test"
printf '#!/bin/sh\n' | tee "$folder/source/install-packages" >"$folder/stubs/cmake"
chmod +x "$folder/source/install-packages" "$folder/stubs/cmake"
expect 0 "" env "PATH=$folder/stubs:$PATH" "$folder/source/check" one base 'NearestName.*'
expect 2 'which matches none' env "PATH=$folder/stubs:$PATH" "$folder/source/check" one base 'NoSuchTest.*'
# What its tests left out.
cat >"$folder/stubs/ctest" <<'CTEST'
#!/bin/sh
mkdir -p build/release/Testing/Temporary
printf 'x_test.cc:3: Skipped\nskipped: no moon\nskipped: no moon\nskipped: no sun\n' >build/release/Testing/Temporary/LastTest.log
CTEST
chmod +x "$folder/stubs/ctest"
expect 0 "== left out, and why:
      2 no moon
      1 no sun
== all passed: release" env "PATH=$folder/stubs:$PATH" "$folder/source/check" release

# Neither apt-get nor what a build needs.
mkdir "$folder/bin"
for program in bash cat env; do ln -s "$(command -v $program)" "$folder/bin/$program"; done
expect 69 "CMake 3.25 or newer" env "PATH=$folder/bin" ./install-packages cmake
expect 69 "missing: c++" env "PATH=$folder/bin" ./install-packages cmake
for program in c++ cmake ninja jq; do ln -s "$folder/bin/cat" "$folder/bin/$program"; done
expect 0 "going on" env "PATH=$folder/bin" ./install-packages cmake
# Debian with nothing installed, whose user may not become root.
for program in apt-get dpkg-query sudo; do printf '#!/bin/sh\nexit 1\n' >"$folder/bin/$program"; done
printf '#!/bin/sh\necho 1000\n' >"$folder/bin/id"
for program in grep mktemp rm sh; do ln -s "$(command -v $program)" "$folder/bin/$program"; done
chmod +x "$folder"/bin/*
expect 69 "sudo was refused" env "PATH=$folder/bin" ./install-packages cmake
# One that knows no such package, as root.
printf '#!/bin/sh\necho 0\n' >"$folder/bin/id"
printf '#!/bin/sh\necho "E: Unable to locate package"; exit 100\n' >"$folder/bin/apt-get"
printf '#!/bin/sh\nexit 1\n' >"$folder/bin/sleep"  # or the ticker's would outlive it
chmod +x "$folder/bin/sleep"
ln -s "$(command -v tail)" "$folder/bin/tail"
expect 69 "Unable to locate package" env "PATH=$folder/bin" ./install-packages cmake
expect 69 "CMake 3.25 or newer" env "PATH=$folder/bin" ./install-packages cmake

# As a build without CUDA, where no library is Colonnade's.
mkdir "$folder/build"
ln -s "$build/colonnade" "$folder/build/colonnade"
expect 0 "$folder/pack" cmake/pack.sh "$folder/build" "$folder/pack"
expect 0 "colonnade " env "LD_LIBRARY_PATH=$folder/pack/lib" "$folder/pack/bin/colonnade" --version
compgen -G "$folder/pack/lib/libdnnl*" >/dev/null || { echo "the pack lacks oneDNN"; wrong=1; }
exit $wrong
