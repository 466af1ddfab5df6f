"""Results that must be made again although Snakemake would keep them."""

from pathlib import Path

import pytest

from ddlbench.runs.outdated import has_to_try_again


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ('{"points": [{"status": "measured"}, {"status": "no_environment"}]}', True),
        ('{"points": [{"status": "measured"}, {"status": "stalled", "is_to_try_again": true}]}', True),
        ('{"points": [{"status": "measured", "is_to_try_again": true}]}', True),
        ('{"points": [{"status": "measured", "is_to_try_again": false}]}', False),
        ('{"points": [{"status": "measured"}, {"status": "not_available"}]}', False),
        ("{", False),
        ('{"points": [{"stbtus": "measured"}]}', False),
        ('{"points": null}', False),
        ('{"points": ["measured"]}', False),
    ],
)
def test_only_what_lacks_an_environment_or_a_link_that_does_not_stall_is_tried_again(
    tmp_path: Path, text: str, is_so: bool
) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert has_to_try_again(tmp_path / "manifest.json") is is_so
    assert not has_to_try_again(tmp_path / "none.json")
