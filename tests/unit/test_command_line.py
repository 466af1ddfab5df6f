"""Which files of the configuration a command line of Snakemake names."""

import pytest

from ddlbench.configuration.command_line import files_in


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("-n all", []),
        ("all --configfile a.yaml b.yaml -n", ["a.yaml", "b.yaml"]),
        ("--configfiles a.yaml --cores 2", ["a.yaml"]),
        ("--configfile=a.yaml all", ["a.yaml"]),
        ("--configfile a.yaml -- all", ["a.yaml"]),
        ("--configfile a.yaml --configfile b.yaml", ["b.yaml"]),
        ("--config configuration=a.yaml fresh=true --cores 2", []),
        ("--configfile", []),
    ],
)
def test_files_are_found_as_snakemake_finds_them(words, files):
    assert files_in(words.split()) == files
