#!/usr/bin/env python3
"""What a training step takes on the CPU, in Colonnade and in PyTorch.

    python3 tests/pytorch/speed.py --build=build/release

runs them in turn, round by round, so that they meet the same changes of the machine's speed: `colonnade train`, PyTorch eager with
channels last, and the same compiled. Everything is fp32 on one device of --threads threads, SGD with momentum and decay. A
run's time is the median of its steps without the first ones, as `colonnade train --json` has it. Printed are the median and
the extremes over the rounds: milliseconds a step, then ratios within a round, Colonnade to PyTorch; below 1 Colonnade is
faster. Then, each in a process of its own, the most memory that it held (resident, with its libraries and images). Ends with 77
where there is no PyTorch.

PyTorch's waiting threads would spin, and beside any other work its steps then take many times as long; here they sleep
after a while, as Colonnade's do, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT says otherwise.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OWN_ENVIRONMENT = dict(os.environ)
if "OMP_WAIT_POLICY" not in os.environ:  # is read when PyTorch is loaded
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # what Colonnade sets for itself
from torch_or_skip import torch  # before what needs it

import safetensors_file
from networks import NETWORKS, Network, is_statistic

CASES = {"resnet18": (16, 224), "resnet50": (16, 224), "resnet20": (128, 32)}  # batch, rows and columns
WARM_UP_STEPS = 4  # of at least 12, as in engine/trainer.cc


class InColonnade:
    def __init__(self, options, model, batch):
        self.command = [
            options.build / "colonnade", "train", f"--model={model}", "--data=synthetic", f"--batch={batch}",
            f"--steps={options.steps}", "--plan=single", "--devices=1", "--backend=cpu",
            f"--threads-per-device={options.threads}", f"--kernels={options.kernels}", "--json"
        ]

    def run(self):
        """Milliseconds of the median step."""
        done = subprocess.run(self.command, check=True, capture_output=True, text=True, env=OWN_ENVIRONMENT)
        return json.loads(done.stdout)["step_ms"]["median"]


class InTorch:
    def __init__(self, options, weights, model, batch, size, compiled):
        self.steps = options.steps
        self.images = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(weights["fc.bias"].numel(), (batch,))
        self.tensors = {}
        for name, weight in weights.items():
            layout = torch.channels_last if weight.dim() == 4 else torch.contiguous_format
            tensor = weight.clone(memory_format=layout)
            self.tensors[name] = tensor.requires_grad_(not is_statistic(name))
        trained = [tensor for tensor in self.tensors.values() if tensor.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=1e-4, momentum=0.9, weight_decay=5e-4)

        def loss_of(tensors, images, labels):
            return torch.nn.functional.cross_entropy(NETWORKS[model](Network(tensors, training=True), images), labels)

        self.loss_of = torch.compile(loss_of) if compiled else loss_of

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss_of(self.tensors, self.images, self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self):
        times = []
        for _ in range(self.steps):
            begin = time.perf_counter()
            self.step()
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times[WARM_UP_STEPS:])


# Runs its arguments and prints the most kilobytes that they held. A program of its own, since Linux counts for a process what its
# parent held when it began.
WATCH = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_megabytes(command, environment):
    """The most resident memory of a process while it ran."""
    watch = [sys.executable, "-c", WATCH] + [str(word) for word in command]
    return int(subprocess.run(watch, check=True, capture_output=True, text=True, env=environment).stdout) / 1024


def measure_memory(options, model, sides):
    peaks = {"colonnade": peak_megabytes(sides["colonnade"].command, OWN_ENVIRONMENT)}
    for name in options.torch:
        alone = [sys.executable, __file__, f"--build={options.build}", f"--threads={options.threads}", f"--alone={model},{name}"]
        peaks[f"torch {name}"] = peak_megabytes(alone, os.environ)
    for name, peak in peaks.items():
        print(f"  {name + ', MB':<28} {peak:9.0f}   {peaks['colonnade'] / peak:9.3f} is Colonnade's share", flush=True)


def spread(values):
    return f"{statistics.median(values):9.3f}   {min(values):9.3f} to {max(values):9.3f}"


def initial_weights(options, model, folder):
    weights = folder / "initial.safetensors"
    subprocess.run(
        [options.build / "tests" / "pytorch_steps", f"--model={model}", f"--batch={CASES[model][0]}", f"--out={weights}"],
        check=True)
    return safetensors_file.load(weights)


def measure(options, model, folder):
    batch, size = CASES[model]
    weights = initial_weights(options, model, folder)
    sides = {"colonnade": InColonnade(options, model, batch)}
    for name in options.torch:
        sides[f"torch {name}"] = InTorch(options, weights, model, batch, size, name == "compiled")
    times = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            times[name].append(side.run())
    print(f"{model}, batch {batch}, {size}x{size}, {options.threads} threads,",
          f"{options.rounds} rounds of {options.steps} steps")
    for name in sides:
        print(f"  {name + ', ms':<28} {spread(times[name])}")
    for name in list(sides)[1:]:
        ratios = [ours / theirs for ours, theirs in zip(times["colonnade"], times[name])]
        print(f"  {'colonnade / ' + name:<28} {spread(ratios)}", flush=True)
    measure_memory(options, model, sides)


def run_alone(options, folder):
    """A few steps in PyTorch and nothing else, for measure_memory."""
    model, name = options.alone
    InTorch(options, initial_weights(options, model, folder), model, *CASES[model], name == "compiled").run()


def parse_arguments():
    def names(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a release build, with its tests")
    parser.add_argument("--networks", type=names, default=list(CASES), help="default: " + ",".join(CASES))
    parser.add_argument("--torch", type=names, default=["eager", "compiled"],
                        help="default: eager,compiled; compiling takes minutes")
    parser.add_argument("--kernels", default="onednn", help="of Colonnade: onednn or winograd")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="of a run, at least 12")
    parser.add_argument("--alone", type=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for given, known in ((options.networks, CASES), (options.torch, ("eager", "compiled"))):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown {unknown[0]}; expected some of {','.join(known)}")
    if options.steps < 12 or options.rounds < 1:
        parser.error("expected at least 12 steps and 1 round")
    if not (options.build / "tests" / "pytorch_steps").exists():
        parser.error(f"--build: no tests/pytorch_steps in {options.build}; cmake --build {options.build}")
    return options


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.alone:
            run_alone(options, pathlib.Path(folder))
            return
        for model in options.networks:
            measure(options, model, pathlib.Path(folder))


if __name__ == "__main__":
    main()
