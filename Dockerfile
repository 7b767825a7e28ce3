# Upwell in a container: docker build -t upwell . && docker run --rm -e UPWELL_UPSTREAM=mysql://user:password@host:3306 upwell
# (compose.yaml brings a MySQL and the sample with it)

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements/dev.lock requirements/server.lock requirements/
RUN python -m venv /tools \
 && /tools/bin/pip install --no-cache-dir --require-hashes -r requirements/dev.lock \
 && python -m venv /opt/upwell \
 && /opt/upwell/bin/pip install --no-cache-dir --require-hashes -r requirements/server.lock
COPY . .
RUN /tools/bin/hatchling build -t wheel -d /dist \
 && /opt/upwell/bin/pip install --no-cache-dir --no-deps /dist/*.whl

# The sample runs from the sources, with the same dependencies.
FROM python:3.11-slim-bookworm AS sample
COPY --from=build /opt/upwell /opt/upwell
WORKDIR /src
COPY . .
USER nobody
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["/opt/upwell/bin/python", "-m", "examples.lobsters.traffic"]

# The last stage is the one that `docker build .` makes.
FROM python:3.11-slim-bookworm AS upwell
COPY --from=build /opt/upwell /opt/upwell
RUN useradd --system --create-home --home-dir /var/lib/upwell upwell
USER upwell
ENV PATH=/opt/upwell/bin:$PATH \
    UPWELL_STATE_DIR=/var/lib/upwell
VOLUME /var/lib/upwell
EXPOSE 3307 50051 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --start-period=10s \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=3)"]
ENTRYPOINT ["upwell"]
CMD ["serve"]
