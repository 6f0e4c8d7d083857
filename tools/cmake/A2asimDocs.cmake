# cmake --build BUILD --target docs: API documentation of the public headers, in BUILD/docs/html. A warning fails it.
find_program(A2ASIM_DOXYGEN doxygen)
mark_as_advanced(A2ASIM_DOXYGEN)
set(A2ASIM_DOCS_DIR ${PROJECT_BINARY_DIR}/docs)
configure_file(${PROJECT_SOURCE_DIR}/tools/package/Doxyfile.in ${A2ASIM_DOCS_DIR}/Doxyfile @ONLY)
if(A2ASIM_DOXYGEN)
  add_custom_target(docs COMMAND ${A2ASIM_DOXYGEN} ${A2ASIM_DOCS_DIR}/Doxyfile VERBATIM)
endif()
