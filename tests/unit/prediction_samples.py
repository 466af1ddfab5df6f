"""Trainings whose time is known: a cost model that tests choose, with noise from a seed."""

import numpy as np

from ddlbench.prediction.cell import Cell, Measured

COMPUTE_MS = 0.1  # of an image
OVERHEAD_MS = 3.0
CONV1_BYTES = 4 * 152_410


def cell(**changes):
    kind = {"model": "conv1", "image_shape": "28x28x1", "framework": "torch", "bandwidth_mbit": 1000.0}
    return Cell(**{"batch_size": 128, "workers": 2, "vcpus": 1.0, **kind, **changes})


def true_ms(of):
    """The cost model: compute, overhead, bytes by rate, and two latencies for each of 2(N-1) messages."""
    hops = 2 * (of.workers - 1)
    wire_ms = hops / of.workers * CONV1_BYTES * 8e-3 / of.bandwidth_mbit
    return COMPUTE_MS * of.batch_size / of.workers + OVERHEAD_MS + wire_ms + 2 * hops * of.latency_ms


def grid():
    return [
        cell(batch_size=batch, workers=workers, latency_ms=latency)
        for batch in (64, 128, 256, 512, 1024, 2048)
        for workers in (1, 2, 3, 4, 6)
        for latency in (0.0, 5.0, 20.0)
    ]


def measure(cells, noise=0.03, seed=0):
    random = np.random.default_rng(seed)
    return [Measured(each, true_ms(each) * float(np.exp(noise * random.standard_normal()))) for each in cells]
