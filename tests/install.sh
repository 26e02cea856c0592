#!/usr/bin/env bash
# Installs the build at $1 to a folder of its own, moves it, and builds and runs a project that finds it there. $2: the compiler.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q '^COLONNADE_SANITIZE:STRING=.' "$1/CMakeCache.txt"; then
  echo "skipped: a build with sanitizers is not for installing"
  exit 0
fi
cmake --install "$1" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"
mkdir "$folder/user"
cat >"$folder/user/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(colonnade CONFIG REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE colonnade::models colonnade::partition colonnade::cpu)
add_executable(plan_and_verify plan_and_verify.cc)
target_link_libraries(plan_and_verify PRIVATE colonnade::tools)
CMAKE
cat >"$folder/user/user.cc" <<'CC'
#include <cstdio>
#include "cpu/backend.h"
#include "models/models.h"
int main() {
  auto devices = colonnade::cpu::MakeCpuBackend({.devices = 2});
  auto graph = colonnade::models::BuildModel("lenet", {});
  if (!devices.ok() || !graph.ok()) return 1;
  std::printf("%lld parameters, %d devices\n", static_cast<long long>(graph->ParameterCount()), (*devices)->device_count());
}
CC
cp "$(dirname "$0")/example/plan_and_verify.cc" "$folder/user/"
cmake -S "$folder/user" -B "$folder/build" -G Ninja -DCMAKE_CXX_COMPILER="$2" -DCMAKE_PREFIX_PATH="$folder/moved" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/plan_and_verify" | tee /dev/stderr | grep -q 'verified 2 steps: equal to one device'
# What is internal is not installed, and what is installed includes nothing that is not.
include=$folder/moved/include/colonnade
if grep -rl 'Internal to' "$include"; then echo "expected no internal headers in $include"; exit 1; fi
cd "$include"
grep -rhoE '^#include "[a-z]+/[^"]+"' . | cut -d'"' -f2 | sort -u | while read -r header; do
  [ -f "$header" ] || ! [ -d "${header%%/*}" ] || { echo "an installed header includes $header, which is not installed"; exit 1; }
done
"$folder/build/user" | tee /dev/stderr | grep -q '61706 parameters, 2 devices'
"$folder/moved/bin/colonnade" train --model=list >/dev/null
for file in man/man1/colonnade.1 man/man1/colonnade-train.1 bash-completion/completions/colonnade zsh/site-functions/_colonnade \
  fish/vendor_completions.d/colonnade.fish; do
  [ -s "$folder/moved/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
done
