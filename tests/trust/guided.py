"""
`make fuzz-guided`: inputs that libFuzzer finds by the code they reach, against what reads them.

`python tests/trust/guided.py TARGET [options of libFuzzer]`. What breaks is written to a file that is named; given
in place of the options it is tried again.
"""

import asyncio
import gzip
import json
import logging
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["penstock"]):
    from penstock.agent import Assessor, Poller, process
    from penstock.agent.checkpoint import Checkpoint
    from penstock.agent.packed import checksummed, decompressed, pack, unpack
    from penstock.brokers.artemis.reader import ArtemisReader
    from penstock.config.loading import load
    from penstock.config.web import load_web
    from penstock.core.errors import PenstockError
    from penstock.exposition import negotiate
    from penstock.settings.policy import Policy
    from penstock.transports.recording import RecordingTransport
    from trust.test_fuzz import (
        FIRST_POLL,
        RECORDED,
        messages,
        plain,
        polled,
        recovers,
        watched,
    )

FOLDER = Path(tempfile.mkdtemp(prefix="penstock-guided-"))


def configuration(data: bytes) -> None:
    file = FOLDER / "penstock.yaml"
    file.write_bytes(data)
    with suppress(PenstockError):
        load(file, {"NAME": "value"})


def web_configuration(data: bytes) -> None:
    file = FOLDER / "web.yaml"
    file.write_bytes(data)
    with suppress(PenstockError):
        load_web(file)


def answers(data: bytes) -> None:
    """A good poll, one in which an answer is `data` (the first byte says which), and good ones again."""

    async def play() -> None:
        poller, transport = watched()
        assert await polled(poller, transport, plain) == ""
        asked = 0
        wanted = data[0] % (len(FIRST_POLL) + 1) if data else 0

        def change(real: list[object]) -> bytes:
            nonlocal asked
            asked += 1
            return data[1:] if asked - 1 == wanted else plain(real)

        await polled(poller, transport, change)
        messages(poller)
        await recovers(poller, transport)

    asyncio.run(play())


def headers(data: bytes) -> None:
    text = data.decode("latin-1")
    negotiate.answer(text)
    negotiate.accepts_gzip(text)


def recording(data: bytes) -> None:
    file = FOLDER / "recording.jsonl.gz"
    file.write_bytes(gzip.compress(data, 1))

    async def play() -> None:
        transport = RecordingTransport(file)
        poller = Poller(ArtemisReader(transport), Assessor(Policy("b"), 5.0), 4.5)
        for _ in range(2):
            result = await poller.poll()
            assert "the log has the details" not in result.error, result.error
        await poller.close()

    with suppress(PenstockError):
        asyncio.run(play())


def state(data: bytes) -> None:
    """The packed content: what a checksum covers is else refused at once."""
    with suppress(ValueError):
        unpack(decompressed(checksummed(data)), Checkpoint)


def saved() -> bytes:
    """What is kept of a broker after two polls, not packed."""

    async def play() -> bytes:
        poller, transport = watched()
        for _ in range(2):
            assert await polled(poller, transport, plain) == ""
        checkpoint = poller.assessor.checkpoint()
        assert checkpoint is not None
        return pack(checkpoint)

    return asyncio.run(play())


TARGETS: dict[str, Callable[[bytes], None]] = {
    "answers": answers,
    "configuration": configuration,
    "web": web_configuration,
    "headers": headers,
    "recording": recording,
    "state": state,
}
CONFIGURATION = """\
interval: 5s
rules: [{match: {queue: "a.*"}, owner: "x", alert: {ring_loss: true}, patience: 5m}]
constants: {cold: 300}
brokers:
  - {name: a, kind: artemis, url: "http://127.0.0.1:8161/console/jolokia", username: u, password: "${NAME}"}
"""
WEB = "tls_server_config: {cert_file: c.pem, key_file: k.pem}\nbasic_auth_users: {a: $2b$10$x}\n"


def seeds() -> dict[str, list[bytes]]:
    """Where each begins."""
    bodies = [bytes([n]) + plain(call["answer"]) for n, call in enumerate(FIRST_POLL)]
    lines = gzip.decompress(RECORDED.read_bytes()).splitlines(keepends=True)
    return {
        "answers": [body for body in bodies if len(body) < 50_000],
        "configuration": [CONFIGURATION.encode()],
        "web": [WEB.encode()],
        "headers": [
            b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3,*/*;q=0.1",
            b"gzip;q=0, *",
        ],
        "recording": [b"".join(lines[:6])],
        "state": [saved()],
    }


def main() -> None:
    name = sys.argv[1]
    options = sys.argv[2:]
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds()[name]):
        (corpus / str(number)).write_bytes(seed)
    process.tune()
    logging.disable()
    given = [] if any(Path(one).is_file() for one in options) else [str(corpus)]
    atheris.Setup(
        [sys.argv[0], "-timeout=60", "-rss_limit_mb=4096", *options, *given],
        TARGETS[name],
    )
    print(json.dumps({"target": name, "folder": str(FOLDER)}), flush=True)  # noqa: T201 - where it works
    atheris.Fuzz()


if __name__ == "__main__":
    main()
