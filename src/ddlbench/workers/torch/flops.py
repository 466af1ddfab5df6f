"""The size and the operations of models, counted in PyTorch's environment on tensors that have a shape and no content.

    python -m ddlbench.workers.torch.flops 224x224x3 alexnet vgg16

prints JSON: {model: {parameters, bytes, flops, multiply_adds}}, for the forward pass of one image. PyTorch's counter
counts a multiply-add as two operations, and only convolutions and matrix products, as most of the literature does.
"""

import json
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.torch.models import MODELS


def count(name: str, shape: Shape) -> dict[str, int]:
    """Count a model's parameters and the operations of its forward pass.

    Args:
        name: of the model, a key of MODELS.
        shape: of the one image, (height, width, channels).

    Returns:
        `parameters`, their `bytes`, `flops` and `multiply_adds`, which are half as many.
    """
    height, width, channels = shape
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model = MODELS[name](shape).eval()
        model(torch.empty(1, channels, height, width))
    flops = counter.get_total_flops()
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "bytes": sum(each.nbytes for each in model.parameters()),
        "flops": flops,
        "multiply_adds": flops // 2,
    }


def main(words: str, *names: str) -> None:
    """Print the counts as JSON.

    Args:
        words: the shape of an image, as `224x224x3`: height, width, channels.
        *names: of the models, keys of MODELS.
    """
    height, width, channels = map(int, words.split("x"))
    json.dump({name: count(name, (height, width, channels)) for name in names}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
