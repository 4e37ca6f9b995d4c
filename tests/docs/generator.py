"""`docs/generate.py` as a module: it is a script of the checkout, and no part of the package."""

import runpy
from pathlib import Path
from types import SimpleNamespace

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = DOCS / "generate.py"
generator = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
