# `make` alone prints help. The targets need Go, a C compiler (for -race), Node, npm and git. make check also needs Chrome or Chromium. Each target
# installs its other tools into this checkout, at pinned versions.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO           ?= go
NPM          ?= npm
PKG          ?= ./...
TEST_FLAGS   ?=
TEST_TIMEOUT ?= 1h
FUZZTIME     ?= 30s

# All go commands, including those that tests start, use the same flags, so that they share the build cache.
export GOFLAGS     := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS 2>/dev/null)) -trimpath
export CGO_ENABLED := 0

BIN    := $(CURDIR)/.bin
LINTER := $(BIN)/golangci-lint

# The npm packages of the tests: the folders <package>/testdata/npm, each with a lock file. npm writes
# node_modules/.package-lock.json last, so its time shows whether the installed packages match the lock file.
NPM_PACKAGES := $(wildcard */testdata/npm/package-lock.json */*/testdata/npm/package-lock.json \
                           */*/*/testdata/npm/package-lock.json)
# Only make crosscheck installs the other emulators. No test needs them.
CROSSCHECK    := infra/awslocal/conformance
# Only make infra and make deploy-cdk install the tools of infra/cdk. CDK takes a minute of CPU time to compile.
INFRA         := infra/cdk
NPM_INSTALLED := $(filter-out $(CROSSCHECK)/% $(INFRA)/%,$(NPM_PACKAGES:package-lock.json=node_modules/.package-lock.json))

# The benchmarks are a module of their own, so that importing Settle does not add the other engines.
BENCHMARK := runtime/statechart/benchmark

MODULES = $(patsubst ./%,%,$(shell find . -name go.mod -not -path '*/node_modules/*' -not -path '*/testdata/*' \
                                              -not -path './.bin/*' | sort))

.PHONY: help
help: ## print this help
	@printf 'Settle: statecharts in Go on Lambda, SQS FIFO and DynamoDB.\n\n'
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables, with their defaults:\n'
	@awk '/^[A-Z_]+ *\?=/ { sub(/ *\?= */, "="); if (length(line $$0) > 110) { print line; line = "" }; line = line "  " $$0 } END { print line }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## play five machines and their workflows, on this machine, without an AWS account
	@echo 'Compiling settle. The first time, this takes a minute or two.'
	@$(GO) run ./cmd/settle demo

# make vet runs go vet, so the tests need not.
.PHONY: test
test: $(NPM_INSTALLED) ## run the tests of every package, without the long ones
	$(GO) test -short -vet=off -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) $(PKG)
	@echo 'All tests passed. make check runs the long ones, which -short skips, and the race detector.'

# The tests of these packages search many cases. Under the race detector they try only the cases of make test.
DEEP := ./runtime/simulate ./runtime/limits ./runtime/statechart/xstatejson

# The race detector needs cgo. Programs that a test builds need no cgo, so they use the build cache of the other
# targets.
RACE := CGO_ENABLED=1 $(GO) test -race -vet=off -timeout=$(TEST_TIMEOUT) -exec="env CGO_ENABLED=0"

.PHONY: test-race
test-race: $(NPM_INSTALLED) ## run every test under the race detector; the searches of test-deep are short here
	@packages=$$($(GO) list $(PKG)); deep=$$($(GO) list $(DEEP)); \
	all=$$(grep -vxF "$$deep" <<<"$$packages" || true); short=$$(grep -xF "$$deep" <<<"$$packages" || true); \
	if [[ $$all ]]; then echo '$(RACE)'; $(RACE) $(TEST_FLAGS) $$all; fi; \
	if [[ $$short ]]; then echo '$(RACE) -short' $$short; $(RACE) -short $(TEST_FLAGS) $$short; fi

# make check runs these tests too.
.PHONY: test-browser
test-browser: $(NPM_INSTALLED) ## test the console, the inspector and the XState front end in Chrome or Chromium (apt-get install chromium); make test leaves this out
	CI=true $(GO) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./runtime/console ./cmd/settle/internal/inspector
	CI=true $(GO) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) -run=TestABrowser ./cmd/settle

.PHONY: screenshot
screenshot: ## take the screenshot of the console in README.md again, in Chrome or Chromium
	CI=true $(GO) test -count=1 -run='^TestScreenshotOfTheConsoleIsCurrent$$' ./runtime/console -update

