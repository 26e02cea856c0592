#!/usr/bin/env bash
# Writes the digits as JPEG files of 32 x 32 pixels, as images of one's own lie: FOLDER/train/CLASS/NUMBER.jpg, and FOLDER/val/… of those for testing.
# `digit_images.sh FOLDER`. Needs cjpeg (Debian: libjpeg-turbo-progs).
set -euo pipefail
digits=$(dirname "$(realpath "$0")")/../data/digits
folder=${1:?usage: digit_images.sh FOLDER}
[ -d "$digits" ] || { echo "digit_images.sh: expected the digits in $digits, found no such folder; run it where it lies" >&2; exit 66; }
command -v cjpeg >/dev/null || { echo "digit_images.sh: cjpeg is missing: apt-get install libjpeg-turbo-progs" >&2; exit 69; }

# write SPLIT FILES: the images of one of the two sets, each pixel as a square of four by four.
write() {
  mkdir -p "$folder/$1"/{zero,one,two,three,four,five,six,seven,eight,nine}
  paste -d ' ' <(zcat "$digits/$2-labels-idx1-ubyte.gz" | od -An -v -tu1 -w1 -j8) \
    <(zcat "$digits/$2-images-idx3-ubyte.gz" | od -An -v -tu1 -w64 -j16) |
    awk -v folder="$folder/$1" '
      BEGIN { split("zero one two three four five six seven eight nine", classes) }
      {
        file = sprintf("%s/%s/%04d.jpg", folder, classes[$1 + 1], NR)
        command = "cjpeg -quality 95 -outfile \"" file "\""
        print "P2 32 32 16" | command
        for (row = 0; row < 32; ++row)
          for (column = 0; column < 32; ++column) print $(2 + int(row / 4) * 8 + int(column / 4)) | command
        if (close(command) != 0) exit 1
      }'
}
write train train
write val t10k
