"""What ps-lite is told by environment variables."""

import sys

import pytest

from ddlbench.launch.roles import cluster, members
from ddlbench.workers.mxnet.parameter_server import variables
from tests.support.assignments import assignment

ADDRESSES = ["10.66.0.1", "10.66.0.2", "10.66.0.3"]
GROUP = members("mxnet", "parameter_server_sync", 2, 3)


def told(rank: int) -> dict[str, str]:
    member = GROUP[rank]
    return variables(
        assignment(
            rank,
            world_size=2,
            role=member.role,
            index=member.index,
            address=ADDRESSES[member.host],
            cluster=cluster(GROUP, ADDRESSES),
            strategy="parameter_server_sync",
        )
    )


@pytest.mark.parametrize("rank", range(4))
def test_everybody_finds_the_scheduler_and_knows_how_many_there_are(rank):
    common = {"DMLC_PS_ROOT_URI": "10.66.0.3", "DMLC_PS_ROOT_PORT": "29500"}
    common |= {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1"}
    assert common.items() <= told(rank).items()


def test_everybody_has_a_role_and_a_port_at_its_own_address():
    assert [(each["DMLC_ROLE"], each["DMLC_NODE_HOST"], each["PORT"]) for each in map(told, range(4))] == [
        ("worker", "10.66.0.1", "29500"),
        ("worker", "10.66.0.2", "29500"),
        ("scheduler", "10.66.0.3", "29500"),
        ("server", "10.66.0.3", "29501"),
    ]


def test_mxnet_is_not_needed_to_know_them():
    assert "mxnet" not in sys.modules