.PHONY: test-deep
test-deep: $(NPM_INSTALLED) ## run the searching tests: 2,000 simulated runs, a fault at every call, 10,000 runs of limits, 500 machines compared with XState
	GOGC=1000 $(GO) test -vet=off -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) $(DEEP)

.PHONY: test-benchmark
test-benchmark: $(BENCHMARK)/testdata/npm/node_modules/.package-lock.json ## test the benchmarks, which are a module of their own
	GOWORK=off $(GO) -C $(BENCHMARK) test -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./...

%/node_modules/.package-lock.json: %/package-lock.json %/package.json
	@echo '$(NPM) ci ($*)'
	@cd $* && $(NPM) ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null
	@touch $@

.PHONY: bench
bench: $(BENCHMARK)/testdata/npm/node_modules/.package-lock.json ## compare the speed of the engine with other engines (2 minutes)
	@GOWORK=off $(GO) -C $(BENCHMARK) run ./table

VALE         := $(BIN)/vale
VALE_VERSION := v3.21.0

.PHONY: lint
lint: $(LINTER) $(VALE) ## run golangci-lint (import table, clock and environment rules, mistakes) and Vale (prose)
	$(LINTER) run $(PKG)
	@echo 'vale: pages, comments and messages'
	@$(GO) run ./.ci/prose $(VALE)

$(LINTER): .ci/tools/go.mod .ci/tools/go.sum
	@echo 'building golangci-lint from .ci/tools/go.mod (some minutes, once)'
	@mkdir -p $(BIN)
	@GOWORK=off GOFLAGS= CGO_ENABLED=0 $(GO) -C .ci/tools build -trimpath -o $@ \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# Vale parses some formats with C libraries.
$(VALE): Makefile
	@echo 'building vale (a minute, once)'
	@mkdir -p $(BIN)
	@GOWORK=off GOFLAGS= CGO_ENABLED=1 GOBIN=$(BIN) $(GO) install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)
	@touch $@

# actionlint and golangci-lint need different versions of a YAML package, so actionlint is not in .ci/tools/go.mod.
ACTIONLINT         := $(BIN)/actionlint
ACTIONLINT_VERSION := v1.7.12

lint: workflows-check

.PHONY: workflows-check
workflows-check: $(ACTIONLINT) ## run actionlint on .github/workflows
	$(ACTIONLINT) -shellcheck= -pyflakes=

$(ACTIONLINT): Makefile
	@mkdir -p $(BIN)
	GOWORK=off GOFLAGS= GOBIN=$(BIN) $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	@touch $@

VULN         := $(BIN)/govulncheck
VULN_VERSION := v1.1.4
VULN_DB      ?= https://vuln.go.dev

# The vulnerability database of a fixed day, from the module mirror. The result of CI then depends only on the commit.
VULNDB_VERSION := v0.0.0-20260813214354-9de686e1fb00
VULNDB         := $(BIN)/vulndb/$(VULNDB_VERSION)

# govulncheck exits with 3 if it finds a vulnerability, and with another code if it fails.
.PHONY: vuln
vuln: $(VULN) ## find known vulnerabilities in called functions; uses the database at VULN_DB
	@for module in . $(INFRA); do \
		echo "govulncheck ./... ($$module)"; \
		GOWORK=off $(VULN) -C $$module -db '$(VULN_DB)' ./... && code=0 || code=$$?; \
		case $$code in \
		0) ;; \
		3) echo 'known vulnerabilities: update the modules that are named above' >&2; exit 1 ;; \
		*) echo "nothing was checked in $$module: expected to reach the vulnerability database at $(VULN_DB); name a mirror of it with VULN_DB=" >&2; exit 1 ;; \
		esac; \
	done

.PHONY: vuln-pinned
vuln-pinned: $(VULNDB)/index/modules.json ## find known vulnerabilities with the database of VULNDB_VERSION, as CI does
	@$(MAKE) --no-print-directory vuln VULN_DB=file://$(VULNDB)

