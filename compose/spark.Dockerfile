# Spark's master, a worker, or a verb of zkctl history. docs/containers.md says how to use it. Build from the project's root:
#   docker build -f compose/spark.Dockerfile -t zkcontroller-spark .
# Spark itself, JVM apart, is what pip brings with pyspark.
# A base image of one's own: --build-arg PYTHON_IMAGE=… (Debian 12 or the like, with python3 from 3.11 on and venv).
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /opt/zkcontroller
# An index of one's own: docker build --build-arg PIP_INDEX_URL=…, or the variable where docker compose runs. The hashes
# below hold for any index.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
COPY requirements-spark.lock ./
RUN python3 -m venv .venv && .venv/bin/pip install -qq --no-cache-dir --require-hashes -r requirements-spark.lock
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY kafka_common kafka_common
COPY zkcontroller zkcontroller
COPY replica_manager replica_manager
COPY kraft kraft
COPY kafka_history kafka_history
COPY cli cli
COPY zkcontroller_lab zkcontroller_lab
COPY zkcontroller_simulation zkcontroller_simulation
COPY zkcontroller_testing zkcontroller_testing
# What installs packages is no part of the image.
RUN .venv/bin/pip install -qq --no-cache-dir --no-deps --no-build-isolation . \
    && .venv/bin/pip uninstall -qq -y setuptools pip

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="zkcontroller-spark" \
      org.opencontainers.image.description="What happened to a Kafka cluster, from the logs of its brokers, by Spark" \
      org.opencontainers.image.licenses="Apache-2.0"
# The package of the JVM links its manual pages; slim images have no folder for them.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --gid root --no-create-home --home-dir /history appuser \
    && mkdir /history /logs && chown appuser:root /history && chmod ug+rwX /history
COPY --from=build /opt/zkcontroller/.venv /opt/zkcontroller/.venv
RUN ln -s "$(/opt/zkcontroller/.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark \
    && ln -s "$(/opt/zkcontroller/.venv/bin/python -c 'import zkcontroller_cli; print(zkcontroller_cli.__path__[0])')/histories/job.py" /opt/history_job.py

# The same interpreter for driver and workers: it has the package. Compiled modules are in the image; Spark itself writes
# into /tmp, and loads libraries from there: where the root file system is read-only, --tmpfs /tmp:exec.
ENV PATH=/opt/zkcontroller/.venv/bin:/opt/spark/bin:$PATH SPARK_HOME=/opt/spark PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/zkcontroller/.venv/bin/python PYSPARK_DRIVER_PYTHON=/opt/zkcontroller/.venv/bin/python
USER 1000:0
WORKDIR /history
VOLUME ["/history"]
CMD ["zkctl", "history", "--help"]
