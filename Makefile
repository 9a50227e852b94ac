# The tasks of this repository. `make help` lists them.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# One set of flags for every go command: -trimpath is part of the build cache's
# key, so a command without it would compile everything a second time.
export GOFLAGS ?= -trimpath -buildvcs=false
# Static binaries, and one set of compiled packages for building, linting and
# running; only the race detector needs C.
export CGO_ENABLED ?= 0

# The version that binaries and images carry.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The image that `make image` names and `make deploy` uses.
IMG ?= agentruntime:dev
# What `make deploy` installs, below config/: default, or overlays/NAME.
OVERLAY ?= default
# Documents that `make demo` and `make run` compile; empty means the samples.
FROM ?=
export FROM

BIN := $(CURDIR)/bin
DIST := $(CURDIR)/dist
# Where etcd, kube-apiserver and kubectl are. KUBEBUILDER_ASSETS wins when set;
# it is not exported from here, for hack/controlplane/build.sh builds nothing
# when it is set.
ASSETS := $(abspath $(or $(KUBEBUILDER_ASSETS),$(BIN)/k8s))
KUBECTL ?= $(ASSETS)/kubectl

TOOL := go tool -modfile=hack/tools/go.mod
CONTROLLER_GEN := $(TOOL) controller-gen
GOLANGCI_LINT := $(BIN)/tools/golangci-lint

# What `make test` leaves out: suites that need a real cluster, or Python and
# Node.js, which `make interop` runs.
TEST_EXCLUDE := /test/(e2e|interop)(/|$$)
TEST_TIMEOUT ?= 20m
# Packages under test at a time; each envtest suite starts a control plane.
TEST_PARALLEL ?= 2
TEST_FLAGS ?=

LDFLAGS := -s -w -X main.version=$(VERSION)

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make <target> [VARIABLE=value]"} \
		/^[a-zA-Z_0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: controlplane ## Run a compile on a real API server, show it, clean up. FROM=path/to/docs for your own documents.
	go build -o $(BIN)/demo ./hack/demo
	exec $(BIN)/demo -assets '$(ASSETS)' -from "$$FROM"

.PHONY: run
run: controlplane ## The same, left running until Ctrl-C; prints the kubeconfig and URLs. FROM as above.
	go build -o $(BIN)/demo ./hack/demo
	exec $(BIN)/demo -assets '$(ASSETS)' -from "$$FROM" -stay

##@ Develop

.PHONY: generate
generate: ## Generate the deep copy functions of api/.
	$(CONTROLLER_GEN) object paths=./api/...

.PHONY: manifests
manifests: ## Generate CRDs, RBAC and webhook configurations into config/.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=agentruntime-manager webhook \
		paths=./controllers/... paths=./webhook/... \
		output:rbac:artifacts:config=config/rbac output:webhook:artifacts:config=config/webhook

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the code and its imports.
	$(GOLANGCI_LINT) fmt

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint on everything, and kube-api-linter on api/.
	$(GOLANGCI_LINT) run
	$(GOLANGCI_LINT) run --config hack/golangci-kal.yml ./api/...

.PHONY: test
test: export CGO_ENABLED := 1
test: controlplane ## Run the tests with the race detector, in shuffled order.
	packages=$$(go list ./... | grep -Ev '$(TEST_EXCLUDE)'); \
	KUBEBUILDER_ASSETS=$(ASSETS) go test -race -shuffle=on -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $$packages

# Without Python or Node.js it fails and says what to install.
.PHONY: interop
interop: controlplane ## Hold the REST API against the Python SDK, TypeScript and Go clients, arctl and schemathesis.
	test/interop/python/install.sh $(BIN)/interop/python
	test/interop/typescript/build.sh $(BIN)/interop/typescript
	KUBEBUILDER_ASSETS=$(ASSETS) go test -count=1 -timeout 10m $(TEST_FLAGS) ./test/interop/...

.PHONY: kill
kill: controlplane ## Kill the manager at named points, many times; fails when a task is lost or run twice.
	KUBEBUILDER_ASSETS=$(ASSETS) go run ./test/kill

.PHONY: bench
bench: controlplane ## Measure the budgets of docs/performance.md; fails below a bound.
	KUBEBUILDER_ASSETS=$(ASSETS) go run ./test/load

.PHONY: verify
verify: verify-generated verify-modules verify-manifests ## Fail when generated files, go.mod files or manifests are not in order.

.PHONY: verify-generated
verify-generated:
	hack/verify-generated.sh

.PHONY: verify-modules
verify-modules:
	for module in . hack/tools hack/tools/lint hack/controlplane; do \
		echo "go mod tidy -diff in $$module"; go -C $$module mod tidy -diff; \
	done

