"""What workers run in: an environment or image and its engine, as their files describe them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OF_A_RECORD = (
    "name",
    "runtime",
    "sha256",
    "python_version",
    "packages",
    "image",
    "image_id",
    "sif_sha256",
    "engine",
)


@dataclass(frozen=True)
class Engine:
    """A container runtime of this machine: Docker or Podman by its address, Apptainer by its program.

    Attributes:
        name: `docker`, `podman` or `apptainer`.
        storage: the storage driver of Docker or Podman.
        rootless: the engine is a user's own, without root.
        address: of Docker's or Podman's socket.
        program: the path of Apptainer's program.
        unpacked: this user cannot mount a SIF, whose files are therefore unpacked beside it.
    """

    name: str
    version: str
    storage: str | None = None
    rootless: bool = False
    address: str = ""
    program: str = ""
    unpacked: bool = False


@dataclass(frozen=True)
class RuntimeEnvironment:
    """A framework's environment: a virtual environment, or the same in an image.

    Attributes:
        runtime: `bare`, `docker` or `apptainer`.
        python: the path of its interpreter.
        sha256: stands for everything in it that may change a measurement.
        image: the image's name, and `image_id` in the engine.
        sif: the path of a SIF.
    """

    python: str
    name: str = ""
    runtime: str = "bare"
    sha256: str = ""
    python_version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    image_id: str | None = None
    sif: str | None = None
    sif_sha256: str | None = None
    engine: Engine | None = None
