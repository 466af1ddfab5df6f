"""All tests: their fixtures, which of them run here, and which run together."""

import pytest

pytest.register_assert_rewrite("tests.support")
pytest_plugins = ["tests.support.selection", "tests.support.fixtures", "tests.support.on_cluster"]
