# Everything a developer runs. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What Python compiled is kept: the tests start a hundred programs, which start three times as fast then
unexport PYTHONDONTWRITEBYTECODE

# Installs a Debian package as root; as anyone else it says what to install. $(1): package, $(2): why
need = { if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "Installing $(1): $(2)"; apt-get -qq update && apt-get -qq install -y $(1) >/dev/null; \
	else echo "$(2) needs the package $(1). Please run: sudo apt-get install $(1)" >&2; exit 1; fi; }

.PHONY: help demo setup lint test judge-recordings clean
.NOTPARALLEL:

# "## day: [OPTION=1] text (1 min)" after a target that people run: its group here, its options, what it does, how long
help:
	@for group in "day=Every day" "merge=Before a merge" "nightly=At night, or before a release"; do \
		printf '\n%s\n' "$${group#*=}"; \
		sed -nE "/  ## $${group%%=*}: /{ s/:.*  ## [a-z]+: (\[[^]]*\])?/ \1  /; s/   /  /; s/^/make /p; }" Makefile | sort; done

demo: $(VENV)/.demo  ## day: a real broker with load and faults, Penstock beside it (first time 1 min, then 15 s; needs Java 17, Maven)
	$(BIN)/penstock demo

setup: $(VENV)/.test  ## day: the virtual environment (first time 1 min)

STANDARDS = PYTHONPATH=tests $(BIN)/python -m standards
LINT = $(BIN)/ruff check && $(BIN)/ruff format --check && $(STANDARDS) && $(BIN)/mypy && $(BIN)/lint-imports

lint: $(VENV)/.test  ## day: ruff, mypy, the import contracts, and whether any room is harder to read than it was (1 min)
	$(LINT)

# Of make test: they wait for polls more than they work.
WORKERS ?= 3
UNIT = $(BIN)/pytest -n auto --dist worksteal --hypothesis-profile=quick
NEEDS = broker or prometheus or spark or nightly

.PHONY: unit coverage nightly

unit: $(VENV)/.test  ## day: the tests that need no broker, Java, Spark or download (1 min)
	$(UNIT) -m "not ($(NEEDS) or slow)"

test: $(VENV)/.test  ## merge: all checks and tests, against real brokers (first time 20 min, then 14 min; needs Java 17, Maven)
	@mkdir -p build; ($(LINT)) >build/lint.txt 2>&1 & \
	$(BIN)/pytest -n $(WORKERS) --dist loadscope; tested=$$?; wait $$!; linted=$$?; cat build/lint.txt; [ $$linted = 0 ] || echo "linters: failed"; exit $$((tested || linted))

nightly: $(VENV)/.test  ## nightly: the tests that are rarely red and slow (15 min)
	$(BIN)/pytest -n $(WORKERS) --dist loadscope -m nightly

coverage: $(VENV)/.test  ## merge: how much of each room of the package the tests run that need no broker, Java or Spark (10 min)
	$(UNIT) -m "not ($(NEEDS))" --quiet --cov --cov-report=
	@PYTHONPATH=tests $(BIN)/python -m rig.rooms

ROOM ?= conditions

.PHONY: mutants

# What it found is kept in build/mutants.json, for functions and tests that have not changed.
mutants: $(VENV)/.test  ## nightly: [ROOM=conditions FILE=... FUNCTION=... TESTS=...] small changes to the code that no test notices (3 min for a file)
	@PYTHONPATH=tests $(BIN)/python -m mutants --room "$(ROOM)" --file "$(FILE)" --function "$(FUNCTION)" --tests "$(TESTS)"

DIR ?= tests/recordings/judged
COLD ?= 45
TREND ?= 60

judge-recordings: $(VENV)/.test  ## day: [DIR=... COLD=45 TREND=60] judges recordings of labelled situations (10 s)
	@PYTHONPATH=tests $(BIN)/python -m labelled.recordings "$(DIR)" "$(COLD)" "$(TREND)"

