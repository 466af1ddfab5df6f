"""A plain script, as Horovod's example for TensorFlow 2 has it: what our worker with both is compared with.

HOROVOD_RANK=... plain_horovod_tensorflow.py MODEL DATASET.npz BATCH_SIZE     (each line of its input: how many steps)
"""

import json
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ddlbench.workers.tensorflow.models import build


def main(name: str, dataset: str, batch_size: int) -> None:
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    with np.load(dataset) as arrays:
        images = (arrays["train_images"] / 127.5 - 1).astype(np.float32)
        labels = arrays["train_labels"].astype(np.int64)
    share = batch_size * (hvd.rank() + 1) // hvd.size() - batch_size * hvd.rank() // hvd.size()
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=hvd.rank())
    batches = iter(data.repeat().batch(share))
    model = build(name, images.shape[1:])
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(model.variables, root_rank=0)
    hvd.broadcast_variables(optimizer.variables, root_rank=0)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for line in sys.stdin:
        step_times_ms = []
        for _ in range(int(line)):
            started = time.perf_counter()
            step(*next(batches))
            step_times_ms.append((time.perf_counter() - started) * 1000)
        print(json.dumps(step_times_ms), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
