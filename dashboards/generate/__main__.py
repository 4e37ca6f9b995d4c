"""`python -m dashboards.generate`: write the dashboards' files beside this package."""

from pathlib import Path

from dashboards.generate import dashboard_files

if __name__ == "__main__":
    for name, text in dashboard_files().items():
        Path(__file__).parents[1].joinpath(name).write_text(text, encoding="utf-8")
