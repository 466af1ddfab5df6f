#!/usr/bin/env -S python3 -IS
"""An OCI runtime for ddlbench: runc, whose containers join the namespaces that their environment variables name.

Tell the Docker daemon of it once:  dockerd --add-runtime ddlbench=/path/to/containers/oci_runtime.py
or, in /etc/docker/daemon.json:     {"runtimes": {"ddlbench": {"path": "/path/to/containers/oci_runtime.py"}}}

A container without these variables is what runc makes of it. The daemon calls this several times for every container;
so it imports as little as it can.
"""

import os
import sys

JOINED = {"DDLBENCH_NETWORK_NAMESPACE": "network", "DDLBENCH_PROCESS_NAMESPACE": "pid"}


def joining(spec: dict) -> dict:  # type: ignore[type-arg]
    """The container's specification with the namespaces joined that its environment names."""
    variables = dict(each.split("=", 1) for each in spec["process"].get("env", ()) if "=" in each)
    paths = {kind: variables[name] for name, kind in JOINED.items() if name in variables}
    others = [each for each in spec["linux"]["namespaces"] if each["type"] not in paths]
    joined = [{"type": kind, "path": path} for kind, path in paths.items()]
    return {**spec, "linux": {**spec["linux"], "namespaces": [*others, *joined]}}


def main(arguments: list[str]) -> None:
    """Change the specification of a container that is to be created, then become runc."""
    if "create" in arguments:
        import json

        bundle = arguments[arguments.index("--bundle") + 1] if "--bundle" in arguments else "."
        file = os.path.join(bundle, "config.json")
        with open(file) as config:
            spec = json.load(config)
        with open(file, "w") as config:
            json.dump(joining(spec), config)
    os.execvp("runc", ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
