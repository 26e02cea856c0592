#!/usr/bin/env bash
# The README's C++ example is the one of examples/own_network, which the test `install` builds and runs.
set -euo pipefail
cd "$(dirname "$0")/.."
diff <(awk '/^```cpp$/{f=1;next} /^```$/{if(f)exit} f' README.md) \
  <(awk '/^\/\/ README begins$/{f=1;next} /^\/\/ README ends$/{exit} f' examples/own_network/main.cc) ||
  { echo "README.md and examples/own_network/main.cc differ"; exit 1; }
