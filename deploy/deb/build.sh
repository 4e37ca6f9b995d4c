#!/usr/bin/env bash
# Builds penstock_VERSION_ARCH.deb with dpkg-deb alone: the agent with history and `top` in /opt/penstock, the unit, and
# an empty configuration. $1: the wheel, $2: where it goes. PYTHON: the Python of the Debian release that it is for.
set -euo pipefail
wheel=$(realpath "${1:?the wheel}")
out=$(realpath -m "${2:?where the package goes}")
top=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-/usr/bin/python3}
pip=${PIP:-pip}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"

version=$(basename "$wheel" | cut -d- -f2)
minor=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
next=$("$python" -c 'import sys; print("{}.{}".format(sys.version_info[0], sys.version_info[1] + 1))')
arch=$(dpkg --print-architecture)
venv=$stage/opt/penstock
"$python" -m venv --without-pip "$venv"
$pip --python "$venv/bin/python" install --quiet --no-cache-dir --no-compile --require-hashes \
	--requirement "$top/deploy/image/requirements-agent.txt"
$pip --python "$venv/bin/python" install --quiet --no-compile --no-deps --no-index "$wheel"
grep -rlI --exclude-dir=site-packages "$stage" "$venv" | xargs -r sed -i "s#$stage##g"
find "$venv" -name direct_url.json -delete # names where the wheel was built

install -Dm644 "$top/deploy/plain/penstock.service" "$stage/usr/lib/systemd/system/penstock.service"
# what a shell and `man` look for, as the package itself has it
mkdir -p "$stage/usr/share/bash-completion/completions" "$stage/usr/share/zsh/vendor-completions" "$stage/usr/share/fish/vendor_completions.d"
run=("$venv/bin/python" -I -B)
"${run[@]}" "$venv/bin/penstock" completion bash >"$stage/usr/share/bash-completion/completions/penstock"
"${run[@]}" "$venv/bin/penstock" completion zsh >"$stage/usr/share/zsh/vendor-completions/_penstock"
"${run[@]}" "$venv/bin/penstock" completion fish >"$stage/usr/share/fish/vendor_completions.d/penstock.fish"
"$venv/bin/python" -B "$top/docs/manual.py" "$stage/usr/share/man/man1"
gzip -9n "$stage"/usr/share/man/man1/*.1

install -Dm644 "$top/LICENSE" "$stage/usr/share/doc/penstock/copyright"
install -Dm600 "$top/deploy/plain/penstock.yaml" "$stage/usr/share/doc/penstock/examples/penstock.yaml"
chmod 644 "$stage/usr/share/doc/penstock/examples/penstock.yaml"
install -d -m755 "$stage/etc/penstock"
install -d -m700 "$stage/etc/penstock/passwords"
install -d "$stage/usr/bin" "$stage/DEBIAN"
ln -s /opt/penstock/bin/penstock "$stage/usr/bin/penstock"
cat >"$stage/DEBIAN/control" <<EOF
Package: penstock
Version: $version
Architecture: $arch
Maintainer: Penstock maintainers <https://github.com/penstock/penstock>
Depends: python3 (>= $minor), python3 (<< $next)
Suggests: default-jre-headless
Section: net
Priority: optional
Homepage: https://github.com/penstock/penstock
Description: Observability agent and Prometheus exporter for JMS brokers
 Watches Apache Artemis, AMQ Broker and Eclipse OpenMQ, and says which consumer
 stalled and why. Java is needed for the transport jmx only.
EOF
cat >"$stage/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
EOF
cat >"$stage/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl stop penstock.service || true; fi
find /opt/penstock -name __pycache__ -prune -exec rm -rf {} +
EOF
chmod 755 "$stage/DEBIAN/postinst" "$stage/DEBIAN/prerm"
mkdir -p "$out"
dpkg-deb -Zgzip --root-owner-group --build "$stage" "$out/penstock_${version}_${arch}.deb"
