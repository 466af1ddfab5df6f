"""How much faster than one thread several threads are, by Amdahl's law from the numbers of threads that were measured.

A step takes s + p / t with t threads: s is work that only one of them does, and p is divided. (G. M. Amdahl, Validity
of the single processor approach to achieving large scale computing capabilities, AFIPS 1967.) What threads cost each
other, as in memory and caches, is in the law as far as the measured numbers of threads show it.
"""

from collections.abc import Mapping, Sequence
from math import exp, sqrt

from ddlbench.measurements.statistics import Estimate

_LEVEL = 0.95
_WIDEST = 700.0  # of the logarithm: `exp` of more is no number, and the interval is all that the law allows long before
_LEAST_ERROR = 1e-4  # of a mean: clocks and schedulers are no better, even where some times are equal


def speedup(times_ms: Mapping[int, Sequence[float]], threads: int) -> Estimate:
    """Estimate how many times as fast as one thread a number of threads is.

    s and p are fitted to the mean times by weighted least squares, which are linear in 1 / t. Where more numbers of
    threads were measured than the law has parameters, and it misses them by more than their errors, the errors are made
    as large as that. The interval is Student's t for the ratio's logarithm (delta method).

    Args:
        times_ms: number of threads -> times of a step in ms, one for each repetition; two numbers of threads at least,
            and two times of each.
        threads: the number that is asked for, at least 1.

    Returns:
        The ratio of the times of one thread and of these, and its interval of 95 %, all within 1 and `threads`, which
        the law allows.

    Raises:
        ValueError: too few numbers of threads, or times.
    """
    import numpy as np  # where a sweep needs it; it takes a tenth of a second
    from scipy.special import stdtrit

    if len(times_ms) < 2 or min(map(len, times_ms.values())) < 2:
        raise ValueError("Amdahl's law needs two numbers of threads, and two times of each")
    measured = [np.asarray(of_threads, dtype=float) for of_threads in times_ms.values()]
    means = np.array([each.mean() for each in measured])
    errors = np.array([each.std(ddof=1) / sqrt(len(each)) for each in measured])
    errors = np.maximum(errors, _LEAST_ERROR * means)
    law = np.array([[1.0, 1.0 / each] for each in times_ms]) / errors[:, None]
    covariance = np.linalg.inv(law.T @ law)
    serial_ms, parallel_ms = covariance @ law.T @ (means / errors)
    if (beyond := len(means) - 2) > 0:
        missed = means / errors - law @ [serial_ms, parallel_ms]
        covariance *= max(1.0, float(missed @ missed) / beyond)
    one_ms, these_ms = serial_ms + parallel_ms, serial_ms + parallel_ms / threads
    if these_ms <= 0:  # faster than the law allows, as if there were less than nothing to do alone
        return Estimate(float(threads), 1.0, float(threads))
    gradient = np.array([1.0, 1.0]) / one_ms - np.array([1.0, 1.0 / threads]) / these_ms  # of the logarithm
    error = sqrt(float(gradient @ covariance @ gradient))
    width = float(stdtrit(sum(map(len, measured)) - 2, (1 + _LEVEL) / 2)) * error
    factor = exp(min(width, _WIDEST))
    value = one_ms / these_ms
    low, best, high = (
        float(min(max(each, 1.0), threads)) for each in (value / factor, value, value * factor)
    )
    return Estimate(best, low, high)


def thread_counts(cores: int, vcpus: int) -> list[int]:
    """List the numbers of threads to measure: powers of two up to what a host has, as far as there are cores for them.

    Args:
        cores: of this machine.
        vcpus: of a host.

    Returns:
        Sorted numbers from 1 on; that of the host, or of all cores, is one of them.
    """
    most = min(cores, vcpus)
    return sorted({most, *(2**power for power in range(most.bit_length()) if 2**power <= most)})
