# cmake -DBUILD_DIR=.. -DWORK_DIR=.. -P install.cmake: installs what is built into WORK_DIR/prefix.
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)
file(REMOVE_RECURSE ${WORK_DIR})
step(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
foreach(file bin/a2asim share/man/man1/a2asim.1.gz share/bash-completion/completions/a2asim
             share/zsh/site-functions/_a2asim share/doc/a2asim/copyright include/a2asim/model/engines/sglang/rules/sizing.h)
  if(NOT EXISTS ${WORK_DIR}/prefix/${file})
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()
