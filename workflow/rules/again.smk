# What exists and has to be made again for reasons that Snakemake does not see. Looking changes nothing on disk.


def again_if(is_due, output):
    """An input function that names no file. It has an `output` that exists made again if `is_due(its path, wildcards)`."""

    def again(wildcards):
        path = output.format(**wildcards)
        if PLANNING and os.path.exists(path) and is_due(Path(path), wildcards):
            insides.make_again(workflow, path)
        return []

    return again


def again_if_damaged(output, is_due=lambda path, wildcards: False):
    """As `again_if`, for a result with a sidecar: also if it, or what it was made from, does not match that."""
    return again_if(lambda path, wildcards: is_due(path, wildcards) or is_damaged(path), output)


def has_failed(description, wildcards):
    """Whether a runtime could not be had. Each start tries again."""
    return could_not_be_made(description)


def is_unusable(description, wildcards):
    """Whether an environment could not be made, or has lost its interpreter since."""
    return could_not_be_made(description) or has_lost_its_interpreter(description)


def lacks_its_image(description, wildcards):
    """Whether an image could not be made, or is not there any more. It lies out of Snakemake's sight."""
    return could_not_be_made(description) or has_vanished(description)


def was_before_fresh(result, wildcards):
    """Whether measuring afresh is asked for, or was since a result was made."""
    return PLAN.settings.fresh or is_older_than(result, stamp_of(result, Path(RESULTS)))
