# docker build -t upwell .                        Upwell
# docker build -t upwell-spark --target spark .   with Spark and Java, for large fills, audits and `upwell rank`
# docker run --rm -e UPWELL_UPSTREAM=mysql://user:password@host:3306 upwell
# (compose.yaml brings a MySQL and the sample with it)

# The wheel has the compiled modules (docs/performance.md); with --build-arg COMPILED=false it has their sources alone.
FROM python:3.11-slim-bookworm AS build
ARG COMPILED=true
WORKDIR /src
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
COPY requirements/build.lock requirements/server.lock requirements/otel.lock requirements/
RUN python -m venv /tools \
 && /tools/bin/pip install --no-cache-dir --require-hashes -r requirements/build.lock \
 && python -m venv /opt/upwell \
 && /opt/upwell/bin/pip install --no-cache-dir --require-hashes -r requirements/server.lock -r requirements/otel.lock
COPY . .
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM=$COMPILED /tools/bin/hatchling build -t wheel -d /dist \
 && /opt/upwell/bin/pip install --no-cache-dir --no-deps /dist/*.whl

# PySpark's sources are built here, once: this layer changes with its lock alone.
FROM python:3.11-slim-bookworm AS build-spark
WORKDIR /src
COPY requirements/spark.lock requirements/otel.lock requirements/
RUN python -m venv /opt/upwell \
 && /opt/upwell/bin/pip install --no-cache-dir --require-hashes -r requirements/spark.lock -r requirements/otel.lock
COPY --from=build /dist /dist
RUN /opt/upwell/bin/pip install --no-cache-dir --no-deps /dist/*.whl

# The sample runs from the sources, with the same dependencies.
FROM python:3.11-slim-bookworm AS sample
COPY --from=build /opt/upwell /opt/upwell
WORKDIR /src
COPY . .
USER nobody
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["/opt/upwell/bin/python", "-m", "examples.lobsters.traffic"]

# What both images of Upwell share.
FROM python:3.11-slim-bookworm AS serve
# By its number Kubernetes sees that the user is not root.
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/upwell upwell \
 && install -d -o upwell -g upwell /var/lib/upwell
USER 10001
ENV PATH=/opt/upwell/bin:$PATH \
    UPWELL_STATE_DIR=/var/lib/upwell
VOLUME /var/lib/upwell
EXPOSE 3307 50051 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --start-period=10s \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=3)"]
ENTRYPOINT ["upwell"]
CMD ["serve"]

FROM serve AS spark
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-spark /opt/upwell /opt/upwell
USER 10001

# The last stage is the one that `docker build .` makes.
FROM serve AS upwell
COPY --from=build /opt/upwell /opt/upwell
