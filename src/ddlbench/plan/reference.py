"""The tables of every key, from the schemas: `python -m ddlbench.plan.reference > config/README.md`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from ddlbench.configuration.schema import FILES, Schema, Schemas, is_axis, schemas, shown
from ddlbench.plan.catalogue import NAMES

_TOP = """\
<!-- Made from workflow/schemas by `python -m ddlbench.plan.reference > config/README.md` -->
# Configuration

`config.yaml` says how much is measured, `studies/<name>.yaml` what, `links.yaml` over which links, `sites.yaml` between
which places, and `devices.yaml` what replayed devices take.
Anything that is wrong in them is reported, all of it at once, before anything starts.
They are data, in YAML 1.2: `1:30` and `on` are texts, a key is given once, and nothing has a tag.

`snakemake --configfile FILE` and `snakemake --config configuration=FILE` read another file over `config.yaml`, as data
too. (Snakemake itself would run code that a file of `--configfile` holds; `profiles/default` has it checked before,
unless you say `--workflow-profile none`.)
`<name>` stands for a name of your choice.
"""


def readme(root: Path) -> str:
    """Write config/README.md: a table of the keys of each file of the configuration.

    Args:
        root: the repository, for its schemas.

    Returns:
        Markdown.
    """
    rules = schemas(root)
    return "\n".join([_TOP, *(_section(rules, rules.documents[name]) for name in FILES)])


def _section(rules: Schemas, schema: Schema) -> str:
    rows = ["| key | meaning | value | default |", "|---|---|---|---|", *_rows(rules, schema, "")]
    return "\n".join([f"## {schema['title']}\n", f"{schema['description'].strip()}\n", *rows, ""])


def _rows(rules: Schemas, schema: Schema, prefix: str) -> Iterator[str]:
    for key, given in schema.get("properties", {}).items():
        yield from _key(rules, given, prefix + key)
    entries = schema.get("items")
    if entries and "unevaluatedProperties" not in entries:  # the keys of a grid are described where it is
        yield from _rows(rules, rules.resolved(entries), prefix)
    if isinstance(anything := schema.get("additionalProperties"), dict):
        yield from _key(rules, anything, f"{prefix}<name>")


def _key(rules: Schemas, given: Schema, key: str) -> Iterator[str]:
    # a block that another file's section describes is not repeated
    elsewhere = given.get("$ref", "").endswith("/scale")
    schema = rules.resolved(given)
    value = rules.resolved(schema["anyOf"][0]) if is_axis(schema) else schema
    if description := value.get("description"):
        default = "`" + shown(value["default"]).strip("'") + "`" if "default" in value else ""
        cells = (f"`{key}`", description, rules.expectation(schema, NAMES), default)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    if not elsewhere:
        yield from _rows(rules, schema, f"{key}.")


if __name__ == "__main__":
    sys.stdout.write(readme(Path.cwd()))
