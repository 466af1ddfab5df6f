"""The fingerprint: one hash of everything that determines a measurement, computed from a plan or from a record."""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from ddlbench.files import sha256_json
from ddlbench.measurements.record import Record

MEASURE_KEYS = ("warmup_steps", "min_steps", "max_steps", "step_budget_s")


def fingerprint(
    point: Mapping[str, Any],
    *,
    measure: Mapping[str, Any],
    dilation: float | None,
    environment_sha256: str,
    code_sha256: str,
    dataset_sha256: str,
    machine: Mapping[str, Any],
    gpus: Sequence[str] = (),
) -> str:
    """Hash everything that determines a measurement: a point with the same fingerprint is not measured again.

    400 and 400.0 are the same value.

    Args:
        point: a point of the plan.
        measure: the configuration's section. Only MEASURE_KEYS count; how often to repeat does not.
        dilation: the factor of time dilation that was planned; None if it was to be chosen by measurement.
        environment_sha256: of the framework's locked environment.
        code_sha256: of the code that decides a measurement.
        dataset_sha256: of the data set's files.
        machine: facts of the node. Only cpu_model and cores count.
        gpus: the GPUs that compute, in words. Empty: the fingerprint is the same as before GPUs were supported.

    Returns:
        The sha256 in hexadecimal digits.
    """
    return sha256_json(
        _integral(
            {
                "point": point,
                "measure": {key: measure[key] for key in MEASURE_KEYS},
                "dilation": dilation,
                "environment": environment_sha256,
                "code": code_sha256,
                "dataset": dataset_sha256,
                "machine": {key: machine[key] for key in ("cpu_model", "cores")},
                **({"gpus": list(gpus)} if gpus else {}),
            }
        )
    )


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _integral(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_integral(each) for each in value]
    return value


def difference(record: Record, asked: str, measure: Mapping[str, Any] | None) -> str | None:
    """Say why a record is not a measurement of what was asked for, whatever its own `fingerprint` says.

    The fingerprint is computed again from what the record states: its point, dilation, environment, code, data set and
    machine. A record does not state the section `measure`, so that of the question is taken. What was computed on the
    GPUs of a cluster's nodes is compared by its field alone, because a record does not state how the driver named them.

    Args:
        record: checked as by `parse`.
        asked: the fingerprint of what was asked for.
        measure: the configuration's section that was asked with; None: not known, and only the field is compared.

    Returns:
        The reason, as the end of a sentence; None if it is what was asked for.
    """
    if record["fingerprint"] != asked:
        return f"it belongs to the fingerprint {record['fingerprint']}"
    if measure is None:
        return None
    try:
        if not _is_as_planned(record):
            return "its time dilation is not what was planned"
        stated = _stated(record, measure)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        return f"it does not state what it was measured with ({type(error).__name__}: {error})"
    if stated is None or asked in stated:
        return None
    return "its fingerprint is not that of the point and the conditions that it states"


def _planned_dilation(record: Record) -> float | None:
    """The dilation that was planned; older records have another key for whether it was chosen by measurement."""
    if "planned_dilation" in record:
        planned = record["planned_dilation"]
        return None if planned is None else float(planned)
    return None if record.get("dilation_measured") else float(record["dilation"])


def _is_as_planned(record: Record) -> bool:
    """Whether the dilation follows from the planned one, and from how fast the vCPUs are that are made of one core."""
    planned, speed = _planned_dilation(record), record.get("vcpu_speed") or {}
    if planned is None or "planned_dilation" not in record:
        return True
    factor = speed["speedup"] / speed["vcpus"] if speed.get("speedup") else 1.0
    return isclose(record["dilation"], planned * factor)


def _stated(record: Record, measure: Mapping[str, Any]) -> set[str] | None:
    """The fingerprints that a record may have by what it states, one for each kind of host; None: it cannot be told."""
    source = record["provenance"]
    gpus: list[str] = []
    if record["point"].get("devices") == "gpu":
        gpus = [f"{each['name']}, {each['workers']} on it" for each in source["gpus"]["of_workers"]]
        if not gpus:
            return None
    return {
        fingerprint(
            record["point"],
            measure=measure,
            dilation=_planned_dilation(record),
            environment_sha256=source["environment"]["sha256"],
            code_sha256=source["code"]["sha256"],
            dataset_sha256=source["dataset"]["sha256"],
            machine=host,
            gpus=gpus,
        )
        for host in source["hosts"]
    }
