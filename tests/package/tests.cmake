# Taken home: what people install, link, and read. Everything here uses the tree that is built already.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(work ${CMAKE_CURRENT_BINARY_DIR}/package)

# package_test(name [TIMEOUT s] COMMAND ..); it counts as skipped when it succeeds and prints "SKIPPED: why".
function(package_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # of a hang: a busy machine is slow
  endif()
  add_test(NAME "package: ${name}" COMMAND ${here}/skippable.sh ${arg_COMMAND})
  set_tests_properties("package: ${name}" PROPERTIES LABELS slow TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

package_test("installs" COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DWORK_DIR=${work} -P ${here}/install.cmake)
package_test("a consumer finds, builds and runs" TIMEOUT 600
  COMMAND ${CMAKE_COMMAND} -DWORK_DIR=${work} -DCXX=${CMAKE_CXX_COMPILER} -P ${here}/consume.cmake)
package_test("pkg-config" TIMEOUT 600
  COMMAND ${CMAKE_COMMAND} -DWORK_DIR=${work} -DCXX=${CMAKE_CXX_COMPILER} -DVERSION=${PROJECT_VERSION}
          -P ${here}/pkg_config.cmake)
set_tests_properties("package: installs" PROPERTIES FIXTURES_SETUP installed)
set_tests_properties("package: a consumer finds, builds and runs" "package: pkg-config" PROPERTIES FIXTURES_REQUIRED installed)

package_test("inside another build" TIMEOUT 600
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DWORK_DIR=${work}_inside -DCXX=${CMAKE_CXX_COMPILER}
          -DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER} -P ${here}/subdirectory.cmake)
package_test("deb" COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DWORK_DIR=${work}_deb
                           -DVERSION=${PROJECT_VERSION} -P ${here}/deb.cmake)
package_test("documentation" COMMAND ${CMAKE_COMMAND} -DDOXYFILE=${A2ASIM_DOCS_DIR}/Doxyfile -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                                     -DWORK_DIR=${work}_docs -P ${here}/docs.cmake)
foreach(what bash zsh man)
  package_test("${what}" COMMAND ${here}/completion_check.sh ${what} $<TARGET_FILE:a2asim>)
endforeach()

find_program(A2ASIM_PYTHON python3 HINTS /usr/bin)  # the one that python3-yaml belongs to
mark_as_advanced(A2ASIM_PYTHON)
if(A2ASIM_PYTHON)
  package_test("vcpkg port and change log"
    COMMAND ${A2ASIM_PYTHON} ${here}/vcpkg_check.py ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION})
  package_test("release files" COMMAND ${A2ASIM_PYTHON} ${here}/release_check.py ${PROJECT_SOURCE_DIR})
  package_test("example workflow" COMMAND ${A2ASIM_PYTHON} ${here}/workflow_check.py
    ${PROJECT_SOURCE_DIR}/tools/examples/github/a2asim.yml $<TARGET_FILE:a2asim> ${PROJECT_SOURCE_DIR}/tools/examples)
endif()
