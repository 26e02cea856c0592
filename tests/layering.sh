#!/usr/bin/env bash
# Reads every #include "folder/…" and compares it with the table of who may include whom, and with that of doors
# (docs/architecture.md). Outside layers/ and models/ no type of layer is named: what the others need of a layer, its stages
# and traits say.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
declare -A may=(
  [base]="base"
  [program]="program base"
  [layers]="layers program base"
  [partition]="partition layers program base"
  [engine]="engine program base"
  [cpu]="cpu engine program base"
  [cuda]="cuda engine program base"
  [data]="data engine/data_source.h program base"
  [models]="models layers program base"
  [tools]="tools models data cuda cpu engine partition layers program base"
)
# Inside of cli/, beside what stands in front of its folders.
declare -A may_in_cli=(
  [output]="output"
  [command_line]="command_line output"
  [session]="session command_line output"
  [training]="training session command_line output build_facts.h info.h"
  [prediction]="prediction training session command_line output build_facts.h info.h table.h"
)
wrong=0
sources=(--include='*.h' --include='*.cc' --include='*.cu' --include='*.cuh')
include='^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]'
# check_includes FOLDER PREFIX PERMITTED: of the headers whose names begin with PREFIX, those that are included in FOLDER are
# the permitted ones, or in permitted folders, named without the prefix.
check_includes() {
  local file line text target permitted allowed
  while IFS=: read -r file line text; do
    target=${text#*[\"<]}
    target=${target%%[\">]*}
    target=${target#"$2"}
    [ -n "$2" ] || [ -d "${target%%/*}" ] || continue  # a library's header
    allowed=0
    for permitted in $3; do
      [[ "$target" == "$permitted" || "$target" == "$permitted"/* ]] && allowed=1
    done
    [ $allowed -eq 1 ] && continue
    echo "$file:$line: $1/ may include ${2:+of $2 }$3, found \"$target\""
    wrong=1
  done < <(grep -rnE "$include$2" "$1" "${sources[@]}")
}
for folder in "${!may[@]}"; do [ -d "$folder" ] && check_includes "$folder" "" "${may[$folder]}"; done
for folder in "${!may_in_cli[@]}"; do check_includes "cli/$folder" cli/ "${may_in_cli[$folder]}"; done
# By folder behind a door: its headers that others may include all the same.
declare -A doors=(
  [program/text]=""
  [program/verify]=""
  [partition/lowering]=""
  [partition/planner]=""
  [engine/simulator]="cost_model.h routes.h"
)
for folder in "${!doors[@]}"; do
  [ -d "$folder" ] || { echo "$folder: expected a folder behind a door, found none"; wrong=1; }
  while IFS=: read -r file line text; do
    [[ "$file" == "${folder%%/*}/"* ]] && continue
    header=${text#*[\"<]}
    header=${header%%[\">]*}
    [[ " ${doors[$folder]} " == *" ${header#"$folder"/} "* ]] && continue
    echo "$file:$line: expected the door $folder.h, found \"$header\", which is behind it"
    wrong=1
  done < <(grep -rnE "$include$folder/" program layers partition engine cpu cuda data models tools cli bench "${sources[@]}")
done
types=$(tr '\n' ' ' <layers/layer.h | sed -E 's/.*using Layer = std::variant<([^>]*)>.*/\1/' | tr -s ', ' '|')
while IFS= read -r found; do
  echo "$found: names a type of layer"
  wrong=1
done < <(grep -rnE "\blayers::($types)\b" partition engine cpu cuda data tools cli --include='*.h' --include='*.cc')
[ $wrong -eq 0 ] && echo "every include keeps to the tables, and no type of layer is named outside"
exit $wrong
