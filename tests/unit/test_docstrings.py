"""Docstrings of public functions say what goes in and what comes out, as ruff's own rules do not ask for."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.repository import REPOSITORY

SOURCE = REPOSITORY / "src/ddlbench"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
ATTRIBUTES = {"property", "cached_property", "overload", "setter"}  # they are read, not called
Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(node: ast.AST) -> Iterator[Function]:
    """Public functions, and methods of public classes that are not described where they are declared first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public_functions(child)
        elif (
            isinstance(child, Function)
            and not child.name.startswith("_")
            and ast.get_docstring(child)
            and not ATTRIBUTES & {ast.unparse(each).rpartition(".")[2] for each in child.decorator_list}
        ):
            yield child


def lacking_sections(function: Function) -> list[str]:
    text = ast.get_docstring(function) or ""
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    takes = any(each.arg not in ("self", "cls") for each in given)
    yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(function))
    gives = function.returns is not None and ast.unparse(function.returns) not in (
        "None",
        "NoReturn",
        "Never",
    )
    wanted = ["Args:"] * takes + (["Yields:"] * yields or ["Returns:"] * (gives and takes))
    return [section for section in wanted if section not in text]


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_say_what_goes_in_and_what_comes_out(module: str) -> None:
    lacking = {
        function.name: lacking_sections(function)
        for function in public_functions(ast.parse((SOURCE / module).read_text()))
    }
    found = {name: sections for name, sections in lacking.items() if sections}
    assert not found
