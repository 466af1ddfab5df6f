"""How a core is named to the kernel's packet steering."""

import pytest

from ddlbench.network.steering import cpu_mask


@pytest.mark.parametrize(
    ("core", "mask"), [(0, "00000001"), (5, "00000020"), (31, "80000000"), (33, "00000002,00000000")]
)
def test_a_core_is_one_bit_of_words_of_32(core, mask):
    assert cpu_mask(core) == mask
