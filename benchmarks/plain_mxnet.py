"""A plain Gluon script, as MXNet's tutorial on distributed training has it: what our MXNet workers are compared with.

DMLC_ROLE=worker ... plain_mxnet.py MODEL DATASET.npz BATCH_SIZE   (each line of its input is a number of steps)

With another DMLC_ROLE it becomes MXNet's scheduler or server when it imports MXNet, and goes no further.
"""

import json
import os
import sys
import time

import mxnet as mx
import numpy as np

from ddlbench.workers.mxnet.models import build


def main(name: str, dataset: str, batch_size: int) -> None:
    store = mx.kv.create("dist_sync")
    mx.random.seed(1)
    with np.load(dataset) as arrays:
        pixels = np.ascontiguousarray(arrays["train_images"].transpose(0, 3, 1, 2))
        images, labels = pixels.astype(np.float32) / 127.5 - 1, arrays["train_labels"].astype(np.float32)
    channels, height, width = images.shape[1:]
    network = build(name, (height, width, channels))
    network.initialize(mx.init.Xavier(), force_reinit=True)
    network.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore=store)
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    rank, workers = int(os.environ["RANK"]), store.num_workers
    share = batch_size * (rank + 1) // workers - batch_size * rank // workers
    for line in sys.stdin:
        step_times_ms = []
        for _ in range(int(line)):
            started = time.perf_counter()
            batch = np.random.randint(len(labels), size=share)
            with mx.autograd.record():
                loss = cross_entropy(network(mx.nd.array(images[batch])), mx.nd.array(labels[batch]))
            loss.backward()
            trainer.step(batch_size)
            mx.nd.waitall()
            step_times_ms.append((time.perf_counter() - started) * 1000)
        print(json.dumps(step_times_ms), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
