"""What is known now: sources that are read anew when their files change, and what was learned from each."""

import asyncio
import gc
import logging
import math
import sqlite3
import time
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from ddlbench.errors import DdlbenchError, nearest
from ddlbench.prediction.prices import Price, read_prices
from ddlbench.prediction.question import Unanswerable
from ddlbench.recommender.database import Database, Stored
from ddlbench.recommender.learner import Interrupted, Learned, learn_from
from ddlbench.recommender.serving import Serving
from ddlbench.recommender.sources import HERE, Source, find_sources

REFRESH_S = 1.0
RESTS = 9  # learning that has no end is tried again after so many times as long: it takes a tenth of a core at most
log = logging.getLogger("ddlbench.serve")


class NothingMeasured(DdlbenchError):
    """There is nothing to answer from yet."""


class Unreadable(DdlbenchError):
    """There are measurements, and nothing can be learned from them."""


class Library:
    """Sources and what was learned from them, as one process has them.

    Attributes:
        database: of all sources.
        stored: what it has of each source.
        prices: of machines by name.
        epoch: grows whenever an answer may have become another.
    """

    def __init__(self, serving: Serving) -> None:
        """Open the database; `refresh` fills it.

        Args:
            serving: where things are.
        """
        self.serving = serving
        self.database = Database(serving.folder / "measurements.sqlite")
        self.stored: dict[str, Stored] = {}
        self.prices: Mapping[str, Price] = {}
        self.epoch = 0
        self._sources: dict[str, Source] = {}
        self._prices_changed_ns: int | None = None
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._learned: dict[str, Learned] = {}
        # Source -> version, what is wrong with it, and when that is tried again.
        self._problems: dict[str, tuple[str, str, float]] = {}
        self._lock = asyncio.Lock()
        self._one_at_a_time = asyncio.Lock()

    async def keep_fresh(self) -> None:
        """Look every second whether something has changed, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S)
            await self.try_to_refresh()

    async def try_to_refresh(self) -> None:
        """Read what has changed; where that fails, what was known before stays, and the log says why."""
        try:
            await self.refresh()
        except (DdlbenchError, OSError, sqlite3.Error) as error:
            log.warning("refresh failed", extra={"problem": str(error)})

    async def refresh(self) -> None:
        """Read what has changed, and learn from it; what was learned before answers meanwhile."""
        async with self._lock:
            self._refresh_prices()
            sources = find_sources(self.serving.tables, self.serving.imported)
            is_whole = await asyncio.to_thread(self.database.has, sources)
            if not is_whole:  # what could not be learned may have been missing there
                self._problems.clear()
            if sources != self._sources or not is_whole:
                stored = await asyncio.to_thread(self.database.refresh, sources)
                self._sources, self.stored = sources, {each.name: each for each in stored}
                self.epoch += 1
                for name in self._learned.keys() - self.stored.keys():
                    del self._learned[name]
            for each in self.stored.values():
                self._learn_if_new(each)

    def _refresh_prices(self) -> None:
        """Read prices that have changed; measurements do not wait for prices that cannot be read."""
        path = self.serving.prices
        try:
            changed_ns = path.stat().st_mtime_ns if path.is_file() else None
            if changed_ns != self._prices_changed_ns:
                self.prices = read_prices(path, Path.cwd()) if changed_ns else {}
                self._prices_changed_ns = changed_ns
                self.epoch += 1
        except (DdlbenchError, OSError) as error:
            log.warning("prices cannot be read", extra={"problem": str(error)})

    def _learn_if_new(self, stored: Stored) -> None:
        name = stored.name
        learned = self._learned.get(name)
        if (learned and learned.version == stored.version) or name in self._learning:
            return
        version, _, again_s = self._problems.get(name, ("", "", 0.0))
        if version != stored.version or time.monotonic() >= again_s:
            self._learning[name] = asyncio.create_task(self._learn(stored))

    async def _learn(self, stored: Stored) -> None:
        name = stored.name
        try:
            async with self._one_at_a_time:
                began_s = time.monotonic()
                if stored.problem:
                    raise DdlbenchError(stored.problem)
                self._learned[name] = await learn_from(self.database.path, name, self.serving.learning_s)
                self._problems.pop(name, None)
            log.info("learned", extra={"table": name, "measurements": stored.count})
        except (OSError, Interrupted) as error:  # of this machine, not of the measurements: it is tried again
            now_s = time.monotonic()
            problem = f"learning did not come to its end, and is tried again: {error}"
            self._problems[name] = (stored.version, problem, now_s + RESTS * (now_s - began_s))
            log.warning("cannot learn now", extra={"table": name, "problem": str(error)})
        except DdlbenchError as error:
            self._learned.pop(name, None)
            self._problems[name] = (stored.version, str(error), math.inf)
            log.warning("cannot learn", extra={"table": name, "problem": str(error)})
        finally:
            self.epoch += 1
            self._learning.pop(name, None)
            _look_at_garbage_of_answers_only()
        now = self.stored.get(name)
        if now and now.version != stored.version:  # it has changed meanwhile
            self._learn_if_new(now)

    @property
    def learning(self) -> list[str]:
        """Sources that are being learned from."""
        return sorted(self._learning)

    def problem(self, name: str) -> str | None:
        """Say why nothing can be learned from a source.

        Args:
            name: of the source.

        Returns:
            What is wrong; None: nothing is.
        """
        return self._problems[name][1] if name in self._problems else None

    async def learned(self, name: str | None) -> Learned:
        """Find what answers are made from; the first time, wait until it is learned.

        Args:
            name: of a source; None: this checkout's, or the only one.

        Returns:
            What was learned from it.

        Raises:
            Unanswerable: there is no such source, or one must be said.
            NothingMeasured: there is none at all; says what to do.
            Unreadable: nothing can be learned from it; says why.
        """
        name = await self.named(name)
        if name not in self._learned and (task := self._learning.get(name)):
            await asyncio.shield(task)
        if name in self._learned:
            return self._learned[name]
        raise Unreadable(self.problem(name) or f"the measurements of {name!r} have just gone")

    async def named(self, name: str | None) -> str:
        """Find the source that is meant.

        Args:
            name: of a source; None: this checkout's, or the only one.

        Returns:
            Its name.

        Raises:
            Unanswerable: there is no such source, or one must be said.
            NothingMeasured: there is none at all; says what to do.
        """
        if not self.stored or (name and name not in self.stored):
            await self.refresh()  # another process may have imported it just now
        if not self.stored:
            raise NothingMeasured(
                "nothing has been measured here. To measure the default studies:  make run\n"
                "To begin with one figure:  snakemake --cores 2 zhao2016_fig6\n"
                "To use a table of others:  ddlbench import FILE, or import it here"
            )
        if name is None:
            if HERE in self.stored or len(self.stored) == 1:
                return next(iter(self.stored))  # this checkout's is the first
            raise Unanswerable("table", f"which table? There are: {', '.join(self.stored)}")
        if name not in self.stored:
            raise Unanswerable(
                "table",
                f"there is no table {name!r}{nearest(name, self.stored)}; there are: {', '.join(self.stored)}",
            )
        return name

    @staticmethod
    def today() -> date:
        """Tell the day by which prices are old.

        Returns:
            It, in UTC.
        """
        return datetime.now(UTC).date()


def _look_at_garbage_of_answers_only() -> None:
    """Have the garbage collector leave out what is there to stay: looking at it stops all answers for 0.1 s, each time.

    What was left out before, and has been replaced since, is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
