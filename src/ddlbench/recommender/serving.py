"""How the recommender is served: where it listens, what it reads, its limits. Its processes get this from the first."""

import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

from pydantic import TypeAdapter

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.files import read_regular

VARIABLE = "DDLBENCH_SERVE"
TOKEN_VARIABLE = "DDLBENCH_TOKEN"  # nosec B105: where the token is, not the token
FEWEST_CHARACTERS = 16  # of a token
MOST_TOKEN_BYTES = 1000
MOST_BODY_BYTES = 1 << 16


@dataclass(frozen=True)
class Serving:
    """How it is served.

    Attributes:
        host: the address that it listens on.
        workers: processes that answer.
        tables: folder of this checkout's tables.
        imported: folder of imported tables.
        prices: file of prices; it may be missing.
        folder: of the database and the metrics, of this start alone.
        rate: requests a second of one client that each process answers.
        timeout_s: the longest that a request may take.
        learning_s: the longest that learning from one table's measurements may take.
        token_file: that holds the token; None: the environment may.
    """

    host: str
    workers: int
    tables: Path
    imported: Path
    prices: Path
    folder: Path
    rate: float
    timeout_s: float
    learning_s: float
    token_file: Path | None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask."""
        return is_loopback(self.host)

    def as_variable(self) -> str:
        """Write it for `from_variable`.

        Returns:
            JSON.
        """
        return TypeAdapter(Serving).dump_json(self).decode()


def from_variable() -> Serving:
    """Read how this process shall serve, as the one that started it has said.

    Returns:
        What it said.
    """
    return TypeAdapter(Serving).validate_json(os.environ[VARIABLE])


@lru_cache(maxsize=32)  # each request asks
def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's own.

    Args:
        host: an address, or a name.

    Returns:
        Whether nobody else can connect to it. A name other than localhost may be anybody's.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_of(serving: Serving) -> bytes | None:
    """Find the token that requests must have.

    Args:
        serving: how it is served.

    Returns:
        The token; None: none is needed.

    Raises:
        ConfigError: one is needed and missing, is too short, or others can read its file. The token is not shown.
    """
    if serving.token_file:
        where, token = str(serving.token_file), _from_file(serving.token_file)
    else:
        where, token = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "").strip().encode()
    if not token and serving.is_loopback and not serving.token_file:
        return None
    if not token:
        raise ConfigError(
            f"{serving.host} can be reached from other machines, so requests need a token, and there is none.\n"
            "  Make one:  (umask 077; openssl rand -hex 32 > token)\n"
            f"  Then say  --token-file token,  or set {TOKEN_VARIABLE}"
        )
    if len(token) < FEWEST_CHARACTERS or not token.isascii() or not token.decode().isprintable():
        raise ConfigError(f"{where}: a token has at least {FEWEST_CHARACTERS} printable ASCII characters")
    return token


def _from_file(path: Path) -> bytes:
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{path}: others can read this token.  chmod 600 {path}")
        return read_regular(path, MOST_TOKEN_BYTES).strip()
    except OSError as error:
        raise DdlbenchError(f"{path}: the token cannot be read ({error.strerror or error})") from None
