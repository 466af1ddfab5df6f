"""Which locked requirements have a framework's CPU build alone, so that no worker of theirs can use a GPU."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ddlbench.errors import ConfigError

_CPU_BUILDS = {  # environment -> the pin of its framework's CPU build
    "torch": re.compile(r"^torch==\S*\+cpu\b", re.MULTILINE),
    "tensorflow": re.compile(r"^tensorflow-cpu==", re.MULTILINE),
    "mxnet": re.compile(r"^mxnet==", re.MULTILINE),
}


def check_gpu_builds(on_gpus: Iterable[str], requirements: Mapping[str, Path]) -> None:
    """Check that environments whose workers are to compute on GPUs have a build for them.

    Args:
        on_gpus: the environments' names.
        requirements: the locked requirements of each.

    Raises:
        ConfigError: one has the CPU build; names what to write into the configuration.
    """
    for name in sorted(set(on_gpus)):
        file = requirements[name]
        cpu_build = _CPU_BUILDS.get(name)
        if cpu_build and (found := cpu_build.search(file.read_text())):
            pin = file.read_text()[found.start() :].split()[0]
            raise ConfigError(
                f"devices: gpu needs a build for CUDA, and {file} has {pin}, which is not. In the configuration:\n"
                f"  environments: {{{name}: {{requirements: containers/{name}/requirements-cuda.txt}}}}"
            )
