#!/usr/bin/env python3
"""How many images a second Colonnade's input gives, and torchvision's DataLoader with as many workers.

    python3 tests/pytorch/loader_speed.py --build=build/release --data=FOLDER

reads FOLDER, a class in each folder (large_images.py makes one), in turn, round by round: `colonnade io-bench` with random
resized crops to 224 x 224, mirrored, after two epochs that make its indices of JPEGs; then ImageFolder with RandomResizedCrop(224), RandomHorizontalFlip and PILToTensor in a
DataLoader whose workers have been started, and have read everything once, before. Both give batches of bytes. Printed are
medians and extremes over the rounds: images a second, and ratios within a round; `whole files` is io-bench's rate over that
of as many threads that do nothing but decode whole files, and the last is the same by processor time. Ends with 77 where
there is no PyTorch or torchvision.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

from torch_or_skip import torch

try:
    import torchvision
except ModuleNotFoundError:
    print("skipped: no torchvision; pip install torchvision")
    sys.exit(77)


def numbers(text):
    return [int(word) for word in text.split(",")]


def loader_of(options, workers):
    transforms = torchvision.transforms.Compose([
        torchvision.transforms.RandomResizedCrop(224),
        torchvision.transforms.RandomHorizontalFlip(),
        torchvision.transforms.PILToTensor(),
    ])
    images = torchvision.datasets.ImageFolder(options.data, transforms)
    return torch.utils.data.DataLoader(images, batch_size=options.batch, shuffle=True, num_workers=workers,
                                       persistent_workers=True)


def images_per_second(loader):
    begin = time.perf_counter()
    count = sum(len(labels) for _, labels in loader)
    return count / (time.perf_counter() - begin)


def io_bench(options, threads):
    command = [options.build / "colonnade", "io-bench", f"--data={options.data}", f"--threads={threads}",
               f"--batch={options.batch}", "--input-size=224", "--augment=resized,mirror", "--warm-up-epochs=2", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(options, threads):
    loader = loader_of(options, threads)
    images_per_second(loader)
    columns = {"colonnade, images/s": [], "torchvision, images/s": [], "colonnade / torchvision": [],
               "colonnade / whole files": [], "of processor time": []}
    for _ in range(options.rounds):
        ours, theirs = io_bench(options, threads), images_per_second(loader)
        row = (ours["images_per_s"], theirs, ours["images_per_s"] / theirs, ours["share_of_decoding"], ours["share_per_core"])
        for column, value in zip(columns.values(), row):
            column.append(value)
    print(f"{threads} threads or workers, {options.rounds} rounds of {len(loader.dataset)} images, batches of {options.batch}")
    for name, values in columns.items():
        print(f"  {name:<26} {statistics.median(values):9.2f}   {min(values):9.2f} to {max(values):9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a release build")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of a folder for each class")
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="of io-bench, and workers: default 1,2")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for threads in options.threads:
        measure(options, threads)


if __name__ == "__main__":
    main()
