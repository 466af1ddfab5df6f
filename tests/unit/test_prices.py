"""The prices of machines, and what is said of them."""

import datetime
import re
from pathlib import Path

import pytest
from prediction_samples import cell

from ddlbench.errors import ConfigError
from ddlbench.prediction.choice import Goal
from ddlbench.prediction.prices import read_prices
from ddlbench.recommender.inquiry import countable
from tests.support.repository import REPOSITORY


def test_each_price_has_a_link_and_a_date_and_is_said_to_be_old_after_half_a_year():
    for price in read_prices(REPOSITORY / "config/prices.yaml", REPOSITORY).values():
        assert price.source.startswith("https://")
        day = datetime.date.fromisoformat(price.date)
        assert price.warning(day) is None
        assert price.date in price.warning(day + datetime.timedelta(days=181))


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"vcpus": 1.0}, ["t2.large has 2 vCPUs, and the times are of hosts with 1"]),
        ({"vcpus": 2.0}, []),
        ({"vcpus": None}, []),
        ({"devices": "K80"}, ["the times are of K80; t2.large may not have it"]),
    ],
)
def test_the_price_of_another_machine_than_was_measured_is_doubted(changes, doubt):
    price = read_prices(REPOSITORY / "config/prices.yaml", REPOSITORY)["t2.large"]
    day = datetime.date.fromisoformat(price.date)
    assert countable(Goal(price=price), "step", cell(**changes), day)[1] == doubt


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hourly", "-1", "expected a number"),
        ("date", "soon", "expected one like"),
        ("hurly", "1", "did you mean 'hourly'"),
    ],
)
def test_a_price_that_is_written_wrong_is_named(tmp_path, key, value, message):
    entry = {"hourly": 1, "gigabyte": 0, "currency": "EUR", "vcpus": 1, "memory_gb": 1, "where": "here"}
    entry |= {"source": "us", "date": "2026-06-17", key: value}
    path = tmp_path / "prices.yaml"
    path.write_text("ours:\n" + "".join(f"  {name}: {each}\n" for name, each in entry.items()))
    with pytest.raises(ConfigError, match=message):
        read_prices(path, Path(tmp_path))


def test_a_date_may_be_written_as_a_number(tmp_path):
    text = (REPOSITORY / "config/prices.yaml").read_text()
    (tmp_path / "prices.yaml").write_text(re.sub(r"date: .*", "date: 20260617", text))
    prices = read_prices(tmp_path / "prices.yaml", tmp_path).values()
    assert all("20260617" in price.warning(datetime.date(2027, 6, 17)) for price in prices)
