"""How a PyTorch model does on the test images, and a hash of its parameters."""

import hashlib

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ddlbench.protocol.messages import TestResult
from ddlbench.workers.common.batches import Batches
from ddlbench.workers.torch.models import dump


@torch.no_grad()
def evaluate(model: nn.Module, batches: Batches, device: torch.device) -> TestResult:
    """Mean negative log-likelihood and accuracy over the test images, as many at a time as are in a step: they fit."""
    model.eval()
    loss, right, total = 0.0, 0, 0
    for part in batches.test_parts(batches.share.stop - batches.share.start):
        images, labels = (torch.from_numpy(each).to(device) for each in part)
        outputs = model(images)
        loss += cross_entropy(outputs, labels, reduction="sum").item()
        right += int((outputs.argmax(1) == labels).sum())
        total += len(labels)
    model.train()
    return TestResult(loss / total, 100 * right / total)


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of all parameters' bytes."""
    digest = hashlib.sha256()
    for parameter in dump(model):
        digest.update(parameter.tobytes())
    return digest.hexdigest()
