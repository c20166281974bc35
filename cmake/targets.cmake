# The libraries, the tool, and the functions by which a folder adds its sources to them.
#
#   lockstep_sources(<folder> [ATEN] FILES a.cpp b.cpp)   ATEN: the folder sees LibTorch's headers
#   lockstep_tests(<folder> FILES a_test.cpp)             one binary and one ctest entry a folder
#   lockstep_probe(<name> [LIBRARY])                      a program of one source, which judged tests run
#   lockstep_protos(<folder> FILES proto/a.proto)         #include "lockstep/<folder>/proto/a.pb.h"
#   lockstep_lines(<folder> FILE a.tsv NAMESPACE ns LINES array COUNT number)
#                                                         a text file as an array of std::string_view
#   lockstep_tool(FILES main.cpp) / lockstep_engine(FILES fit.cpp)   the two halves of the command line

set(LOCKSTEP_FORMATS_FOLDERS base io formats)
set(LOCKSTEP_OPERATIONS_FOLDERS tensor ops ops_graph ops_files ops_images ops_numbers ops_extras ops_calls inference graph fuzz)
# Folders without loops over numbers or bytes, and without code that runs for each node of a graph.
set(LOCKSTEP_O1_FOLDERS collectives keras numpy saving train distribute applications cli)
# Tests below lockstep.h, and those that would run longer at -O0 than it saves.
set(LOCKSTEP_O1_TESTS ${LOCKSTEP_FORMATS_FOLDERS} ${LOCKSTEP_OPERATIONS_FOLDERS} keras)
set(LOCKSTEP_PUBLIC_INCLUDE ${CMAKE_SOURCE_DIR})
set(LOCKSTEP_RPATH "$ORIGIN;$ORIGIN/../lib;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
file(WRITE ${CMAKE_BINARY_DIR}/empty.cpp "")

# lockstep-formats knows no LibTorch and starts in milliseconds; lockstep is all the rest.
add_library(lockstep_formats SHARED ${CMAKE_BINARY_DIR}/empty.cpp)
set_target_properties(lockstep_formats PROPERTIES OUTPUT_NAME lockstep-formats EXPORT_NAME formats SOVERSION 0)
target_compile_features(lockstep_formats INTERFACE cxx_std_20)
target_include_directories(lockstep_formats PUBLIC $<BUILD_INTERFACE:${LOCKSTEP_PUBLIC_INCLUDE}>
                           $<INSTALL_INTERFACE:include>)
target_link_libraries(lockstep_formats PRIVATE fmt::fmt PkgConfig::isal ZLIB::ZLIB protobuf::libprotobuf Threads::Threads)
add_library(lockstep SHARED ${CMAKE_BINARY_DIR}/empty.cpp)
set_target_properties(lockstep PROPERTIES SOVERSION 0)
target_link_libraries(lockstep PUBLIC lockstep_formats PRIVATE lockstep_torch protobuf::libprotobuf PkgConfig::re2 PkgConfig::jpeg PkgConfig::png
                      Threads::Threads)
# Users link lockstep, not LibTorch: it is found next to lockstep by this path.
set_target_properties(lockstep PROPERTIES BUILD_RPATH "$ORIGIN;${torch_lib}"
                      INSTALL_RPATH "$ORIGIN;${torch_lib}")
set_target_properties(lockstep_formats PROPERTIES INSTALL_RPATH "$ORIGIN")

# The folders of operations and graphs alone, for their tests: these need no other part of the library, so that a build with
# sanitizers has a third of it to compile, and a use of a folder above them is a link error.
add_library(lockstep_operations SHARED EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/empty.cpp)
target_link_libraries(lockstep_operations PUBLIC lockstep_formats PRIVATE fmt::fmt lockstep_torch protobuf::libprotobuf
                      PkgConfig::isal PkgConfig::re2 PkgConfig::jpeg PkgConfig::png ZLIB::ZLIB Threads::Threads)
set_target_properties(lockstep_operations PROPERTIES BUILD_RPATH "$ORIGIN;${torch_lib}")

# The compile settings of each kind of object library; all of a kind share one precompiled header.
add_library(lockstep_compile_plain INTERFACE)
target_include_directories(lockstep_compile_plain INTERFACE ${LOCKSTEP_PUBLIC_INCLUDE})
target_link_libraries(lockstep_compile_plain INTERFACE fmt::fmt)
add_library(lockstep_compile_aten INTERFACE)
target_link_libraries(lockstep_compile_aten INTERFACE lockstep_compile_plain lockstep_torch)
target_compile_options(lockstep_compile_aten INTERFACE -fopenmp)
# -O1 takes half of the time of -O2 to compile. GCC compiles with the level of the precompiled header, whatever the
# command line has, so that each level requires its own header.
add_library(lockstep_compile_plain_o1 INTERFACE)
target_link_libraries(lockstep_compile_plain_o1 INTERFACE lockstep_compile_plain)
target_compile_options(lockstep_compile_plain_o1 INTERFACE -O1 -fno-tree-vectorize)
# Programs that include lockstep.h: examples, and tests that compute little of their own. -O0 and a precompiled lockstep.h take
# half of the time of -O1 to compile.
add_library(lockstep_compile_program INTERFACE)
target_include_directories(lockstep_compile_program INTERFACE ${LOCKSTEP_PUBLIC_INCLUDE})
target_compile_options(lockstep_compile_program INTERFACE -O0)
foreach(kind plain_o1 aten program)
  add_library(lockstep_compile_test_${kind} INTERFACE)
  target_link_libraries(lockstep_compile_test_${kind} INTERFACE lockstep_compile_${kind} lockstep_compile_plain GTest::gtest_main GTest::gmock
                        Threads::Threads protobuf::libprotobuf)
  target_compile_definitions(lockstep_compile_test_${kind} INTERFACE LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             LOCKSTEP_BINARY_DIR="${CMAKE_BINARY_DIR}")
endforeach()
foreach(kind plain plain_o1 aten)
  string(REPLACE _o1 "" header ${kind})
  add_library(lockstep_pch_${kind} OBJECT ${CMAKE_BINARY_DIR}/empty.cpp)
  target_link_libraries(lockstep_pch_${kind} PRIVATE lockstep_compile_${kind})
  target_precompile_headers(lockstep_pch_${kind} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch_${header}.h)
  # A precompiled header holds the path of its folder. ccache compares this instead, so that build folders share objects.
  file(SHA256 ${CMAKE_SOURCE_DIR}/cmake/pch_${header}.h pch_sum)
  file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/lockstep_pch_${kind}.dir/cmake_pch.hxx.gch.sum
       "${kind} ${pch_sum} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${LOCKSTEP_ARCH} ${LOCKSTEP_SANITIZE} ${torch_version}"
       " ${fmt_VERSION}\n")
