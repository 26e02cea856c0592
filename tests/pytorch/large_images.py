#!/usr/bin/env python3
"""Makes a folder of large JPEGs, a class in each folder, from those of a tar: what io-bench and loader_speed.py read.

    python3 tests/pytorch/large_images.py shared/data/imagenet-samples/imagenet-samples.tar FOLDER

Each image is resampled so that its shorter side has --side pixels and written with quality 90 and PIL's sampling of colours
(2 x 2); --copies names of each file make an epoch long enough to be timed. Ends with 77 where there is no PIL.
"""

import argparse
import io
import os
import pathlib
import sys
import tarfile

try:
    from PIL import Image
except ModuleNotFoundError:
    print("skipped: no PIL; pip install pillow")
    sys.exit(77)


def enlarged(jpeg, side):
    image = Image.open(io.BytesIO(jpeg)).convert("RGB")
    scale = side / min(image.size)
    return image.resize([round(scale * length) for length in image.size], Image.Resampling.BICUBIC)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tar", type=pathlib.Path, help="its members are [TOP/]CLASS/NAME")
    parser.add_argument("folder", type=pathlib.Path, help="is made")
    parser.add_argument("--side", type=int, default=500)
    parser.add_argument("--copies", type=int, default=4)
    options = parser.parse_args()
    with tarfile.open(options.tar) as tar:
        for member in tar:
            if not member.isfile():
                continue
            place = pathlib.PurePath(member.name)
            folder = options.folder / place.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            first = folder / f"{place.stem}-0.jpg"
            enlarged(tar.extractfile(member).read(), options.side).save(first, quality=90)
            for copy in range(1, options.copies):
                os.link(first, folder / f"{place.stem}-{copy}.jpg")


if __name__ == "__main__":
    main()
