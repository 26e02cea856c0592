"""Networks of models/ in PyTorch, as functions of named tensors.

NETWORKS[name](net, images) gives the logits, where `net` is a Network around a dict from Colonnade's names to tensors. All
shapes are those of the tensors, so that width, classes and input size need not be said. Dropout is left out. In training
the logits of auxiliary heads, where there are tensors of them, are left in net.auxiliary_logits.
"""

import torch
import torch.nn.functional as F
from torch.nn.functional import max_pool2d, relu


def is_statistic(name):
    return name.endswith((".running_mean", ".running_var"))


class Network:
    """Layers that find their parameters by name. `training` is as in torch.nn.Module."""

    def __init__(self, tensors, training, running_momentum=0.1):
        self.tensors, self.training, self.running_momentum = tensors, training, running_momentum
        self.auxiliary_logits = []

    def conv(self, name, x, stride=1, padding=None):
        weight = self.tensors[name + ".weight"]
        padding = weight.shape[2] // 2 if padding is None else padding
        return F.conv2d(x, weight, self.tensors.get(name + ".bias"), stride, padding)

    def norm(self, name, x, eps=1e-5):
        mean, variance, weight, bias = (
            self.tensors[f"{name}.{tensor}"] for tensor in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, mean, variance, weight, bias, self.training, self.running_momentum, eps)

    def linear(self, name, x):
        return F.linear(x, self.tensors[name + ".weight"], self.tensors[name + ".bias"])

    def classify(self, x, *layers):
        x = x.flatten(1)
        for layer in layers[:-1]:
            x = relu(self.linear(f"classifier.{layer}", x))
        return self.linear(f"classifier.{layers[-1]}", x)


def alexnet(net, x):
    x = max_pool2d(relu(net.conv("features.0", x, stride=4, padding=2)), 3, 2)
    x = max_pool2d(relu(net.conv("features.3", x)), 3, 2)
    for layer in (6, 8, 10):
        x = relu(net.conv(f"features.{layer}", x))
    return net.classify(max_pool2d(x, 3, 2), 1, 4, 6)


def vgg16_bn(net, x):
    layer = 0
    for convolutions in (2, 2, 3, 3, 3):
        for _ in range(convolutions):
            x = relu(net.norm(f"features.{layer + 1}", net.conv(f"features.{layer}", x)))
            layer += 3
        x = max_pool2d(x, 2)
        layer += 1
    return net.classify(x, 0, 3, 6)


def _conv_norm(net, conv, norm, x, stride=1):
    return net.norm(norm, net.conv(conv, x, stride))


def _residual(blocks, bottleneck):
    def branch(net, name, x, stride):
        strides = (1, stride, 1) if bottleneck else (stride, 1)
        for index, of_conv in enumerate(strides, start=1):
            x = _conv_norm(net, f"{name}.conv{index}", f"{name}.bn{index}", x, of_conv)
            x = relu(x) if index < len(strides) else x
        return x

    def network(net, x):
        x = max_pool2d(relu(_conv_norm(net, "conv1", "bn1", x, stride=2)), 3, 2, padding=1)
        for stage, count in enumerate(blocks, start=1):
            for block in range(count):
                name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
                shortcut = x
                if name + ".downsample.0.weight" in net.tensors:
                    shortcut = _conv_norm(net, name + ".downsample.0", name + ".downsample.1", x, stride)
                x = relu(branch(net, name, x, stride) + shortcut)
        return net.linear("fc", x.mean((2, 3)))

    return network


def _inception(conv, name, x, suffixes):
    conv1, reduce3, conv3, reduce5, conv5, pooled = (name + suffix for suffix in suffixes)
    beside_pool = [conv(conv1, x), conv(conv3, conv(reduce3, x)), conv(conv5, conv(reduce5, x))]
    return torch.cat(beside_pool + [conv(pooled, max_pool2d(x, 3, 1, padding=1))], 1)


def googlenet(net, x):
    def conv(name, x, stride=1):
        return relu(net.conv(name, x, stride))

    def halved(x):
        return max_pool2d(x, 3, 2, ceil_mode=True)

    def normalised(x):
        return F.local_response_norm(x, 5, alpha=1e-4, beta=0.75, k=1)

    x = normalised(halved(conv("conv1", x, 2)))
    x = halved(normalised(conv("conv2", conv("reduce2", x))))
    for module in ("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"):
        x = _inception(conv, "inception" + module, x, (".conv1", ".reduce3", ".conv3", ".reduce5", ".conv5", ".pooled"))
        x = halved(x) if module in ("3b", "4e") else x
    return net.linear("fc", x.mean((2, 3)))


def googlenet_bn(net, x):
    def conv(name, x, stride=1):
        return relu(net.norm(name + ".bn", net.conv(name + ".conv", x, stride), eps=1e-3))

    def inception(module, x):
        suffixes = (".branch1", ".branch2.0", ".branch2.1", ".branch3.0", ".branch3.1", ".branch4.1")
        return _inception(conv, "inception" + module, x, suffixes)

    def head(name, x):
        if net.training and name + ".fc1.weight" in net.tensors:
            x = conv(name + ".conv", F.adaptive_avg_pool2d(x, 4)).flatten(1)
            net.auxiliary_logits.append(net.linear(name + ".fc2", relu(net.linear(name + ".fc1", x))))

    x = max_pool2d(conv("conv1", x, 2), 3, 2, ceil_mode=True)
    x = max_pool2d(conv("conv3", conv("conv2", x)), 3, 2, ceil_mode=True)
    x = inception("3b", inception("3a", x))
    x = max_pool2d(x, 3, 2, ceil_mode=True)
    x = inception("4a", x)
    head("aux1", x)
    x = inception("4d", inception("4c", inception("4b", x)))
    head("aux2", x)
    x = max_pool2d(inception("4e", x), 2, 2, ceil_mode=True)
    x = inception("5b", inception("5a", x))
    return net.linear("fc", x.mean((2, 3)))


def resnet20(net, x):
    x = relu(_conv_norm(net, "conv1", "bn1", x))
    for stage in (1, 2, 3):
        for block in range(3):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = relu(_conv_norm(net, name + ".conv1", name + ".bn1", x, stride))
            y = _conv_norm(net, name + ".conv2", name + ".bn2", y)
            x = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))
            x = relu(y + x)
    return net.linear("fc", x.mean((2, 3)))


NETWORKS = {
    "alexnet": alexnet,
    "resnet18": _residual((2, 2, 2, 2), bottleneck=False),
    "resnet50": _residual((3, 4, 6, 3), bottleneck=True),
    "googlenet": googlenet,
    "googlenet_bn": googlenet_bn,
    "vgg16_bn": vgg16_bn,
    "resnet20": resnet20,
}
