"""Ask all questions at once. A question that is not answered in time gets a finding that says so."""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

from ddlbench.doctor.finding import Finding, NoAnswer, lacking, silent
from ddlbench.errors import DdlbenchError

Question = tuple[str, str, Callable[[], Finding]]  # kind, name, a function that finds the answer


def findings(questions: Sequence[Question], *, patience_s: float) -> list[Finding]:
    """Answer all questions, each in a thread of its own.

    Args:
        questions: in the order of the result.
        patience_s: how long to wait for all of them.

    Returns:
        One finding for each question. If our error or an OSError is raised, the finding is that the thing is not here.
    """
    answers: SimpleQueue[tuple[int, Finding]] = SimpleQueue()

    def ask(number: int, question: Question) -> None:
        kind, name, answer = question
        try:
            answers.put((number, answer()))
        except NoAnswer:
            answers.put((number, silent(kind, name, patience_s)))
        except (DdlbenchError, OSError) as error:
            answers.put((number, lacking(kind, name, error)))

    for number, question in enumerate(questions):
        Thread(target=ask, args=(number, question), daemon=True).start()
    found = {number: silent(kind, name, patience_s) for number, (kind, name, _) in enumerate(questions)}
    deadline = monotonic() + patience_s
    for _ in questions:
        try:
            number, finding = answers.get(timeout=max(0.0, deadline - monotonic()))
        except Empty:
            break
        found[number] = finding
    return list(found.values())
