"""`ddlbench interfaces`: this machine's network interfaces, which of them carries each fabric, and the transports."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from ddlbench.cli.configuration import add_configuration_options, configuration_of, is_checkout
from ddlbench.errors import DdlbenchError


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `interfaces` is added.
    """
    parser = commands.add_parser(
        "interfaces", help="list the network interfaces, and what each fabric and transport would use"
    )
    add_configuration_options(parser)  # which may name interfaces by hand
    parser.set_defaults(command=_interfaces)


def _interfaces(arguments: argparse.Namespace) -> int:
    from ddlbench.network.fabrics import FABRICS
    from ddlbench.network.interfaces import interfaces, table
    from ddlbench.plan import load
    from ddlbench.probes.transports import transports

    # Outside of a checkout there is no default configuration, and nothing is named by hand.
    is_outside = not arguments.configfile and not arguments.config and not is_checkout(Path.cwd())
    named: Mapping[str, str | None] = (
        {} if is_outside else load(configuration_of(arguments), Path.cwd()).settings.interfaces
    )
    print(table(interfaces()))
    print("\nfabric")
    for fabric in FABRICS:
        print(f"  {fabric:10}  {_carrier(fabric, named)}")
    print("\ntransport")
    for each in transports():
        print(f"  {each.name:10}  {', '.join(each.devices) if each.available else f'none: {each.reason}'}")
    return 0


def _carrier(fabric: str, named: Mapping[str, str | None]) -> str:
    """The interface that would carry the fabric, or why there is none."""
    from ddlbench.network.fabrics import infiniband_ports, interface_of
    from ddlbench.sandbox.sandbox import check_sandbox

    try:
        chosen = interface_of(fabric, named)
        if fabric == "emulated":
            check_sandbox()
            return f"{chosen.name} of each emulated host"
    except DdlbenchError as error:
        return f"none: {str(error).splitlines()[0].removeprefix(f'fabric {fabric}: ').rstrip(':')}"
    ports = "".join(f", InfiniBand port {port}" for port in infiniband_ports(chosen, named))
    return f"{chosen.name}{ports}{', named by the configuration' if named.get(fabric) else ''}"