clean:  ## day: removes what was made here; downloads stay in ~/.cache/penstock (or PENSTOCK_CACHE)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find exporter tests bench dashboards -name __pycache__ -prune -exec rm -rf {} +

.PHONY: flowbench flowbench-openmq flowbench-classic flowbench-generated bench-classic test-account-openmq test-actions soak-healthy soak kills test-classic

KILLS ?= 200

# Healthy load, every warning is a false alarm: artemis, openmq or both, seconds; KEEP: a folder for the recordings
BROKER ?= both
KEEP ?=
soak-healthy: DURATION ?= 7200
# Churn and faults, seconds
soak: DURATION ?= 1800
SEED ?= 1

# Labelled faults and healthy look-alikes on real brokers; ONLY: parts of names, by commas
ONLY ?=
POLL ?= 5

flowbench-openmq: $(VENV)/.test  ## nightly: [ONLY=...] labelled faults and look-alikes on a real OpenMQ (4 min)
	@PYTHONPATH=tests $(BIN)/python -m flowbench.openmq --only "$(ONLY)"

flowbench-classic: $(VENV)/.test  ## nightly: [ONLY=...] labelled faults and look-alikes on a real ActiveMQ Classic (4 min)
	@PYTHONPATH=tests $(BIN)/python -m flowbench.classic --only "$(ONLY)"

flowbench-generated: $(VENV)/.test  ## nightly: [SEED=1 COUNT=60 LOAD=0 HEALTHY=] situations that a grammar makes, on a real Artemis and OpenMQ; LOAD: processes that only compute, beside; HEALTHY=1: no faults (25 min)
	@PYTHONPATH=tests $(BIN)/python -m flowbench.generated --seed "$(SEED)" --count "$(or $(COUNT),60)" --load "$(or $(LOAD),0)" \
		--only "$(ONLY)" $(if $(HEALTHY),--healthy)

test-classic: $(VENV)/.test  ## nightly: the newest ActiveMQ Classic, embedded: its numbers, a few faults (1 min)
	$(BIN)/pytest tests/e2e/classic_newest_check.py tests/e2e/test_classic.py

test-account-openmq: $(VENV)/.test  ## nightly: [ACCOUNT_SECONDS=90 POLL=5] every message of faults and look-alikes balances on a real OpenMQ, longer than in make test (3 min)
	PENSTOCK_ACCOUNT_SECONDS=$(or $(ACCOUNT_SECONDS),90) PENSTOCK_ACCOUNT_POLL=$(POLL) $(BIN)/pytest tests/e2e/test_account_openmq.py

test-actions: $(VENV)/.test  ## merge: every action of docs/actions.md on a real Artemis and OpenMQ, as it is printed: its effect is held to what happens (4 min)
	$(BIN)/pytest tests/actions/live_check.py tests/actions/openmq_check.py

.PHONY: test-init

test-init: $(VENV)/.test  ## merge: penstock init on a fresh Artemis 2.28 and 2.44 and a fresh OpenMQ, then check, twice, and undo (1 min)
	$(BIN)/pytest tests/setup/init_check.py tests/setup/test_init_live.py

flowbench: $(VENV)/.test  ## nightly: [SEED=1 POLL=5 ONLY=...] labelled faults and look-alikes on real brokers (8 min)
	@PYTHONPATH=tests $(BIN)/python -m flowbench.bench --seed "$(SEED)" --interval "$(POLL)" --only "$(ONLY)"

soak-healthy: $(VENV)/.test  ## nightly: [BROKER=both DURATION=7200 SEED=1 KEEP=...] healthy load on real brokers, every alarm is false (2 h)
	@PYTHONPATH=tests $(BIN)/python -m flowbench.soak --broker "$(BROKER)" --duration "$(DURATION)" \
		--seed "$(SEED)" --interval "$(POLL)" $(if $(KEEP),--keep "$(KEEP)")

.PHONY: test-trust test-account failovers fuzz fuzz-guided