$(VULNDB)/index/modules.json:
	@echo 'fetching the vulnerability database $(VULNDB_VERSION)'
	@folder=$$(GOWORK=off GOFLAGS=-mod=mod $(GO) mod download -json golang.org/x/vulndb@$(VULNDB_VERSION) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p') && \
		rm -rf $(BIN)/vulndb && $(GO) run ./.ci/vulndb "$$folder/data/osv" $(VULNDB)

$(VULN): Makefile
	@mkdir -p $(BIN)
	GOWORK=off GOFLAGS= GOBIN=$(BIN) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)
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
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l -s $$(git ls-files --cached --others --exclude-standard -- '*.go')); \
	if [[ -n $$unformatted ]]; then \
		printf 'not formatted (make fmt):\n%s\n' "$$unformatted" >&2; exit 1; \
	fi

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change a go.mod or go.sum
	@for mod in $(MODULES); do \
		echo "go mod tidy -diff ($$mod)"; \
		GOWORK=off $(GO) -C "$$(dirname "$$mod")" mod tidy -diff; \
	done

# git grep exits with 1 if it finds nothing, which is the wanted result here. It exits with a higher code if it fails.
.PHONY: paths-check
paths-check: ## fail if a file contains a path of one machine, or a lock file a private registry
	@git grep -nIE --untracked '(^|[^])}*[:alnum:]_./~-]|file://)/(work|home|root|Users)/' -- . && found=0 || found=$$?; \
	if ((found == 0)); then echo 'these lines name a path that exists on one machine only' >&2; fi; \
	((found == 1))
	@git grep -nE --untracked -e '"resolved": *"' --and --not -e '"https://registry\.npmjs\.org/' \
		-- '*package-lock.json' && found=0 || found=$$?; \
	if ((found == 0)); then echo 'these lines name a registry that not everybody reaches' >&2; fi; \
	((found == 1))

.PHONY: build
build: functions ## build .bin/settle and every function
	$(GO) build -o $(BIN)/settle ./cmd/settle

# -buildvcs=false: a function's zip changes only with its code. lambda.norpc leaves out the RPC server of the retired
# runtime go1.x. The server uses templates, which make the linker keep unused methods: a third of the executable.
FUNCTION_FLAGS := -buildvcs=false -trimpath -ldflags=-s\ -w -tags=lambda.norpc

ARCHS ?= arm64 amd64

