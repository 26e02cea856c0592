#!/usr/bin/env python3
"""The reference safetensors library reads what Colonnade writes, and Colonnade what it writes.

    python3 tests/pytorch/safetensors_reference.py --build=build/release

A checkpoint's files and that of --save are opened by the library and compared with each other; what the library then writes, in one
file and in two with an index, is what the command begins with.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors.numpy
except ModuleNotFoundError as error:
    if error.name not in ("numpy", "safetensors"):
        raise
    print(f"skipped: no {error.name}; pip install safetensors numpy")
    sys.exit(77)

NETWORK = ["--model=two_column", "--data=digits", "--width=0.25"]


def run(build, *arguments):
    done = subprocess.run([f"{build}/colonnade", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"colonnade {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def load(path):
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:  # the other way in, which maps the file
        assert set(file.keys()) == set(tensors), path
        for name in file.keys():
            assert numpy.array_equal(file.get_tensor(name), tensors[name]), name
    return tensors


def expect_equal(found, expected, what):
    assert list(sorted(found)) == list(sorted(expected)), f"{what}: names differ"
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, f"{what}: {name} is of another kind"
        assert found[name].tobytes() == tensor.tobytes(), f"{what}: {name} differs"
    print(f"{what}: {len(expected)} tensors, {sum(t.nbytes for t in expected.values())} bytes are the same")


def write_two_files(folder, tensors):
    names = sorted(tensors)
    weight_map = {}
    for i, part in enumerate((names[::2], names[1::2])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors.numpy.save_file({name: tensors[name] for name in part}, folder / file)
        weight_map.update({name: file for name in part})
    total = sum(t.nbytes for t in tensors.values())
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    return index


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(build, "train", *NETWORK, "--steps=3", f"--checkpoint={folder}/run", f"--save={folder}/saved")
        saved = load(folder / "saved")
        checkpoint = folder / "run" / "step-000000003"
        expect_equal(load(checkpoint / "weights.safetensors"), saved, "a checkpoint's weights and those of --save")
        momenta = load(checkpoint / "momentum.safetensors")
        assert list(sorted(momenta)) == list(sorted(saved))
        changed = {name: (tensor * 0.5).astype(tensor.dtype) for name, tensor in saved.items()}
        safetensors.numpy.save_file(changed, folder / "one.safetensors", metadata={"format": "pt"})
        for init in (folder / "one.safetensors", write_two_files(folder, changed)):
            run(build, "train", *NETWORK, "--steps=1", "--lr=0", f"--init={init}", f"--save={folder}/again")
            expect_equal(load(folder / "again"), changed, f"what the library wrote as {init.name}, after --init and --save")
        halves = {name: tensor.astype(numpy.float16) for name, tensor in changed.items()}
        safetensors.numpy.save_file(halves, folder / "halves.safetensors")
        run(build, "train", *NETWORK, "--steps=1", "--lr=0", f"--init={folder}/halves.safetensors", f"--save={folder}/again")
        expect_equal(load(folder / "again"), {name: tensor.astype(numpy.float32) for name, tensor in halves.items()}, "F16")
        doubles = {name: tensor.astype(numpy.float64) for name, tensor in changed.items()}
        safetensors.numpy.save_file(doubles, folder / "doubles.safetensors")
        exact = ["--kernels=reference", "--steps=1", "--lr=0", f"--init={folder}/doubles.safetensors"]
        run(build, "train", *NETWORK, *exact, f"--save={folder}/again")
        expect_equal(load(folder / "again"), doubles, "F64, after --init and --save in double")


if __name__ == "__main__":
    main()
