"""The recordings of labelled situations, as `make judge-recordings` judges them: all right, none wrong."""

import json

import pytest

from labelled.recordings import HERE, main


@pytest.mark.slow  # `make judge-recordings` does the same alone
def test_all_recordings_are_judged_right(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(HERE, cold=45.0, trend=60.0)
    *verdicts, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert [
        verdict for verdict in verdicts if verdict["missing"] or verdict["wrong"]
    ] == []
    assert (status, summary) == (
        0,
        {"files": 47, "right": 47, "missing": 0, "wrong": 0},
    )
