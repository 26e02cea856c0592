"""Files of the safetensors format with tensors of F32, which are all that Colonnade writes."""

import ctypes
import json
import math
import struct

import torch


def save(path, tensors):
    header, contents = {}, []
    end = 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().float().contiguous()
        begin, end = end, end + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        contents.append(ctypes.string_at(tensor.data_ptr(), 4 * tensor.numel()))
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(contents))


def load(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        values = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin = entry["data_offsets"][0] // 4
        shape = entry["shape"]
        tensors[name] = values[begin:begin + math.prod(shape)].reshape(shape)
    return tensors
