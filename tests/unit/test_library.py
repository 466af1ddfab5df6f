"""What the server knows, while files and the machine are not as they should be."""

import asyncio
import os
import sqlite3

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.foreign.imported import write_imported
from ddlbench.recommender import library as library_module
from ddlbench.recommender.learner import Interrupted, Learned, learn_from
from ddlbench.recommender.library import Library, Unreadable
from ddlbench.recommender.serving import Serving
from ddlbench.recommender.sources import find_sources

COLUMNS = (
    "point_id,status,model,image_shape,framework,strategy,runtime,devices,batch_size,workers,step_time_ms"
)
ROW = "measured,conv1,28x28x1,torch,ring_allreduce,bare,cpu"


@pytest.fixture
def serving(tmp_path):
    for name in ("tables", "imported", "served"):
        (tmp_path / name).mkdir()
    return Serving(
        host="127.0.0.1",
        workers=1,
        tables=tmp_path / "tables",
        imported=tmp_path / "imported",
        prices=tmp_path / "prices.yaml",
        folder=tmp_path / "served",
        rate=1.0,
        timeout_s=1.0,
        learning_s=1.0,
        token_file=None,
    )


@pytest.fixture
def learning(monkeypatch):
    """Learning that takes no time: what it was asked for, and what goes wrong in it next."""
    asked, mishaps = [], []

    async def learn_from(database, source, timeout_s):
        asked.append(source)
        if mishaps:
            raise mishaps.pop()
        version, knowledge = library_module.Database(database).knowledge(source)
        return Learned(version, knowledge, None)

    monkeypatch.setattr(library_module, "learn_from", learn_from)
    return asked, mishaps


def write_table(serving, *cells):
    rows = [f"p{number},{ROW},{each}" for number, each in enumerate(cells)]
    (serving.tables / "fig.csv").write_text("\n".join([COLUMNS, *rows]) + "\n")


async def settled(library):
    await library.try_to_refresh()
    await asyncio.gather(*library._learning.values())


@pytest.mark.usefixtures("learning")
def test_an_imported_table_does_not_say_how_many_vcpus_its_hosts_have(serving):
    (serving.tables / "fig.csv").write_text(f"{COLUMNS},vcpus\np1,{ROW},128,2,25.5,4\n")
    write_imported(serving.imported / "theirs.csv", [Measured(Cell(128, 2), 25.5)], "step")
    library = Library(serving)
    asyncio.run(settled(library))
    assert {name: each.says_vcpus for name, each in library.stored.items()} == {"here": True, "theirs": False}


@pytest.mark.usefixtures("learning")
@pytest.mark.parametrize("cells", [",2,25.5", "128,,25.5", "128,two,25.5", "inf,2,25.5", "128,2,fast"])
def test_a_row_that_has_no_number_is_a_problem_of_its_table_and_a_mended_table_is_read(serving, cells):
    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40", cells)
        await settled(library)
        assert "fig.csv: row 2 below the header" in library.problem("here")
        write_table(serving, "128,1,40", "128,2,25.5")
        await settled(library)
        assert library.problem("here") is None
        assert library.stored["here"].count == 2

    asyncio.run(story())


@pytest.mark.usefixtures("learning")
def test_a_question_without_a_table_is_answered_by_what_was_measured_here_whenever_that_came(serving):
    async def story():
        library = Library(serving)
        write_imported(serving.imported / "anwar.csv", [Measured(Cell(64.0, 1), 10.0)], "step")
        await settled(library)
        assert await library.named(None) == "anwar"
        write_table(serving, "128,1,40")
        await settled(library)
        assert await library.named(None) == "here"
        assert list(library.stored) == ["here", "anwar"]

    asyncio.run(story())


@pytest.mark.usefixtures("learning")
def test_tables_are_read_though_prices_cannot_be_and_the_log_says_so(serving, caplog):
    async def story():
        library = Library(serving)
        serving.prices.write_text("t2.large: cheap\n")
        write_table(serving, "128,1,40")
        await library.refresh()
        assert library.stored["here"].count == 1
        assert "prices cannot be read" in caplog.text

    asyncio.run(story())


