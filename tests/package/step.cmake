# step(COMMAND ..): runs it, and fails with its output.
function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# need(program): its path in ${program}, or the test ends here and counts as skipped.
macro(need program)
  find_program(${program} ${program})
  if(NOT ${program})
    message(STATUS "SKIPPED: there is no ${program} here")
    return()
  endif()
endmacro()
