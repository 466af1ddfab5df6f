"""What a training step asks of the heap: a walk through the layers, forward and back, in the order of a framework.

What frameworks do differently is in `Habits`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ddlbench.workers.common.footprint.heap import Block, Heap
from ddlbench.workers.common.models.layers import (
    Concat,
    Conv,
    Dropout,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Shape,
    branches_of,
    height_width,
    output_shape,
    parameter_count,
)

FLOAT_BYTES = 4
_BLOCK = 16  # channels that oneDNN computes together; it fills up the last ones
_COLOURS = 3  # images with so few channels are read as they are


@dataclass(frozen=True)
class Habits:
    """How a framework uses memory.

    Attributes:
        pool_index_bytes: what a max pooling keeps for each output, to know which input was the largest.
        reorders: convolutions copy what they read and write into oneDNN's order, and back.
        pads: an image is copied with its margin before a convolution that has one and a stride.
    """

    pool_index_bytes: int = 0
    reorders: bool = False
    pads: bool = False


@dataclass(frozen=True)
class Done:
    """A layer that was computed: what its backward pass reads, and what each of its branches did."""

    layer: Layer
    saved: Sequence[Block]
    taken: Shape
    made: Shape
    branches: Sequence[Sequence["Done"]] = ()


class Step:
    """The training step of a model on a heap.

    Args:
        heap: of the process.
        habits: of its framework.
        images: of the batch.
    """

    def __init__(self, heap: Heap, habits: Habits, images: int) -> None:
        self.heap, self.habits, self.images = heap, habits, images
        self.gradients: list[Block] = []

    def run(self, layers: Layers, shape: Shape) -> None:
        """Make a step; gradients of parameters stay in `gradients`.

        Args:
            layers: of the model.
            shape: of its images, (height, width, channels).
        """
        outputs, logits, done = self.forward(layers, self.heap.new(self.bytes(shape)), shape)
        probabilities, gradient = (self.heap.new(self.bytes(logits)) for _ in range(2))
        self.heap.drop(outputs)
        self.heap.drop(probabilities, self.backward(done, gradient))

    def bytes(self, shape: Shape) -> int:
        """Find the size of an array that has such a shape for each image of the batch.

        Args:
            shape: for one image, (height, width, channels).

        Returns:
            Bytes, with float32 numbers.
        """
        return FLOAT_BYTES * self.images * math.prod(shape)

    def forward(self, layers: Layers, block: Block, shape: Shape) -> tuple[Block, Shape, list[Done]]:
        """Compute layers.

        Args:
            layers: of a model, or of a branch.
            block: what enters; it is dropped once it was read.
            shape: of what enters, for one image.

        Returns:
            What leaves, its shape, and what was done.
        """
        done: list[Done] = []
        for layer in layers:
            made = output_shape(layer, shape)
            if branches := branches_of(layer):
                passed = [self.forward(branch, self.heap.keep(block), shape) for branch in branches]
                result = self.heap.new(self.bytes(made))
                self.heap.drop(*(left for left, _, _ in passed), block)
                done.append(Done(layer, (), shape, made, [of_branch for _, _, of_branch in passed]))
                block, shape = result, made
            elif isinstance(layer, Flatten | Dropout):
                shape = made
            else:
                result, saved = self.compute(layer, block, shape, made)
                done.append(Done(layer, saved, shape, made))
                self.heap.drop(block)
                block, shape = result, made
        return block, shape, done

    def compute(self, layer: Layer, block: Block, taken: Shape, made: Shape) -> tuple[Block, list[Block]]:
        """Compute one layer.

        Args:
            layer: without branches.
            block: what it reads.
            taken: its shape, for one image.
            made: the shape of the output.

        Returns:
            The output, and what the backward pass will read.
        """
        heap, habits = self.heap, self.habits
        if isinstance(layer, ReLU):
            result = heap.new(self.bytes(made))
            return result, [heap.keep(result)]
        if isinstance(layer, Conv):
            read = heap.keep(block)
            if habits.pads and layer.padding and layer.stride > 1:
                heap.drop(read)
                above, beside = height_width(layer.padding)
                read = heap.new(self.bytes((taken[0] + 2 * above, taken[1] + 2 * beside, taken[2])))
            result = heap.new(self.bytes(made))
            self.reorder(taken, made)
            return result, [read]
        result = heap.new(self.bytes(made))
        if isinstance(layer, MaxPool):
            index = heap.new(habits.pool_index_bytes * self.bytes(made) // FLOAT_BYTES)
            return result, [heap.keep(block), index]
        return result, [heap.keep(block)]

    def backward(self, done: Sequence[Done], gradient: Block, *, is_first: bool = True) -> Block:
        """Go back through what was done.

        Args:
            done: by `forward`.
            gradient: of what left; it is dropped once it was read.
            is_first: nobody needs the gradient of what entered, which is the images.

        Returns:
            The gradient of what entered.
        """
        for place, each in reversed(list(enumerate(done))):
            if each.branches:
                gradient = self.join(each, gradient)
            else:
                gradient = self.differentiate(each, gradient, is_asked=place > 0 or not is_first)
        return gradient

    def join(self, done: Done, gradient: Block) -> Block:
        """Go back through branches, and sum up what they want of their common input.

        Args:
            done: the layer that has them.
            gradient: of its output; it is dropped once it was read.

        Returns:
            The gradient of its input.
        """
        heap = self.heap
        if isinstance(done.layer, Concat):  # each branch has a part of it
            parts = [heap.new(self.bytes(branch[-1].made)) for branch in done.branches]
            heap.drop(gradient)
        else:
            parts = [gradient, *(heap.keep(gradient) for _ in done.branches[1:])]
        wanted = [
            self.backward(branch, part, is_first=False)
            for branch, part in reversed(list(zip(done.branches, parts, strict=True)))
        ]
        if all(done.branches):
            result, *others = wanted  # the sum takes the place of one of them
        else:
            result, others = heap.new(self.bytes(done.taken)), wanted
        heap.drop(*others)
        return result

    def differentiate(self, done: Done, gradient: Block, *, is_asked: bool) -> Block:
        """Go back through one layer.

        Args:
            done: the layer.
            gradient: of its output.
            is_asked: whether the gradient of its input is needed.

        Returns:
            The gradient of its input; a block of no size where it is not needed.
        """
        heap = self.heap
        result = heap.new(self.bytes(done.taken) if is_asked else 0)
        is_convolution = isinstance(done.layer, Conv)
        if is_convolution and is_asked:
            self.reorder(done.taken, done.made)
        if count := parameter_count(done.layer):
            self.gradients.append(heap.new(FLOAT_BYTES * count))
        if is_convolution:
            self.reorder(done.taken, done.made)
        heap.drop(gradient, *done.saved)
        return result

    def reorder(self, taken: Shape, made: Shape) -> None:
        """Allocate what a convolution copies, and free it.

        Args:
            taken: the shape of what it reads, for one image.
            made: the shape of its output.
        """
        if self.habits.reorders:
            copied = [shape for shape in (taken, made) if shape[2] > _COLOURS]
            self.heap.drop(*[self.heap.new(self.bytes(_blocked(shape))) for shape in copied])


def _blocked(shape: Shape) -> Shape:
    return shape[0], shape[1], -(-shape[2] // _BLOCK) * _BLOCK
