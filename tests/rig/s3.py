"""A real S3 server on loopback, in a process of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.fs as pf

from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """The URL of an empty bucket; its credentials are CREDENTIALS, in the environment."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    server = Process("s3", command, directory / "s3.log")
    server.start("Running on", timeout=60)
    try:
        endpoint = {
            "endpoint_override": f"{LOOPBACK}:{port}",
            "scheme": "http",
            "region": "us-east-1",
        }
        keys = {
            "access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        }
        pf.S3FileSystem(**endpoint, **keys, allow_bucket_creation=True).create_dir(
            "bucket"
        )
        yield f"s3://bucket?{urlencode(endpoint)}"
    finally:
        server.stop()


def below(url: str, prefix: str) -> str:
    return url.replace("?", f"/{prefix}?", 1)
