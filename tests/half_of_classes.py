#!/usr/bin/env python3
"""Half of the classes of a data set in MNIST's files, as a data set of its own.

    python3 tests/half_of_classes.py FROM OUT first|second

writes those of FROM's images whose label is below half the number of classes, or the others with labels from 0, to OUT.
For trying what weights of one half are worth to the other (docs/measured.md).
"""

import gzip
import pathlib
import struct
import sys

FILES = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
         "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}


def read(folder, name):
    path = folder / name
    return path.read_bytes() if path.exists() else gzip.open(folder / f"{name}.gz").read()


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in ("first", "second"):
        sys.exit(__doc__)
    source, out, second = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3] == "second"
    out.mkdir(parents=True, exist_ok=True)
    for images_name, labels_name in FILES.values():
        images, labels = read(source, images_name), read(source, labels_name)[8:]
        rows, columns = struct.unpack(">II", images[8:16])
        half, size = (max(labels) + 1) // 2, rows * columns
        kept = [i for i, label in enumerate(labels) if (label >= half) == second]
        header = struct.pack(">IIII", 2051, len(kept), rows, columns)
        (out / images_name).write_bytes(header + b"".join(images[16 + i * size:16 + (i + 1) * size] for i in kept))
        relabelled = bytes(labels[i] - (half if second else 0) for i in kept)
        (out / labels_name).write_bytes(struct.pack(">II", 2049, len(kept)) + relabelled)


if __name__ == "__main__":
    main()
