"""Loss and accuracy of a PyTorch model on the test images, and a hash of its parameters."""

import hashlib

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ddlbench.protocol.messages import TestResult
from ddlbench.workers.common.batches import Batches
from ddlbench.workers.torch.models import dump


@torch.no_grad()
def evaluate(model: nn.Module, batches: Batches, device: torch.device) -> TestResult:
    """Test a model on all test images, as many at a time as are in a step, because so many fit into memory.

    Args:
        model: from images, (n, channels, height, width), to logits, (n, classes); it is in training mode afterwards.
        batches: of the point.
        device: where the model is.

    Returns:
        The mean negative log-likelihood, and the accuracy in per cent.
    """
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
    """Hash all parameters' bytes in the canonical order.

    Args:
        model: with float32 parameters.

    Returns:
        SHA-256 in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for parameter in dump(model):
        digest.update(parameter.tobytes())
    return digest.hexdigest()
