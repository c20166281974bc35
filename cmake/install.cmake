# cmake --install: the tool, the libraries, the public headers, and a package for find_package(lockstep).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

install(TARGETS lockstep_formats lockstep EXPORT lockstep LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lockstep_tool)
  install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS lockstep_engine LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# The public headers are those that lockstep.h and formats/formats.h include, directly or not; no other is installed.
install(CODE "set(LOCKSTEP_SOURCES \"${CMAKE_SOURCE_DIR}/lockstep\")
set(LOCKSTEP_HEADERS \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/lockstep\")")
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/install_headers.cmake)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
        PATTERN "*.svg" PATTERN "*.png")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h" PATTERN "*.py" PATTERN "*.sh")

# find_package(lockstep) gives lockstep::lockstep (all) and lockstep::formats (files only, without LibTorch).
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake DESTINATION ${package_folder})
file(WRITE ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
"include(\${CMAKE_CURRENT_LIST_DIR}/lockstepTargets.cmake)
# Set it before find_package(lockstep): targets that link lockstep::lockstep precompile lockstep.h once.
if(LOCKSTEP_PRECOMPILE_HEADERS)
  target_precompile_headers(lockstep::lockstep INTERFACE <lockstep/lockstep.h>)
endif()
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package_folder})
