"""The links and the sites that have a name: those of the checkout that the user is in, else the installed ones."""

from pathlib import Path

from ddlbench.configuration.schema import schemas
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import ConfigError, nearest
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.plan import sites_file
from ddlbench.plan import study as plan
from ddlbench.system.package import package_root

LINKS, SITES = Path("config/links.yaml"), Path("config/sites.yaml")
_INSTALLED = Path("ddlbench/shipped")  # in a wheel (pyproject.toml)


def catalogue() -> Path:
    """Find the folder that has `config/links.yaml`, `config/sites.yaml` and their schemas.

    Returns:
        The working directory, if it is a checkout; else what a wheel has installed, or the checkout that we run from.
    """
    package = Path(package_root())
    places = (Path.cwd(), package / _INSTALLED)
    return next(
        (place for place in places if (place / LINKS).is_file() and (place / "workflow/schemas").is_dir()),
        package.parent,
    )


def named_link(name: str, root: Path) -> Link:
    """Read a link.

    Args:
        name: of the link.
        root: as of `catalogue`.

    Returns:
        The link.

    Raises:
        ConfigError: there is none of this name, or the file has mistakes.
    """
    links = _links(root)
    if name not in links:
        raise ConfigError(f"{LINKS} has no link {name!r}{nearest(name, links)}")
    found = links[name]
    return Link(float(found.bandwidth_mbit), float(found.latency_ms), float(found.loss_percent))


def named_sites(name: str, hosts: int, root: Path) -> Sites:
    """Read a set of sites.

    Args:
        name: of the set.
        hosts: how many there are; only the first sites are used if there are more sites than hosts.
        root: as of `catalogue`.

    Returns:
        The sites that the hosts are on.

    Raises:
        ConfigError: there is none of this name, or the files have mistakes.
    """
    links = _links(root)
    data = read_yaml(root / SITES, root)
    problems = schemas(root).problems("sites", data, str(SITES), {"links": list(links)})
    if problems := problems or list(sites_file.problems(data)):
        raise ConfigError("\n".join(map(str, problems)))
    places = sites_file.sites_from(data, links)
    if name not in places:
        raise ConfigError(f"{SITES} has no sites {name!r}{nearest(name, places)}")
    return Sites.from_dict(places[name].of(hosts).as_dict())


def _links(root: Path) -> dict[str, plan.Link]:
    data = read_yaml(root / LINKS, root)
    if problems := schemas(root).problems("links", data, str(LINKS), {}):
        raise ConfigError("\n".join(map(str, problems)))
    return {name: plan.Link(**link) for name, link in data.items()}
