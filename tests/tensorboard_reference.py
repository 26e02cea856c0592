#!/usr/bin/env python3
"""TensorBoard's own reader finds in event files what the log of the same run says.

    python3 tests/tensorboard_reference.py --build=build/release

Of a run, and of one that goes on from a checkpoint before the last steps that were recorded.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("tensorboard"):
        raise
    print("skipped: no tensorboard; pip install tensorboard")
    sys.exit(77)

TRAIN = ["train", "--model=two_column", "--data=digits", "--width=0.25", "--lr-policy=step:4,0.5"]
TAGS = {"train/loss": "loss", "train/lr": "lr", "perf/images_per_s": "images_per_s"}


def run(build, *arguments):
    done = subprocess.run([f"{build}/colonnade", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"colonnade {' '.join(arguments)}: {done.returncode}\n{done.stderr}")


def expected_of(log):
    """Of each tag the last value of each step that was kept."""
    found = {}
    for line in map(json.loads, log.read_text().splitlines()):
        if "first_step" in line:
            found = {tag: {s: v for s, v in steps.items() if s <= line["first_step"]} for tag, steps in found.items()}
            continue
        values = {tag: line[key] for tag, key in TAGS.items() if key in line}
        values.update({f"val/{key}": line["test"][key] for key in ("loss", "top1", "top5") if "test" in line})
        for tag, value in values.items():
            found.setdefault(tag, {})[line["step"]] = value
    return found


def compare(log, events, what):
    reader = EventAccumulator(str(events), size_guidance={"scalars": 0})
    reader.Reload()
    expected = expected_of(log)
    assert set(reader.Tags()["scalars"]) == set(expected), reader.Tags()
    for tag, steps in expected.items():
        scalars = {event.step: event.value for event in reader.Scalars(tag)}
        assert len(scalars) == len(reader.Scalars(tag)), f"{what}: {tag} has a step twice"
        assert list(scalars) == list(steps), f"{what}: {tag} has steps {list(scalars)}, expected {list(steps)}"
        for step, value in steps.items():
            assert abs(scalars[step] - value) <= 1e-6 * abs(value), f"{what}: {tag} at {step}: {scalars[step]} {value}"
    print(f"{what}: {', '.join(f'{tag} of {len(steps)} steps' for tag, steps in sorted(expected.items()))}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        log, events = folder / "log.jsonl", folder / "events"
        records = [f"--log={log}", f"--tensorboard={events}"]
        run(build, *TRAIN, "--steps=6", "--checkpoint-every=4", f"--checkpoint={folder}/run", *records)
        compare(log, events, "a run")
        for file in events.iterdir():  # each record has its sums, and the file ends with one
            assert len(list(RawEventFileLoader(str(file)).Load())) == 1 + 6 + 1, file
        shutil.rmtree(folder / "run" / "step-000000006")
        run(build, *TRAIN, "--steps=9", f"--checkpoint={folder}/run", "--resume", *records)
        compare(log, events, "one that went on from step 4")


if __name__ == "__main__":
    main()
