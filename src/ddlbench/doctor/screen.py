"""Findings and verdicts as one screen of text."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from ddlbench.doctor.finding import Finding
from ddlbench.doctor.judgement import Verdict

WIDTH = 110
_MARKS = {True: "yes", False: "no", None: "?"}


def screen(findings: Sequence[Finding], verdicts: Sequence[Verdict]) -> str:
    """Write what is here, kind by kind, then how many figures can be made, and why the others cannot.

    Args:
        findings: those of a kind one after another.
        verdicts: of all figures to show.

    Returns:
        Lines of at most WIDTH characters.
    """
    return "\n".join([*_found(findings), "", *_judged(verdicts)])


def _found(findings: Sequence[Finding]) -> Iterator[str]:
    for kind, of_kind in groupby(findings, key=lambda each: each.kind):
        for number, each in enumerate(of_kind):
            head = f"{'' if number else kind:<10} {each.name:<11} {_MARKS[each.is_here]:<4}"
            to_do = f"; {each.to_do}" if each.to_do else ""
            yield textwrap.fill(
                f"{each.says}{to_do}", WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
            )


def _judged(verdicts: Sequence[Verdict]) -> Iterator[str]:
    whole = sum(each.is_whole for each in verdicts)
    yield f"{whole} of {len(verdicts)} figure{'s' * (len(verdicts) != 1)} can be made here"
    rest = [each for each in verdicts if not each.is_whole]
    for words, same in groupby(sorted(rest, key=_in_words), key=_in_words):
        names = ", ".join(each.figure for each in same)
        yield textwrap.fill(f"{names}: {words}", WIDTH, initial_indent="  not ", subsequent_indent="      ")


def _in_words(verdict: Verdict) -> str:
    lacks = "; ".join(verdict.lacks)
    if verdict.possible:
        return f"with gaps ({verdict.parts - verdict.possible} of {verdict.parts} parts): {lacks}"
    return f"nothing of it: {lacks}"
