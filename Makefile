# SPDX-License-Identifier: GPL-2.0-or-later
#
# What one can ask of this project; `make help` lists it. The work is done by
# scripts/ and images/: a target here only says which and in what order.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# Arguments for the scripts behind a target, e.g. make test ARGS="--only lint".
ARGS ?=

.PHONY: help
help: ## this list
	@echo 'rnic: an RDMA network adapter (iWARP) for QEMU virtual machines'
	@echo
	@sed -n 's/^\([a-z0-9.-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20
	@echo
	@echo 'Variables: QEMU_SRC and RDMA_CORE_SRC name source trees you have;'
	@echo 'RNIC_CACHE the directory of what is fetched once (~/.cache/rnic);'
	@echo 'RNIC_ACCEL=tcg or kvm; RNIC_DEBIAN_MIRROR an archive to fetch from.'

.PHONY: demo
demo: virtual-machines ## two VMs run the stock RDMA programs over rnic and show figures
	@scripts/demo $(ARGS)

.PHONY: test
test: ## the tests but the long ones; ends with: N passed, N failed, N skipped
	@scripts/run-tests $(ARGS)

.PHONY: test-all
test-all: ## all tests: these and the tests of virtual machines that take minutes
	@scripts/run-tests --all $(ARGS)

.PHONY: test-plain
test-plain: ## unit and device tests, the device built without sanitizers
	@scripts/run-tests --plain $(ARGS)

.PHONY: test-asan
test-asan: ## the same, all of QEMU built with ASan and UBSan
	@scripts/run-tests --asan $(ARGS)

.PHONY: test-tsan
test-tsan: ## the same, all of QEMU but TCG and its processor built with TSan
	@scripts/run-tests --tsan $(ARGS)

.PHONY: test-newest-qemu
test-newest-qemu: ## unit and device tests on the newest QEMU whose source the archive serves
	@scripts/run-tests --newest-qemu $(ARGS)

.PHONY: test-debug-kernel
test-debug-kernel: ## the VM tests with a debug kernel (KASAN, lockdep, kmemleak, ...) in the guests
	@scripts/run-tests --debug-kernel $(ARGS)

.PHONY: test-checked-provider
test-checked-provider: ## the VM tests with ASan and UBSan in the guests' rdma-core provider
	@scripts/run-tests --checked-provider $(ARGS)

.PHONY: test-wire
test-wire: ## the VM tests, and tshark judges all that their adapters send and receive
	@scripts/run-tests --judge $(ARGS)

.PHONY: fuzz
fuzz: ## fuzzers of the engine, the fabric and the device, SECONDS=600 together
	@scripts/fuzz run $(or $(SECONDS),600) $(ARGS)

.PHONY: coverage
coverage: ## the device's tests and corpora with counted lines: shares of each folder
	@scripts/coverage $(ARGS)

.PHONY: rdma-core-tests
rdma-core-tests: virtual-machines ## rdma-core's own tests, compared with a reviewed list
	@scripts/need-packages vm
	@scripts/run-rdma-core-tests $(ARGS)

.PHONY: interop
interop: everything ## rnic against siw: roles, IPv4 and IPv6, CRC, MPA revisions, programs; a table
	@scripts/need-packages vm interop
	@scripts/interop $(ARGS)

.PHONY: conformance
conformance: ## runs the tests and counts the requirements they show
	@scripts/conformance $(ARGS)

.PHONY: mutations
mutations: qemu ## breaks the device in one place at a time; which test notices: docs/requirements/mutations.md
	@scripts/mutate $(ARGS)

.PHONY: bench
bench: everything ## rnic next to siw, rxe and plain sockets: build/bench.txt, .json, .svg
	@scripts/need-packages bench vm
	@scripts/bench $(ARGS)

.PHONY: vm
vm: virtual-machines ## two VMs to work in, connected by rnic
	@scripts/vm $(ARGS)

.PHONY: qemu
qemu: ## QEMU with the rnic device: build/qemu/qemu-system-x86_64
	@scripts/build-qemu $(ARGS)

.PHONY: driver
driver: ## the guest kernel driver: build/driver/rnic.ko
	@scripts/build-driver

.PHONY: driver-6.1
driver-6.1: ## the same driver for Debian 12's Linux 6.1: build/driver-bookworm/
	@scripts/build-driver --suite bookworm

.PHONY: debug-kernel
debug-kernel: ## the kernel of make test-debug-kernel (in the cache), rnic.ko and test modules for it
	@echo "debug kernel: $$(scripts/build-debug-kernel)"
	@scripts/build-driver --kernel debug
	@scripts/build-modules --kernel debug

.PHONY: driver-newest
driver-newest: ## the same driver for the newest Linux of Debian's backports: build/driver-trixie-backports/
	@scripts/build-driver --suite trixie-backports

.PHONY: provider
provider: ## the rdma-core provider: build/provider/
	@scripts/build-provider

.PHONY: image
image: ## the guest image, from Debian packages (in the cache)
	@echo "image: $$(images/make-image)"

.PHONY: siw
siw: ## Linux's software iWARP for the guest, as a peer: build/siw/siw.ko
	@scripts/build-siw

.PHONY: programs
programs: ## the checking programs that tests and demo run in guests
	@scripts/build-programs

.PHONY: modules
modules: ## the kernel modules that tests load in guests: build/modules/
	@scripts/build-modules

.PHONY: lint
lint: ## sparse, checkpatch, shellcheck; the floors of the device
	@scripts/lint

.PHONY: coccicheck
coccicheck: ## the kernel's Coccinelle rules on the driver (some minutes)
	@scripts/coccicheck

# QEMU and what is for the guest need nothing of each other: side by side, one
# computes while the other waits for the network. ARGS are not for them, but for
# the script of the target that was asked for.
.PHONY: virtual-machines guest-parts
virtual-machines:
	@$(MAKE) --jobs=2 ARGS= qemu guest-parts
guest-parts:
	@$(MAKE) MAKEFLAGS=--no-print-directory image driver provider programs

# What tests need besides.
.PHONY: everything
everything: virtual-machines
	@$(MAKE) siw modules

.PHONY: clean
clean: ## removes build/ of this clone; the cache stays
	rm -rf build

.PHONY: clean-cache
clean-cache: ## removes what all clones share: downloads, build root, images
	rm -rf "$${RNIC_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/rnic}"
