"""How the kernel is told which core receives."""

import pytest

from ddlbench.network.ports import core_mask


@pytest.mark.parametrize(
    ("core", "mask"),
    [(0, "1"), (31, "80000000"), (32, "1,00000000"), (70, "40,00000000,00000000")],
)
def test_a_core_beyond_the_32nd_is_written_as_the_kernel_reads_it(core, mask):
    assert core_mask(core) == mask
