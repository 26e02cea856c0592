"""PyTorch as `torch`; without it the program that imports this says so and ends with 77."""

import sys

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    print("skipped: no torch; pip install torch")
    sys.exit(77)
