"""Learning in a process of its own: it takes seconds, may be stopped, and answers are given meanwhile.

python -m ddlbench.recommender.learner DATABASE SOURCE
"""

import asyncio
import logging
import pickle  # nosec B403: what is read was written by a process of ours
import sys
from dataclasses import dataclass
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.measured import Knowledge
from ddlbench.prediction.predictor import Predictor, learn
from ddlbench.recommender.database import Database
from ddlbench.system.processes import die_with_parent

SAID = 3  # exit status: what is wrong with the measurements is on standard output
log = logging.getLogger("ddlbench.serve")


class Interrupted(DdlbenchError):
    """Learning had no end, which says nothing of the measurements: the machine is busy, or short of memory."""


@dataclass(frozen=True)
class Learned:
    """What answers are made from.

    Attributes:
        version: of the measurements.
        knowledge: the measurements.
        predictor: that was learned from them.
    """

    version: str
    knowledge: Knowledge
    predictor: Predictor


async def learn_from(database: Path, source: str, timeout_s: float) -> Learned:
    """Learn from a source's measurements.

    Args:
        database: its file.
        source: its name.
        timeout_s: the longest that it may take.

    Returns:
        What was learned, and from what.

    Raises:
        Interrupted: it takes too long, or was killed.
        DdlbenchError: there is too little to learn from, or it failed, which the log explains.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, str(database), source),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, problem = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        raise Interrupted(
            f"learning from the measurements of {source!r} took longer than {timeout_s:g} s.\n"
            "  Give it longer (ddlbench serve --learning-time), or import fewer rows"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode and process.returncode < 0:
        raise Interrupted(f"learning was killed by signal {-process.returncode}, perhaps for want of memory")
    if process.returncode == SAID:
        raise DdlbenchError(output.decode())
    if process.returncode:  # whoever asks for /health is not shown what runs here
        text = problem.decode(errors="replace").strip()[-2000:]
        log.error("learning failed", extra={"table": source, "status": process.returncode, "problem": text})
        raise DdlbenchError(
            "learning failed, by a mistake of ddlbench or for want of memory; the log says more"
        )
    # Our own process wrote it, into a pipe that nobody else has.
    found: tuple[str, Knowledge, Predictor] = pickle.loads(output)  # nosec B301
    return Learned(*found)


def main(arguments: list[str]) -> int:
    """Learn, and write the predictor to standard output.

    Args:
        arguments: the database's file, and the source's name.

    Returns:
        The exit status.
    """
    die_with_parent()
    database, source = arguments
    try:
        version, known = Database(Path(database)).knowledge(source)
        found = (version, known, learn(known.measured))
    except DdlbenchError as error:
        sys.stdout.buffer.write(str(error).encode(errors="replace"))
        return SAID
    sys.stdout.buffer.write(pickle.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
