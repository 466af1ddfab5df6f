"""python -m inside FUNCTION ARGUMENTS.json ANSWER.json

Modules are imported in turn until one has the function: below User-Mode Linux an import takes long.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

MODULES = ("star", "links", "sites", "checks", "groups", "horovod")

if __name__ == "__main__":
    name, arguments, answer = sys.argv[1:]
    modules = (import_module(f"inside.{module}") for module in MODULES)
    function = next(getattr(module, name) for module in modules if hasattr(module, name))
    Path(answer).write_text(json.dumps(function(**json.loads(Path(arguments).read_text()))))
