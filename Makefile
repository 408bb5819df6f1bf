# Lake. `make help` lists what there is.
#
# Every target first brings what it needs (deps/fetch; nothing to do once it is there) and builds.

MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

JOBS ?= $(shell nproc)
BUILD := build/release
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
PYTHON := $(CURDIR)/.deps/venv/bin/python

# The compiler cache lives beside the dependencies, so that a fresh checkout builds quickly.
export CCACHE_DIR ?= $(or $(LAKE_DEPS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lake)/ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
export LAKE_BUILD_DIR := $(CURDIR)/$(BUILD)

# configure DIR ARGUMENTS
configure = cmake -S . -B $(1) -G Ninja $(2) >$(1).log 2>&1 || { cat $(1).log >&2; exit 1; }

##@ Build
.PHONY: build
build: deps-build configure ## Fetch dependencies, configure and build into build/release (default)
	@ninja -C $(BUILD) -j$(JOBS) --quiet
	@echo "built: $(BUILD)"

.PHONY: configure
configure: deps-build
	@mkdir -p build
	@[ -e $(BUILD)/build.ninja ] || { $(call configure,$(BUILD),-DCMAKE_BUILD_TYPE=RelWithDebInfo); }

.PHONY: install
install: build ## Install the library, tools, manual and completion (PREFIX=/usr/local, DESTDIR=)
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) >$(BUILD)/install.log
	@echo "installed into $(DESTDIR)$(PREFIX)"

.PHONY: wheel
wheel: deps-test build ## The Python package with all its libraries, into build/python
	@python/build_wheel $(BUILD)

.PHONY: clean
clean: ## Remove everything that was built
	@rm -rf build

##@ Try
.PHONY: e2e
e2e: deps-test build ## Robot episodes from simulation to SQL and back, end to end
	@tests/e2e/run

##@ Test
.PHONY: test
test: test-build ## The whole suite
	@tools/test all

.PHONY: test-unit
test-unit: test-build ## Unit tests and the replay of the fuzz corpus
	@tools/test unit

.PHONY: test-adbc
test-adbc: test-build ## The official ADBC Flight SQL driver against a running Lake
	@tools/test adbc

.PHONY: test-python
test-python: test-build ## The Python package: its wheel in a fresh environment
	@tools/test python

.PHONY: test-install
test-install: test-build ## A C program outside the tree, built against an installed Lake
	@tools/test install

# cmocka may have come after the first configuration.
.PHONY: test-build
test-build: deps-test configure
	@grep -q '^CMOCKA_FOUND:INTERNAL=1' $(BUILD)/CMakeCache.txt || { $(call configure,$(BUILD),); }
	@$(MAKE) build

.PHONY: sanitize
sanitize: deps-test deps-fuzz ## The unit tests under ASan and UBSan, the concurrent ones under TSan; fuzzing
	@tools/sanitize

.PHONY: fuzz
fuzz: deps-fuzz ## Each fuzz target for FUZZ_SECONDS (60); NAME=… for some, such as 'lance_*'
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz $(if $(NAME),'$(NAME)')

.PHONY: soak
soak: test-build deps-fuzz ## The long tests: a thousand kills under load, objects of 5 GiB, hours of fuzzing
	@tools/test soak
	@FUZZ_SECONDS=600 tools/fuzz 'lance_*'

.PHONY: bench
bench: deps-test build ## Measure against the alternatives; NAME=… for one line
	@bench/run $(NAME)

##@ Check
.PHONY: lint
lint: deps-lint test-build ## Style, static analysis, layering, banned functions; CHECKS=… for some
	@python3 tools/lint/lint.py --build $(BUILD) $(CHECKS)

.PHONY: format
format: deps-lint ## Rewrite the sources in the project's style
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' | xargs clang-format -i

.PHONY: doctor
doctor: ## What is missing on this machine and the command that brings it
	@deps/fetch --doctor

.PHONY: ci
ci: ## What continuous integration runs
	@.ci/run

##@ Dependencies
.PHONY: deps deps-build deps-test deps-lint deps-fuzz
deps: ## Fetch everything that any target needs, for work without a network
	@deps/fetch
deps-build deps-test deps-lint deps-fuzz: deps-%:
	@deps/fetch $*

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
	    /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
