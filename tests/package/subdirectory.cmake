# cmake -DSOURCE_DIR=.. -DWORK_DIR=.. -DCXX=.. -DLAUNCHER=.. -P subdirectory.cmake: a2asim inside another build.
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)
step(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/subdirectory -B ${WORK_DIR} -G Ninja -DA2ASIM_SOURCE=${SOURCE_DIR}
     -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_FLAGS=-O0
     -DA2ASIM_UNITY=ON)
step(${CMAKE_COMMAND} --build ${WORK_DIR} --target consumer compiles)
step(${WORK_DIR}/consumer)
