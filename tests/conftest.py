"""All tests: their fixtures, which of them run here, and which run together."""

import pytest

pytest.register_assert_rewrite("tests.support")
pytest_plugins = [f"tests.support.{name}" for name in ("selection", "scheduling", "fixtures", "on_cluster")]
