"""What an agent is said to need holds what was measured, and not twice as much."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.agent.process import limit_mib, needed_mb
from penstock.cli import main

MEASURED = {4_632: 79, 44_659: 93, 962_619: 384, 3_730_376: 1_128, 3_772_000: 1_223}
"""Peak MB by series, with three scrapes at once: 100, 1,000, 10,000 (50,000 consumers) and
100,000 queues, the last beside nine brokers of 100."""
RECORDING = Path(__file__).parent.parent / "recordings" / "demo-artemis.jsonl.gz"


@pytest.mark.parametrize("series", MEASURED)
def test_a_limit_holds_what_was_measured(series: int) -> None:
    assert MEASURED[series] < limit_mib(series) * 2**20 / 1e6 < MEASURED[series] * 1.75
    assert needed_mb(series) == pytest.approx(MEASURED[series], rel=0.1)


def configuration(folder: Path, *urls: str) -> str:
    brokers = [
        {"name": f"b{n}", "kind": "artemis", "transport": "recording", "url": url}
        for n, url in enumerate(urls)
    ]
    file = folder / "penstock.yaml"
    file.write_text(json.dumps({"brokers": brokers}))
    return str(file)


@pytest.mark.slow  # a large broker
def test_check_says_what_all_brokers_need_together(tmp_path: Path) -> None:
    needs = []
    for count in (1, 2):
        file = configuration(tmp_path, *[f"recording:{RECORDING}"] * count)
        found = CliRunner().invoke(
            main, ["check", "--config.file", file, "--format", "json"]
        )
        needs.append(json.loads(found.output)["memory"])
    one, two = needs
    assert two["series"] == 2 * one["series"] > 0
    assert one["needed_mb"] == round(needed_mb(one["series"]))
    shown = CliRunner().invoke(main, ["check", "--config.file", file]).output
    assert shown.endswith(
        f"memory: about {two['needed_mb']} MB for {two['series']} series; allow {two['limit_mib']} MiB\n"
    )


def test_check_says_nothing_of_memory_where_a_broker_could_not_be_read(
    tmp_path: Path,
) -> None:
    file = configuration(tmp_path, f"recording:{RECORDING}")
    text = json.loads(Path(file).read_text())
    text["brokers"].append(
        {"name": "away", "kind": "artemis", "url": "http://127.0.0.1:1/"}
    )
    Path(file).write_text(json.dumps(text))
    found = CliRunner().invoke(
        main, ["check", "--config.file", file, "--format", "json"]
    )
    assert json.loads(found.output)["memory"] is None
