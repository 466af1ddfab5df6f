"""A plain DDP script, as PyTorch's tutorial has it: what ddlbench's worker and sweep are compared with.

torchrun ... plain_ddp.py MODEL DATASET.npz BATCH_SIZE     (each line of its input is a number of steps to train)
"""

import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ddlbench.workers.torch.models import MODELS


def main(name: str, dataset: str, batch_size: int) -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    with np.load(dataset) as arrays:
        # clone lays images out as a DataLoader does; contiguous() would leave one channel "last", by accident
        pixels = torch.from_numpy(arrays["train_images"]).permute(0, 3, 1, 2)
        images = pixels.clone(memory_format=torch.contiguous_format) / 127.5 - 1
        labels = torch.from_numpy(arrays["train_labels"].astype(np.int64))
    channels, height, width = images.shape[1:]
    model = DistributedDataParallel(MODELS[name]((height, width, channels)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    share = batch_size * (rank + 1) // workers - batch_size * rank // workers
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
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
