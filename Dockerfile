# A static program in an empty image. `docker build -t vote-status .`; docs/INSTALL.md tells how to run it.

FROM rust:1.95-slim-bookworm AS build
# As in the Debian package.
ARG FEATURES=redis,tls
WORKDIR /build
COPY . .
# Static against glibc, which is what is measured; its libraries come with the compiler's own package.
# --target, so that the flag is not for the build's own programs.
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
    && RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked \
        --features "$FEATURES" --target "$target" \
    && install -d -m 700 /image/volume/data \
    && cp "target/$target/release/vote-status" /image/vote-status \
    && /image/vote-status --version

FROM scratch
COPY --from=build /image/vote-status /vote-status
# What a `rediss` store is verified by, unless --store-ca names other authorities.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# The volume gets the owner and the mode of /data. `COPY` keeps modes inside a directory, and makes the directory
# itself with 755: votes and key would be readable by others.
COPY --from=build --chown=65532:65532 /image/volume /
USER 65532:65532
# Inside the container the control listener is open to all that can reach it there: publish its port to
# 127.0.0.1 only, or to nobody. The drain ends within the 10 s that `docker stop` waits. Only behind the proxy:
# between the stop of one container and the start of the next, the proxy answers.
# A volume without a store is another one than was meant: `init` makes the store, once.
ENV VOTE_STATUS_DATA_DIR=/data \
    VOTE_STATUS_REQUIRE_STORE=true \
    VOTE_STATUS_LISTEN=0.0.0.0:8080 \
    VOTE_STATUS_CONTROL=0.0.0.0:8081 \
    VOTE_STATUS_DRAIN_TIMEOUT=8
VOLUME /data
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["/vote-status", "health"]
ENTRYPOINT ["/vote-status"]
CMD ["serve"]
