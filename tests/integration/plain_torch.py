"""Plain training in PyTorch: reads from standard input what to build and to train, prints what became of it."""

import json
import sys

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.torch.models import build, dump, load


def read(batches, precision):
    """Images [n, h, w, c] and labels of each step."""
    arrays = np.load(batches)
    return zip(arrays["images"].astype(precision), arrays["labels"], strict=True)


def trained(name, shape, precision, learning_rate, batches):
    """The loss of each step, and the spread of each parameter after them."""
    model, losses = build(name, tuple(shape)), []
    load(model, initial(name, tuple(shape), seed=1))
    model.to(getattr(torch, precision))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for images, labels in read(batches, precision):
        optimizer.zero_grad()
        loss = cross_entropy(model(torch.from_numpy(images.transpose(0, 3, 1, 2))), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "spreads": [float(each.std()) for each in dump(model)]}


job = json.load(sys.stdin)
shapes = {}
for name, shape in job["build"].items():
    shapes[name] = [list(parameter.shape) for parameter in dump(build(name, tuple(shape)))]
print(json.dumps({"shapes": shapes, "trained": [trained(*each) for each in job["train"]]}))
