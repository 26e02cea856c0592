#!/usr/bin/env python3
"""Whether Colonnade and PyTorch compute the same from the same weights and batches.

    python3 tests/pytorch/agree.py --build=build/release

runs three steps of SGD, or of --optimizer, for each network under each plan, in Colonnade (the program tests/pytorch_steps of the build) and in
PyTorch on the CPU, and prints one line of relative errors for each. Ends with 0 where all are within their bounds, 1 where one is
not, 2 on wrong usage, 77 where there is no PyTorch (`pip install torch`; nothing else of Colonnade needs it).

--double computes in double on both sides, Colonnade's on its reference kernels, compares the change of each parameter by itself, and
grants what rounding to the f32 of the files does; it is slow, so name a small --width.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

from torch_or_skip import torch  # before what needs it
from torch.nn.functional import cross_entropy

import safetensors_file
from networks import NETWORKS, Network, is_statistic

STEPS = 3
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 1e-4, 0.9, 0.1  # a decay whose steps f32 does not round away
WEIGHT_OF_HEAD = 0.3
PLANS = {"single": 1, "data": 2, "hybrid": 4}  # devices

# Of relative errors: what is granted to sums of f32 in another order, and to one rounding to f32 at the end.
BOUND, BOUND_OF_DOUBLE = 1e-4, 1e-7

# Of the changes of all parameters together, in f32. A change is about 1e-4 of a weight, so its last bits are lost; and where an
# activation lies at the kink of a ReLU, roundings decide whether it has a gradient. Found: at most 5.4e-3; without PyTorch's
# decay at least 4.8e-2.
BOUND_OF_CHANGES = 1e-2


def initial_weights(options, model, folder):
    """Colonnade's, with vectors drawn anew: no bias is zero, and no statistic is what it begins with.

    In float what is normalised lies around 1 with a deviation of 0.5, so that few values lie near the kink of a ReLU. Where
    many do, roundings decide on which side, and deep networks amplify that: PyTorch's own losses of resnet50 then differ by
    1e-2 between float and double.
    """
    path = folder / "initial.safetensors"
    run_colonnade(options, model, "single", f"--out={path}")
    weights = safetensors_file.load(path)
    mean, deviation = (0, 1) if options.double else (1, 0.5)
    for name, tensor in weights.items():
        layer, kind = name.rsplit(".", 1)
        normalises = layer + ".running_var" in weights
        if kind == "running_var":
            tensor.uniform_(0.5, 1.5)
        elif kind == "weight" and normalises:
            tensor.normal_(deviation, 0.1 * deviation)
        elif tensor.dim() == 1:
            tensor.normal_(mean if kind == "bias" and normalises else 0, 0.1)
    return weights


def random_batches(options):
    shape = (options.batch, 3, options.input_size, options.input_size)
    batches = {}
    for step in range(STEPS):
        batches[f"images{step}"] = torch.randn(shape)
        batches[f"labels{step}"] = torch.randint(options.classes, (options.batch,)).float()
    return batches


def run_colonnade(options, model, plan, *arguments):
    subprocess.run([
        options.program, f"--model={model}", f"--plan={plan}", f"--devices={PLANS[plan]}", f"--batch={options.batch}",
        f"--input-size={options.input_size}", f"--classes={options.classes}", f"--width={options.width}",
        f"--learning-rate={LEARNING_RATE}", f"--momentum={MOMENTUM}", f"--weight-decay={WEIGHT_DECAY}",
        f"--optimizer={options.optimizer}", f"--clip-norm={options.clip_norm}", f"--micro-batches={options.micro_batches}",
        f"--average-decay={options.average_decay}", *(["--double"] if options.double else []),
        *(["--auxiliary-heads"] if options.auxiliary_heads else []), *arguments
    ], check=True)


def run_torch(options, model, weights, batches):
    """What pytorch_steps writes, by the same names."""
    dtype = torch.float64 if options.double else torch.float32
    tensors = {name: weight.to(dtype, copy=True) for name, weight in weights.items()}
    trained = [tensor.requires_grad_() for name, tensor in tensors.items() if not is_statistic(name)]
    if options.optimizer == "adamw":
        optimizer = torch.optim.AdamW(trained, LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    else:  # while the rate is constant, Krizhevsky's form takes PyTorch's steps
        optimizer = torch.optim.SGD(trained, LEARNING_RATE, MOMENTUM, weight_decay=WEIGHT_DECAY,
                                    nesterov=options.optimizer == "nesterov")
    averages = [tensor.detach().clone() for tensor in trained]
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(options.average_decay)
    results, losses = {}, []
    with torch.no_grad():
        results["logits of evaluation"] = NETWORKS[model](Network(tensors, training=False), batches["images0"].to(dtype))
    for step in range(STEPS):
        network, labels = Network(tensors, training=True), batches[f"labels{step}"].long()
        logits = NETWORKS[model](network, batches[f"images{step}"].to(dtype))
        loss = cross_entropy(logits, labels)
        for auxiliary in network.auxiliary_logits:
            loss = loss + WEIGHT_OF_HEAD * cross_entropy(auxiliary, labels)
        optimizer.zero_grad()
        loss.backward()
        if options.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(trained, options.clip_norm)
        optimizer.step()
        average(averages, [tensor.detach() for tensor in trained], step)
        losses.append(loss.item())
        results.setdefault("logits", logits.detach())
    results["losses"] = torch.tensor(losses, dtype=dtype)
    for name, tensor in tensors.items():
        results[name] = tensor if is_statistic(name) else tensor.detach() - weights[name]
    if options.average_decay > 0:
        names = [name for name in tensors if not is_statistic(name)]
        results |= {f"average of {name}": tensor - weights[name] for name, tensor in zip(names, averages)}
    return results


def distance(found, expected):
    """The relative norm of the difference; not a number where one side is not finite."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def worst(errors):
    """The largest, and one that is not a number before all others; 0 of none."""
    return max(errors, key=lambda error: (math.isnan(error), error), default=0.0)


