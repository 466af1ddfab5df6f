"""Plain training in MXNet, as in `plain_torch`; and Gluon's own AlexNet, ResNet-18 and Inception V3 beside ours."""

import json
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision

from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.mxnet.models import build, dump, load, trained_parameters


def zoo(name, theirs, images, mode):
    """Outputs of Gluon's own model and of ours, given the same weights."""
    _, channels, height, width = images.shape
    shape = height, width, channels
    ours = build(name, shape)
    theirs.initialize()
    theirs(images)  # only now it knows its sizes
    for model in (ours, theirs):
        load(model, initial(name, shape, seed=1))
    with mode():
        return [model(images).asnumpy().tolist() for model in (ours, theirs)]


def read(batches, precision):
    """Images [n, h, w, c] and labels of each step."""
    arrays = np.load(batches)
    return zip(arrays["images"].astype(precision), arrays["labels"], strict=True)


def trained(name, shape, precision, learning_rate, batches):
    """The loss of each step, and the spread of each parameter after them."""
    model, losses = build(name, tuple(shape)), []
    load(model, initial(name, tuple(shape), seed=1))
    model.cast(precision)
    model.hybridize(static_alloc=True)
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": learning_rate})
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    for images, labels in read(batches, precision):
        with autograd.record():
            outputs = model(mx.nd.array(images.transpose(0, 3, 1, 2), dtype=precision))
            loss = cross_entropy(outputs, mx.nd.array(labels, dtype=precision))
        loss.backward()
        trainer.step(len(labels))
        losses.append(float(loss.mean().asscalar()))
    return {"losses": losses, "spreads": [float(each.std()) for each in dump(model)]}


job = json.load(sys.stdin)
shapes = {}
for name, shape in job["build"].items():
    shapes[name] = [list(parameter.shape) for parameter in trained_parameters(build(name, tuple(shape)))]
steps = [trained(*each) for each in job["train"]]
images = mx.nd.array(np.load(job["zoo"])["images"][0][:2].transpose(0, 3, 1, 2))
larger = mx.nd.pad(images, "reflect", pad_width=(0, 0, 0, 0, 0, 75, 0, 75))  # to 299x299
outputs = {
    "resnet18": zoo("resnet18", vision.resnet18_v1(), images, autograd.train_mode),
    "alexnet": zoo("alexnet", vision.alexnet(), images, autograd.predict_mode),  # without its dropout
    "inception_v3": zoo("inception_v3", vision.inception_v3(), larger, autograd.predict_mode),  # as well
}
print(json.dumps({"shapes": shapes, "trained": steps, "zoo": outputs}))
