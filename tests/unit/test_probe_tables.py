"""Tables of probes say what was measured, which may be another dilation than was asked for."""

import json

import pandas
import pytest

from ddlbench.plan import PointToPoint, load
from ddlbench.probes import probe_tables
from ddlbench.probes.collective_probe import PINGPONG, Found
from tests.support.repository import REPOSITORY


@pytest.mark.parametrize("dilation", [1.0, 2.0])
def test_messages_of_hosts_that_share_a_core_are_said_to_have_its_dilation(tmp_path, monkeypatch, dilation):
    plan = load(REPOSITORY / "config/config.yaml", REPOSITORY)
    found = Found({(PINGPONG, 64): [1e-5, 1.1e-5]}, {}, None, "netem", dilation, None)
    monkeypatch.setattr(probe_tables, "probe_messages", lambda link, **_: found)
    monkeypatch.setattr(probe_tables, "die_with_parent", lambda: None)
    (tmp_path / "Snakefile").touch()
    environment, table, netpipe = (tmp_path / name for name in ("torch.json", "a.csv", "a.np.out"))
    environment.write_text(json.dumps({"python": "/usr/bin/python3"}))
    probe_tables.write_point_to_point(
        plan,
        PointToPoint(next(iter(plan.links)), 1.0, "gloo"),
        [str(table), str(netpipe)],
        environment=environment,
        logs=tmp_path,
    )
    assert list(pandas.read_csv(table)["dilation"]) == [dilation]
    assert json.loads((tmp_path / "a.csv.prov.json").read_text())["parameters"]["dilation"] == dilation
