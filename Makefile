# Front door for those who have make; every target is a thin wrapper. ./quickstart and ./test need no make.
.PHONY: build test asan tsan format

build:
	tools/setup.sh && tools/build.sh

test:
	./test

# The C++ tests under a sanitizer, each in a build folder of its own.
asan:
	tools/setup.sh && LOCKSTEP_BUILD_DIR=build-asan LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_SANITIZE=address,undefined tools/build.sh
	ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build-asan --output-on-failure

tsan:
	tools/setup.sh && LOCKSTEP_BUILD_DIR=build-tsan LOCKSTEP_CMAKE_ARGS=-DLOCKSTEP_SANITIZE=thread tools/build.sh
	ctest --test-dir build-tsan --output-on-failure

format:
	git ls-files '*.h' '*.cpp' | xargs clang-format -i
