"""What the base image is made of."""

from pathlib import Path

import pytest

from ddlbench.containers.base_image import bootstrap_argv, sources

pytestmark = pytest.mark.unit

INDEXES = """\
http://mirror.example/debian bookworm main Debian
http://mirror.example/debian bookworm-updates main Debian
http://mirror.example/security bookworm-security main Debian
http://mirror.example/debian bookworm main Debian
http://mirror.example/debian trixie main Debian
https://elsewhere.example/apt cloud main Somebody
https://nobody.example/apt bookworm main
"""


def test_packages_come_from_where_the_machine_has_its_own_and_from_no_other_release_or_vendor() -> None:
    assert sources("bookworm", INDEXES) == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-updates main",
        "deb http://mirror.example/security bookworm-security main",
    ]
    assert sources("noble", INDEXES) == []


def test_the_base_is_the_least_that_has_python_and_nothing_of_this_machine() -> None:
    assert bootstrap_argv("bookworm", Path("base.tar"), Path("sources.list")) == [
        "mmdebstrap",
        "--variant=minbase",
        "--include=ca-certificates,libgomp1,libquadmath0,python3,python3-venv",
        '--customize-hook=rm -f "$1/etc/apt/sources.list"',
        '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        '--customize-hook=rm -f "$1/etc/hostname"',
        '--customize-hook=rm -f "$1/etc/resolv.conf"',
        "bookworm",
        "base.tar",
        "sources.list",
    ]
