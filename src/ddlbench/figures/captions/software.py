"""The software that points were measured with, as far as it differs or decides: engines, packages, TCP, SGD."""

import pandas as pd

from ddlbench.figures.words import listed, values_of


def engines(measured: pd.DataFrame) -> list[str]:
    """Name the container engines.

    Args:
        measured: points that were measured.

    Returns:
        A sentence; none if nothing ran in a container.
    """
    found = values_of(measured, "container_engine")
    return [f"Containers by {listed(found)}."] if found else []


def unequal_software(measured: pd.DataFrame) -> list[str]:
    """Describe what else differs between the runtimes that are compared.

    Args:
        measured: points that were measured.

    Returns:
        Sentences such as `Interpreters differ (torch): 3.11.2 (docker), ...`; empty if nothing differs.
    """
    differences = []
    for column, what in (("python_version", "Interpreters differ"), ("packages_sha256", "Packages differ")):
        groups = measured.groupby("framework") if column in measured and "runtime" in measured else ()
        for framework, rows in groups:
            of = {
                value: values_of(rows[rows[column] == value], "runtime") for value in values_of(rows, column)
            }
            if len(of) > 1 and rows["runtime"].nunique() > 1:
                found = ", ".join(f"{value} ({listed(runtimes)})" for value, runtimes in of.items())
                differences.append(f"{what} ({framework}): {found}.")
    return differences


def network_and_training(measured: pd.DataFrame) -> list[str]:
    """Say which congestion control and shaping there was, and how weights were updated in whole trainings.

    Args:
        measured: points that were measured.

    Returns:
        Sentences.
    """
    sentences = []
    if congestion := values_of(measured, "congestion_control"):
        sentences.append(f"TCP congestion control: {listed(congestion)}.")
    if backends := values_of(measured, "backend"):
        sentences.append(f"Links shaped by {listed(backends)}.")
    if "epochs" in measured and (measured["epochs"] > 0).any():
        rates, momenta = listed(values_of(measured, "learning_rate")), listed(values_of(measured, "momentum"))
        sentences.append(
            f"Trained by stochastic gradient descent, learning rate {rates}, momentum {momenta}."
        )
    return sentences
