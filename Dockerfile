# Two stages: one compiles, one runs. Dependencies are a layer of their own, rebuilt when Cargo.toml or Cargo.lock change.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
# Empty sources stand in for ours, so that this layer holds the dependencies alone.
RUN mkdir src && echo 'fn main() {}' > src/main.rs && touch src/lib.rs && cargo build --release --locked
COPY src src
# The stand-ins are newer than a checkout's files may be.
RUN touch src/main.rs src/lib.rs && cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/wecom-gateway --create-home --shell /usr/sbin/nologin gateway
COPY --from=build /src/target/release/wecom-gateway /usr/local/bin/wecom-gateway
USER gateway
WORKDIR /var/lib/wecom-gateway
VOLUME /var/lib/wecom-gateway
# 8080: callbacks. 8081: operators.
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:8081/livez"]
ENTRYPOINT ["wecom-gateway"]
CMD ["serve", "--config", "/etc/wecom-gateway/gateway.toml"]