def changes_together(results, names):
    return torch.cat([results[name].double().flatten() for name in names])


def errors_of(found, expected, options):
    """By kind. Each loss, and each tensor of statistics, counts for itself, and in double each of changes.

    In float AdamW's changes are not compared: it divides by the gradient's size, so of a gradient that is rounding alone it
    makes a whole step.
    """
    parameters = found.keys() - {"losses", "logits", "logits of evaluation"}
    statistics = set(filter(is_statistic, parameters))
    errors = {
        "logits": distance(found["logits"], expected["logits"]),
        "losses": worst(map(distance, found["losses"], expected["losses"])),
    }
    if statistics:
        errors["statistics"] = worst(distance(found[name], expected[name]) for name in statistics)
    errors["evaluation"] = distance(found["logits of evaluation"], expected["logits of evaluation"])
    names = sorted(parameters - statistics)
    if options.double:
        errors["changes"] = worst(distance(found[name], expected[name]) for name in names)
    elif options.optimizer != "adamw":
        errors["changes"] = distance(changes_together(found, names), changes_together(expected, names))
    return errors


def bound_of(kind, options):
    if options.double:
        return BOUND_OF_DOUBLE
    return BOUND_OF_CHANGES if kind == "changes" else BOUND


def compare(options, model, folder):
    """Prints a line for each plan; whether all errors are within their bounds."""
    torch.manual_seed(options.seed)
    weights, batches = initial_weights(options, model, folder), random_batches(options)
    files = {name: folder / f"{name}.safetensors" for name in ("weights", "batches", "out")}
    safetensors_file.save(files["weights"], weights)
    safetensors_file.save(files["batches"], batches)
    expected = run_torch(options, model, weights, batches)
    all_agree = True
    for plan in options.plans:
        run_colonnade(options, model, plan, *(f"--{name}={file}" for name, file in files.items()), f"--steps={STEPS}")
        errors = errors_of(safetensors_file.load(files["out"]), expected, options)
        agrees = all(error <= bound_of(kind, options) for kind, error in errors.items())
        print(f"{model:<12} {plan:<7}", *(f"{kind} {error:.1e} " for kind, error in errors.items()),
              "agree" if agrees else "DO NOT AGREE", flush=True)
        all_agree = all_agree and agrees
    return all_agree


def parse_arguments():
    def names(text):
        return text.split(",")

    networks = ["alexnet", "resnet18", "resnet50", "googlenet", "googlenet_bn", "vgg16_bn"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="folder of the build, with tests/pytorch_steps")
    parser.add_argument("--networks", type=names, default=networks, help="default: " + ",".join(networks))
    parser.add_argument("--plans", type=names, default=list(PLANS), help="default: " + ",".join(PLANS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--input-size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--width", type=float, default=1, help="channels times this")
    parser.add_argument("--seed", type=int, default=1, help="of weights and batches")
    parser.add_argument("--auxiliary-heads", action="store_true", help="of googlenet_bn, in training")
    parser.add_argument("--double", action="store_true", help="all in double")
    parser.add_argument("--optimizer", choices=["krizhevsky", "pytorch", "nesterov", "adamw"], default="krizhevsky")
    parser.add_argument("--average-decay", type=float, default=0, help="of averages that are kept of parameters; 0: none")
    parser.add_argument("--clip-norm", type=float, default=0, help="largest norm of all gradients together; 0: any")
    parser.add_argument("--micro-batches", type=int, default=1, help="in which Colonnade computes each batch")
    options = parser.parse_args()
    for given, known in ((options.networks, NETWORKS), (options.plans, PLANS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown {unknown[0]}; expected some of {','.join(known)}")
    options.program = pathlib.Path(options.build) / "tests" / "pytorch_steps"
    if not options.program.exists():
        parser.error(f"--build: no {options.program}; cmake --build {options.build} --target pytorch_steps")
    return options


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        agree = [compare(options, model, pathlib.Path(folder)) for model in options.networks]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
