# One stage compiles, the last one runs. Dependencies are a layer of their own, compiled again when Cargo.toml or Cargo.lock
# change; a change under src/ compiles this crate alone.
#
#   docker build --tag wecom-gateway .
#
# `--version` says the commit that is checked out, whatever was changed since. What knows better, or has no checkout, says it:
# --build-arg COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')
#
# Behind a slow line to the registries: --build-arg REGISTRY=<a mirror>/library
# --build-arg CRATES=<a mirror of the index of crates, as in sparse+https://…/index/>

# All stages are of one Debian release: what is compiled against its libc runs on it.
ARG REGISTRY=library
ARG RUST=1.95
ARG DEBIAN=bookworm

# The commit, read from the places where git writes it, if they are there. It goes on as a file of its own: what else moves in
# them compiles nothing again.
FROM ${REGISTRY}/debian:${DEBIAN}-slim AS commit
WORKDIR /git
COPY Cargo.toml .gi[t] ./
RUN touch HEAD && read -r commit ref < HEAD; \
    test -z "$ref" || commit="$(cat "$ref" 2>/dev/null || grep --no-messages " $ref\$" packed-refs)"; \
    printf '%.12s' "$commit" > /commit

FROM ${REGISTRY}/rust:${RUST}-${DEBIAN} AS build
WORKDIR /src
ARG CRATES=""
RUN test -z "$CRATES" || printf '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "%s"\n' "$CRATES" > "$CARGO_HOME/config.toml"
# Names of functions stay for backtraces, tables of lines (half of the binary) don't.
ENV CARGO_PROFILE_RELEASE_STRIP=debuginfo
COPY Cargo.toml Cargo.lock ./
# Empty sources stand in for ours, so that this layer holds the dependencies alone; librdkafka and OpenSSL among them need gcc,
# g++, make and perl, which this image has.
RUN mkdir src && echo 'fn main() {}' > src/main.rs && touch src/lib.rs && cargo build --release --locked
COPY --from=commit /commit /commit
COPY build.rs ./
COPY src src
ARG COMMIT=""
# The stand-ins are newer than a checkout's files may be.
RUN touch src/main.rs src/lib.rs && WECOM_GATEWAY_COMMIT="${COMMIT:-$(cat /commit)}" cargo build --release --locked

FROM ${REGISTRY}/debian:${DEBIAN}-slim
RUN groupadd --system --gid 10001 gateway \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/wecom-gateway --shell /usr/sbin/nologin gateway \
    && install --directory --owner gateway --group gateway --mode 700 /var/lib/wecom-gateway
# All else that it needs: the certificates by which it knows WeCom.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY deploy/docker/probe /usr/local/bin/probe
COPY THIRD-PARTY.txt /usr/share/doc/wecom-gateway/THIRD-PARTY.txt
COPY --from=build /src/target/release/wecom-gateway /usr/local/bin/wecom-gateway
ARG COMMIT=""
LABEL org.opencontainers.image.title="wecom-gateway" org.opencontainers.image.revision="$COMMIT"
# By number, so that a cluster can see that it is not root.
USER 10001
WORKDIR /var/lib/wecom-gateway
# The only place that is written to: the store, the spool, the records.
VOLUME /var/lib/wecom-gateway
# 8080: callbacks. 8081: operators.
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["probe", "/livez"]
ENTRYPOINT ["wecom-gateway"]
CMD ["serve", "--config", "/etc/wecom-gateway/gateway.toml"]
