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

help:
	@echo "make demo    a real broker with load and faults, Penstock beside it (first time 1 min, then 15 s; needs Java 17, Maven)"
	@echo "make unit    the tests that need no broker, Java, Spark or download (1 min)"
	@echo "make test    all checks and tests, against real brokers (first time 20 min, then 17 min; needs Java 17, Maven)"
	@echo "make lint    ruff, mypy and the import contracts (1 min)"
	@echo "make test-again  those alone that failed in make test (1 min)"
	@echo "make coverage  how much of each room of the package make unit runs (2 min)"
	@echo "make judge-recordings [DIR=... COLD=45 TREND=60]  judges recordings of labelled situations (10 s)"
	@echo "make flowbench [SEED=1 POLL=5 ONLY=...]  labelled faults and look-alikes on real brokers (8 min)"
	@echo "make flowbench-openmq [ONLY=...]  the same on a real OpenMQ (4 min)"
	@echo "make flowbench-classic [ONLY=...]  the same on a real ActiveMQ Classic (4 min)"
	@echo "make flowbench-generated [SEED=1 COUNT=60 LOAD=0 HEALTHY=]  situations that a grammar makes, on a real Artemis and OpenMQ; LOAD: processes that only compute, beside; HEALTHY=1: no faults (25 min)"
	@echo "make test-classic  the newest ActiveMQ Classic, embedded: its numbers, a few faults (1 min)"
	@echo "make test-account-openmq [ACCOUNT_SECONDS=90 POLL=5]  every message of faults and look-alikes balances on a real OpenMQ, longer than in make test (3 min)"
	@echo "make test-actions  every action of docs/actions.md on a real Artemis and OpenMQ, as it is printed: its effect is held to what happens (4 min)"
	@echo "make test-init  penstock init on a fresh Artemis 2.28 and 2.44 and a fresh OpenMQ, then check, twice, and undo (1 min)"
	@echo "make soak-healthy [BROKER=both DURATION=7200 SEED=1 KEEP=...]  healthy load on real brokers, every alarm is false (2 h)"
	@echo "make soak [DURATION=1800 SEED=1]  real brokers with churn and faults: memory, descriptors, tasks stay flat (30 min)"
	@echo "make kills [KILLS=200 SEED=1]  the agent killed at random moments on a real broker: no counter falls, no event is lost (12 min)"
	@echo "make soak-moving [DURATION=300]  12,000 consumers on a real Artemis, a twentieth replaced in each poll: totals are their own logs (7 min)"
	@echo "make test-trust, fuzz [FUZZ=2000]  faults and odd inputs, longer than in make test (20 min; 1 h)"
	@echo "make check-consumers  clients that leak, crash and settle in any order on a real Artemis: who is named, the oldest message (5 min)"
	@echo "make check-normal  silent producers, a missed run, slower work, a leak, mass expiry on a real Artemis, against what is normal: seconds beside the bar (11 min)"
	@echo "make test-incidents  chains of causes on a real Artemis and OpenMQ: one incident each, with its root and its victims (11 min)"
	@echo "make test-account [DURATION=360 ONLY=...]  57 situations on a real Artemis: every message booked to its true reason (15 min)"
	@echo "make test-clusters  cluster, bridge, mirror and pairs of real Artemis brokers: no message counts twice, failovers, split brain (6 min)"
	@echo "make test-appservers  GlassFish and Payara with an application: numbers against its own, a bean that hangs (12 min)"
	@echo "make test-versions  Artemis 2.28, 2.44 and the newest: collectors, numbers, conditions, guard (3 min)"
	@echo "make test-certificates  a real Artemis behind Jolokia's agent with mutual TLS (1 min)"
	@echo "make test-causes [ONLY=...]  84 situations of known cause on a real Artemis: what is proven is true, what is true is not excluded (4 min)"
	@echo "make test-causes-openmq [ONLY=...]  the same on a real OpenMQ (3 min)"
	@echo "make failovers [COUNT=20]  of a replicated and of a shared-store pair: each reported once, no counter falls, sums are true (20 min)"
	@echo "make fuzz-guided [SECONDS=300 TARGETS=...]  inputs that libFuzzer finds by the code they reach, for each reader (30 min)"
	@echo "make setup   the virtual environment $(VENV) for both (first time 1 min)"
	@echo "make bench-judge, bench-season, bench-journal, bench-tick, bench-growth, bench-fairness, bench-held, bench-asked, bench-scrape, bench-pages, bench-prometheus, bench-boards, bench-rules, bench-broker, bench-classic, bench-jmx, bench-trust, bench-trends, bench-forecast, bench-conclusions  what it costs, how well it forecasts and concludes, see docs/performance.md and docs/trends.md (15 s to 40 min)"
	@echo "make compare [AGAINST=283a76f]  conditions and /metrics of all recordings, the same as of another commit (2 min)"
	@echo "make compare-tick [AGAINST=283a76f]  CPU and memory of a whole tick beside those of another commit (12 min)"
	@echo "make test-chart, chart-golden  the Helm chart with helm itself; its golden files made again (first time 10 min, then 20 s; needs Go)"
	@echo "make alertbench [SEED=1 POLL=5 ONLY=...]  labelled situations fire their alerts and no other (11 min)"
	@echo "make alertbench-openmq [ONLY=...]  the same on a real OpenMQ (7 min)"
	@echo "make test-spark-cluster  trends on a real Spark cluster with history on a real S3 server (15 min)"
	@echo "make test-spark-older  trends on Spark 3.5 (first time 3 min, then 4 min; needs Java 17)"
	@echo "make test-pages  the status page in a real Chromium: three clicks on the demo, accessibility (3 min; needs Chromium)"
	@echo "make test-alert-mutants  every change to an alerting or recording rule fails a test (15 min)"
	@echo "make test-storm  2,000 queues of one dead application give one page, and what the rules cost (3 min; needs Go)"
	@echo "make test-alertmanager  the example for Alertmanager on the real thing (2 min; needs Go)"
	@echo "make test-collector  deploy/plain/otel-collector.yaml on a real OpenTelemetry collector (first time 20 min, then 1 min; needs Go)"
	@echo "make test-cluster  the chart with 48 sets of values on a real Kubernetes API server (first time 15 min, then 1 min; needs Go)"
	@echo "make audit   the image's dependencies against known vulnerabilities; fails where one could not be looked up (1 min)"
	@echo "make licences  deploy/licences.md, the licence of each dependency (10 s)"
	@echo "make test-install  each documented way to install, from its page: checkout, wheel, sdist, systemd, .deb, compose, images as the chart's objects and the sidecars start them, the Spark operator's driver (first time 25 min; the images need root)"
	@echo "make release-dry  wheel, sdist, .deb, chart and notes of a release in build/release; nothing is published (1 min)"
	@echo "make sbom    what the image holds: sbom-agent.json, sbom-trends.json (CycloneDX, 1 min)"
	@echo "make demo-trends  a report on the imagined history of two brokers, in ./demo-trends (3 min; needs Java 17)"
	@echo "make docs    the documentation as a site, in build/site; fails at a broken link (20 s)"
	@echo "make pictures  those of README and docs, from the demo as it is; make release-dry refuses old ones (3 min; needs Java 17, Maven, Chromium)"
	@echo "make clean   removes what was made here; downloads stay in ~/.cache/penstock (or PENSTOCK_CACHE)"

