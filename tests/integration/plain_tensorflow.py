"""Plain training in TensorFlow, as in `plain_torch`; and Keras' own VGG beside ours."""

import json
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.tensorflow.models import FROM_KERAS, build, dump, load


def zoo(images):
    """Outputs of Keras' own VGG-16 and of ours, given the same weights."""
    ours, theirs = (
        build("vgg16", (224, 224, 3)),
        keras.applications.VGG16(weights=None, classifier_activation=None),
    )
    load(ours, initial("vgg16", (224, 224, 3), seed=1))
    for variable, given in zip(theirs.trainable_variables, ours.trainable_variables, strict=True):
        weights = given.numpy()
        if weights.shape == (512 * 7 * 7, 4096):  # theirs flattens pixel by pixel
            weights = weights.reshape(512, 7, 7, 4096).transpose(1, 2, 0, 3).reshape(weights.shape)
        variable.assign(weights)
    return [model(images).numpy().tolist() for model in (ours, theirs)]


def step(model, optimizer):
    """A step of a model, as one graph."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return train


def read(batches, precision):
    """Images [n, h, w, c] and labels of each step."""
    arrays = np.load(batches)
    return zip(arrays["images"].astype(precision), arrays["labels"], strict=True)


def trained(name, shape, precision, learning_rate, batches):
    """The loss of each step, and the spread of each parameter after them."""
    keras.backend.clear_session()  # else each model before this one is still in memory
    keras.backend.set_floatx(precision)
    model = build(name, tuple(shape))
    load(model, initial(name, tuple(shape), seed=1))
    train = step(model, keras.optimizers.SGD(learning_rate))
    losses = [float(train(images, labels)) for images, labels in read(batches, precision)]
    return {"losses": losses, "spreads": [float(each.std()) for each in dump(model)]}


job = json.load(sys.stdin)
shapes = {}
for name, shape in job["build"].items():
    variables = build(name, tuple(shape)).trainable_variables
    shapes[name] = [[each.shape[axis] for axis in FROM_KERAS[each.shape.rank]] for each in variables]
outputs = {"vgg16": zoo(np.load(job["zoo"])["images"][0][:1])}
print(json.dumps({"shapes": shapes, "trained": [trained(*each) for each in job["train"]], "zoo": outputs}))
