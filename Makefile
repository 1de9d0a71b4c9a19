# `make` alone prints help. Everything a target needs beyond Go, a C compiler (for -race), Node, npm and git
# is installed by the target that needs it, at a pinned version, into this checkout.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO           ?= go
NPM          ?= npm
PKG          ?= ./...
TEST_FLAGS   ?=
TEST_TIMEOUT ?= 10m
FUZZTIME     ?= 30s

BIN    := $(CURDIR)/.bin
LINTER := $(BIN)/golangci-lint

# The packages that tests read from npm: the folders <package>/testdata/npm, each with a lock file. npm writes
# node_modules/.package-lock.json last; it says whether what is installed is what the lock file asks for.
NPM_PACKAGES := $(wildcard */testdata/npm/package-lock.json */*/testdata/npm/package-lock.json \
                           */*/*/testdata/npm/package-lock.json)
# The emulators that awslocal is compared with are left to make crosscheck: no test needs them.
CROSSCHECK    := runtime/awslocal/conformance
NPM_INSTALLED := $(filter-out $(CROSSCHECK)/%,$(NPM_PACKAGES:package-lock.json=node_modules/.package-lock.json))

# The benchmarks are a module of their own: nobody who imports Settle inherits its peers.
BENCHMARK := runtime/statechart/benchmark

MODULES = $(patsubst ./%,%,$(shell find . -name go.mod -not -path '*/node_modules/*' -not -path '*/testdata/*' \
                                              -not -path './.bin/*' | sort))

.PHONY: help
help: ## print this help
	@printf 'Settle: statecharts in Go on Lambda, SQS FIFO and DynamoDB.\n\n'
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables: PKG=%s TEST_FLAGS= TEST_TIMEOUT=%s FUZZTIME=%s\n' '$(PKG)' '$(TEST_TIMEOUT)' '$(FUZZTIME)'
	@printf '           PROCESSES_INSTANCES=%s PROCESSES_EVENTS=%s PROCESSES_KILLS=%s PROCESSES_SEED=%s\n' \
		'$(PROCESSES_INSTANCES)' '$(PROCESSES_EVENTS)' '$(PROCESSES_KILLS)' '$(PROCESSES_SEED)'
	@printf '           SOAK_MESSAGES=%s SOAK_GROUPS=%s SOAK_KILLS=%s MODEL_MINUTES=%s SEED=%s RUNS=%s MUTANTS=%s\n' \
		'$(SOAK_MESSAGES)' '$(SOAK_GROUPS)' '$(SOAK_KILLS)' '$(MODEL_MINUTES)' '$(SEED)' '$(RUNS)' '$(MUTANTS)'
	@printf '           DEV_KILLS=%s ORACLE_MACHINES=%s ORACLE_SEED=%s COST_FLAGS=%s AWS_CLI_PORT=%s BENCH_AWS_FLAGS=%s\n' \
		'$(DEV_KILLS)' '$(ORACLE_MACHINES)' '$(ORACLE_SEED)' '$(COST_FLAGS)' '$(AWS_CLI_PORT)' '$(BENCH_AWS_FLAGS)'

.PHONY: demo
demo: ## play five machines and their workflows, on this machine, without an AWS account
	@$(GO) run ./cmd/settle demo

.PHONY: test
test: $(NPM_INSTALLED) ## run every test under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) $(PKG)
	@if [[ '$(PKG)' == ./... ]]; then \
		echo '$(GO) test ./runtime/xstatejson, more machines than under the race detector'; \
		$(GO) test -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) -run='^TestRandomMachinesRunAsInXState$$' ./runtime/xstatejson; \
	fi
	@if [[ '$(PKG)' == ./... ]]; then \
		echo '$(GO) test ./runtime/simulate, more runs than under the race detector'; \
		GOGC=1000 $(GO) test -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./runtime/simulate -simulate.runs=2000; \
	fi
	@if [[ '$(PKG)' == ./... ]]; then \
		echo '$(GO) test ./... ($(BENCHMARK))'; \
		GOWORK=off $(GO) -C $(BENCHMARK) test -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./...; \
	fi

%/node_modules/.package-lock.json: %/package-lock.json %/package.json
	@echo '$(NPM) ci ($*)'
	@cd $* && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: bench
bench: $(BENCHMARK)/testdata/npm/node_modules/.package-lock.json ## measure the engine beside others, in one table (2 minutes)
	@GOWORK=off $(GO) -C $(BENCHMARK) run ./table

.PHONY: lint
lint: $(LINTER) ## run golangci-lint: import table, clock and environment rules, mistakes, docs
	$(LINTER) run $(PKG)

$(LINTER): .ci/tools/go.mod .ci/tools/go.sum
	@echo 'building golangci-lint from .ci/tools/go.mod (some minutes, once)'
	@mkdir -p $(BIN)
	@GOWORK=off GOFLAGS= CGO_ENABLED=0 $(GO) -C .ci/tools build -trimpath -o $@ \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: vet
vet: ## run go vet
	$(GO) vet $(PKG)
	@if [[ '$(PKG)' == ./... ]]; then GOWORK=off $(GO) -C $(BENCHMARK) vet ./...; fi

.PHONY: fmt
fmt: $(LINTER) ## format the code: gofmt, and imports in their groups
	$(LINTER) fmt $(PKG)

.PHONY: fmt-check
fmt-check: ## fail if gofmt would change a file
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l -s .); \
	if [[ -n $$unformatted ]]; then \
		printf 'not formatted (make fmt):\n%s\n' "$$unformatted" >&2; exit 1; \
	fi

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change a go.mod or go.sum
	@for mod in $(MODULES); do \
		echo "go mod tidy -diff ($$mod)"; \
		GOWORK=off $(GO) -C "$$(dirname "$$mod")" mod tidy -diff; \
	done

# git grep answers 1 when it finds nothing, which is what we want, and more when it could not look.
.PHONY: paths-check
paths-check: ## fail if a file names a path of one machine, or a lock file a private registry
	@git grep -nIE --untracked '(^|[^])}*[:alnum:]_./~-]|file://)/(work|home|root|Users)/' -- . && found=0 || found=$$?; \
	if ((found == 0)); then echo 'these lines name a path that exists on one machine only' >&2; fi; \
	((found == 1))
	@git grep -nE --untracked -e '"resolved": *"' --and --not -e '"https://registry\.npmjs\.org/' \
		-- '*package-lock.json' && found=0 || found=$$?; \
	if ((found == 0)); then echo 'these lines name a registry that not everybody reaches' >&2; fi; \
	((found == 1))

.PHONY: build
build: functions ## build .bin/settle and every function
	$(GO) build -trimpath -o $(BIN)/settle ./cmd/settle

# -buildvcs=false: a function's zip changes when its code does, not with every commit.
.PHONY: functions
functions: ## build every function: .bin/functions/<arch>/<name>/bootstrap
	@mains=$$($(GO) list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./functions/...); \
	if [[ -z $$mains ]]; then echo 'found no main package in functions/' >&2; exit 1; fi; \
	for arch in arm64 amd64; do \
		for main in $$mains; do \
			out=.bin/functions/$$arch/$${main##*/}/bootstrap; \
			GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags='-s -w' \
				-tags lambda.norpc -o $$out $$main; \
			printf '%s  %.1f MB\n' $$out $$(wc -c <$$out | awk '{ print $$1 / 1e6 }'); \
		done; \
	done

