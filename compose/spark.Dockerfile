# Spark's master, a worker, or a verb of zkctl history. Build from the project's root:
#   docker build -f compose/spark.Dockerfile -t zkcontroller-spark .
# Spark itself, JVM apart, is what pip brings with pyspark.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE}

RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --home-dir /var/lib/zkcontroller zkcontroller \
    && mkdir /history /logs && chown zkcontroller /history
WORKDIR /opt/zkcontroller
COPY requirements-spark.lock ./
RUN python3 -m venv .venv && .venv/bin/pip install -qq --no-cache-dir --require-hashes -r requirements-spark.lock
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY zkcontroller zkcontroller
COPY replica_manager replica_manager
COPY cli cli
RUN .venv/bin/pip install -qq --no-cache-dir --no-deps --no-build-isolation . \
    && ln -s "$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark \
    && ln -s "$(.venv/bin/python -c 'import zkcontroller_cli; print(zkcontroller_cli.__path__[0])')/history_job.py" /opt/history_job.py

# The same interpreter for driver and workers: it has the package.
ENV PATH=/opt/zkcontroller/.venv/bin:/opt/spark/bin:$PATH SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/zkcontroller/.venv/bin/python PYSPARK_DRIVER_PYTHON=/opt/zkcontroller/.venv/bin/python
USER zkcontroller
VOLUME ["/history"]
