"""Images: all of them from nothing, again with nothing changed, and the size of each SIF against its image's.

Nothing means an engine without images, no environment, and nothing of pip's and no wheel of Horovod's in the caches.
What is fetched comes from where this machine is configured to fetch from, and counts.
"""

import json
import os
import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import docker

from benchmarks.common import ROOT, benchmark, options, repository, row, save, say, snakemake_s
from ddlbench.configuration.yaml_file import read_yaml
from tests.support.docker_engine import docker_engine

FROM_NOTHING_S = 30 * 60.0
UNCHANGED_S = 5.0
SIF_RATIO = 1.1
TIMEOUT_S = 2 * 3600.0


def main(arguments: Sequence[str]) -> None:
    options(__doc__, arguments)
    config = read_yaml(ROOT / "config" / "config.yaml", ROOT)
    load_before = os.getloadavg()
    with TemporaryDirectory(prefix="ddlbench-") as caches, docker_engine() as address:
        os.environ |= {"XDG_CACHE_HOME": caches, "DOCKER_HOST": address}
        with repository(config=config) as folder:
            shutil.rmtree(folder / ".environments", ignore_errors=True)
            command = ["--quiet", "rules", "progress", "--cores", "all", "all_images"]
            took_s = snakemake_s(folder, *command, timeout_s=TIMEOUT_S, quiet=False)
            say(f"from nothing: {took_s:.0f} s")
            unchanged_s = sorted(snakemake_s(folder, *command, timeout_s=TIMEOUT_S) for _ in range(3))
            say(f"nothing changed: {unchanged_s[1]:.1f} s")
            sizes = dict(_sizes(folder, docker.DockerClient(address, timeout=600)))
    ratios = {name: sif / image for name, (sif, image) in sizes.items()}
    worst = max(ratios, key=ratios.__getitem__)
    cores = len(os.sched_getaffinity(0))
    rows = [
        row(
            f"images: all {len(sizes)} for Docker and Apptainer from nothing, {cores} cores",
            at_least=f"under {FROM_NOTHING_S / 60:g} minutes",
            measured=f"{took_s / 60:.1f} minutes",
            peer="",
            met=took_s < FROM_NOTHING_S,
        ),
        row(
            "images: `all_images` with nothing changed",
            at_least=f"under {UNCHANGED_S:g} s",
            measured=f"{unchanged_s[1]:.1f} s ({unchanged_s[0]:.1f} to {unchanged_s[2]:.1f})",
            peer="",
            met=unchanged_s[1] < UNCHANGED_S,
        ),
        row(
            "images: size of a SIF",
            at_least=f"at most {SIF_RATIO} times",
            measured=f"{ratios[worst]:.3f} ({min(ratios.values()):.3f} to {ratios[worst]:.3f}): {worst}, the worst",
            peer="the same image, saved by Docker and compressed by gzip",
            met=ratios[worst] <= SIF_RATIO,
        ),
    ]
    details = {"took_s": took_s, "unchanged_s": unchanged_s, "bytes": sizes}
    save("images", rows, {**details, "load_average": {"before": load_before, "after": os.getloadavg()}})


def _sizes(folder: Path, client: docker.DockerClient) -> Iterable[tuple[str, tuple[int, int]]]:
    """Of each framework: bytes of the SIF, and of the image that it was made of, compressed."""
    for stamp in sorted((folder / ".images").glob("*/apptainer.json")):
        described = json.loads(stamp.read_text())
        compressor = zlib.compressobj(level=6, wbits=31)
        chunks = client.images.get(described["image_id"]).save()
        compressed = sum(len(compressor.compress(chunk)) for chunk in chunks) + len(compressor.flush())
        yield described["name"], (described["size_bytes"], compressed)


if __name__ == "__main__":
    benchmark(main)
