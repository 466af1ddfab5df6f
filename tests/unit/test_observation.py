"""The recommender's numbers for Prometheus."""

from ddlbench.recommender.middleware.observation import Measurements, for_prometheus


def test_a_table_that_is_deleted_is_gone_from_the_numbers_too(tmp_path):
    assert b'ddlbench_measurements{table="theirs"} 3.0' in for_prometheus(
        tmp_path, Measurements({"theirs": 3})
    )
    assert b'table="theirs"' not in for_prometheus(tmp_path, Measurements({"here": 2}))
