# The operator's one image: every binary of cmd/, nothing else. hack/image builds
# the same without Docker (make image); keep user, entrypoint and labels alike.
FROM golang:1.26 AS build

WORKDIR /src
ENV GOFLAGS="-trimpath -buildvcs=false" CGO_ENABLED=0

# The modules alone first: this layer is kept until go.mod changes.
COPY go.mod go.sum ./
RUN go mod download

COPY api/ api/
COPY cmd/ cmd/
COPY controllers/ controllers/
COPY internal/ internal/
COPY webhook/ webhook/

ARG VERSION=dev
ARG TARGETOS=linux
ARG TARGETARCH
RUN mkdir -p /image/etc/ssl/certs /image/tmp \
    && GOOS=$TARGETOS GOARCH=$TARGETARCH go build -ldflags "-s -w -X main.version=$VERSION" -o /image/ ./cmd/... \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n' >/image/etc/passwd \
    && printf 'root:x:0:\nnonroot:x:65532:\n' >/image/etc/group \
    && chmod 1777 /image/tmp

FROM scratch

ARG VERSION=dev
LABEL org.opencontainers.image.title="agentruntime" \
      org.opencontainers.image.description="Agent Runtime Operator: arctl, facade, manager and runtime" \
      org.opencontainers.image.source="https://github.com/agentruntime/operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"

COPY --from=build /image/ /
ENV PATH=/ SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt

# Numeric, so that runAsNonRoot can be checked. Nothing writes outside mounted
# volumes: the root file system may be read-only.
USER 65532:65532
ENTRYPOINT ["/manager"]
