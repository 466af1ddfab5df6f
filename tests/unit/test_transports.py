"""Transports: how their programs are called, what they say, and what is said where one is not there."""

import pytest

from ddlbench.network.hca import Port
from ddlbench.probes import perftest, ucx
from ddlbench.probes.transports import transports, verbs

# As ucx_perftest 1.13.1 has said it, between two emulated hosts (100 Mbit/s, 5 ms).
UCX_LATENCY = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
   6,110574.547,inf,110023.757,0.00,9.09,0,9
"""
UCX_STREAM = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
   6,6.954,90951.324,90951.324,10.99,10.99,11,11
"""
# As `ucx_info -d` has said it, shortened.
UCX_INFO = """\
# Memory domain: self
#      Transport: self
#         Device: memory0
#           Type: loopback
#  System device: <unknown>
# Memory domain: tcp
#      Transport: tcp
#         Device: lo
#           Type: network
#      Transport: tcp
#         Device: eth0
#           Type: network
#      Transport: sysv
#         Device: memory
#           Type: intra-node
"""
# perftest's documented format, filled in by hand: no machine at hand has an RDMA device.
IB_SEND_LAT = """\
---------------------------------------------------------------------------------------
                    Send Latency Test
 Dual-port       : OFF		Device         : mlx5_0
 remote address: LID 0x02 QPN 0x0087 PSN 0x1a2b3c
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       1000          0.77           3.15         0.80  	       0.81     	0.05		0.94 		3.15   
 8388608 1000          690.11         702.30       691.25  	       691.30     	0.90		693.00 		702.30 
---------------------------------------------------------------------------------------
"""  # noqa: E501, W291
IB_WRITE_BW = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 2          5000           0.064              0.062		   3.896310
 65536      5000             97.01              96.98  		   0.184980
---------------------------------------------------------------------------------------
"""


def port(state, device="mlx5_0"):
    return Port(device, 1, "InfiniBand", 100.0, state, ("ib0",))


def test_how_ucx_is_called():
    assert ucx.server_argv(13337) == ["ucx_perftest", "-p", "13337"]
    found = ucx.client_argv("10.66.0.2", 13337, test=ucx.LATENCY, size_bytes=4096, iterations=50)
    assert " ".join(found) == "ucx_perftest 10.66.0.2 -p 13337 -t tag_lat -s 4096 -n 50 -w 5 -f -v"
    assert ucx.variables("rc", "mlx5_0:1") == {"UCX_TLS": "rc", "UCX_NET_DEVICES": "mlx5_0:1"}


def test_what_ucx_says():
    assert ucx.one_way_s(UCX_LATENCY) == pytest.approx(0.110574547)
    assert ucx.throughput_mbit(UCX_STREAM) == pytest.approx(92.19, abs=0.01)  # of MiB/s
    assert ucx.devices(UCX_INFO) == ["tcp/lo", "tcp/eth0"]


@pytest.mark.parametrize("text", ["", "[1795279653.369836] UCX  ERROR Failed to run test: No such device"])
def test_what_is_no_report_of_ucx_is_refused(text):
    with pytest.raises(ValueError, match=r"said nothing of 50\.0_percentile_lat"):
        ucx.one_way_s(text)


def test_how_perftest_is_called():
    options = {"rdma_port": "mlx5_0:2", "iterations": 1000}
    server = perftest.server_argv(perftest.LATENCY, 18515, **options)
    assert " ".join(server) == "ib_send_lat -d mlx5_0 -i 2 -p 18515 -n 1000 -a -F"
    client = perftest.client_argv(perftest.BANDWIDTH, 18515, "192.0.2.7", **options)
    assert " ".join(client) == "ib_write_bw -d mlx5_0 -i 2 -p 18515 -n 1000 -a -F --report_gbits 192.0.2.7"


def test_what_perftest_says_in_its_documented_format():
    assert perftest.one_way_s(IB_SEND_LAT) == {
        2: [pytest.approx(0.80e-6)],
        8388608: [pytest.approx(691.25e-6)],
    }
    assert perftest.throughput_mbit(IB_WRITE_BW) == {2: [pytest.approx(62)], 65536: [pytest.approx(96980)]}


@pytest.mark.parametrize("read", [perftest.one_way_s, perftest.throughput_mbit])
def test_what_is_no_report_of_perftest_is_refused(read):
    with pytest.raises(ValueError, match="Unable to find the Infiniband/RoCE device"):
        read(" Did not detect devices \n Unable to find the Infiniband/RoCE device\n")


def test_bandwidth_in_other_units_is_not_mistaken():
    with pytest.raises(ValueError, match="there is no BW average"):
        perftest.throughput_mbit(IB_WRITE_BW.replace("Gb/sec", "MB/sec"))


@pytest.mark.parametrize(
    ("rdma", "missing", "reason"),
    [
        ([], [], "no RDMA device (SYS/class/infiniband is not there: the kernel has no RDMA driver loaded)"),
        ([port("DOWN")], [], "no active RDMA port (mlx5_0:1 is DOWN)"),
        (
            [port("ACTIVE")],
            ["ib_write_bw"],
            "ib_write_bw is not installed (on Debian: apt-get install perftest)",
        ),
    ],
)
def test_why_there_is_no_rdma_is_said_in_words(tmp_path, rdma, missing, reason):
    found = verbs(rdma, missing, tmp_path)
    assert not found.available
    assert found.devices == ()
    assert found.reason == reason.replace("SYS", str(tmp_path))


def test_rdma_is_measured_over_the_active_ports():
    found = verbs([port("ACTIVE"), port("DOWN", "mlx5_1")], [])
    assert found == ("verbs", True, ("mlx5_0:1",), None)


def test_a_program_that_is_not_installed_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    reasons = {each.name: each.reason for each in transports(tmp_path)}
    assert (
        reasons["ucx"] == "ucx_perftest and ucx_info are not installed (on Debian: apt-get install ucx-utils)"
    )
    assert (
        "ib_send_lat and ib_write_bw are not installed (on Debian: apt-get install perftest)"
        in reasons["verbs"]
    )
    assert "no RDMA device" in reasons["verbs"]
