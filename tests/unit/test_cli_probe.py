"""`ddlbench probe` told something wrong: a message and exit code 2, before anything is measured."""

import pytest

from ddlbench.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["link", "gigabit", "--dilation", "nan"], "nan is not a time dilation"),
        (["link", "gigabit", "--dilation", "inf"], "inf is not a time dilation"),
        (["link", "gigabit", "--dilation", "abc"], "abc is not a time dilation"),
        (
            ["link", "gigabit", "--dilation", "0.5"],
            "0.5 is not a time dilation (expected a number from 1 to 10000)",
        ),
        (["link", "gigabit", "--dilation", "10001"], "10001 is not a time dilation"),
        (["link", "gigabit", "--timeout-s", "0"], "0 is not a time-out in seconds"),
        (["answer", "--timeout-s", "-1"], "-1 is not a time-out in seconds"),
        (["answer", "--port", "65536"], "65536 is not a port (expected a whole number from 0 to 65535)"),
        (
            ["address", "localhost", "--port", "0"],
            "0 is not a port (expected a whole number from 1 to 65535)",
        ),
        (["address", "localhost", "--port", "http"], "http is not a port"),
        (["address", "localhost", "--largest-bytes", "0"], "0 is not a size in bytes"),
        (["address", "localhost", "--largest-bytes", "9" * 40], "is not a size in bytes"),
        (["address", ""], "'' is not the name or address of a host"),
        (["address", "two words"], "'two words' is not the name or address of a host"),
        (["address", "a" * 64 + ".example"], "is not the name or address of a host"),
        (["answer", "a\0b"], "is not the name or address of a host"),
        (
            ["address", "localhost", "--device", "mlx5_0:1"],
            "--device mlx5_0:1: tcp, the default transport, takes",
        ),
        (["answer", "--device", "mlx5_0:1"], "--device mlx5_0:1: tcp, the default transport, takes none"),
        (
            ["answer", "192.0.2.7", "--transport", "ucx"],
            "192.0.2.7: the programs of ucx wait on all addresses",
        ),
        (["answer", "--port", "0", "--transport", "verbs"], "--port 0: the programs of verbs do not choose"),
    ],
)
def test_a_value_that_cannot_be_is_named(arguments, wrong, capsys):
    assert main(["probe", *arguments]) == 2
    assert wrong in capsys.readouterr().err


def test_a_folder_that_is_missing_is_told_before_anything_is_measured(tmp_path, capsys):
    assert main(["probe", "address", "127.0.0.1", "--output", str(tmp_path / "missing" / "curve")]) == 2
    assert f"cannot write into {tmp_path}/missing/ (No such file or directory)" in capsys.readouterr().err


def test_a_file_is_no_folder(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["probe", "address", "127.0.0.1", "--output", str(tmp_path / "file" / "curve")]) == 2
    assert "cannot write into" in capsys.readouterr().err


def test_a_folder_is_no_file(tmp_path, capsys):
    (tmp_path / "curve.csv").mkdir()
    assert main(["probe", "address", "127.0.0.1", "--output", str(tmp_path / "curve")]) == 2
    assert f"{tmp_path}/curve.csv is not the name of a file" in capsys.readouterr().err


def test_a_link_that_is_not_there_is_named_with_its_nearest(monkeypatch, capsys, repository_root):
    monkeypatch.chdir(repository_root)
    assert main(["probe", "link", "gigabyte"]) == 2
    assert "has no link 'gigabyte' (did you mean 'gigabit'?)" in capsys.readouterr().err


@pytest.fixture
def repository_root(request):
    return request.config.rootpath


def test_a_host_that_nobody_knows_is_a_failure_in_words(capsys):
    assert main(["probe", "address", "host.invalid"]) == 1
    assert "host.invalid port 5002 cannot be reached" in capsys.readouterr().err


def test_an_address_that_is_not_of_this_machine_is_told(capsys):
    assert main(["probe", "answer", "192.0.2.7", "--port", "0"]) == 2
    assert "192.0.2.7 port 0: Cannot assign requested address" in capsys.readouterr().err
