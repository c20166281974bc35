# Everything that is not ours: Debian's packages, and LibTorch.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)
find_package(ZLIB REQUIRED)

# LibTorch: one given by the environment or by -DCMAKE_PREFIX_PATH, else the one of tools/setup.sh.
set(torch_hints $ENV{LOCKSTEP_LIBTORCH} ${CMAKE_PREFIX_PATH})
find_library(LOCKSTEP_TORCH_CPU torch_cpu HINTS ${torch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)
if(NOT LOCKSTEP_TORCH_CPU)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/setup.sh --print-libtorch OUTPUT_VARIABLE torch_root
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE torch_missing)
  if(torch_missing)
    message(FATAL_ERROR "LibTorch is missing: run tools/setup.sh, or give one (2.6 or later) by -DCMAKE_PREFIX_PATH=<folder>")
  endif()
  find_library(LOCKSTEP_TORCH_CPU torch_cpu HINTS ${torch_root}/lib NO_DEFAULT_PATH REQUIRED)
endif()
get_filename_component(torch_lib ${LOCKSTEP_TORCH_CPU} DIRECTORY)
get_filename_component(torch_root ${torch_lib} DIRECTORY)
set(LOCKSTEP_TORCH_ROOT ${torch_root})

file(STRINGS ${torch_root}/include/torch/headeronly/version.h torch_version REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
if(NOT torch_version)
  file(STRINGS ${torch_root}/include/torch/csrc/api/include/torch/version.h torch_version
       REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
endif()
string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" torch_version "${torch_version}")
if(torch_version VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch in ${torch_root} is ${torch_version}; 2.6 or later is needed")
endif()
# Debian's libraries use the new std::string; a LibTorch built with the old one cannot be linked with them.
file(STRINGS ${torch_lib}/libc10.so torch_new_abi REGEX "__cxx1112basic_string" LIMIT_COUNT 1)
if(NOT torch_new_abi)
  message(FATAL_ERROR "LibTorch in ${torch_root} was built with _GLIBCXX_USE_CXX11_ABI=0; take one with the new ABI")
endif()
message(STATUS "LibTorch ${torch_version}: ${torch_root}")

# The wheel's include folder also has fmt and protobuf of other versions than Debian's: only LibTorch's own headers are visible.
set(torch_include ${CMAKE_BINARY_DIR}/torch_include)
file(MAKE_DIRECTORY ${torch_include})
foreach(folder ATen c10 torch caffe2)
  file(CREATE_LINK ${torch_root}/include/${folder} ${torch_include}/${folder} SYMBOLIC)
endforeach()
add_library(lockstep_torch INTERFACE)
foreach(name c10 torch_cpu)
  add_library(torch::${name} SHARED IMPORTED)
  set_target_properties(torch::${name} PROPERTIES IMPORTED_LOCATION ${torch_lib}/lib${name}.so)
  target_link_libraries(lockstep_torch INTERFACE torch::${name})
endforeach()
target_include_directories(lockstep_torch SYSTEM INTERFACE ${torch_include})
# LibTorch's folder also holds the CUDA runtime that it is linked to, and its OpenMP runtime: both are found at link time
# there, and at run time through libtorch_cpu's own path.
target_link_options(lockstep_torch INTERFACE -Wl,-rpath-link,${torch_lib})