test-trust: $(VENV)/.test  ## nightly: faults that take longer than make test has time for (20 min)
	$(BIN)/pytest tests/trust/*_check.py

.PHONY: check-consumers check-normal

check-consumers: $(VENV)/.test  ## nightly: clients that leak, crash and settle in any order on a real Artemis: who is named, the oldest message (5 min)
	$(BIN)/pytest -s tests/e2e/consumers_check.py

check-normal: $(VENV)/.test  ## nightly: silent producers, a missed run, slower work, a leak, mass expiry on a real Artemis, against what is normal: seconds beside the bar (11 min)
	$(BIN)/pytest -s tests/e2e/normal_check.py

.PHONY: test-clusters test-appservers test-versions test-certificates

test-clusters: $(VENV)/.test  ## nightly: cluster, bridge, mirror and pairs of real Artemis brokers: no message counts twice, failovers, split brain (6 min)
	$(BIN)/pytest -s tests/e2e/clusters_check.py

test-appservers: $(VENV)/.test  ## nightly: GlassFish and Payara with an application: numbers against its own, a bean that hangs (12 min)
	$(BIN)/pytest -s tests/e2e/appservers_check.py

test-versions: $(VENV)/.test  ## nightly: Artemis 2.28, 2.44 and the newest: collectors, numbers, conditions, guard (3 min)
	$(BIN)/pytest -s tests/e2e/versions_check.py

test-certificates: $(VENV)/.test  ## nightly: a real Artemis behind Jolokia's agent with mutual TLS (1 min)
	$(BIN)/pytest -s tests/e2e/certificates_check.py

.PHONY: test-incidents

test-incidents: $(VENV)/.test  ## nightly: chains of causes on a real Artemis and OpenMQ: one incident each, with its root and its victims (11 min)
	$(BIN)/pytest -s tests/incidents/incidents_check.py tests/incidents/openmq_check.py

.PHONY: test-account

test-account: DURATION ?= 360
test-account: $(VENV)/.test  ## nightly: [DURATION=360 ONLY=...] 57 situations on a real Artemis: every message booked to its true reason (15 min)
	$(if $(ONLY),,$(BIN)/pytest tests/account/live/rare_check.py)
	@PYTHONPATH=tests $(BIN)/python -m account.live --seconds "$(DURATION)" --only "$(ONLY)"

.PHONY: test-causes test-causes-openmq

test-causes-openmq: $(VENV)/.test  ## nightly: [ONLY=...] situations of known cause on a real OpenMQ (3 min)
	@PYTHONPATH=tests $(BIN)/python -m causes.live_openmq --only "$(ONLY)"

test-causes: $(VENV)/.test  ## nightly: [ONLY=...] 84 situations of known cause on a real Artemis: what is proven is true, what is true is not excluded (4 min)
	@PYTHONPATH=tests $(BIN)/python -m causes.live --only "$(ONLY)"

failovers: $(VENV)/.test  ## nightly: [COUNT=20] of a replicated and of a shared-store pair: each reported once, no counter falls, sums are true (20 min)
	@for pair in replicated shared; do PYTHONPATH=tests $(BIN)/python -m trust.failovers $(or $(COUNT),20) $$pair || exit 1; done

FUZZ ?= 2000

fuzz: $(VENV)/.test  ## nightly: [FUZZ=2000] all property tests on FUZZ random examples each; make unit and make test have few, the same each time (1 h)
	PENSTOCK_FUZZ=$(FUZZ) $(BIN)/pytest -n $(WORKERS) --dist loadscope -m hypothesis --hypothesis-profile=fuzz --timeout=7200

TARGETS ?= headers configuration web state recording answers
SECONDS ?= 300

fuzz-guided: $(VENV)/.test  ## nightly: [SECONDS=300 TARGETS=...] inputs that libFuzzer finds by the code they reach, for each reader (30 min)
	@mkdir -p build
	$(BIN)/pip install --quiet 'atheris>=3'
	@for target in $(TARGETS); do echo "$$target"; \
		$(BIN)/python tests/trust/guided.py $$target -max_total_time=$(SECONDS) -max_len=60000 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix=build/ || exit 1; done

kills: $(VENV)/.test  ## nightly: [KILLS=200 SEED=1] the agent killed at random moments on a real broker: no counter falls, no event is lost (12 min)
	@PYTHONPATH=tests $(BIN)/python -m trust.kills --kills "$(KILLS)" --seed "$(SEED)"

soak: $(VENV)/.test  ## nightly: [DURATION=1800 SEED=1] real brokers with churn and faults: memory, descriptors, tasks stay flat (30 min)
	@PYTHONPATH=tests $(BIN)/python -m trust.soak "$(DURATION)" "$(SEED)"

.PHONY: soak-moving

soak-moving: DURATION ?= 300
soak-moving: $(VENV)/.test  ## nightly: [DURATION=300] 12,000 consumers on a real Artemis, a twentieth replaced in each poll: totals are their own logs (7 min)
	@PYTHONPATH=tests:. $(BIN)/python -m trust.crowd --seconds "$(DURATION)"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed. Name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(call need,python3-venv,a virtual environment)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'  # the first with --group
	@touch $@

# Pure Python and wheels only: no compiler. The broker is downloaded meanwhile; what goes wrong with that `penstock demo`
# says, which waits for it.
$(VENV)/.demo: $(VENV)/.made pyproject.toml exporter/demo/pyproject.toml
	@PYTHONPATH=exporter:exporter/demo $(PYTHON) -m penstock_demo.artemis >/dev/null 2>&1 & \
	$(BIN)/pip install --quiet -e . -e ./exporter/demo
	@touch $@

# the AMQP client of the tests is built from source, the newest broker of the tests needs javac
$(VENV)/.test: $(VENV)/.made pyproject.toml exporter/demo/pyproject.toml
	@command -v gcc >/dev/null || $(call need,gcc,the AMQP client of the tests)
	@[ -e "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || \
		$(call need,python3-dev,the AMQP client of the tests)
	@command -v tmux >/dev/null || $(call need,tmux,the tests of penstock top)
	@command -v javac >/dev/null || [ -x "$$JAVA_HOME/bin/javac" ] || \
		$(call need,openjdk-17-jdk-headless,the newest broker of the tests)
	$(BIN)/pip install --quiet -e '.[all]' -e ./exporter/demo --group test --group lint
	@touch $@

demo-trends: $(VENV)/.test  ## merge: a report on the imagined history of two brokers, in ./demo-trends (3 min; needs Java 17)
	@$(BIN)/python -m penstock_demo.trends demo-trends

.PHONY: demo-trends

bench-forecast: $(VENV)/.test  ## nightly: [M4_TRAIN=Hourly-train.csv M4_TEST=...] scores the forecast on imagined queues, and on the M4 hourly series (1 min)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.forecast

bench-conclusions: $(VENV)/.test  ## nightly: scores limits, growth, changes, pace and what-if against known truths (1 min)
	@PYTHONPATH=exporter:tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.conclusions

test-spark-cluster: $(VENV)/.test  ## nightly: trends on a real Spark cluster with history on a real S3 server (15 min)
	$(BIN)/pytest tests/trends/cluster_check.py

SPARK_35 = $(or $(PENSTOCK_CACHE),$(HOME)/.cache/penstock)/spark-3.5
$(SPARK_35): | $(VENV)/.test
	$(BIN)/pip install --quiet --target $@ 'pyspark>=3.5,<3.6'

test-spark-older: $(VENV)/.test $(SPARK_35)  ## nightly: trends on Spark 3.5 (first time 3 min, then 4 min; needs Java 17)
	PYTHONPATH=$(SPARK_35) $(BIN)/pytest -W default tests/trends/test_rollup.py tests/trends/test_job.py tests/trends/test_fates.py tests/trends/test_episodes.py

bench-trends: $(VENV)/.test  ## nightly: rollup beside DuckDB, daily job at 90 and 365 days, a day of 500 to 10,000 queues, bytes beside Prometheus (40 min; needs Java 17, Maven)
	PYTHONPATH=tests $(BIN)/python -m bench.trends

.PHONY: test-spark-cluster bench-trends bench-forecast bench-conclusions bench-tick bench-judge bench-season bench-journal bench-scrape bench-pages bench-prometheus bench-boards bench-rules bench-growth bench-fairness bench-held bench-broker bench-asked bench-jmx bench-trust test-spark-older

bench-tick: $(VENV)/.test  ## nightly: a whole tick at 750,000 series beside json + prometheus_client: CPU, memory (5 min)
	$(BIN)/python -m bench.tick

bench-season: $(VENV)/.test  ## nightly: eight weeks of 200 healthy queues and 60 faults through the judgement: false alarms, detection times (10 min)
	$(BIN)/python -m bench.season

bench-judge: $(VENV)/.test  ## nightly: the judgement of a poll by stage, and the memory of what it carries (15 s)
	$(BIN)/python -m bench.judge

bench-journal: $(VENV)/.test  ## nightly: what it costs to record a poll before it is shown, at 100 and 10,000 queues (1 min)
	$(BIN)/python -m bench.journal

bench-scrape: $(VENV)/.test  ## nightly: latency of scrapes and health, memory with slow readers (14 min)
	$(BIN)/python -m bench.scrape

test-pages: $(VENV)/.test  ## merge: the status page in a real Chromium: three clicks on the demo, accessibility (3 min; needs Chromium)
	@command -v chromedriver >/dev/null || $(call need,chromium-driver,the browser of the tests)
	$(BIN)/pytest tests/pages/browser_check.py

.PHONY: test-pages

bench-pages: $(VENV)/.test  ## nightly: how long the status page takes at 10,000 queues, and what health and scrapes take beside it (4 min)
	$(BIN)/python -m bench.pages

bench-prometheus: $(VENV)/.test  ## nightly: a real Prometheus takes the whole body (4 min)
	PYTHONPATH=tests $(BIN)/python -m bench.prometheus

bench-boards: $(VENV)/.test  ## nightly: answers and CPU of each dashboard's first screen on a real Prometheus with 10,000 queues (10 min)
	PYTHONPATH=tests $(BIN)/python -m bench.boards --details

bench-rules: $(VENV)/.test  ## nightly: CPU of a real Prometheus for each group of rules, 10,000 queues, 2,000 alerts firing (20 min)
	PYTHONPATH=tests $(BIN)/python -m bench.rules

bench-growth: $(VENV)/.test  ## nightly: CPU of a poll by queues, churn, brokers (6 min)
	$(BIN)/python -m bench.growth

bench-fairness: $(VENV)/.test  ## nightly: nine small brokers beside one of 100,000 queues: polls missed, scrapes, memory, how fast it stops (15 min)
	$(BIN)/python -m bench.fairness

bench-held: $(VENV)/.test  ## nightly: which lines keep Python's lock for long beside a broker of 100,000 queues (4 min)
	$(BIN)/python -m bench.held

bench-classic: $(VENV)/.test  ## nightly: CPU that a poll of 10,000 queues takes of an ActiveMQ Classic (3 min)
	PYTHONPATH=tests $(BIN)/python -m bench.classic

bench-jmx: $(VENV)/.test  ## nightly: asking an OpenMQ: a poll over Jolokia, the JMX helper beside jmxquery (15 min)
	PYTHONPATH=tests $(BIN)/python -m bench.jmx

bench-trust: $(VENV)/.test  ## nightly: 100 scrapers, 1,000 slow connections, wrong passwords: polls, health, logins, who is refused (3 min)
	$(BIN)/python -m bench.trust measure

bench-broker: $(VENV)/.test  ## nightly: harm to a real Artemis, beside the JMX exporter's agent (40 min, alone on the machine)
	$(BIN)/python -m bench.harm

bench-asked: $(VENV)/.test  ## nightly: what each request costs a real Artemis (4 min)
	$(BIN)/python -m bench.asked

AGAINST ?= 283a76f

.PHONY: compare compare-tick

compare: $(VENV)/.test  ## merge: [AGAINST=283a76f] conditions and /metrics of all recordings, the same as of another commit (2 min)
	@$(BIN)/python -m bench.compare --against "$(AGAINST)"

compare-tick: $(VENV)/.test  ## nightly: [AGAINST=283a76f] CPU and memory of a whole tick beside those of another commit (12 min)
	@$(BIN)/python -m bench.compare.tick --against "$(AGAINST)"

.PHONY: docs

docs: $(VENV)/.test  ## day: the documentation as a site, in build/site; fails at a broken link (20 s)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: pictures

pictures: $(VENV)/.test  ## merge: those of README and docs, from the demo as it is; make release-dry refuses old ones (3 min; needs Java 17, Maven, Chromium)
	PYTHONPATH=tests $(BIN)/python -m pages.pictures

.PHONY: alertbench alertbench-openmq

alertbench-openmq: $(VENV)/.test  ## nightly: [ONLY=...] labelled situations on a real OpenMQ fire their alerts and no other (7 min)
	@PYTHONPATH=tests $(BIN)/python -m alertbench.openmq --only "$(ONLY)"

alertbench: $(VENV)/.test  ## nightly: [SEED=1 POLL=5 ONLY=...] labelled situations fire their alerts and no other (11 min)
	@PYTHONPATH=tests $(BIN)/python -m alertbench.bench --seed "$(SEED)" --interval "$(POLL)" --only "$(ONLY)"

.PHONY: test-alert-mutants test-storm

test-storm: $(VENV)/.test .tools/amtool .tools/alertmanager  ## nightly: 2,000 queues of one dead application give one page, and what the rules cost (3 min; needs Go)
	$(BIN)/pytest -s tests/assets/storm_check.py

test-alert-mutants: $(VENV)/.test  ## nightly: every change to an alerting or recording rule fails a test (15 min)
	$(BIN)/pytest -n $(WORKERS) tests/assets/mutation_check.py

ALERTMANAGER := github.com/prometheus/alertmanager/cmd

.PHONY: test-alertmanager

test-alertmanager: $(VENV)/.test .tools/amtool .tools/alertmanager  ## nightly: the example for Alertmanager on the real thing (2 min; needs Go)
	$(BIN)/pytest tests/assets/alertmanager_check.py

.tools/amtool .tools/alertmanager:
	@command -v go >/dev/null || { echo "test-alertmanager needs Go 1.24 or newer: https://go.dev/dl" >&2; exit 1; }
	GOBIN=$(CURDIR)/.tools go install $(ALERTMANAGER)/$(@F)@v0.31.1

.PHONY: test-chart chart-golden tools-helm

# helm, built from source by Go into .tools; 10 min the first time
TOOLS := $(abspath .tools)
HELM ?= $(TOOLS)/helm

tools-helm: $(TOOLS)/helm

$(TOOLS)/helm:
	GOBIN=$(TOOLS) nice go install -p 2 helm.sh/helm/v4/cmd/helm@v4.3.1

test-chart: $(VENV)/.test $(HELM)  ## merge: the Helm chart with helm itself (first time 10 min, then 20 s; needs Go)
	HELM=$(HELM) $(BIN)/pytest tests/deploy

.PHONY: test-cluster sbom audit licences release-dry test-install

test-install: $(VENV)/.test $(HELM)  ## nightly: each documented way to install, from its page: checkout, wheel, sdist, systemd, .deb, compose, images as the chart's objects and the sidecars start them, the Spark operator's driver (first time 25 min; the images need root)
	@command -v buildah >/dev/null || $(call need,buildah,the images)
	@command -v mmdebstrap >/dev/null || $(call need,mmdebstrap,the images' root file system)
	HELM=$(HELM) $(BIN)/pytest tests/deploy/install_check.py tests/deploy/image_check.py

release-dry: $(VENV)/.test  ## merge: wheel, sdist, .deb, chart and notes of a release in build/release; nothing is published (1 min)
	PYTHONPATH=tests $(BIN)/python -m pages.pictures --check
	HELM=$(HELM) deploy/release.sh build/release

# what the image holds, as CycloneDX; 1 min
sbom:  ## nightly: what the image holds: sbom-agent.json, sbom-trends.json (CycloneDX, 1 min)
	$(PYTHON) -m venv $(TOOLS)/sbom && $(TOOLS)/sbom/bin/pip install --quiet 'cyclonedx-bom>=6'
	for one in agent trends; do $(TOOLS)/sbom/bin/cyclonedx-py requirements deploy/image/requirements-$$one.txt \
		--pyproject pyproject.toml --output-reproducible --output-file sbom-$$one.json; done

# every version that the image holds or is built with; needs the vulnerability data of PyPI; 1 min
audit:  ## merge: the image's dependencies against known vulnerabilities; fails where one could not be looked up (1 min)
	$(PYTHON) -m venv $(TOOLS)/audit && $(TOOLS)/audit/bin/pip install --quiet 'pip-audit>=2.9'
	$(TOOLS)/audit/bin/pip-audit --strict --disable-pip --require-hashes \
		$(foreach one,agent trends build,--requirement deploy/image/requirements-$(one).txt)

# from the packages' own metadata; an unknown licence fails tests/deploy/test_supply.py
licences: $(VENV)/.test  ## merge: deploy/licences.md, the licence of each dependency (10 s)
	$(BIN)/pip install --quiet --require-hashes --requirement deploy/image/requirements-build.txt
	$(BIN)/python deploy/licences.py deploy/licences.md

$(TOOLS)/etcd:
	cd deploy/kubernetes/etcd && nice go build -p 2 -ldflags "-s -w" -o $(TOOLS)/etcd go.etcd.io/etcd/server/v3

.PHONY: test-collector

# only what scrapes addresses that are named: without the clients of all clouds that it could discover in
$(TOOLS)/collector: $(wildcard deploy/opentelemetry/*)
	cd deploy/opentelemetry && nice go build -p 2 -tags remove_all_sd -ldflags "-s -w" -o $(TOOLS)/collector .

test-collector: $(VENV)/.test $(TOOLS)/collector  ## nightly: deploy/plain/otel-collector.yaml on a real OpenTelemetry collector (first time 20 min, then 1 min; needs Go)
	$(BIN)/pytest tests/deploy/collector_check.py

KUBE := k8s.io/component-base/version
$(TOOLS)/kube-apiserver:
	cd deploy/kubernetes/apiserver && nice go build -p 2 -o $(TOOLS)/kube-apiserver \
		-ldflags "-s -w -X $(KUBE).gitVersion=v1.36.3 -X $(KUBE).gitMajor=1 -X $(KUBE).gitMinor=36" k8s.io/kubernetes/cmd/kube-apiserver

# a real API server: install, upgrade and roll back the chart; 15 min the first time, then 1 min
test-cluster: $(VENV)/.test $(HELM) $(TOOLS)/etcd $(TOOLS)/kube-apiserver  ## nightly: the chart with 48 sets of values on a real Kubernetes API server (first time 15 min, then 1 min; needs Go)
	HELM=$(HELM) PYTHONPATH=tests $(BIN)/python -m deploy.cluster

chart-golden: $(VENV)/.test $(HELM)  ## merge: the chart's golden files made again (first time 10 min, then 20 s; needs Go)
	$(BIN)/python helm/generate.py
	HELM=$(HELM) PYTHONPATH=tests $(BIN)/python -m deploy.chart
