# What `cmake --install` puts where, in two components:
#   development  headers, libraries, find_package(a2asim) and pkg-config: the targets a2asim::model, a2asim::sim,
#                a2asim::testing, a2asim::group and, where built, a2asim::gpu
#   program      a2asim with completion scripts, manual page, documents and examples; the Debian package is this one
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${PROJECT_SOURCE_DIR}/tools/package)

# --- development
install(FILES ${PROJECT_SOURCE_DIR}/tools/package/a2asim.h ${PROJECT_SOURCE_DIR}/property_tests/testing.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/a2asim COMPONENT development)
foreach(name model sim group gpu testing)
  if(TARGET a2asim_${name})
    list(APPEND installed_targets a2asim_${name})
    string(REGEX REPLACE "^group$" "gpu/group" folder ${name})
    string(REGEX REPLACE "^testing$" "property_tests" folder ${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/a2asim/${folder}
            COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN scenarios EXCLUDE)
  endif()
endforeach()
# What a plug-in is written against, wherever that is built.
install(FILES ${PROJECT_SOURCE_DIR}/gpu/backend_plugin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/a2asim/gpu
        COMPONENT development)
install(TARGETS ${installed_targets} EXPORT a2asimTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/a2asim)
configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/a2asimConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/a2asimConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/a2asimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT a2asimTargets NAMESPACE a2asim:: DESTINATION ${config_dir} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/a2asimConfig.cmake ${PROJECT_BINARY_DIR}/a2asimConfigVersion.cmake
        DESTINATION ${config_dir} COMPONENT development)
if(A2ASIM_CUDA_ENABLED AND NCCL_FOUND)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/cmake/FindNCCL.cmake DESTINATION ${config_dir} COMPONENT development)
endif()

# pkg-config: paths from where the file lies, so that the tree can be moved. tl-expected has no .pc file of its own.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig OUTPUT_VARIABLE A2ASIM_PC_TO_PREFIX)
get_target_property(expected_include tl::expected INTERFACE_INCLUDE_DIRECTORIES)
list(REMOVE_DUPLICATES expected_include)
list(REMOVE_ITEM expected_include /usr/include)
list(TRANSFORM expected_include PREPEND " -I" OUTPUT_VARIABLE A2ASIM_PC_EXPECTED)
list(JOIN A2ASIM_PC_EXPECTED "" A2ASIM_PC_EXPECTED)
configure_file(${package_dir}/a2asim.pc.in ${PROJECT_BINARY_DIR}/a2asim.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/a2asim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# --- program
if(NOT A2ASIM_BUILD_PROGRAM)
  return()
endif()
install(TARGETS a2asim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)

# The program describes itself; what it says is packed the way Debian's policy wants it.
set(written_dir ${PROJECT_BINARY_DIR}/package)
file(MAKE_DIRECTORY ${written_dir})
find_program(A2ASIM_GZIP gzip REQUIRED)
mark_as_advanced(A2ASIM_GZIP)
add_custom_command(
  OUTPUT ${written_dir}/a2asim.1.gz ${written_dir}/a2asim ${written_dir}/_a2asim ${written_dir}/changelog.gz
  COMMAND a2asim completion bash > ${written_dir}/a2asim
  COMMAND a2asim completion zsh > ${written_dir}/_a2asim
  COMMAND a2asim man > ${written_dir}/a2asim.1
  COMMAND ${A2ASIM_GZIP} -9nf ${written_dir}/a2asim.1
  COMMAND ${A2ASIM_GZIP} -9nc ${PROJECT_SOURCE_DIR}/tools/CHANGELOG.md > ${written_dir}/changelog.gz
  DEPENDS a2asim ${PROJECT_SOURCE_DIR}/tools/CHANGELOG.md
  VERBATIM)
add_custom_target(a2asim_package ALL DEPENDS ${written_dir}/a2asim.1.gz)
install(FILES ${written_dir}/a2asim.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${written_dir}/a2asim DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
# Under /usr Debian's zsh looks into vendor-completions only.
install(CODE "
  set(folder site-functions)
  if(CMAKE_INSTALL_PREFIX MATCHES \"/usr$\")
    set(folder vendor-completions)
  endif()
  file(INSTALL TYPE FILE FILES \"${written_dir}/_a2asim\"
       DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${folder}\")" COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${package_dir}/copyright ${written_dir}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/a2asim COMPONENT program)
foreach(folder model sim gpu tools tests property_tests)  # what the README leads to; --help names tools/README.md
  install(FILES ${PROJECT_SOURCE_DIR}/${folder}/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/a2asim/${folder}
          COMPONENT program)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/sglang_source DESTINATION ${CMAKE_INSTALL_DATADIR}/a2asim COMPONENT program
        FILES_MATCHING PATTERN "*.py")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/a2asim/tools COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/examples ${PROJECT_SOURCE_DIR}/sim/scenarios
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/a2asim COMPONENT program)

# --- cpack -G DEB
if(PROJECT_IS_TOP_LEVEL)
  include(A2asimPackage)
endif()
