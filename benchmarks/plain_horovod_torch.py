"""A plain script, as Horovod's example for PyTorch has it: what our worker with Horovod and PyTorch is compared with.

HOROVOD_RANK=... plain_horovod_torch.py MODEL DATASET.npz BATCH_SIZE   (each line of its input: how many steps to train)
"""

import json
import sys
import time

import horovod.torch as hvd
import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ddlbench.workers.torch.models import MODELS


def main(name: str, dataset: str, batch_size: int) -> None:
    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with np.load(dataset) as arrays:
        pixels = torch.from_numpy(arrays["train_images"]).permute(0, 3, 1, 2)
        images = pixels.clone(memory_format=torch.contiguous_format) / 127.5 - 1
        labels = torch.from_numpy(arrays["train_labels"].astype(np.int64))
    channels, height, width = images.shape[1:]
    model = MODELS[name]((height, width, channels))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    share = batch_size * (hvd.rank() + 1) // hvd.size() - batch_size * hvd.rank() // hvd.size()
    for line in sys.stdin:
        step_times_ms = []
        for _ in range(int(line)):
            started = time.perf_counter()
            batch = torch.randint(len(labels), (share,))
            optimizer.zero_grad()
            loss = cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            step_times_ms.append((time.perf_counter() - started) * 1000)
        print(json.dumps(step_times_ms), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
