"""A plain parameter server, as PyTorch's RPC tutorials have it: what ours and its workers are compared with.

MASTER_ADDR=... MASTER_PORT=... RANK=... WORLD_SIZE=... plain_parameter_server.py MODEL DATASET.npz BATCH_SIZE

Rank 0 is the server. Each line of a trainer's input is a number of steps.
"""

import json
import os
import sys
import threading
import time

import numpy as np
import torch
from torch.distributed import rpc
from torch.nn.functional import cross_entropy

from ddlbench.workers.torch.models import MODELS


class ParameterServer:
    def __init__(self, name: str, shape: tuple[int, int, int], trainers: int) -> None:
        self.model = MODELS[name](shape)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.trainers, self.there, self.lock = trainers, 0, threading.Lock()
        self.updated: torch.futures.Future = torch.futures.Future()
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(reference: rpc.RRef, gradients: list[torch.Tensor]) -> torch.futures.Future:
        self = reference.local_value()
        with self.lock:
            for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
                parameter.grad += gradient
            self.there += 1
            updated = self.updated
            if self.there == self.trainers:
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                self.there, self.updated = 0, torch.futures.Future()
                updated.set_result([parameter.detach() for parameter in self.model.parameters()])
        return updated


def train(name: str, dataset: str, batch_size: int, rank: int, trainers: int) -> None:
    torch.manual_seed(1)
    with np.load(dataset) as arrays:
        pixels = torch.from_numpy(arrays["train_images"]).permute(0, 3, 1, 2)
        images = pixels.clone(memory_format=torch.contiguous_format) / 127.5 - 1
        labels = torch.from_numpy(arrays["train_labels"].astype(np.int64))
    channels, height, width = images.shape[1:]
    shape = (height, width, channels)
    model = MODELS[name](shape)
    server = rpc.remote("server", shared_server, args=(name, shape, trainers))
    share = batch_size * rank // trainers - batch_size * (rank - 1) // trainers
    for line in sys.stdin:
        step_times_ms = []
        for _ in range(int(line)):
            started = time.perf_counter()
            batch = torch.randint(len(labels), (share,))
            model.zero_grad()
            (cross_entropy(model(images[batch]), labels[batch]) * share / batch_size).backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            fetched = rpc.rpc_sync(server.owner(), ParameterServer.update_and_fetch, args=(server, gradients))
            with torch.no_grad():
                for parameter, new in zip(model.parameters(), fetched, strict=True):
                    parameter.copy_(new)
            step_times_ms.append((time.perf_counter() - started) * 1000)
        print(json.dumps(step_times_ms), flush=True)


_server: list[ParameterServer] = []
_making = threading.Lock()


def shared_server(name: str, shape: tuple[int, int, int], trainers: int) -> ParameterServer:
    """The one server, made for whoever asks first."""
    with _making:
        if not _server:
            _server.append(ParameterServer(name, shape, trainers))
    return _server[0]


def main(name: str, dataset: str, batch_size: int) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # shared memory and reading another process's memory would go around the emulated links
    options = rpc.TensorPipeRpcBackendOptions(_transports=["uv"], _channels=["basic"], rpc_timeout=600)
    who = f"trainer{rank}" if rank else "server"
    rpc.init_rpc(who, rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank:
        train(name, dataset, batch_size, rank, world_size - 1)
    rpc.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
