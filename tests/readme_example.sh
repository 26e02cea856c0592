#!/usr/bin/env bash
# The README's C++ example is the one that tests/example/own_network.cc compiles, and it trains. Argument: the program.
set -euo pipefail
cd "$(dirname "$0")/.."
diff <(awk '/^```cpp$/{f=1;next} /^```$/{if(f)exit} f' README.md) \
  <(awk '/^\/\/ README begins$/{f=1;next} /^\/\/ README ends$/{exit} f' tests/example/own_network.cc) ||
  { echo "README.md and tests/example/own_network.cc differ"; exit 1; }
line=$("$1")
echo "$line"
awk '{ if (!($2 > 4 * $4 && $6 == 4)) exit 1 }' <<<"$line" || { echo "expected the loss to fall to a quarter on 4 devices"; exit 1; }
