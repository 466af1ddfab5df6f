"""A plain script, as TensorFlow's tutorial of MultiWorkerMirroredStrategy has it: what our worker is compared with.

TF_CONFIG=... plain_tensorflow.py MODEL DATASET.npz BATCH_SIZE     (each line of its input: how many steps to train)
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf

from ddlbench.workers.tensorflow.models import build


def main(name: str, dataset: str, batch_size: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring)
    )
    with np.load(dataset) as arrays:
        images = (arrays["train_images"] / 127.5 - 1).astype(np.float32)
        labels = arrays["train_labels"].astype(np.int64)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=1).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data.batch(batch_size)))
    with strategy.scope():
        model = build(name, images.shape[1:])
        optimizer = tf.keras.optimizers.SGD(0.01)

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.run(replica_step, batch)

    for line in sys.stdin:
        step_times_ms = []
        for _ in range(int(line)):
            started = time.perf_counter()
            step(next(batches))
            step_times_ms.append((time.perf_counter() - started) * 1000)
        print(json.dumps(step_times_ms), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