demo: $(VENV)/.demo
	$(BIN)/penstock demo

setup: $(VENV)/.test

LINT = $(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

lint: $(VENV)/.test
	$(LINT)

# Of make test: they wait for polls more than they work.
WORKERS ?= 3
UNIT = $(BIN)/pytest -n auto --dist worksteal -m "not (broker or prometheus or spark or slow or nightly)" --hypothesis-profile=quick

.PHONY: unit coverage test-again nightly

unit: $(VENV)/.test
	$(UNIT)

test: $(VENV)/.test  # the linters run beside the tests, and are shown after them
	@mkdir -p build; ($(LINT)) >build/lint.txt 2>&1 & \
	$(BIN)/pytest -n $(WORKERS) --dist loadscope; tested=$$?; wait $$!; linted=$$?; cat build/lint.txt; [ $$linted = 0 ] || echo "linters: failed"; exit $$((tested || linted))

test-again: $(VENV)/.test
	$(BIN)/pytest --last-failed --last-failed-no-failures none

nightly: $(VENV)/.test  # what is rarely red and slow
	$(BIN)/pytest -n $(WORKERS) --dist loadscope -m nightly

coverage: $(VENV)/.test
	$(UNIT) --quiet --cov --cov-report=
	@PYTHONPATH=tests $(BIN)/python -m rig.rooms

DIR ?= tests/recordings/judged
COLD ?= 45
TREND ?= 60

judge-recordings: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m labelled.recordings "$(DIR)" "$(COLD)" "$(TREND)"

clean:
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

flowbench-openmq: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m flowbench.openmq --only "$(ONLY)"

flowbench-classic: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m flowbench.classic --only "$(ONLY)"

flowbench-generated: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m flowbench.generated --seed "$(SEED)" --count "$(or $(COUNT),60)" --load "$(or $(LOAD),0)" \
		--only "$(ONLY)" $(if $(HEALTHY),--healthy)

test-classic: $(VENV)/.test
	$(BIN)/pytest tests/e2e/classic_newest_check.py tests/e2e/test_classic.py

test-account-openmq: $(VENV)/.test
	PENSTOCK_ACCOUNT_SECONDS=$(or $(ACCOUNT_SECONDS),90) PENSTOCK_ACCOUNT_POLL=$(POLL) $(BIN)/pytest tests/e2e/test_account_openmq.py

test-actions: $(VENV)/.test
	$(BIN)/pytest tests/actions/live_check.py tests/actions/openmq_check.py

.PHONY: test-init

test-init: $(VENV)/.test
	$(BIN)/pytest tests/setup/init_check.py tests/setup/test_init_live.py

flowbench: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m flowbench.bench --seed "$(SEED)" --interval "$(POLL)" --only "$(ONLY)"

soak-healthy: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m flowbench.soak --broker "$(BROKER)" --duration "$(DURATION)" \
		--seed "$(SEED)" --interval "$(POLL)" $(if $(KEEP),--keep "$(KEEP)")

.PHONY: test-trust test-account failovers fuzz fuzz-guided

test-trust: $(VENV)/.test  # faults that take longer than make test has time for (20 min)
	$(BIN)/pytest tests/trust/*_check.py

.PHONY: check-consumers check-normal

check-consumers: $(VENV)/.test  # clients that leak, crash and settle in any order on a real Artemis: the oldest message, who is named (5 min)
	$(BIN)/pytest -s tests/e2e/consumers_check.py

check-normal: $(VENV)/.test  # each condition against normal on a real Artemis: in time, and quiet on what only looks like it (11 min)
	$(BIN)/pytest -s tests/e2e/normal_check.py

.PHONY: test-clusters test-appservers test-versions test-certificates

test-clusters: $(VENV)/.test
	$(BIN)/pytest -s tests/e2e/clusters_check.py

test-appservers: $(VENV)/.test
	$(BIN)/pytest -s tests/e2e/appservers_check.py

test-versions: $(VENV)/.test
	$(BIN)/pytest -s tests/e2e/versions_check.py

test-certificates: $(VENV)/.test
	$(BIN)/pytest -s tests/e2e/certificates_check.py

.PHONY: test-incidents

test-incidents: $(VENV)/.test  # chains of causes on a real Artemis and OpenMQ: one incident each, with its victims (11 min)
	$(BIN)/pytest -s tests/incidents/incidents_check.py tests/incidents/openmq_check.py

.PHONY: test-account

test-account: DURATION ?= 360
test-account: $(VENV)/.test  # 57 situations on a real Artemis: truth of the clients against the account (15 min)
	$(if $(ONLY),,$(BIN)/pytest tests/account/live/rare_check.py)
	@PYTHONPATH=tests $(BIN)/python -m account.live --seconds "$(DURATION)" --only "$(ONLY)"

.PHONY: test-causes test-causes-openmq

test-causes-openmq: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m causes.live_openmq --only "$(ONLY)"

test-causes: $(VENV)/.test  # situations of known cause on a real Artemis: none that is proven is untrue, none that is true excluded
	@PYTHONPATH=tests $(BIN)/python -m causes.live --only "$(ONLY)"

failovers: $(VENV)/.test  # of a replicated and a shared-store pair: each told once, no counter falls, sums are true (COUNT; 20 min)
	@for pair in replicated shared; do PYTHONPATH=tests $(BIN)/python -m trust.failovers $(or $(COUNT),20) $$pair || exit 1; done

FUZZ ?= 2000

fuzz: $(VENV)/.test  # all property tests, on random examples, FUZZ of each; make unit and make test have few and the same ones
	PENSTOCK_FUZZ=$(FUZZ) $(BIN)/pytest -n $(WORKERS) --dist loadscope -m hypothesis --hypothesis-profile=fuzz --timeout=7200

TARGETS ?= headers configuration web state recording answers
SECONDS ?= 300

fuzz-guided: $(VENV)/.test  # inputs found by the code that they reach: SECONDS for each of TARGETS (30 min)
	@mkdir -p build
	$(BIN)/pip install --quiet 'atheris>=3'
	@for target in $(TARGETS); do echo "$$target"; \
		$(BIN)/python tests/trust/guided.py $$target -max_total_time=$(SECONDS) -max_len=60000 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix=build/ || exit 1; done

kills: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m trust.kills --kills "$(KILLS)" --seed "$(SEED)"

soak: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m trust.soak "$(DURATION)" "$(SEED)"

.PHONY: soak-moving

soak-moving: DURATION ?= 300
soak-moving: $(VENV)/.test  # 12,000 consumers on a real Artemis, a twentieth replaced in each poll: totals are their own logs (7 min)
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

demo-trends: $(VENV)/.test  # a report on the imagined history of two brokers, in ./demo-trends (3 min; needs Java 17)
	@$(BIN)/python -m penstock_demo.trends demo-trends

.PHONY: demo-trends

bench-forecast: $(VENV)/.test  # scores the forecast on imagined queues, and on the M4 hourly series: [M4_TRAIN=Hourly-train.csv M4_TEST=...] (1 min)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.forecast

bench-conclusions: $(VENV)/.test  # scores limits, growth, changes, pace and what-if against known truths (1 min)
	@PYTHONPATH=exporter:tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.conclusions

test-spark-cluster: $(VENV)/.test  # trends on a real Spark cluster, history on a real S3 server (15 min; needs Java 17)
	$(BIN)/pytest tests/trends/cluster_check.py

SPARK_35 = $(or $(PENSTOCK_CACHE),$(HOME)/.cache/penstock)/spark-3.5
$(SPARK_35): | $(VENV)/.test
	$(BIN)/pip install --quiet --target $@ 'pyspark>=3.5,<3.6'

test-spark-older: $(VENV)/.test $(SPARK_35)  # the trends on Spark 3.5 (first time 3 min, then 4 min; needs Java 17)
	PYTHONPATH=$(SPARK_35) $(BIN)/pytest -W default tests/trends/test_rollup.py tests/trends/test_job.py tests/trends/test_fates.py tests/trends/test_episodes.py

bench-trends: $(VENV)/.test  # rollup beside DuckDB, daily job at 90 and 365 days, a day of 500 to 10,000 queues, bytes beside Prometheus (40 min; needs Java 17, Maven)
	PYTHONPATH=tests $(BIN)/python -m bench.trends

.PHONY: test-spark-cluster bench-trends bench-forecast bench-conclusions bench-tick bench-judge bench-season bench-journal bench-scrape bench-pages bench-prometheus bench-boards bench-rules bench-growth bench-fairness bench-held bench-broker bench-asked bench-jmx bench-trust test-spark-older

bench-tick: $(VENV)/.test  # a whole tick at 750,000 series beside json + prometheus_client: CPU, memory (5 min)
	$(BIN)/python -m bench.tick

bench-season: $(VENV)/.test  # eight weeks of 200 healthy queues and 60 faults through the judgement: false alarms, detection times (10 min)
	$(BIN)/python -m bench.season

bench-judge: $(VENV)/.test  # the judgement of a poll by stage, and the memory of what it carries (15 s)
	$(BIN)/python -m bench.judge

bench-journal: $(VENV)/.test  # what it costs to record a poll before it is shown, at 100 and 10,000 queues (1 min)
	$(BIN)/python -m bench.journal

bench-scrape: $(VENV)/.test  # latency of scrapes and health, memory with slow readers (14 min)
	$(BIN)/python -m bench.scrape

test-pages: $(VENV)/.test  # the status page in a real Chromium, on the demo broker (3 min)
	@command -v chromedriver >/dev/null || $(call need,chromium-driver,the browser of the tests)
	$(BIN)/pytest tests/pages/browser_check.py

.PHONY: test-pages

bench-pages: $(VENV)/.test  # how long the status page takes at 10,000 queues, and what health and scrapes take beside it (4 min)
	$(BIN)/python -m bench.pages

bench-prometheus: $(VENV)/.test  # a real Prometheus takes the whole body (4 min)
	PYTHONPATH=tests $(BIN)/python -m bench.prometheus

bench-boards: $(VENV)/.test  # answers and CPU of each dashboard's first screen on a real Prometheus with 10,000 queues (10 min)
	PYTHONPATH=tests $(BIN)/python -m bench.boards --details

bench-rules: $(VENV)/.test  # CPU of a real Prometheus for each group of rules, 10,000 queues, 2,000 alerts firing (20 min)
	PYTHONPATH=tests $(BIN)/python -m bench.rules

bench-growth: $(VENV)/.test  # CPU of a poll by queues, churn, brokers (6 min)
	$(BIN)/python -m bench.growth

bench-fairness: $(VENV)/.test  # nine small brokers beside one of 100,000 queues: polls missed, scrapes, memory, how fast it stops (15 min)
	$(BIN)/python -m bench.fairness

bench-held: $(VENV)/.test  # which lines keep Python's lock for long beside a broker of 100,000 queues (4 min)
	$(BIN)/python -m bench.held

bench-classic: $(VENV)/.test  # CPU that a poll of 10,000 queues takes of an ActiveMQ Classic (3 min)
	PYTHONPATH=tests $(BIN)/python -m bench.classic

bench-jmx: $(VENV)/.test  # asking an OpenMQ: a poll over Jolokia, the JMX helper beside jmxquery (15 min)
	PYTHONPATH=tests $(BIN)/python -m bench.jmx

bench-trust: $(VENV)/.test  # 100 scrapers, 1,000 slow connections, wrong passwords: polls, health, logins, who is refused (3 min)
	$(BIN)/python -m bench.trust measure

bench-broker: $(VENV)/.test  # harm to a real Artemis, beside the JMX exporter's agent (40 min, alone on the machine)
	$(BIN)/python -m bench.harm

bench-asked: $(VENV)/.test  # what each request costs a real Artemis (4 min)
	$(BIN)/python -m bench.asked

AGAINST ?= 283a76f

.PHONY: compare compare-tick

compare: $(VENV)/.test  # conditions and samples of all recordings beside those of the commit AGAINST (2 min; needs the git history)
	@$(BIN)/python -m bench.compare --against "$(AGAINST)"

compare-tick: $(VENV)/.test  # CPU and memory of a whole tick beside those of the commit AGAINST (12 min, alone on the machine)
	@$(BIN)/python -m bench.compare.tick --against "$(AGAINST)"

.PHONY: docs

docs: $(VENV)/.test  # the site in build/site; strict: a link or anchor that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: pictures

pictures: $(VENV)/.test  # of README and docs, from the demo as it is; needs chromium, chromium-driver (3 min)
	PYTHONPATH=tests $(BIN)/python -m pages.pictures

.PHONY: alertbench alertbench-openmq

alertbench-openmq: $(VENV)/.test  # the same on a real OpenMQ (7 min)
	@PYTHONPATH=tests $(BIN)/python -m alertbench.openmq --only "$(ONLY)"

alertbench: $(VENV)/.test  # FlowBench's situations fire the alerts of their labels and no other; a hang resolves nothing (11 min)
	@PYTHONPATH=tests $(BIN)/python -m alertbench.bench --seed "$(SEED)" --interval "$(POLL)" --only "$(ONLY)"

.PHONY: test-alert-mutants test-storm

test-storm: $(VENV)/.test .tools/amtool .tools/alertmanager  # 2,000 queues of one dead application give one page; needs Go (3 min)
	$(BIN)/pytest -s tests/assets/storm_check.py

test-alert-mutants: $(VENV)/.test  # every change to an alerting or recording rule fails a test (15 min)
	$(BIN)/pytest -n $(WORKERS) tests/assets/mutation_check.py

ALERTMANAGER := github.com/prometheus/alertmanager/cmd

.PHONY: test-alertmanager

test-alertmanager: $(VENV)/.test .tools/amtool .tools/alertmanager  # the Alertmanager example on the real thing; needs Go (2 min)
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

test-chart: $(VENV)/.test $(HELM)
	HELM=$(HELM) $(BIN)/pytest tests/deploy

.PHONY: test-cluster sbom audit licences release-dry test-install

test-install: $(VENV)/.test $(HELM)
	@command -v buildah >/dev/null || $(call need,buildah,the images)
	@command -v mmdebstrap >/dev/null || $(call need,mmdebstrap,the images' root file system)
	HELM=$(HELM) $(BIN)/pytest tests/deploy/install_check.py tests/deploy/image_check.py

release-dry: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m pages.pictures --check
	HELM=$(HELM) deploy/release.sh build/release

# what the image holds, as CycloneDX; 1 min
sbom:
	$(PYTHON) -m venv $(TOOLS)/sbom && $(TOOLS)/sbom/bin/pip install --quiet 'cyclonedx-bom>=6'
	for one in agent trends; do $(TOOLS)/sbom/bin/cyclonedx-py requirements deploy/image/requirements-$$one.txt \
		--pyproject pyproject.toml --output-reproducible --output-file sbom-$$one.json; done

# every version that the image holds or is built with; needs the vulnerability data of PyPI; 1 min
audit:
	$(PYTHON) -m venv $(TOOLS)/audit && $(TOOLS)/audit/bin/pip install --quiet 'pip-audit>=2.9'
	$(TOOLS)/audit/bin/pip-audit --strict --disable-pip --require-hashes \
		$(foreach one,agent trends build,--requirement deploy/image/requirements-$(one).txt)

# from the packages' own metadata; an unknown licence fails tests/deploy/test_supply.py
licences: $(VENV)/.test
	$(BIN)/pip install --quiet --require-hashes --requirement deploy/image/requirements-build.txt
	$(BIN)/python deploy/licences.py deploy/licences.md

$(TOOLS)/etcd:
	cd deploy/kubernetes/etcd && nice go build -p 2 -ldflags "-s -w" -o $(TOOLS)/etcd go.etcd.io/etcd/server/v3

.PHONY: test-collector

# only what scrapes addresses that are named: without the clients of all clouds that it could discover in
$(TOOLS)/collector: $(wildcard deploy/opentelemetry/*)
	cd deploy/opentelemetry && nice go build -p 2 -tags remove_all_sd -ldflags "-s -w" -o $(TOOLS)/collector .

test-collector: $(VENV)/.test $(TOOLS)/collector  # needs Go
	$(BIN)/pytest tests/deploy/collector_check.py

KUBE := k8s.io/component-base/version
$(TOOLS)/kube-apiserver:
	cd deploy/kubernetes/apiserver && nice go build -p 2 -o $(TOOLS)/kube-apiserver \
		-ldflags "-s -w -X $(KUBE).gitVersion=v1.36.3 -X $(KUBE).gitMajor=1 -X $(KUBE).gitMinor=36" k8s.io/kubernetes/cmd/kube-apiserver

# a real API server: install, upgrade and roll back the chart; 15 min the first time, then 1 min
test-cluster: $(VENV)/.test $(HELM) $(TOOLS)/etcd $(TOOLS)/kube-apiserver
	HELM=$(HELM) PYTHONPATH=tests $(BIN)/python -m deploy.cluster

chart-golden: $(VENV)/.test $(HELM)
	$(BIN)/python helm/generate.py
	HELM=$(HELM) PYTHONPATH=tests $(BIN)/python -m deploy.chart
