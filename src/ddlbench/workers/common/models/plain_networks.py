"""Deep networks without shortcuts, as data: AlexNet and the VGGs, as torchvision defines them."""

from ddlbench.workers.common.models.layers import (
    AdaptiveAveragePool,
    Conv,
    Dense,
    Describe,
    Dropout,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Shape,
    kept_std,
)


def alexnet(shape: Shape, classes: int) -> Layers:
    """Describe AlexNet in one column (Krizhevsky, arXiv:1404.5997).

    Args:
        shape: of an image, (height, width, channels); height and width are 63 pixels or more.
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 64, 11, stride=4, padding=2), ReLU(), MaxPool(3, 2)),
        *(Conv(64, 192, 5, padding=2), ReLU(), MaxPool(3, 2)),
        *(Conv(192, 384, 3, padding=1), ReLU()),
        *(Conv(384, 256, 3, padding=1), ReLU()),
        *(Conv(256, 256, 3, padding=1), ReLU(), MaxPool(3, 2)),
        *(AdaptiveAveragePool(6), Flatten()),
        *(Dropout(0.5), Dense(256 * 6 * 6, 4096), ReLU()),
        *(Dropout(0.5), Dense(4096, 4096), ReLU()),
        Dense(4096, classes),
    )


def vgg(stages: tuple[int, ...]) -> Describe:
    """Make a VGG (Simonyan and Zisserman, arXiv:1409.1556).

    Args:
        stages: how many 3x3 convolutions come before each of the five poolings.

    Returns:
        A function from an image's shape (height, width, channels) and the number of classes to the layers in order.
    """

    def describe(shape: Shape, classes: int) -> Layers:
        layers: list[Layer] = []
        inputs = shape[2]
        for convolutions, channels in zip(stages, (64, 128, 256, 512, 512), strict=True):
            for _ in range(convolutions):
                layers += [Conv(inputs, channels, 3, padding=1, std=kept_std(channels, 3)), ReLU()]
                inputs = channels
            layers.append(MaxPool(2, 2))
        return (
            *layers,
            *(AdaptiveAveragePool(7), Flatten()),
            *(Dense(512 * 7 * 7, 4096, std=0.01), ReLU(), Dropout(0.5)),
            *(Dense(4096, 4096, std=0.01), ReLU(), Dropout(0.5)),
            Dense(4096, classes, std=0.01),
        )

    return describe
