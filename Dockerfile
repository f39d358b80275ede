# Two stages: whatever builds or installs stays behind in the first.
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/usermem
WORKDIR /src
# Dependencies first: they change less often than the code.
COPY requirements.lock ./
RUN /opt/usermem/bin/pip install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
COPY migrations ./migrations
RUN /opt/usermem/bin/pip install --no-deps . \
    && /opt/usermem/bin/pip uninstall --yes pip setuptools

FROM python:3.11.14-slim-bookworm
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin usermem \
    && install --directory --owner=usermem --group=usermem --mode=0700 /var/lib/usermem
COPY --from=build /opt/usermem /opt/usermem
ENV PATH=/opt/usermem/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
ENTRYPOINT ["usermem"]
CMD ["serve", "--host", "0.0.0.0", "--no-worker"]
