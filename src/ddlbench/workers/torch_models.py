"""The models of the studies in PyTorch. `MODELS` maps a model's name to how it is made for an image shape (h, w, c)."""

from collections.abc import Callable

from torch import nn

Shape = tuple[int, int, int]


def mlp(shape: Shape) -> nn.Module:
    """Fully connected, 784-128-64-10 on 28x28x1 (zhao2016; MXNet's example network for MNIST)."""
    height, width, channels = shape
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(height * width * channels, 128), nn.ReLU()),
        *(nn.Linear(128, 64), nn.ReLU()),
        nn.Linear(64, 10),
    )


def conv1(shape: Shape) -> nn.Module:
    """LeNet-5's first convolution and its dense layers: one convolution, more weights than conv2 (zhao2016)."""
    return nn.Sequential(
        nn.ZeroPad2d(2),  # 28x28 becomes LeNet's 32x32
        *(nn.Conv2d(shape[2], 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(6 * 14 * 14, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, 10),
    )


def conv2(shape: Shape) -> nn.Module:
    """LeNet-5: C1 6@5x5, S2, C3 16@5x5, S4, dense (zhao2016, section III.B)."""
    return nn.Sequential(
        nn.ZeroPad2d(2),
        *(nn.Conv2d(shape[2], 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(400, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, 10),
    )


def cnn(shape: Shape) -> nn.Module:
    """Two convolutions with max-pooling, flattened to 800, dense 500, dense 10 (pani2020, section III.B)."""
    return nn.Sequential(
        *(nn.Conv2d(shape[2], 20, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(800, 500), nn.ReLU()),
        nn.Linear(500, 10),
    )


def keras_sequential(shape: Shape) -> nn.Module:
    """Three 3x3 convolutions of 32, 64 and 64 filters: 56,320 parameters on 32x32x3 (anwar2021, section 6.1).

    The average over what is left of the image and ten outputs add 650; on 28x28x1 it has 56,394 in all.
    """
    return nn.Sequential(
        *(nn.Conv2d(shape[2], 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 64, 3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(64, 10),
    )


MODELS: dict[str, Callable[[Shape], nn.Module]] = {
    "mlp": mlp,
    "conv1": conv1,
    "conv2": conv2,
    "cnn": cnn,
    "keras_sequential": keras_sequential,
}
