"""How long the parts of a step took, by DDP's own timers."""

from torch.nn.parallel import DistributedDataParallel


def parts_of_last_step_ms(model: DistributedDataParallel) -> dict[str, float]:
    """Read the timers of the step that has just ended.

    DDP itself looks at them when the next forward pass begins: until then it would answer with the step before.

    Args:
        model: times each of its steps (`_set_ddp_runtime_logging_sample_rate(1)`).

    Returns:
        `forward_ms`, `backward_ms` and `communication_ms`, which overlaps with the backward pass.
    """
    model.logger.set_runtime_stats_and_log()
    timers = model._get_ddp_logging_data()
    return {
        "forward_ms": timers["forward_compute_time"] / 1e6,
        "backward_ms": timers["backward_compute_time"] / 1e6,
        "communication_ms": timers["backward_comm_time"] / 1e6,
    }
