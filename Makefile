# Front door for those who have make; every target is a thin wrapper. ./quickstart and ./test need no make.
.PHONY: build test conformance answers bench docs fuzz fuzz-execution asan tsan reliability nightly format header-time

build:
	tools/setup.sh && tools/build.sh

test:
	./test

# Every judged case instead of the quick selection, all answers recomputed; writes docs/conformance.md.
conformance:
	export LOCKSTEP_CONFORMANCE=1; ./test; status=$$?; python3 tools/conformance.py build/test-results && exit $$status

# Asks Keras for the answers that tests/judged/answers lacks, and removes those that no case asks for.
answers:
	PYTHONHASHSEED=0 LOCKSTEP_ANSWERS=write LOCKSTEP="$(CURDIR)/build/bin/lockstep" LOCKSTEP_BUILD="$(CURDIR)/build" CUDA_VISIBLE_DEVICES= \
	  "$$(tools/judges_venv.sh)/bin/python" -m pytest -q -p no:cacheprovider $(ANSWERED)
ANSWERED = $(shell grep -l '^import answers' tests/judged/test_*.py)

# lockstep and TensorFlow alternately; writes the table of docs/performance.md.
bench:
	LOCKSTEP_EXTRA_PACKAGES=libgloo-dev tools/setup.sh && LOCKSTEP_BUILD_DIR=build-bench LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_BENCH=ON tools/build.sh
	python3 -m venv build-bench/peers && build-bench/peers/bin/pip install --quiet --no-deps -r bench/requirements.txt
	"$$(tools/judges_venv.sh)/bin/python" bench/compare.py --build build-bench --peers build-bench/peers/bin/python --write
	"$$(tools/judges_venv.sh)/bin/python" bench/workers.py --build build-bench --write
	"$$(tools/judges_venv.sh)/bin/python" bench/servers.py --build build-bench --write
	"$$(tools/judges_venv.sh)/bin/python" bench/machines.py --build build-bench --write

# The API reference and the documents as HTML: build/docs/html/index.html. A warning of Doxygen is an error.
docs:
	LOCKSTEP_EXTRA_PACKAGES=doxygen tools/setup.sh && mkdir -p build/docs && doxygen docs/Doxyfile

# Every reader of a file format under random bytes, FUZZ_SECONDS each.
FUZZ_SECONDS = 60
fuzz:
	tools/fuzz.sh $(FUZZ_SECONDS)

# Random calls of every operation, changed graphs and changed models, FUZZ_SECONDS each, under the address sanitizer. The cases
# are numbered from FUZZ_SEED.
FUZZ_SEED = 1
fuzz-execution:
	tools/setup.sh && LOCKSTEP_BUILD_DIR=build-asan LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_SANITIZE=address,undefined \
	  tools/build.sh fuzz_tests fuzz_models_tests
	export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1 LOCKSTEP_FUZZ_SEED=$(FUZZ_SEED) \
	  LOCKSTEP_FUZZ_COUNT=1000000000 LOCKSTEP_FUZZ_SECONDS=$(FUZZ_SECONDS); \
	  build-asan/tests/fuzz_tests && build-asan/tests/fuzz_models_tests

# The C++ tests under a sanitizer, each sanitizer in a separate build folder.
asan:
	tools/setup.sh && LOCKSTEP_BUILD_DIR=build-asan LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_SANITIZE=address,undefined tools/build.sh
	ctest --test-dir build-asan --output-on-failure
	ASAN_OPTIONS=max_allocation_size_mb=1024 build-asan/bin/fuzz_readers $(FUZZ_SECONDS) fuzz/corpus build-asan/found

tsan:
	tools/setup.sh && LOCKSTEP_BUILD_DIR=build-tsan LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_SANITIZE=thread tools/build.sh
	TSAN_OPTIONS=suppressions=$(CURDIR)/tools/tsan.supp ctest --test-dir build-tsan --output-on-failure

# Faults in every system call, power loss, damage; writes the figures of docs/reliability.md, with those of the last `make fuzz`.
reliability:
	tools/setup.sh && tools/build.sh
	tools/reliability.py --full

# The API reference, and what takes hours: all judged cases, the sanitizers, the readers under random bytes, random calls of
# operations, and the figures of faults.
nightly:
	$(MAKE) docs
	$(MAKE) conformance
	$(MAKE) asan
	$(MAKE) tsan
	$(MAKE) fuzz
	$(MAKE) fuzz-execution FUZZ_SECONDS=3600
	$(MAKE) reliability

# What lockstep.h costs a user's build: headers, and CPU seconds of the compiler.
header-time:
	python3 tools/header_time.py

format:
	git ls-files '*.h' '*.cpp' | xargs clang-format -i