.PHONY: functions
functions: ## build every function: .bin/functions/<arch>/<name>/bootstrap
	@mains=$$($(GO) list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./functions/...); \
	if [[ -z $$mains ]]; then echo 'found no main package in functions/' >&2; exit 1; fi; \
	for arch in $(ARCHS); do \
		for main in $$mains; do \
			out=.bin/functions/$$arch/$${main##*/}/bootstrap; \
			GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build $(FUNCTION_FLAGS) -o $$out $$main; \
			printf '%s  %.1f MB\n' $$out $$(wc -c <$$out | awk '{ print $$1 / 1e6 }'); \
		done; \
	done

.PHONY: zips
zips: functions ## zip every function for a release: .bin/zips/settle_<name>_linux_<arch>.zip
	@rm -rf .bin/zips && mkdir -p .bin/zips
	@for arch in $(ARCHS); do \
		$(GO) run ./infra/pack .bin/functions/$$arch | while read -r name _ _ zip; do \
			cp "$$zip" .bin/zips/settle_$${name}_linux_$$arch.zip; \
		done; \
	done

# goreleaser takes more than three minutes of CPU time to compile, so make lint does not run it.
GORELEASER         := $(BIN)/goreleaser
GORELEASER_VERSION := v2.16.0

.PHONY: snapshot
snapshot: $(GORELEASER) ## check .goreleaser.yaml and build in dist/ what a release would publish
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --skip=publish

$(GORELEASER): Makefile
	@echo 'building goreleaser (some minutes, once)'
	@mkdir -p $(BIN)
	GOWORK=off GOFLAGS= GOBIN=$(BIN) $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@touch $@

.PHONY: size
size: ## build every function for both architectures and print how large each is (20 MB at most)
	@$(GO) test -count=1 -v -run='^TestExecutablesAreSmall$$' ./runtime/host | grep -E '^ *\||^(ok|FAIL|panic)|_test.go.*want'

START_RUNS ?= 30

.PHONY: start
start: ## start every function START_RUNS times, and a bare handler beside them (at most 4 times its CPU time)
	@$(GO) test -count=1 -v -run='^TestFunctionsStartFast$$' ./runtime/host -start.runs=$(START_RUNS) | grep -E '^ *\||^(ok|FAIL|panic)|_test.go.*want'

CPU_RUNS  ?= 9
CPU_FLAGS ?=

.PHONY: bench-consumer
bench-consumer: ## measure the CPU time of the consumer beside a program that makes the same AWS calls with the bare SDK (5 minutes); CPU_FLAGS=-cpu.update updates docs/scaling.md
	@$(GO) test -count=1 -timeout=30m -v -run='^TestConsumerMakesTheCallsOfTheFloor$$' ./functions/consumer -cpu.runs=$(CPU_RUNS) -cpu.instances=500 $(CPU_FLAGS) | grep -E '^ *\||calls of|^(ok|FAIL|panic)|_test.go'

INFRA_FLAGS ?=

# cfn-lint is a Python program. Its checks run only if it is installed.
.PHONY: infra
infra: $(INFRA)/testdata/npm/node_modules/.package-lock.json infra/workflows/testdata/npm/node_modules/.package-lock.json
infra: ## check infra/template.yaml, its properties and its roles; INFRA_FLAGS=-update generates it from infra/cdk (2 minutes)
	@if command -v cfn-lint >/dev/null; then cfn-lint --version; else \
		echo 'cfn-lint is not installed: its check, and the mistakes that only it catches, are SKIPPED (pip install cfn-lint==1.51.0)'; fi
	$(if $(findstring -update,$(INFRA_FLAGS)),rm -f $(INFRA)/examples/*.asl.json; cp infra/workflows/*.asl.json $(INFRA)/examples/)
	GOWORK=off $(GO) -C $(INFRA) vet ./...
	$(if $(INFRA_FLAGS),GOWORK=off $(GO) -C $(INFRA) test -count=1 -timeout=$(TEST_TIMEOUT) -run='^TestCommittedFilesAreCurrent$$' . $(INFRA_FLAGS))
	GOWORK=off $(GO) -C $(INFRA) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./...
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./infra/...
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) -run='^TestPagesDoWhatTheySay$$' ./docs -docs.stacks

# The deployed executables. Lambda runs them on arm64.
DEPLOYED := .bin/functions/arm64
STACK    ?= settle
# A folder with your own functions, built like Settle's: OWN/consumer/bootstrap and so on. They replace Settle's.
OWN      ?=

# All lanes with their concurrency or pollers, and the rules that assign new instances to them: docs/deploy.md#lanes.
LANES      ?=
LANE_RULES ?=

deploy deploy-cdk: ARCHS := arm64

# The template of a stack with LANES. It needs Node.
LANED := $(BIN)/template.yaml

.PHONY: template
template: ## write .bin/template.yaml, the template with the lanes of LANES and LANE_RULES; make deploy does so if LANES is set
	@mkdir -p $(BIN)
	@said=$$(GOWORK=off $(GO) -C $(INFRA) test -count=1 -run='^TestTemplateIsWritten$$' . -template='$(LANED)' -lanes='$(LANES)' -lane-rules='$(LANE_RULES)') || \
		{ printf '%s\n' "$$said" >&2; exit 1; }
	@echo 'wrote $(LANED)'

.PHONY: deploy
deploy: functions $(if $(LANES),template) ## deploy the stack STACK with the aws CLI; OWN= BUCKET= BUCKET_OWNER= PARAMETERS='Name=value ...' LANES= LANE_RULES=, DRY=1 only prints the steps
	@$(GO) run ./infra/pack $(OWN) $(DEPLOYED) | \
		STACK='$(STACK)' BUCKET='$(BUCKET)' BUCKET_OWNER='$(BUCKET_OWNER)' PARAMETERS='$(PARAMETERS)' OWN='$(OWN)' \
		TEMPLATE='$(if $(LANES),$(LANED))' LANES='$(LANES)' LANE_RULES='$(LANE_RULES)' REMOVE_LANES='$(REMOVE_LANES)' DRY='$(DRY)' infra/deploy.sh

COMMA := ,

# The CDK command line that infra/cdk/testdata/npm installs: the latest version that can read the output of the construct's CDK version.
CDK ?= testdata/npm/node_modules/.bin/cdk

.PHONY: deploy-cdk
deploy-cdk: functions $(INFRA)/testdata/npm/node_modules/.package-lock.json ## deploy the stack STACK with CDK, in an account that it is bootstrapped for; OWN= CALLBACKS= BUCKETS= ALARMS= EVENTS= CONCURRENCY= POLLERS= LANES= LANE_RULES= RESERVE= STREAM= TABLE= ROTATE= BUS=, DRY=1 only synthesizes
	cd $(INFRA) && GOWORK=off $(CDK) $(if $(DRY),synth --quiet,deploy) -c stack='$(STACK)' -c buckets='$(BUCKETS)' \
		-c alarms='$(ALARMS)' -c events='$(EVENTS)' -c concurrency='$(CONCURRENCY)' -c pollers='$(POLLERS)' -c lanes='$(LANES)' -c lane-rules='$(LANE_RULES)' -c reserve='$(RESERVE)' -c stream='$(STREAM)' -c table='$(TABLE)' -c rotate='$(ROTATE)' -c bus='$(BUS)' \
		-c functions='$(if $(OWN),$(abspath $(OWN))$(COMMA))$(CURDIR)/$(DEPLOYED)' -c own='$(if $(OWN),true)' -c callbacks='$(CALLBACKS)'

.PHONY: destroy
destroy: ## delete the stack STACK, unless it has active instances or messages in its queues; FORCE=1 deletes it anyway, DELETE_TABLE=1 also deletes the table, DRY=1 only prints the steps
	@STACK='$(STACK)' FORCE='$(FORCE)' DELETE_TABLE='$(DELETE_TABLE)' DRY='$(DRY)' infra/destroy.sh

CHECKS := test-race test-deep test-benchmark lint vet tidy-check fmt-check paths-check build infra vuln-pinned

.PHONY: check
check: ## run the other checks of CI: race detector, long tests, linters, infrastructure (30 minutes)
	@for check in $(CHECKS); do \
		printf '\n== make %s\n' "$$check"; start=$$SECONDS; \
		$(MAKE) --no-print-directory "$$check" || { printf '\nFAILED: make %s\n' "$$check" >&2; exit 1; }; \
		printf '   ok, %d s\n' $$((SECONDS - start)); \
	done

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@targets=$$(grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*' . || true); \
	if [[ -z $$targets ]]; then echo 'found no fuzz target' >&2; exit 1; fi; \
	while IFS=: read -r file func; do \
		name=$${func#func }; \
		echo "$$name in $$(dirname "$$file") for $(FUZZTIME)"; \
		$(GO) test -run='^$$' -fuzz="^$$name$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x "$$(dirname "$$file")"; \
	done <<<"$$targets"

ORACLE_MACHINES ?= 10000
ORACLE_SEED     ?= 1

.PHONY: oracle
oracle: $(NPM_INSTALLED) ## compare ORACLE_MACHINES random machines with XState, step by step
	ORACLE_MACHINES=$(ORACLE_MACHINES) ORACLE_SEED=$(ORACLE_SEED) $(GO) test -count=1 -timeout=2h -v \
		-run='^TestRandomMachinesRunAsInXState$$' ./runtime/statechart/xstatejson

SEED ?= 1
RUNS ?= 100000
# A strain makes a whole run harder. STRAIN is a regular expression for the kinds of strain of each run. If it is empty,
# the seed draws the strains.
STRAIN ?=
# A simulation allocates much and keeps little, so a high GOGC saves a quarter of the time.

.PHONY: simulate
simulate: ## simulate RUNS random runs of the whole runtime with faults, from SEED on (100,000: 105 minutes on 2 idle cores); one run prints its trace
	GOGC=1000 $(GO) test -count=1 -timeout=12h -v -run='^TestSimulation$$' ./runtime/simulate -simulate.seed=$(SEED) -simulate.runs=$(RUNS) $(if $(STRAIN),-simulate.strain='$(STRAIN)')

COST_FLAGS ?=

.PHONY: cost
cost: ## measure the cost of an event with the runs of docs/cost.md, 10,000 instances, and a hot one (5 minutes); COST_FLAGS=-cost updates it, docs/floods.md and docs/scaling.md
	$(GO) test -count=1 -timeout=30m -v -run='^(TestRunsEnd|TestADeployed|TestItemsHave|TestACallMakes|TestAFlood|TestAHot)' ./runtime/simulate -cost.scale=1 $(COST_FLAGS) | grep -E '^ *\||^ *---|^(ok|FAIL|panic)|_test.go'

MUTANTS ?= .

.PHONY: mutants
mutants: ## check that the simulation finds each deliberate defect whose name matches MUTANTS (half an hour)
	GOGC=1000 $(GO) test -count=1 -timeout=12h -v -run='^TestMutants$$' ./runtime/simulate -simulate.mutants='$(MUTANTS)' -simulate.runs=2000

SCENARIO ?=
FAULTS   ?= -1

.PHONY: explore
explore: ## search every schedule of small scenarios of the loop, with one to three faults; SCENARIO= and FAULTS= choose
	GOGC=400 $(GO) test -count=1 -timeout=12h -v -run='^(TestExplore|TestScripts)$$' ./runtime/durable/explore -scope=full -scenario='$(SCENARIO)' -faults=$(FAULTS)

.PHONY: explore-mutants
explore-mutants: ## check that the search finds each deliberate defect whose name matches MUTANTS (5 minutes)
	$(GO) test -count=1 -timeout=1h -v -run='^TestMutants$$' ./runtime/durable/explore -mutants='$(MUTANTS)'

AWS_CLI_PORT ?= 7390

.PHONY: awscli
awscli: ## test the local AWS with the installed aws CLI
	@command -v aws >/dev/null || { echo 'expected the aws CLI on the PATH' >&2; exit 1; }
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/settle ./cmd/settle
	@$(BIN)/settle dev --aws-port $(AWS_CLI_PORT) --http-port 0 >$(BIN)/awscli.log 2>&1 & settle=$$!; \
	trap 'kill $$settle' EXIT; \
	for _ in $$(seq 100); do (: </dev/tcp/127.0.0.1/$(AWS_CLI_PORT)) 2>/dev/null && break; sleep 0.1; done; \
	infra/awslocal/testdata/awscli.sh http://127.0.0.1:$(AWS_CLI_PORT)

.PHONY: bench-aws
bench-aws: $(NPM_INSTALLED) ## compare the speed of awslocal with other emulators, also with a million queued messages (10 minutes)
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench-aws ./infra/awslocal/benchmark
	@$(BIN)/bench-aws $(BENCH_AWS_FLAGS)

SOAK_MESSAGES ?= 100000
SOAK_GROUPS   ?= 1000
SOAK_KILLS    ?= 20

.PHONY: soak
soak: ## send SOAK_MESSAGES to 8 consumers while the server is killed SOAK_KILLS times
	SOAK_MESSAGES=$(SOAK_MESSAGES) SOAK_GROUPS=$(SOAK_GROUPS) SOAK_KILLS=$(SOAK_KILLS) \
		$(GO) test -count=1 -timeout=1h -parallel=1 -v -run='^TestSoak_' ./infra/awslocal

MODEL_MINUTES ?= 60

.PHONY: models
models: ## compare the models of awslocal with naive models on random calls, for MODEL_MINUTES
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

BULK_INSTANCES ?= 100000
BULK_KILLS     ?= 20
BULK_SEED      ?=

.PHONY: bulk-kills
bulk-kills: ## kill settle bulk BULK_KILLS times while it stops BULK_INSTANCES, and measure its memory (15 minutes on 2 busy cores)
	SETTLE_TEST_BULK_INSTANCES=$(BULK_INSTANCES) SETTLE_TEST_BULK_KILLS=$(BULK_KILLS) SETTLE_TEST_BULK_SEED=$(BULK_SEED) \
		$(GO) test -count=1 -timeout=2h -parallel=1 -v -run='^TestBulk(StopsEachInstanceOnce|MemoryDoesNotGrow)$$' ./cmd/settle

.PHONY: crosscheck
crosscheck: $(CROSSCHECK)/testdata/npm/node_modules/.package-lock.json ## compare awslocal with other emulators, test by test (3 minutes)
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) -v -run='^TestCrosscheck$$' ./$(CROSSCHECK) -args -crosscheck

.PHONY: cover
cover: $(NPM_INSTALLED) ## measure coverage; writes .bin/cover.html
	@mkdir -p $(BIN)
	$(GO) test -short -timeout=$(TEST_TIMEOUT) -coverpkg=./... -coverprofile=$(BIN)/cover.out $(TEST_FLAGS) $(PKG)
	@$(GO) tool cover -html=$(BIN)/cover.out -o $(BIN)/cover.html
	@$(GO) tool cover -func=$(BIN)/cover.out | tail -n 1

.PHONY: clean
clean: ## remove the results of the other targets, including linters and npm packages
	rm -rf $(BIN) $(dir $(NPM_INSTALLED)) $(CROSSCHECK)/testdata/npm/node_modules $(INFRA)/testdata/npm/node_modules
