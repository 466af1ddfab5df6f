"""What a member of a worker group is told, where a test says little of it."""

from typing import Any

from ddlbench.protocol.messages import Assignment


def assignment(rank: int, world_size: int, **others: Any) -> Assignment:
    """That of a worker on a CPU with one thread, but for what `others` say."""
    usual: dict[str, Any] = {
        "role": "worker",
        "index": rank,
        "threads": 1,
        "address": "127.0.0.1",
        "cluster": {},
        "rendezvous": "",
        "timeout_s": 60.0,
        "devices": "cpu",
        "dilation": 1.0,
        "strategy": "",
        "datasets": {},
    }
    return Assignment(rank=rank, world_size=world_size, **usual | others)
