"""The recommender's page: what it is made of, and what is shipped with it."""

import hashlib
import json
import re

import pytest

from tests.support.repository import REPOSITORY

PAGE = REPOSITORY / "src/ddlbench/recommender/page"
VENDORED = json.loads((PAGE / "vendor/vendored.json").read_text())
OWN = sorted(path for path in PAGE.glob("*") if path.is_file())


@pytest.mark.parametrize(
    "name", sorted({path.name for path in (PAGE / "vendor").glob("*.js")} | VENDORED.keys())
)
def test_a_library_of_others_is_the_one_that_was_released(name):
    of = VENDORED[name]
    content = (PAGE / "vendor" / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == of["sha256"]
    assert f"{of['name']} v{of['version']}" in content[:500].decode()
    assert (PAGE / "vendor" / re.search(r"\((.+)\)", of["license"])[1]).is_file()


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_text(path):
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"https?://|//cdn", text)
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text
    )


def test_the_page_has_no_script_and_no_style_of_its_own_which_its_policy_would_refuse():
    text = (PAGE / "index.html").read_text()
    assert not re.findall(r"<style|style=|\son\w+=|javascript:", text)
    assert all(content == "" for content in re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL))


def test_each_field_has_a_label():
    text = (PAGE / "index.html").read_text()
    fields = set(re.findall(r'<(?:input|select) id="(\w+)"', text))
    wrapped = set(re.findall(r'<label class="check"><input id="(\w+)"', text))
    assert fields - wrapped == set(re.findall(r'<label for="(\w+)"', text))
