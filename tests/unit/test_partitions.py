"""What a SLURM cluster has, read from sinfo, and what it is never asked for."""

import pytest

from ddlbench.cluster.partitions import Request, check_requests, has, parsed, refusal
from ddlbench.errors import ConfigError

TOLD = """\
main*|node1|idle|gpu:1|2|8000|infinite|up|ib,hdr
main*|node2|allocated|gpu:1|2|8000|infinite|up|ib,hdr
main*|node3|drained|gpu:1|2|8000|infinite|up|ib,hdr
gpu|a1|mixed|gpu:a100:4(S:0-1),nvme:1|64+|512000+|1-12:00:00|up|(null)
night|node1|idle|(null)|2|8000|10:00|down|(null)
"""
KNOWN = parsed(TOLD)


def test_partitions_are_what_sinfo_says():
    main, gpu, night = KNOWN
    assert (main.name, main.is_default, main.limit_min, len(main.nodes)) == ("main", True, None, 3)
    assert (gpu.limit_min, gpu.nodes[0].cpus, gpu.nodes[0].memory_mb) == (36 * 60, 64, 512000)
    assert (night.is_up, night.limit_min) == (False, 10)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request("job", "mian"), "there is no partition 'mian' (did you mean 'main'?)"),
        (Request("job", "night"), "partition 'night' is down"),
        (Request("job", "night,gpu"), None),
        (
            Request("job", "night,mian"),
            "partition 'night' is down; there is no partition 'mian' (did you mean 'main'?)",
        ),
        (
            Request("job", None, nodes=3),
            "partition 'main' has 2 nodes, and 3 are asked for (1 of its 3 nodes are down or drained)",
        ),
        (Request("job", "gpu", gres="gpu:8"), "partition 'gpu' has 0 nodes with gpu:8, and 1 are asked for"),
        (
            Request("job", "gpu", gres="gpu:h100:1"),
            "partition 'gpu' has 0 nodes with gpu:h100:1, and 1 are asked for",
        ),
        (
            Request("job", "gpu", cpus=65),
            "partition 'gpu' has 0 nodes with 65 processors, and 1 are asked for",
        ),
        (
            Request("job", "gpu", memory_mb=600000),
            "partition 'gpu' has 0 nodes with 600000 MB, and 1 are asked for",
        ),
        (Request("job", "gpu", runtime_min=2161), "2161 minutes are more than partition 'gpu' allows, 2160"),
        (Request("job", "gpu", gres="gpu:a100:4", cpus=64, runtime_min=2160), None),
        (Request("job", None, nodes=2, gres="gpu:1"), None),
        (
            Request("job", "main", constraint="ibb"),
            "no node of partition 'main' has the feature 'ibb' (constraint) (did you mean 'ib'?)",
        ),
        (
            Request("job", "main", constraint="ib&edr"),
            "no node of partition 'main' has the feature 'edr' (constraint) (did you mean 'hdr'?)",
        ),
        (
            Request("job", "main", constraint="[ibb*2|edr]"),
            "no node of partition 'main' has the feature 'ibb' (constraint) (did you mean 'ib'?)",
        ),
        (Request("job", "main", constraint="[ib*2|edr]"), None),
        (
            Request("job", "main", extra="--nice=9", must_be_alone=True),
            "its slurm_extra '--nice=9' lacks --exclusive: others on its nodes would disturb what it measures",
        ),
        (Request("job", "main", extra="--nice=9 --exclusive", must_be_alone=True), None),
        (Request("job", "main", extra="--nice=9"), None),
        (Request("job", "main", constraint="'ib&hdr'"), None),
    ],
)
def test_what_a_cluster_can_never_grant_is_refused_with_what_it_has(request_, why):
    assert refusal(request_, KNOWN) == why


def test_all_requests_are_refused_at_once_beside_what_there_is():
    with pytest.raises(ConfigError) as refused:
        check_requests(
            [Request("one", "x"), Request("two", "main", nodes=9), Request("three", "main")], KNOWN
        )
    told = str(refused.value)
    assert "one: there is no partition 'x'" in told
    assert "two: partition 'main' has 2 nodes" in told
    assert "three" not in told
    assert "main (default): 3 nodes, each 2 processors, 8000 MB, gpu:1; no time limit" in told


def test_gpus_of_any_model_are_counted_together():
    assert has("gpu:a100:2,gpu:v100:2", "gpu:4")
    assert not has("gpu:a100:2,gpu:v100:2", "gpu:a100:4")
    assert not has("(null)", "gpu")
