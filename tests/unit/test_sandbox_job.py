"""How a job in a sandbox ends, for who has given it."""

import pytest

from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.network.link import Link
from ddlbench.sandbox import job


@pytest.mark.parametrize(("status", "kind"), [(1, DdlbenchError), (DiskFull.exit_code, DiskFull)])
def test_a_disk_that_got_full_in_a_sandbox_is_a_full_disk_outside_of_it_too(status, kind, monkeypatch):
    monkeypatch.setattr(job, "run_sandboxed", lambda *_, **__: status)
    with pytest.raises(DdlbenchError, match=f"the probe failed .exit status {status}.") as failure:
        job.answer_of("module", Link(1), Link)
    assert type(failure.value) is kind
