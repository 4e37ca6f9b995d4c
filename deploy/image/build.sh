#!/usr/bin/env bash
# Builds the image where no container engine runs, as root, on a base made from Debian's packages: a proof that the
# Dockerfile works. $1: a directory for what is made (4 GB), $2: the stage (agent, agent-jmx or trends),
# or base for that alone.
set -euo pipefail
work=$(realpath -m "${1:?a directory for what is made}")
stage=${2:-agent}
top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$work"
buildah() { command buildah --storage-driver "$driver" --root "$work/root" --runroot "$work/run" "$@"; }

command -v buildah mmdebstrap >/dev/null || { echo "needs the packages buildah and mmdebstrap" >&2; exit 1; }
# With overlay the steps that stages share are kept; within a container there may be none, and vfs copies each step.
driver=overlay
buildah info >/dev/null 2>&1 || driver=vfs
if ! buildah inspect --type image localhost/base >/dev/null 2>&1; then
	mkdir -p "$work/base"
	mmdebstrap --variant=apt --include=python3,python3-venv,ca-certificates bookworm "$work/base/root.tar"
	printf 'FROM scratch\nADD root.tar /\n' >"$work/base/Dockerfile"
	buildah build --isolation chroot --tag localhost/base "$work/base"
	rm "$work/base/root.tar"
fi
[ "$stage" != base ] || exit 0
# A copy of the machine's own authorities: it may reach the registries through a proxy.
cp -rLT /etc/ssl/certs "$work/certs" 2>/dev/null || true  # some links may lead nowhere
keep=$([ "$driver" = overlay ] && echo true || echo false)
buildah build --isolation chroot --network host --layers="$keep" --volume "$work/certs:/etc/ssl/certs" \
	--env PIP_CERT=/etc/ssl/certs/ca-certificates.crt --build-arg BASE=localhost/base --target "$stage" \
	--build-arg "REVISION=$(git -C "$top" rev-parse HEAD 2>/dev/null || true)" \
	--file "$top/deploy/image/Dockerfile" --tag "localhost/penstock:$stage" "$top"
buildah images --format "--- {{.Name}}:{{.Tag}} {{.Size}}" "localhost/penstock:$stage"
container=$(buildah from "localhost/penstock:$stage")
trap 'buildah rm "$container" >/dev/null' EXIT
echo "--- as user: $(buildah run --isolation chroot "$container" id -u)"
buildah run --isolation chroot "$container" penstock --version
buildah run --isolation chroot "$container" sh -c 'penstock check --help >/dev/null && python3 -c "import pyarrow.dataset, pyarrow.fs, pyarrow.parquet"' && echo "--- the image works"
[ "$stage" != trends ] || buildah run --isolation chroot "$container" sh -c 'penstock trends run --help >/dev/null && "$JAVA_HOME/bin/java" -version'