.PHONY: verify-manifests
verify-manifests: controlplane
	KUBECTL=$(KUBECTL) hack/verify-manifests.sh

##@ Build

# arctl is also `kubectl agentruntime` when it is on the PATH under that name.
.PHONY: build
build: ## Build every binary, static, into bin/.
	mkdir -p $(BIN)
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	ln -sf arctl $(BIN)/kubectl-agentruntime

.PHONY: image
image: ## Build the image without Docker or a registry, into dist/agentruntime-image.tar.
	mkdir -p $(DIST)/image
	GOOS=linux go build -ldflags '$(LDFLAGS)' -o $(DIST)/image/ ./cmd/...
	go run ./hack/image -binaries $(DIST)/image -output $(DIST)/agentruntime-image.tar \
		-image '$(IMG)' -version '$(VERSION)'

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and kubectl into bin/k8s (about 6 minutes, once).
	hack/controlplane/build.sh

.PHONY: tools
tools: $(GOLANGCI_LINT) ## Build the tools that are not run through go tool.

# A change of the pinned version rebuilds it.
$(GOLANGCI_LINT): hack/tools/lint/go.mod hack/tools/lint/go.sum hack/tools/lint/main.go
	echo "building golangci-lint (about 1 minute, once)"
	go -C hack/tools/lint build -o $@ .
	touch $@

.PHONY: clean
clean: ## Remove what was built, except the control plane in bin/k8s.
	rm -rf $(DIST) $(BIN)/tools $(BIN)/interop
	find $(BIN) -maxdepth 1 -type f -delete 2>/dev/null || true
	rm -f $(BIN)/kubectl-agentruntime

##@ Deploy (to the cluster of the current kubeconfig)

# Tasks go before everything else. Their finalizers wait until the executor has
# confirmed the cancel, for which the manager needs their AgentRuntimes: removed
# together with them, each running task would wait until the manager gives up.
define delete-tasks
	tasks=$$($(KUBECTL) get crd compiletasks.agentruntime.dev --ignore-not-found -o name); \
	if [ -n "$$tasks" ]; then \
		echo "deleting all CompileTasks; the manager cancels those that run"; \
		$(KUBECTL) delete compiletasks.agentruntime.dev --all --all-namespaces --wait; \
	fi
endef

.PHONY: install
install: controlplane ## Install the CRDs.
	$(KUBECTL) kustomize config/crd | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: controlplane ## Remove all tasks, then the CRDs and with them every resource of theirs.
	$(delete-tasks)
	$(KUBECTL) kustomize config/crd | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: controlplane ## Install manager and facade, with the image IMG. OVERLAY=overlays/aggregated-api for more.
	hack/deploy-overlay.sh '$(IMG)' $(DIST)/deploy '$(OVERLAY)'
	$(KUBECTL) kustomize $(DIST)/deploy | $(KUBECTL) apply --server-side -f -

.PHONY: deploy-runtime
deploy-runtime: controlplane ## Install the built-in executor, with a new gateway token and certificate where there is none.
	$(KUBECTL) get secret -n agentruntime-system agentruntime-gateway-token >/dev/null 2>&1 || \
		head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' | \
		$(KUBECTL) create secret generic agentruntime-gateway-token -n agentruntime-system \
			--type=agentruntime.dev/gateway-token --from-file=token=/dev/stdin
	$(KUBECTL) get secret -n agentruntime-system agentruntime-runtime-certificate >/dev/null 2>&1 || \
		go run ./hack/runtimecert | $(KUBECTL) create -f -
	hack/deploy-overlay.sh '$(IMG)' $(DIST)/deploy-runtime runtime
	$(KUBECTL) kustomize $(DIST)/deploy-runtime | $(KUBECTL) apply --server-side -f -

# The APIService goes before the facade: one that nobody answers for keeps
# namespaces from going.
.PHONY: undeploy
undeploy: controlplane ## Remove everything: the CRDs with their resources, the built-in executor with its content.
	$(delete-tasks)
	$(KUBECTL) kustomize config/crd | $(KUBECTL) delete --ignore-not-found -f -
	$(KUBECTL) delete apiservices.apiregistration.k8s.io v1.compile.agentruntime.dev --ignore-not-found
	$(KUBECTL) kustomize config/overlays/runtime-token-review | $(KUBECTL) delete --ignore-not-found -f -
	$(KUBECTL) kustomize config/overlays/legacy-impersonation | $(KUBECTL) delete --ignore-not-found -f -
	$(KUBECTL) kustomize config/overlays/aggregated-api | $(KUBECTL) delete --ignore-not-found -f -
