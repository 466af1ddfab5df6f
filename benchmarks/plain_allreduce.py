"""Ranks that sum up an array without end, as torchrun starts them: what ends when one of them is killed.

torchrun ... plain_allreduce.py FOLDER     (each rank leaves a file in it after its first sum)
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    array = torch.ones(1_000_000)
    dist.all_reduce(array)
    Path(folder, str(dist.get_rank())).touch()
    while True:
        dist.all_reduce(array)


if __name__ == "__main__":
    main(sys.argv[1])
