"""Makes the benches importable, as they are from the root of the project."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