def test_a_database_that_somebody_has_removed_is_made_again_and_learned_from(serving, learning):
    _, mishaps = learning

    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40")
        mishaps.append(DdlbenchError("0 measurements are too few"))
        await settled(library)
        assert library.problem("here") is not None
        library.database.path.unlink()
        await settled(library)
        assert library.problem("here") is None
        total, _ = library.database.page({}, 10, 0)
        assert total == library.stored["here"].count == 1

    asyncio.run(story())


@pytest.mark.usefixtures("learning")
def test_a_database_that_cannot_be_written_now_is_filled_later(serving, monkeypatch):
    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40")
        with monkeypatch.context() as patched:
            patched.setattr(library.database, "refresh", locked)
            await library.try_to_refresh()
        assert not library.stored
        await library.try_to_refresh()
        assert library.stored["here"].count == 1

    def locked(sources):
        raise sqlite3.OperationalError("database is locked")

    asyncio.run(story())


def test_learning_that_could_not_be_started_is_tried_again_and_says_why_meanwhile(serving, learning):
    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40")
        learning[1].append(OSError(11, "no more processes"))
        await settled(library)
        with pytest.raises(Unreadable, match="no more processes"):
            await library.learned(None)
        await settled(library)
        assert (await library.learned(None)).knowledge.measured
        assert library.problem("here") is None

    asyncio.run(story())


def test_a_table_that_is_made_anew_while_it_is_read_stays_as_it_was_stored(serving):
    write_table(serving, "128,1,40")
    database = library_module.Database(serving.folder / "measurements.sqlite")
    (before,) = database.refresh(find_sources(serving.tables, serving.imported))
    write_table(serving, "128,1,40", "128,2,25.5")
    sources = find_sources(serving.tables, serving.imported)
    (serving.tables / "fig.csv").unlink()  # as Snakemake does before a rule makes it again
    assert database.refresh(sources) == [before]
    write_table(serving, "128,1,40", "128,2,25.5")
    sources = find_sources(serving.tables, serving.imported)
    assert not database.has(sources)
    assert [each.count for each in database.refresh(sources)] == [2]


def test_learning_that_was_killed_is_tried_again_and_answers_are_given_from_what_was_known(serving, learning):
    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40")
        await settled(library)
        write_table(serving, "128,1,40", "128,2,25.5")
        learning[1].append(Interrupted("learning was killed by signal 9"))
        await settled(library)
        assert len((await library.learned(None)).knowledge.measured) == 1
        assert "signal 9" in library.problem("here")
        while library.problem("here"):
            await settled(library)
        assert len((await library.learned(None)).knowledge.measured) == 2

    asyncio.run(story())


@pytest.mark.parametrize("limit_s", [0.0, 600.0])
def test_a_learner_that_takes_too_long_or_is_killed_was_interrupted(serving, limit_s, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Interrupted, match="signal 9" if limit_s else "took longer than 0 s"):
        asyncio.run(learn_from(tmp_path / "none.sqlite", "here", limit_s))


def test_what_learning_stumbles_over_is_in_the_log_and_nothing_of_it_is_shown(tmp_path, caplog):
    with pytest.raises(DdlbenchError, match="the log says more") as failed:
        asyncio.run(learn_from(tmp_path / "none.sqlite", "here", 600))
    assert "sqlite3" not in str(failed.value)
    (record,) = [each for each in caplog.records if each.message == "learning failed"]
    assert "sqlite3.OperationalError" in record.problem


def test_too_few_measurements_are_told_by_the_process_that_learns(serving):
    write_table(serving, "128,1,40")
    database = library_module.Database(serving.folder / "measurements.sqlite")
    database.refresh(find_sources(serving.tables, serving.imported))
    with pytest.raises(DdlbenchError, match=r"^1 measurements are too few"):
        asyncio.run(learn_from(database.path, "here", 600))


def test_measurements_that_nothing_can_be_learned_from_are_not_tried_again(serving, learning):
    async def story():
        library = Library(serving)
        write_table(serving, "128,1,40")
        learning[1].append(DdlbenchError("too few"))
        await settled(library)
        await settled(library)
        assert library.problem("here") == "too few"
        assert learning[0] == ["here"]

    asyncio.run(story())
