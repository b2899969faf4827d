# The controller's image: docker build --build-arg KARPENTER_COMMIT=$(git rev-parse HEAD) -t karpenter-controller .
#
# Without a daemon, `make release` takes the same steps and writes the image as an OCI archive (tools/release/image.py).

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
ARG KARPENTER_COMMIT=unknown
ENV KARPENTER_COMMIT=${KARPENTER_COMMIT}
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --locked --release --bin karpenter-controller \
    && cp /target/release/karpenter-controller /karpenter-controller \
    && strip /karpenter-controller

# The C library and certificates, no shell. User 65532 is the one that the chart asks for.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG KARPENTER_COMMIT=unknown
LABEL org.opencontainers.image.title="karpenter-controller" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${KARPENTER_COMMIT}"
COPY --from=build /karpenter-controller /karpenter-controller
USER 65532:65532
# Metrics and probes. Nothing is written to the file system.
EXPOSE 8080 8081
ENTRYPOINT ["/karpenter-controller"]
