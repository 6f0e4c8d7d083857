# Compiler settings, packages and the one way in which a folder becomes a library.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# A compiler cache shortens rebuilds; nothing depends on it.
find_program(A2ASIM_CCACHE ccache)
mark_as_advanced(A2ASIM_CCACHE)
if(PROJECT_IS_TOP_LEVEL AND A2ASIM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${A2ASIM_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${A2ASIM_CCACHE})
endif()

# Flags for our own targets only; consumers never see them.
add_library(a2asim_options INTERFACE)
target_compile_options(a2asim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion>)
# One result on every host: no fused multiply-add where the text has two roundings (model/alltoall/experts.h).
target_compile_options(a2asim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on inlined std::string: gcc bug 105651, and its like where precompiled headers hide whose code it is.
  target_compile_options(a2asim_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's own stable_sort calls the deprecated get_temporary_buffer, and clang reports that as ours.
  target_compile_options(a2asim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(A2ASIM_WERROR)
  target_compile_options(a2asim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(A2ASIM_SANITIZE)
  set(sanitize_flags -fsanitize=${A2ASIM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options("$<$<LINK_LANGUAGE:CXX>:${sanitize_flags}>")  # plug-ins in C go without
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND A2ASIM_SANITIZE MATCHES "address")
    set(A2ASIM_FUZZ ON)  # only clang has libFuzzer; it needs our code instrumented, see tests/fuzz
    list(APPEND sanitize_flags -fsanitize=fuzzer-no-link)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitize_flags};-fno-omit-frame-pointer>")
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)  # indices within a vector's capacity, too
endif()

find_package(tl-expected REQUIRED)
find_package(fmt REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
if(A2ASIM_BUILD_PROGRAM)
  find_package(CLI11 REQUIRED)
  find_path(A2ASIM_TOML toml++/toml.h DOC "Where toml++/toml.h is")
  if(NOT A2ASIM_TOML)
    message(FATAL_ERROR "The program needs toml++/toml.h (Debian: libtomlplusplus-dev, vcpkg: tomlplusplus)")
  endif()
  find_path(A2ASIM_MUSTACHE kainjow/mustache.hpp DOC "Where kainjow/mustache.hpp is")
  if(NOT A2ASIM_MUSTACHE)
    message(FATAL_ERROR "The program needs kainjow/mustache.hpp (Debian: libkainjow-mustache-dev, vcpkg: kainjow-mustache); "
                        "-DA2ASIM_BUILD_PROGRAM=OFF builds the libraries without it")
  endif()
endif()
find_package(Threads REQUIRED)
# yaml-cpp renamed its target in 0.8.
set(A2ASIM_YAML_CPP $<IF:$<TARGET_EXISTS:yaml-cpp::yaml-cpp>,yaml-cpp::yaml-cpp,yaml-cpp>)
set(A2ASIM_FMT fmt::fmt)
if(A2ASIM_STATIC)  # Debian has no static library of fmt, and none of yaml-cpp that a module can hold
  set(A2ASIM_FMT fmt::fmt-header-only)
  find_library(A2ASIM_YAML_CPP_STATIC libyaml-cpp.a REQUIRED)
  set(A2ASIM_YAML_CPP_SHARED ${A2ASIM_YAML_CPP})
  set(A2ASIM_YAML_CPP
    $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>,${A2ASIM_YAML_CPP_SHARED},${A2ASIM_YAML_CPP_STATIC}>)
endif()

# What each folder may use. A dependency that shows in the folder's headers is PUBLIC.
set(a2asim_model_public tl::expected)
set(a2asim_model_private ${A2ASIM_FMT} Eigen3::Eigen nlohmann_json::nlohmann_json ${A2ASIM_YAML_CPP})
set(a2asim_sim_public a2asim::model nlohmann_json::nlohmann_json Eigen3::Eigen)
set(a2asim_sim_private ${A2ASIM_FMT} ${A2ASIM_YAML_CPP} Threads::Threads)

# a2asim_precompile(target header..): what nearly every file of the target includes is parsed once. A file still includes
# what it uses: with -DA2ASIM_PCH=OFF everything compiles as well.
option(A2ASIM_PCH "Precompile the headers that most files include" ON)
function(a2asim_precompile target)
  if(NOT A2ASIM_PCH)
    return()
  endif()
  foreach(header <algorithm> <array> <functional> <map> <memory> <optional> <span> <string> <vector> ${ARGN})
    string(REPLACE ">" "$<ANGLE-R>" header ${header})
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
endfunction()

# a2asim_unite(target): the files of several folders compile as one, so that headers are parsed, and templates compiled,
# once. From scratch that is several times as fast; after a change it is slower. tools/tidy finds names that would meet in
# libraries; names of tests that meet are the compiler's to find, and tools/setup.sh then builds file by file.
option(A2ASIM_UNITY "Compile many files together, for who builds once" OFF)
set(A2ASIM_UNITED  # one group each; what remains of a library is another
  model/engines/sglang/ "model/engines/(vllm|trtllm)/" "tools/(check|from_log|program|upgrade)/" tests/cli/ tests/sim/
  tests/launch/ tests/tools/ tests/sglang/ "tests/(vllm|trtllm)/" tests/golden/vllm tests/golden/
  "tests/(alltoall|base|check|flashinfer|group|step)/" property_tests/laws)
# Files that cannot be together with the others of their group.
set(A2ASIM_ALONE)
if(A2ASIM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc collects garbage from 128 MiB on, a tenth of the time of files this large, and what it frees is a quarter.
  target_compile_options(a2asim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()
function(a2asim_unite target)
  if(NOT A2ASIM_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
                                             DISABLE_PRECOMPILE_HEADERS ON)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    set(group ${target})
    foreach(folders ${A2ASIM_UNITED})
      if(name MATCHES "^${folders}")
        string(MAKE_C_IDENTIFIER ${folders} group)
        break()
      endif()
    endforeach()
    if(NOT name IN_LIST A2ASIM_ALONE)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# a2asim_library(model): every .cpp below model/ becomes a2asim::model. A folder without sources gives no target.
function(a2asim_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(a2asim_${name} STATIC ${sources})
  add_library(a2asim::${name} ALIAS a2asim_${name})
  set_target_properties(a2asim_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(a2asim_${name} PUBLIC cxx_std_20)
  target_include_directories(a2asim_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                   "$<INSTALL_INTERFACE:include;include/a2asim>")
  target_link_libraries(a2asim_${name} PUBLIC ${a2asim_${name}_public}
                                       PRIVATE $<BUILD_INTERFACE:a2asim_options> ${a2asim_${name}_private})
  a2asim_precompile(a2asim_${name} <fmt/format.h>)
  a2asim_unite(a2asim_${name})
endfunction()

# a2asim_link_all(target): everything of a2asim that is built here, for the program and the tests.
function(a2asim_link_all target)
  target_link_libraries(${target} PRIVATE a2asim_options ${A2ASIM_FMT} nlohmann_json::nlohmann_json)
  foreach(name tools sim gpu group model)
    if(TARGET a2asim_${name} AND NOT target STREQUAL a2asim_${name})
      target_link_libraries(${target} PRIVATE a2asim_${name})
    endif()
  endforeach()
endfunction()
