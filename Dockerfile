# Minutebook as containers: Python, a Java runtime, Minutebook, and KCL's jars (they come with amazon-kclpy).
# `docker build .` makes the consumer; `docker build --target nightly .` the nightly job with PySpark and pyiceberg.
#
# Checked here: the same locks, commands and Java run in `make setup` and `make test`. NOT run here: the build of
# this file, because no container engine was at hand.

FROM python:3.12-slim-bookworm AS build
WORKDIR /build
COPY requirements/tools.lock requirements/build.lock requirements/consumer.lock requirements/
RUN python -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements/tools.lock
# amazon-kclpy is built from source: that is when it downloads KCL's jars. A layer of its own, because it is slow.
RUN /tools/bin/uv venv --python /usr/local/bin/python /opt/minutebook \
    && /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps --require-hashes \
       --build-constraints requirements/build.lock -r requirements/consumer.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE minutebook.py ./
COPY archive archive
COPY compaction compaction
COPY consumer consumer
COPY docs docs
COPY properties properties
RUN /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps \
    --build-constraints requirements/build.lock .

# What Spark needs comes on top: the consumer's image stays without it.
FROM build AS build-nightly
COPY requirements/iceberg.lock requirements/
RUN /tools/bin/uv pip install --no-cache --python /opt/minutebook/bin/python --no-deps --require-hashes \
    --build-constraints requirements/build.lock -r requirements/iceberg.lock

FROM python:3.12-slim-bookworm AS runtime
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home minutebook
COPY properties /etc/minutebook
ENV PATH=/opt/minutebook/bin:$PATH PYTHONUTF8=1 PYTHONDONTWRITEBYTECODE=1
USER minutebook
ENTRYPOINT ["tini", "--", "minutebook"]

FROM runtime AS nightly
COPY --from=build-nightly /opt/minutebook /opt/minutebook
CMD ["compact", "/etc/minutebook/production.properties", "--date", "yesterday"]

FROM runtime AS consumer
COPY --from=build /opt/minutebook /opt/minutebook
# Not part of the package: docker-compose.yml makes the demo's stream and bucket with it.
COPY demo /opt/demo/demo
# tini reaps the processors of a daemon that was killed. SIGTERM lets the processors commit what they hold: give
# the container at least shutdownGraceMillis + 15 s to stop.
STOPSIGNAL SIGTERM
CMD ["consume", "/etc/minutebook/production.properties"]
