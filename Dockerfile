# Minutebook as containers: Python, a Java runtime, Minutebook, and KCL's jars (they come with amazon-kclpy).
# `docker build .` makes the consumer; `docker build --target nightly .` the nightly job with PySpark and pyiceberg.
#
# Both run as user 10001 on a read-only root: only /tmp is written to (the daemon's file and lock, the fork server's socket,
# Spark's scratch).
# What was run of this file, and how, without a container engine: docs/how-to/containers.md.

FROM python:3.12-slim-bookworm AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin minutebook \
    && install --directory --owner minutebook /catalog
# A new volume at /catalog gets this owner: `minutebook follow` and nights may keep a catalog in SQLite there.
# On a read-only root nobody can compile later, and there is a processor for each shard. The image of Python comes
# without compiled files of its own library, too. By hash: no clock matters.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x 'lib2to3|/test' /usr/local/lib/python3.12
ENV PATH=/opt/minutebook/bin:$PATH PYTHONUTF8=1 PYTHONDONTWRITEBYTECODE=1

FROM base AS build
WORKDIR /build
# For the codec of minutebook/codec (docs/decisions/0041-a-native-codec.md); the images that run have no compiler.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/tools.lock requirements/build.lock requirements/consumer.lock requirements/
RUN python -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements/tools.lock
# amazon-kclpy is built from source: that is when it downloads KCL's jars. A layer of its own, because it is slow.
RUN /tools/bin/uv venv --python /usr/local/bin/python /opt/minutebook \
    && /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps --require-hashes \
       --build-constraints requirements/build.lock -r requirements/consumer.lock
COPY pyproject.toml hatch_build.py README.md CHANGELOG.md LICENSE ./
COPY compaction compaction
COPY consumer consumer
COPY minutebook minutebook
COPY docs docs
COPY properties properties
RUN /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps \
    --build-constraints requirements/build.lock .

# Java's classes are kept as it loads them, as Python's are: docs/decisions/0025-class-archives.md.
FROM build AS build-consumer
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/minutebook/lib \
    && minutebook prepare

# What Spark needs comes on top: the consumer's image stays without it.
FROM build AS build-nightly
COPY requirements/iceberg.lock requirements/
RUN /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps --require-hashes \
    --build-constraints requirements/build.lock -r requirements/iceberg.lock
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/minutebook/lib \
    && minutebook prepare

FROM base AS runtime
COPY properties /etc/minutebook
# A volume that ECS mounts there takes the folder's rights from the image, if it is declared; else it is root's alone.
VOLUME /tmp
USER minutebook
ENTRYPOINT ["tini", "--", "minutebook"]

FROM runtime AS nightly
COPY --from=build-nightly /opt/minutebook /opt/minutebook
CMD ["compact", "/etc/minutebook/production.properties", "--due", "14d"]

FROM runtime AS consumer
COPY --from=build-consumer /opt/minutebook /opt/minutebook
# Not part of the package: docker-compose.yml makes the demo's stream and bucket with it.
COPY demo /opt/demo/demo
# On loopback within the container. The variable wins over minutebook.metricsPort in a file.
ENV MINUTEBOOK_METRICS_PORT=9464
# The supervisor's own verdict, as `minutebook health` gives it, and without settings. A first start makes KCL's tables.
HEALTHCHECK --interval=30s --timeout=5s --start-period=240s --retries=5 CMD ["python", "-I", "-c", "\
import http.client as h, os, sys; \
c = h.HTTPConnection('127.0.0.1', int(os.environ['MINUTEBOOK_METRICS_PORT']), timeout=4); \
c.request('GET', '/healthz'); r = c.getresponse(); print(r.read().decode()); sys.exit(r.status != 200)"]
# tini reaps the processors of a daemon that was killed. SIGTERM lets the processors commit what they hold: give
# the container at least shutdownGraceMillis + 15 s to stop.
STOPSIGNAL SIGTERM
CMD ["consume", "/etc/minutebook/production.properties"]
