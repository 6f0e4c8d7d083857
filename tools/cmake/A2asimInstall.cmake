# cmake --install and find_package(a2asim): the targets a2asim::model, a2asim::sim, a2asim::group and, where built,
# a2asim::gpu.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(name model sim group gpu)
  if(TARGET a2asim_${name})
    list(APPEND installed_targets a2asim_${name})
    string(REGEX REPLACE "^group$" "gpu/group" folder ${name})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/a2asim/${folder}
            FILES_MATCHING PATTERN "*.h" PATTERN scenarios EXCLUDE)
  endif()
endforeach()
if(NOT installed_targets)
  return()
endif()
install(TARGETS ${installed_targets} EXPORT a2asimTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET a2asim)
  install(TARGETS a2asim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/a2asim)
configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/a2asimConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/a2asimConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/a2asimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT a2asimTargets NAMESPACE a2asim:: DESTINATION ${config_dir})
install(FILES ${PROJECT_BINARY_DIR}/a2asimConfig.cmake ${PROJECT_BINARY_DIR}/a2asimConfigVersion.cmake
        DESTINATION ${config_dir})
if(A2ASIM_CUDA_ENABLED AND NCCL_FOUND)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/cmake/FindNCCL.cmake DESTINATION ${config_dir})
endif()
