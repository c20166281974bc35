# Build options, and the compiler flags that they set.
set(LOCKSTEP_ARCH x86-64-v3 CACHE STRING "Oldest CPU the build runs on, as for -march (x86-64-v3: Haswell, Zen and later)")
set(LOCKSTEP_SANITIZE "" CACHE STRING "address, thread or undefined (several with commas); empty for none")
option(LOCKSTEP_EXAMPLES "Build the examples" ON)
option(LOCKSTEP_BENCH "Build the benchmarks" OFF)
option(LOCKSTEP_FUZZ "Build the fuzz targets" OFF)
option(LOCKSTEP_UNITY "Compile several sources of a folder as one unit: a third of the compile time" ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
# -O2 with the vectorizer of -O3: two thirds of the time of -O3 to compile. The kernels (ops, inference) have -O3.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  string(REPLACE "-O3" "-O2 -ftree-vectorize -fvect-cost-model=dynamic" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs need no new link when only the code of a library that they use has changed.
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

# Position-independent code for programs too: they share precompiled headers with the libraries.
add_compile_options(-fPIC -Wall -Wextra -Werror -Wno-missing-field-initializers -march=${LOCKSTEP_ARCH}
                    -fno-semantic-interposition -fvisibility-inlines-hidden)
add_link_options(-Wl,--as-needed -Wl,-z,lazy)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # In units of several sources GCC 12 takes types of one source for shared ones, and reports copies of short strings that
  # never happen.
  add_compile_options(-Wno-subobject-linkage -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  # GCC collects garbage from 128 MB on, and each collection marks the whole precompiled header: a tenth of the compile time of
  # units with LibTorch's headers.
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()
if(NOT LOCKSTEP_SANITIZE STREQUAL "")
  # What is found ends the program, so that a test fails; without the code that goes on, units compile in two thirds of the time.
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  if(LOCKSTEP_FUZZ)
    add_compile_options(-O2)  # more inputs a second
  else()
    add_compile_options(-O1 -fno-tree-vectorize)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The sanitizers' own instrumentation makes GCC see uninitialised values where there are none.
    # Without -fno-ipa-cp, GCC 12 ends in an internal error for some units with -fsanitize=undefined.
    add_compile_options(-Wno-maybe-uninitialized -fno-ipa-cp)
    if(LOCKSTEP_SANITIZE MATCHES thread)
      add_compile_options(-Wno-tsan)  # LibTorch's headers have a fence, which the thread sanitizer does not follow
    endif()
  endif()
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

# Objects are shared between build folders: paths are hashed relative to the folder ninja runs in.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  endif()
endif()