endforeach()

# The precompiled lockstep.h. Its sum is one of our headers, taken again when one of them has changed.
add_library(lockstep_pch_program OBJECT ${CMAKE_BINARY_DIR}/empty.cpp)
target_link_libraries(lockstep_pch_program PRIVATE lockstep_compile_program)
target_precompile_headers(lockstep_pch_program PRIVATE ${CMAKE_SOURCE_DIR}/lockstep/lockstep.h)
file(GLOB_RECURSE program_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/*.h)
set(program_sum ${CMAKE_BINARY_DIR}/CMakeFiles/lockstep_pch_program.dir/cmake_pch.hxx.gch.sum)
add_custom_command(
  OUTPUT ${program_sum}
  COMMAND ${CMAKE_COMMAND} -DOUT=${program_sum} "-DKIND=${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${LOCKSTEP_ARCH} ${LOCKSTEP_SANITIZE}"
          -P ${CMAKE_SOURCE_DIR}/cmake/header_sum.cmake
  DEPENDS ${program_headers} ${CMAKE_SOURCE_DIR}/cmake/header_sum.cmake VERBATIM)
add_custom_target(lockstep_program_sum DEPENDS ${program_sum})
add_dependencies(lockstep_pch_program lockstep_program_sum)

# A program that includes lockstep.h, compiled as those of its users are but for the optimization.
function(lockstep_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE lockstep_compile_program lockstep lockstep_formats)
  target_precompile_headers(${name} REUSE_FROM lockstep_pch_program)
endfunction()

# The object library of a folder, made when first asked for and put into its library.
function(lockstep_folder folder kind out)
  set(target lockstep_${folder}_${kind})
  set(${out} ${target} PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()
  add_library(${target} OBJECT)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_link_libraries(${target} PRIVATE lockstep_compile_${kind})
  target_link_libraries(${target} PRIVATE PkgConfig::isal ZLIB::ZLIB
                        protobuf::libprotobuf)
  if(folder IN_LIST LOCKSTEP_FORMATS_FOLDERS)
    target_sources(lockstep_formats PRIVATE $<TARGET_OBJECTS:${target}>)
  else()
    target_sources(lockstep PRIVATE $<TARGET_OBJECTS:${target}>)
    if(folder IN_LIST LOCKSTEP_OPERATIONS_FOLDERS)
      target_sources(lockstep_operations PRIVATE $<TARGET_OBJECTS:${target}>)
    endif()
  endif()
endfunction()

function(lockstep_sources folder)
  cmake_parse_arguments(ARG ATEN "" FILES ${ARGN})
  set(kind plain)
  if(ARG_ATEN)
    set(kind aten)
  elseif(folder IN_LIST LOCKSTEP_O1_FOLDERS)
    set(kind plain_o1)
  endif()
  lockstep_folder(${folder} ${kind} target)
  target_sources(${target} PRIVATE ${ARG_FILES})
  target_precompile_headers(${target} REUSE_FROM lockstep_pch_${kind})
endfunction()

function(lockstep_tests folder)
  cmake_parse_arguments(ARG ATEN "" FILES ${ARGN})
  set(target ${folder}_tests)
  if(ARG_ATEN)  # separate objects, for the binary of the folder's other tests
    add_library(${target}_aten OBJECT ${ARG_FILES})
    set_target_properties(${target}_aten PROPERTIES UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 4
                          UNITY_BUILD_CODE_BEFORE_INCLUDE "#pragma GCC optimize(\"O1\")")
    target_link_libraries(${target}_aten PRIVATE lockstep_compile_test_aten)
    target_precompile_headers(${target}_aten REUSE_FROM lockstep_pch_aten)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_aten>)
    target_link_libraries(${target} PRIVATE lockstep_torch)
    return()
  endif()
  set(kind program)
  if(folder IN_LIST LOCKSTEP_O1_TESTS)
    set(kind plain_o1)
  endif()
  if(NOT TARGET ${target})
    add_executable(${target})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests
                          UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    target_link_libraries(${target} PRIVATE lockstep_compile_test_${kind})
    target_precompile_headers(${target} REUSE_FROM lockstep_pch_${kind})
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TEST_FOLDERS ${folder})
  endif()
  target_sources(${target} PRIVATE ${ARG_FILES})
endfunction()

# A program that judged tests run, built to build/bin/.
function(lockstep_probe name)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARGN} lockstep_formats lockstep_compile_plain_o1)
  target_precompile_headers(${name} REUSE_FROM lockstep_pch_plain_o1)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# For programs with LibTorch, which keeps its singletons and whose callers expect an exception for too large an allocation.
set(LOCKSTEP_ASAN_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1")

# Called once all folders are known: what each test binary is linked to, and its ctest entry. The entry runs the whole
# binary: starting LibTorch for each case would take longer than the cases. GoogleTest's report of its cases goes to
# build/test-results/<entry>.xml, which tools/count_tests.py reads.
function(lockstep_link_tests)
  get_property(folders GLOBAL PROPERTY LOCKSTEP_TEST_FOLDERS)
  foreach(folder ${folders})
    set(tests ${folder}_tests)
    if(folder IN_LIST LOCKSTEP_OPERATIONS_FOLDERS)
      target_link_libraries(${tests} PRIVATE lockstep_operations)
    elseif(NOT folder IN_LIST LOCKSTEP_FORMATS_FOLDERS)
      target_link_libraries(${tests} PRIVATE lockstep)
    endif()
    target_link_libraries(${tests} PRIVATE lockstep_formats)
    add_test(NAME ${tests} COMMAND ${tests} --gtest_brief=1)
    set(environment "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test-results/${tests}.xml")
    if(NOT folder IN_LIST LOCKSTEP_FORMATS_FOLDERS)
      list(APPEND environment "${LOCKSTEP_ASAN_ENVIRONMENT}")
    endif()
    set_tests_properties(${tests} PROPERTIES TIMEOUT 900 ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# Generated code is compiled apart: our warnings are not its.
function(lockstep_protos folder)
  cmake_parse_arguments(ARG "" "" FILES ${ARGN})
  set(target lockstep_${folder}_protos)
  set(root ${CMAKE_BINARY_DIR}/proto_include)
  foreach(file ${ARG_FILES})
    get_filename_component(stem ${file} NAME_WLE)
    get_filename_component(sub ${file} DIRECTORY)
    set(out ${root}/lockstep/${folder}/${sub}/${stem}.pb)
    list(APPEND sources ${out}.cc)
    list(APPEND headers ${out}.h)
    list(APPEND inputs ${CMAKE_SOURCE_DIR}/lockstep/${folder}/${file})
  endforeach()
  file(MAKE_DIRECTORY ${root})
  add_custom_command(
    OUTPUT ${sources} ${headers} ${root}/descriptors.pb
    COMMAND protobuf::protoc --cpp_out=${root} --descriptor_set_out=${root}/descriptors.pb -I${CMAKE_SOURCE_DIR} ${inputs}
    DEPENDS ${ARG_FILES} COMMENT "protoc ${folder}" VERBATIM)
  # The generated classes know no names of fields, which messages in text need.
  set(descriptors ${CMAKE_CURRENT_BINARY_DIR}/descriptors.cpp)
  add_custom_command(
    OUTPUT ${descriptors}
    COMMAND ${CMAKE_COMMAND} -DIN=${root}/descriptors.pb -DOUT=${descriptors} -DNAMESPACE=lockstep::${folder}
            -DBYTES=kDescriptors -P ${CMAKE_SOURCE_DIR}/cmake/embed_bytes.cmake
    DEPENDS ${root}/descriptors.pb ${CMAKE_SOURCE_DIR}/cmake/embed_bytes.cmake VERBATIM)
  add_library(${target} OBJECT ${sources} ${descriptors})
  target_include_directories(${target} PRIVATE ${root})
  target_link_libraries(${target} PRIVATE protobuf::libprotobuf)
  target_compile_options(${target} PRIVATE -w -O1 -fno-tree-vectorize)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 7)
  # Generated code, half of the units of base to formats. Fuzz targets keep its coverage.
  if(LOCKSTEP_FUZZ)
    target_compile_options(${target} PRIVATE -fno-sanitize=address,undefined)
  elseif(LOCKSTEP_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
  endif()
  # Whoever includes the generated headers waits for them.
  add_custom_target(${target}_headers DEPENDS ${headers})
  add_dependencies(lockstep_pch_plain ${target}_headers)
  add_dependencies(lockstep_pch_plain_o1 ${target}_headers)
  target_sources(lockstep_formats PRIVATE $<TARGET_OBJECTS:${target}>)
  target_include_directories(lockstep_compile_plain SYSTEM INTERFACE ${root})
endfunction()

function(lockstep_lines folder)
  cmake_parse_arguments(ARG ATEN "FILE;NAMESPACE;LINES;COUNT" "" ${ARGN})
  get_filename_component(stem ${ARG_FILE} NAME_WLE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${stem}_lines.cpp)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FILE} -DOUT=${out} -DNAMESPACE=${ARG_NAMESPACE}
            -DLINES=${ARG_LINES} -DCOUNT=${ARG_COUNT} -P ${CMAKE_SOURCE_DIR}/cmake/embed_lines.cmake
    DEPENDS ${ARG_FILE} ${CMAKE_SOURCE_DIR}/cmake/embed_lines.cmake VERBATIM)
  add_library(lockstep_${folder}_${stem} OBJECT ${out})
  if(folder IN_LIST LOCKSTEP_FORMATS_FOLDERS)
    target_sources(lockstep_formats PRIVATE $<TARGET_OBJECTS:lockstep_${folder}_${stem}>)
  else()
    target_sources(lockstep PRIVATE $<TARGET_OBJECTS:lockstep_${folder}_${stem}>)
    if(folder IN_LIST LOCKSTEP_OPERATIONS_FOLDERS)
      target_sources(lockstep_operations PRIVATE $<TARGET_OBJECTS:lockstep_${folder}_${stem}>)
    endif()
  endif()
endfunction()

# build/bin/lockstep links lockstep-formats alone. Commands that compute live in a module that it loads when one of them is
# asked for, so that the others start without LibTorch.
function(lockstep_tool)
  cmake_parse_arguments(ARG "" "" FILES ${ARGN})
  add_executable(lockstep_tool ${ARG_FILES})
  set_target_properties(lockstep_tool PROPERTIES OUTPUT_NAME lockstep ENABLE_EXPORTS ON INSTALL_RPATH "$ORIGIN/../lib"
                        UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_link_libraries(lockstep_tool PRIVATE lockstep_compile_plain_o1 lockstep_formats CLI11::CLI11 ${CMAKE_DL_LIBS})
  target_precompile_headers(lockstep_tool REUSE_FROM lockstep_pch_plain_o1)
endfunction()

function(lockstep_engine)
  cmake_parse_arguments(ARG "" "" FILES ${ARGN})
  add_library(lockstep_engine MODULE ${ARG_FILES})
  set_target_properties(lockstep_engine PROPERTIES OUTPUT_NAME lockstep-engine PREFIX "" INSTALL_RPATH "$ORIGIN"
                        UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_link_libraries(lockstep_engine PRIVATE lockstep_compile_plain_o1 lockstep CLI11::CLI11)
  target_precompile_headers(lockstep_engine REUSE_FROM lockstep_pch_plain_o1)
endfunction()
