"""Snakemake has a folder for its cache, also where the home folder cannot be written."""

import os

from ddlbench.configuration.cache import have_a_cache


def test_the_users_cache_is_used_where_it_can_be(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    have_a_cache()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "cache")


def test_a_home_that_cannot_be_written_is_replaced_by_a_folder_here(tmp_path, monkeypatch):
    (tmp_path / "home").write_text("no folder")  # which stops root too
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.chdir(tmp_path)
    have_a_cache()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / ".snakemake/cache")
