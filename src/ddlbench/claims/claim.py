"""A claim of a paper, as config/claims/<study>.yaml writes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import ConfigError, nearest
from ddlbench.plan.catalogue import FRAMEWORKS

SETTINGS = {
    "ratio": "2",
    "order": "2 or more",
    "least": "2 or more",
    "value": "1",
    "fails": "1",
}  # how many a test needs
ORDERS = ("order", "least")
TEXTS = ("says", "place", "figure", "quantity")
OF_WHAT_IS_NOT_REACHED = ("says", "place", "not_reached")
# Of an order, what differs by less is as good as equal: nobody chooses a link or a number of workers for 2 %, and real
# machines of one kind differ by as much.
AS_GOOD_AS_EQUAL_PERCENT = 2.0
ANY, REPLAYED = "any", "replayed"
DEVICES = ("cpu", "gpu", ANY)
Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a paper says of a quantity in one setting or several.

    `ratio`: the first setting's quantity by the second's is the paper's value. `order`: the quantity rises from setting
    to setting. `least`: it is less in the first setting than in each other one. `value`: the only setting's quantity is
    the paper's value. `fails`: the only setting does not fit into a host's memory.

    `tolerance_percent` is around the paper's value; of an order and of the least it is what two quantities must differ
    by at least, AS_GOOD_AS_EQUAL_PERCENT if the claim says nothing.

    `frameworks` are those that may judge it, the paper's first: the first one does that was measured in all settings.
    None: any, of which there must be one point in each setting.

    `devices` are those of the paper. Devices that are only replayed judge a claim if it says `replayed: true`: what it
    is about must not follow from the times that are replayed.

    `not_reached` says why no measurement of ours can judge it; such a claim has nothing but what it says, and where.
    """

    name: str
    says: str
    place: str
    figure: str = ""
    quantity: str = ""
    test: str = ""
    settings: tuple[Setting, ...] = ()
    devices: str = ANY
    frameworks: tuple[str, ...] = ()
    where: Setting = field(default_factory=dict)
    paper: float | None = None
    tolerance_percent: float | None = None
    replayed: bool = False
    not_reached: str = ""

    @property
    def judged_on(self) -> tuple[str, ...]:
        """The devices whose measurements judge it."""
        devices = ("cpu", "gpu") if self.devices == ANY else (self.devices,)
        return (*devices, REPLAYED) if self.replayed else devices


def read_claims(path: Path, root: Path) -> list[Claim]:
    """Read the claims of a study.

    Args:
        path: of its file.
        root: the folder that messages show the path relative to.

    Returns:
        The claims, in the file's order.

    Raises:
        ConfigError: the file is no list of claims, or one is wrong; names file, claim and key.
    """
    content = read_yaml(path, root)
    name = str(path.relative_to(root) if path.is_relative_to(root) else path)
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{name}: expected claims by name, found {type(content).__name__}")
    return [_claim(f"{name}: {each}", str(each), entry) for each, entry in content.items()]


def _claim(at: str, name: str, entry: Any) -> Claim:
    if not isinstance(entry, dict):
        raise ConfigError(f"{at}: expected the keys of a claim, found {entry!r}")
    known = {each.name for each in fields(Claim)} - {"name"}
    for key in entry:
        if key not in known:
            raise ConfigError(f"{at}: unknown key {key!r}{nearest(key, known)}")
    needed = OF_WHAT_IS_NOT_REACHED if "not_reached" in entry else (*TEXTS, "test", "settings", "devices")
    for key in needed:
        if key not in entry:
            raise ConfigError(f"{at}: lacks {key}")
    for key in (*TEXTS, "not_reached"):
        if key in entry and (not isinstance(entry[key], str) or not entry[key]):
            raise ConfigError(f"{at}: {key} is {entry[key]!r}, expected a text")
    if needed == OF_WHAT_IS_NOT_REACHED:
        if unused := [key for key in entry if key not in needed]:
            raise ConfigError(f"{at}: has {unused[0]}, but not_reached: nothing judges it")
        return Claim(name=name, **entry)
    for key, choices in (("test", tuple(SETTINGS)), ("devices", DEVICES)):
        if entry[key] not in choices:
            raise ConfigError(f"{at}: {key} is {entry[key]!r}, expected one of {', '.join(choices)}")
    settings = entry["settings"]
    if not isinstance(settings, list) or not all(isinstance(each, dict) for each in settings):
        raise ConfigError(f"{at}: settings is {settings!r}, expected a list of columns with their values")
    if not isinstance(entry.get("replayed", False), bool):
        raise ConfigError(f"{at}: replayed is {entry['replayed']!r}, expected true or false")
    if not isinstance(entry.get("where", {}), dict):
        raise ConfigError(f"{at}: where is {entry['where']!r}, expected columns with their values")
    frameworks = entry.get("frameworks", [])
    if not isinstance(frameworks, list) or not set(map(str, frameworks)) <= FRAMEWORKS.keys():
        raise ConfigError(f"{at}: frameworks is {frameworks!r}, expected some of [{', '.join(FRAMEWORKS)}]")
    if entry["test"] in ORDERS:
        entry = {"tolerance_percent": AS_GOOD_AS_EQUAL_PERCENT, **entry}
    _check_numbers(at, entry)
    return Claim(name=name, **{**entry, "settings": tuple(settings), "frameworks": tuple(frameworks)})


def _check_numbers(at: str, entry: Mapping[str, Any]) -> None:
    """Check that a claim has as many settings as its test needs, and a value if it needs one."""
    count, test = len(entry["settings"]), entry["test"]
    expected = SETTINGS[test]
    if count < int(expected[0]) or (count > int(expected[0]) and "more" not in expected):
        raise ConfigError(f"{at}: has {count} settings, expected {expected} for test {test}")
    for key in ("paper", "tolerance_percent"):
        value: Any = entry.get(key)
        if test == "fails" or (test in ORDERS and key == "paper"):
            if value is not None:
                raise ConfigError(f"{at}: {key} is {value!r}, but a test {test} has none")
        elif type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ConfigError(f"{at}: {key} is {value!r}, expected a number above 0")
