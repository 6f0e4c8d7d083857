# The sources are the checkout that this port lies in: tools/vcpkg/ports/a2asim.
cmake_path(ABSOLUTE_PATH CMAKE_CURRENT_LIST_DIR NORMALIZE OUTPUT_VARIABLE port_dir)
cmake_path(APPEND port_dir ../../../.. OUTPUT_VARIABLE source_path)
cmake_path(NORMAL_PATH source_path)

vcpkg_cmake_configure(
  SOURCE_PATH "${source_path}"
  OPTIONS -DA2ASIM_BUILD_TESTS=OFF -DA2ASIM_CUDA=OFF -DA2ASIM_WERROR=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/a2asim)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES a2asim AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source_path}/LICENSE")