.PHONY: check
check: ## run what CI runs
	@.ci/run

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@targets=$$(grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*' . || true); \
	if [[ -z $$targets ]]; then echo 'found no fuzz target' >&2; exit 1; fi; \
	while IFS=: read -r file func; do \
		name=$${func#func }; \
		echo "$$name in $$(dirname "$$file") for $(FUZZTIME)"; \
		$(GO) test -run='^$$' -fuzz="^$$name$$" -fuzztime=$(FUZZTIME) "$$(dirname "$$file")"; \
	done <<<"$$targets"

ORACLE_MACHINES ?= 10000
ORACLE_SEED     ?= 1

.PHONY: oracle
oracle: $(NPM_INSTALLED) ## compare ORACLE_MACHINES random machines with XState, step by step
	ORACLE_MACHINES=$(ORACLE_MACHINES) ORACLE_SEED=$(ORACLE_SEED) $(GO) test -count=1 -timeout=2h -v \
		-run='^TestRandomMachinesRunAsInXState$$' ./runtime/xstatejson

SEED ?= 1
RUNS ?= 100000
# A simulation makes much garbage and keeps little: collecting it less often saves a quarter of the time.

.PHONY: simulate
simulate: ## play RUNS random runs of the whole runtime with faults, from SEED on (100,000: 85 minutes on 2 busy cores); one run prints its trace
	GOGC=1000 $(GO) test -count=1 -timeout=12h -v -run='^TestSimulation$$' ./runtime/simulate -simulate.seed=$(SEED) -simulate.runs=$(RUNS)

COST_FLAGS ?=

.PHONY: cost
cost: ## play the runs of docs/cost.md, 10,000 instances among them, and print what an event costs (2 minutes); COST_FLAGS=-cost writes it there
	$(GO) test -count=1 -timeout=30m -v -run='^(TestRunsEnd|TestItemsHave|TestACallMakes)' ./runtime/simulate -cost.scale=1 $(COST_FLAGS) | grep -E '^ *\||^ *---|^(ok|FAIL|panic)|_test.go'

MUTANTS ?= .

.PHONY: mutants
mutants: ## build the runtime with each deliberate defect that MUTANTS matches, and have the simulation find it (half an hour)
	GOGC=1000 $(GO) test -count=1 -timeout=12h -v -run='^TestMutants$$' ./runtime/simulate -simulate.mutants='$(MUTANTS)' -simulate.runs=2000

AWS_CLI_PORT ?= 7390

.PHONY: awscli
awscli: ## drive the local AWS with the aws CLI that is installed
	@command -v aws >/dev/null || { echo 'expected the aws CLI on the PATH' >&2; exit 1; }
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/settle ./cmd/settle
	@$(BIN)/settle dev --aws-port $(AWS_CLI_PORT) --http-port 0 >$(BIN)/awscli.log 2>&1 & settle=$$!; \
	trap 'kill $$settle' EXIT; \
	for _ in $$(seq 100); do (: </dev/tcp/127.0.0.1/$(AWS_CLI_PORT)) 2>/dev/null && break; sleep 0.1; done; \
	runtime/awslocal/testdata/awscli.sh http://127.0.0.1:$(AWS_CLI_PORT)

.PHONY: bench-aws
bench-aws: $(NPM_INSTALLED) ## measure awslocal beside other emulators, and with a million queued (10 minutes)
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-aws ./runtime/awslocal/benchmark
	@$(BIN)/bench-aws $(BENCH_AWS_FLAGS)

SOAK_MESSAGES ?= 100000
SOAK_GROUPS   ?= 1000
SOAK_KILLS    ?= 20

.PHONY: soak
soak: ## send SOAK_MESSAGES to 8 consumers while the server is killed SOAK_KILLS times
	SOAK_MESSAGES=$(SOAK_MESSAGES) SOAK_GROUPS=$(SOAK_GROUPS) SOAK_KILLS=$(SOAK_KILLS) \
		$(GO) test -count=1 -timeout=1h -parallel=1 -v -run='^TestSoak_' ./runtime/awslocal

MODEL_MINUTES ?= 60

.PHONY: models
models: ## compare the models of awslocal with naive ones, at random, for MODEL_MINUTES
	@GO=$(GO) .ci/models $(MODEL_MINUTES)

DEV_KILLS ?= 20

.PHONY: kills
kills: ## kill settle dev --data DEV_KILLS times in the middle of the demo
	SETTLE_TEST_DEV_KILLS=$(DEV_KILLS) $(GO) test -count=1 -timeout=1h -v -run='^TestDevGoesOnAfterKills$$' ./cmd/settle

PROCESSES_INSTANCES ?= 1000
PROCESSES_EVENTS    ?= 50000
PROCESSES_KILLS     ?= 100
PROCESSES_SEED      ?=

.PHONY: processes
processes: ## kill settle dev --data and its 3 consumers at random, PROCESSES_KILLS times under load (4 minutes)
	PROCESSES_INSTANCES=$(PROCESSES_INSTANCES) PROCESSES_EVENTS=$(PROCESSES_EVENTS) PROCESSES_KILLS=$(PROCESSES_KILLS) \
		PROCESSES_SEED=$(PROCESSES_SEED) $(GO) test -count=1 -timeout=1h -v -run='^TestProcessesAreKilledUnderLoad$$' ./functions/consumer

.PHONY: crosscheck
crosscheck: $(CROSSCHECK)/testdata/npm/node_modules/.package-lock.json ## compare awslocal with other emulators, test by test (3 minutes)
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) -v -run='^TestCrosscheck$$' ./$(CROSSCHECK) -args -crosscheck

.PHONY: cover
cover: $(NPM_INSTALLED) ## measure coverage; writes .bin/cover.html
	@mkdir -p $(BIN)
	$(GO) test -timeout=$(TEST_TIMEOUT) -coverpkg=./... -coverprofile=$(BIN)/cover.out $(TEST_FLAGS) $(PKG)
	@$(GO) tool cover -html=$(BIN)/cover.out -o $(BIN)/cover.html
	@$(GO) tool cover -func=$(BIN)/cover.out | tail -n 1

.PHONY: clean
clean: ## remove what the other targets made, the linter and npm packages too
	rm -rf $(BIN) $(dir $(NPM_INSTALLED)) $(CROSSCHECK)/testdata/npm/node_modules
