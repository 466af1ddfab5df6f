"""The API by its OpenAPI description: Schemathesis makes right and wrong requests, alone and in a row."""

import re
from collections import Counter
from itertools import count

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ddlbench.recommender.uploads import NAME
from tests.support.recommender_server import ANWAR, MOST_S, served

# A valid request may be refused all the same, by what was measured: an unknown model, a name that is taken.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DRAWN = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
FEW_ROWS = "".join(ANWAR.splitlines(keepends=True)[:4]).encode()
pytestmark = pytest.mark.long
BODIES = st.one_of(
    st.just(FEW_ROWS),  # often, so that some requests in a row are right in all else too
    st.sampled_from([FEW_ROWS.replace(b"419", b"-419"), FEW_ROWS[:60], b"workers\n1\n", b""]),
    st.binary(max_size=200),
    st.lists(st.text(max_size=20), max_size=20).map(lambda cells: ",".join(cells).encode()),
)
NAMES = (
    "model",
    "framework",
    "strategy",
    "devices",
    "runtime",
    "image_shape",
    "machine",
    "beta",
    "budget",
    "images",
)
# Few, as learning from an imported one takes a process, and a second.
TABLES = ("first", "second", "third", "fourth")


@pytest.fixture
def description(tmp_path):
    for kind in ("text/csv", "application/vnd.apache.parquet"):
        schemathesis.openapi.media_type(kind, BODIES)
    with served(tmp_path) as server:
        assert server.import_table("anwar", ANWAR).status_code == 201
        found = schemathesis.openapi.from_url(f"{server.url}openapi.json", timeout=MOST_S)

        @found.hook("map_query")
        def few_tables(context, query):
            if query and context.operation.path == "/import" and _is_a_name(query.get("name")):
                return query | {"name": TABLES[len(query["name"]) % len(TABLES)]}
            return query

        yield found


def _is_a_name(text):
    return isinstance(text, str) and re.fullmatch(NAME, text)


def test_every_request_right_or_wrong_gets_what_the_description_says(description):
    operations = [each.ok() for each in description.get_all_operations()]
    assert len(operations) >= 7
    for operation in operations:
        for mode in _modes(operation):
            statuses = _statuses(operation, mode)
            print(operation.label, mode, statuses)
            assert mode is GenerationMode.NEGATIVE or min(statuses) in (200, 201)


def _statuses(operation, mode):
    """Ask for an operation; which statuses it has answered how often."""
    found = Counter()

    @settings(DRAWN, max_examples=25)
    @given(case=operation.as_strategy(mode))
    def ask(case):
        response = case.call(timeout=MOST_S)
        found[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    ask()
    return found


def _modes(operation):
    can_be_wrong = operation.body or operation.query
    return list(GenerationMode) if can_be_wrong else [GenerationMode.POSITIVE]


def test_requests_that_follow_from_answers_get_what_the_description_says(description):
    """Each import has a name of its own, so that the same requests in another row get the same statuses."""
    statuses = Counter()
    numbers = count()

    class Following(description.as_state_machine()):
        def before_call(self, case):
            if case.path == "/import" and _is_a_name(case.query.get("name")):
                case.query["name"] = f"table{next(numbers)}"
            if isinstance(case.body, dict) and case.meta.generation.mode is GenerationMode.POSITIVE:
                for name in NAMES:  # which hardly anything was measured with, when they are drawn
                    case.body.pop(name, None)

        def get_call_kwargs(self, case):
            return {"timeout": MOST_S}

        def validate_response(self, response, case, **_):
            statuses[case.operation.label, response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

    Following.run(settings=settings(DRAWN, max_examples=50, stateful_step_count=5))
    print(statuses)
    assert statuses["POST /import", 201]
    assert statuses["POST /recommend", 200]
    assert statuses["POST /predict", 200]
