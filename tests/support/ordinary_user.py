"""An ordinary user for tests, made and removed by root: with a home, subordinate ids, and no rights over anything."""

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.docker_engine import ended, wait_for
from tests.support.vanishing import at_the_end, vanishing_folder


@dataclass(frozen=True)
class User:
    """Whoever it is; `home` is theirs alone."""

    name: str
    home: Path

    def argv(self, command: Sequence[str]) -> list[str]:
        """The argv of a command of theirs."""
        them = [f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"]
        return ["setpriv", "--pdeathsig=KILL", *them, "--", *command]

    def run(
        self, *command: str, folder: Path | None = None, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of theirs to its end, in their home or in a folder of theirs."""
        return subprocess.run(
            self.argv(command),
            env=self.environment(**variables),
            cwd=folder or self.home,
            capture_output=True,
            text=True,
            timeout=1800,
        )

    def environment(self, **variables: str) -> dict[str, str]:
        """What they find in their environment after a login."""
        runtime_folder = str(self.home / "run")
        own = {"HOME": str(self.home), "USER": self.name, "XDG_RUNTIME_DIR": runtime_folder}
        return {"PATH": os.environ["PATH"], **own, **variables}

    def give(self, folder: Path) -> None:
        """Make a folder and all that is in it theirs."""
        subprocess.run(["chown", "-R", f"{self.name}:{self.name}", str(folder)], check=True)

    def python(self) -> str:
        """The interpreter of an environment of theirs that has all that ours has; ours may lie in another's home."""
        candidates = (sys.executable, "/usr/bin/python{}.{}".format(*sys.version_info))
        # by a shell: what setpriv itself executes it finds with root's rights still
        tried = (each for each in candidates if self.run("sh", "-c", '"$0" -c ""', each).returncode == 0)
        found = next(tried, None)
        assert found, f"{self.name} may execute neither of {candidates}"
        environment = self.home / "environment"
        _called(found, "-m", "venv", "--without-pip", str(environment))
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return str(environment / "bin/python")

    @contextmanager
    def podman(self) -> Iterator[str]:
        """Their own Podman, without root; gives its address for DOCKER_HOST."""
        assert shutil.which("newuidmap"), "no newuidmap here: `make test-all` installs it"
        settings = self.home / ".config/containers"
        settings.mkdir(parents=True)
        (settings / "storage.conf").write_text('[storage]\ndriver = "overlay"\n')
        self.give(self.home)
        address = f"unix://{self.home}/podman.sock"
        log = self.home / "podman.log"
        with log.open("w") as said:
            service = subprocess.Popen(
                self.argv(["podman", "system", "service", "--time=0", address]),
                env=self.environment(),
                cwd=self.home,
                stdout=said,
                stderr=said,
            )
        try:
            wait_for(address, service, log)
            yield address
        finally:
            ended(service)
            self.run("podman", "system", "reset", "--force")


@contextmanager
def ordinary_user() -> Iterator[User]:
    """A user that is gone afterwards, with all of their processes and files."""
    name = f"ddlbench-{secrets.token_hex(4)}"
    removal = f"pkill -KILL -u {name}; userdel --force {name}"
    with vanishing_folder("ddlbench-user-") as home:
        _called("useradd", "--home-dir", str(home), "--no-create-home", name)
        with at_the_end("sh", "-c", removal):
            user = User(name, home)
            (home / "run").mkdir()
            user.give(home)
            yield user


def _called(*command: str) -> None:
    answer: Any = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
