#!/usr/bin/env bash
# Everything that a release publishes, built and not published, in $1: wheel, sdist, .deb, chart, notes; images where
# docker can build them. `make release-dry` runs it, and so does the release itself (.github/workflows/release.yml).
set -euo pipefail
out=$(realpath -m "${1:?a directory for what is made}")
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
python=${PYTHON:-.venv/bin/python}
version=$("$python" deploy/version.py "${2:-}")
mkdir -p "$out"
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$out" .
"$python" -m pip install --quiet --require-hashes --requirement deploy/image/requirements-build.txt
"$python" -m hatchling build -t sdist -d "$out"
PYTHON=${DEB_PYTHON:-/usr/bin/python3} PIP="$python -m pip" deploy/deb/build.sh "$out/penstock-$version-py3-none-any.whl" "$out"
"$python" deploy/version.py --notes >"$out/notes.md"
if command -v "${HELM:-helm}" >/dev/null; then
	"${HELM:-helm}" package helm/penstock --destination "$out"
else
	echo "release: no helm: the chart is not packaged; make tools-helm builds it" >&2
fi
if [ -n "${BASE:-}" ] && command -v docker >/dev/null; then
	for stage in agent agent-jmx trends; do
		docker buildx build --file deploy/image/Dockerfile --target "$stage" --build-arg "BASE=$BASE" --build-arg "VERSION=$version" \
			--build-arg "REVISION=$(git rev-parse HEAD)" --platform linux/amd64,linux/arm64 --output "type=oci,dest=$out/$stage.tar" .
	done
else
	echo "release: no BASE or no docker: the images are not built; deploy/image/build.sh proves the Dockerfile" >&2
fi
ls -l "$out"
