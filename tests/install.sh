#!/usr/bin/env bash
# Installs the build at $1 to a folder of its own, moves it, and builds and runs the examples, which find it there. $2: the compiler. Skipped (77) of a
# build with sanitizers.
set -euo pipefail
compiler=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q '^COLONNADE_SANITIZE:STRING=.' "$1/CMakeCache.txt"; then
  echo "skipped: a build with sanitizers is not for installing"
  exit 77
fi
touch "$folder/before"
cmake --install "$1" --prefix "$folder/first" >/dev/null
if [ -n "$(find "$1/pages" -newer "$folder/before" 2>/dev/null)" ]; then
  echo "an installation writes pages to the build folder, which may be another user's"
  exit 1
fi
mv "$folder/first" "$folder/moved"
cmake -S "$(dirname "$0")/../examples" -B "$folder/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="-Wall -Werror" \
  -DCMAKE_PREFIX_PATH="$folder/moved" >/dev/null
cmake --build "$folder/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$(dirname "$0")/examples.sh" "$folder/build"
# What cannot be used is said when it is looked for: an unknown component, and the libraries of a build by Clang from a project of GCC's.
expect_refusal() {  # text, lines of a project
  mkdir -p "$folder/asks"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES CXX)\n%s\n' "$2" >"$folder/asks/CMakeLists.txt"
  ! cmake -S "$folder/asks" -B "$folder/asks/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$folder/moved" >"$folder/log" 2>&1 &&
    tr -s ' \n' ' ' <"$folder/log" | grep -F "$1" >/dev/null && return
  cat "$folder/log"
  echo "expected find_package() to fail with: $1"
  exit 1
}
expect_refusal 'found "nonsense"' 'find_package(colonnade CONFIG REQUIRED COMPONENTS cpu nonsense)'
cp -r "$folder/moved/lib/cmake/colonnade" "$folder/at[0]"
expect_refusal "expected a path without [ and ]" "set(colonnade_DIR \"$folder/at[0]\")
find_package(colonnade CONFIG REQUIRED)"
sed -i 's/^set(colonnade_compiler .*/set(colonnade_compiler Clang)/' "$folder/moved/lib/cmake/colonnade/colonnadeConfig.cmake"
expect_refusal "expected Clang, by which these libraries were built, found " \
  'set(CMAKE_CXX_COMPILER_ID GNU)
find_package(colonnade CONFIG REQUIRED)'
"$(dirname "$0")/doc_links.sh" "$folder/moved/share/doc/colonnade"
# What is internal is not installed, and what is installed includes nothing that is not.
include=$folder/moved/include/colonnade
if grep -rl 'Internal to' "$include"; then echo "expected no internal headers in $include"; exit 1; fi
cd "$include"
grep -rhoE '^#include "[a-z]+/[^"]+"' . | cut -d'"' -f2 | sort -u | while read -r header; do
  [ -f "$header" ] || ! [ -d "${header%%/*}" ] || { echo "an installed header includes $header, which is not installed"; exit 1; }
done
"$folder/moved/bin/colonnade" train --model=list >/dev/null
for file in man/man1/colonnade.1 man/man1/colonnade-train.1 bash-completion/completions/colonnade zsh/site-functions/_colonnade \
  fish/vendor_completions.d/colonnade.fish; do
  [ -s "$folder/moved/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
done
