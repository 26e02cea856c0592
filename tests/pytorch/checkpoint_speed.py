#!/usr/bin/env python3
"""What a checkpoint of vgg16 costs, in Colonnade and in PyTorch's distributed checkpoint, on the same disk.

    python3 tests/pytorch/checkpoint_speed.py --build=build/release --folder=DIR

saves parameters and momenta (1.1 GB in fp32) in turn, round by round: `colonnade train` under --plan on --devices, which
saves after every --every steps, and torch.distributed.checkpoint's async_save of the same tensors in one process that does
nothing else. Printed for each save: milliseconds that training stands still (until async_save returns), and until the
checkpoint is on the disk; and how much more memory the process holds at most than one that saves nothing (than before the
save), over the bytes that are saved. DIR is made and removed. Ends with 77 where there is no PyTorch.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

from torch_or_skip import torch  # before what needs it
import torch.distributed.checkpoint as dcp

import safetensors_file


def peak_bytes_of(command):
    """Runs it. Returns the most memory that it held, and what it printed."""
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            printed = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise SystemExit(errors.read())
    return 1024 * used.ru_maxrss, printed


def colonnade(options, folder):
    command = [
        options.build / "colonnade", "train", "--model=vgg16", "--data=synthetic", f"--batch={options.devices}",
        f"--devices={options.devices}", "--threads-per-device=1", f"--plan={options.plan}", "--backend=cpu", "--lr=0.0001",
        f"--steps={options.saves * options.every}", "--json"
    ]
    without, _ = peak_bytes_of(command)
    peak, printed = peak_bytes_of(command + [f"--checkpoint-every={options.every}", f"--checkpoint={folder}"])
    saved = json.loads(printed)["checkpoints"]
    count = saved["saved"]
    still = saved["stood_still_ms"] / (count - 1)  # the last save is beside no step
    return still, still + saved["written_ms"] / count, saved["bytes"], peak - without


def pytorch(options, state, folder):
    still = until = 0
    held = 1024 * int(re.search(r"VmRSS:\s*(\d+)", pathlib.Path("/proc/self/status").read_text())[1])
    for save in range(options.saves):
        begin = time.perf_counter()
        written = dcp.async_save(state, checkpoint_id=folder / str(save))
        still += time.perf_counter() - begin
        written.result()
        until += time.perf_counter() - begin
    size = sum(t.numel() * t.element_size() for t in state.values())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1e3 * still / options.saves, 1e3 * until / options.saves, size, peak - held


def initial_state(options):
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder) / "initial.safetensors"
        subprocess.run([options.build / "tests" / "pytorch_steps", "--model=vgg16", "--batch=1", f"--out={weights}"], check=True)
        state = dict(safetensors_file.load(weights))
    return state | {f"momentum.{name}": torch.randn_like(tensor) for name, tensor in state.items()}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a release build, with its tests")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on the disk to save to; must not be there yet")
    parser.add_argument("--plan", default="model")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--saves", type=int, default=3, help="of a round")
    parser.add_argument("--every", type=int, default=2, help="steps from one save to the next")
    options = parser.parse_args()
    if options.folder.exists():
        parser.error(f"--folder: {options.folder} is there already")
    return options


def main():
    options = parse_arguments()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    state = initial_state(options)
    for round_ in range(options.rounds):
        for name, save in (("colonnade", lambda f: colonnade(options, f)), ("torch", lambda f: pytorch(options, state, f))):
            try:
                still, until, size, more = save(options.folder)
            finally:
                shutil.rmtree(options.folder, ignore_errors=True)
            print(f"round {round_} {name:<10} {size / 1e6:7.1f} MB  stands still {still:8.1f} ms  on the disk after {until:8.1f} ms  "
                  f"{100 * still / until:6.2f} %  memory {more / size:5.2f} x", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
