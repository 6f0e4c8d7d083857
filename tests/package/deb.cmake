# cmake -DBUILD_DIR=.. -DWORK_DIR=.. -DVERSION=.. -P deb.cmake: makes the Debian package, looks into it, installs it into a
# folder of its own, and runs the program from there.
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)
need(dpkg-deb)
need(dpkg)
need(dpkg-shlibdeps)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
cmake_path(GET CMAKE_COMMAND PARENT_PATH bin)
step(${bin}/cpack -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${WORK_DIR}/made)
file(GLOB packages ${WORK_DIR}/made/*.deb)
list(LENGTH packages count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one package, made: ${packages}")
endif()

# expect(what pattern text): says what is missing where.
function(expect what pattern text)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${what}: nothing matches ${pattern} in\n${text}")
  endif()
endfunction()
execute_process(COMMAND ${dpkg-deb} -f ${packages} OUTPUT_VARIABLE control COMMAND_ERROR_IS_FATAL ANY)
expect("control" "Package: a2asim\n" "${control}")
expect("control" "Version: ${VERSION}\n" "${control}")
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../../CMakeLists.txt maintainer REGEX "^set\\(A2ASIM_MAINTAINER ")
string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*" "\\1" maintainer "${maintainer}")
string(FIND "${control}" "Maintainer: ${maintainer}\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the control file names another maintainer than CMakeLists.txt (${maintainer}):\n${control}")
endif()
expect("control" "\nDescription: check the size[^\n]*\n Says " "${control}")
foreach(library libc6 libstdc\\+\\+6 libyaml-cpp libfmt)
  expect("control" "Depends:[^\n]*${library}" "${control}")
endforeach()

# Unpacked by hand.
set(root ${WORK_DIR}/unpacked)
step(${dpkg-deb} -x ${packages} ${root})
foreach(file bin/a2asim share/man/man1/a2asim.1.gz share/bash-completion/completions/a2asim
             share/zsh/vendor-completions/_a2asim share/doc/a2asim/copyright share/doc/a2asim/changelog.gz
             share/doc/a2asim/README.md share/doc/a2asim/tools/README.md)
  if(NOT EXISTS ${root}/usr/${file})
    message(FATAL_ERROR "the package has no /usr/${file}")
  endif()
endforeach()
# The README's map, and the file that --help names.
file(STRINGS ${root}/usr/share/doc/a2asim/README.md links REGEX "^\\| \\[[a-z_]+/\\]\\(")
list(LENGTH links count)
if(count LESS 6)
  message(FATAL_ERROR "the README's map has ${count} lines")
endif()
foreach(link IN LISTS links)
  string(REGEX REPLACE "^.*\\]\\(([^)]*)\\).*$" "\\1" link "${link}")
  if(NOT EXISTS ${root}/usr/share/doc/a2asim/${link})
    message(FATAL_ERROR "the package's README leads to ${link}, which it does not hold")
  endif()
endforeach()
if(EXISTS ${root}/usr/include)
  message(FATAL_ERROR "the package holds headers")
endif()

# Installed by dpkg, with a database of its own that knows no other package, and whatever this machine's and this
# person's dpkg leave out: container images have no documents.
set(root ${WORK_DIR}/installed)
file(MAKE_DIRECTORY ${root}/var/lib/dpkg/info ${root}/var/lib/dpkg/updates)
file(TOUCH ${root}/var/lib/dpkg/status ${root}/var/lib/dpkg/available)
step(${CMAKE_COMMAND} -E env HOME=${WORK_DIR} ${dpkg} --root=${root} --log=${root}/dpkg.log --force-depends
     --force-not-root --force-script-chrootless --force-bad-path --path-include=/usr/share/doc/a2asim/*
     --install ${packages})
execute_process(COMMAND ${dpkg} --root=${root} -s a2asim OUTPUT_VARIABLE status COMMAND_ERROR_IS_FATAL ANY)
expect("dpkg -s" "Status: install ok installed" "${status}")

set(program ${root}/usr/bin/a2asim)
set(examples ${root}/usr/share/doc/a2asim)
execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
expect("--version" "a2asim ${VERSION}\n" "${version}")
execute_process(COMMAND ${program} check --sglang pr29461 --file ${examples}/examples/collapse.sh
                RESULT_VARIABLE code OUTPUT_VARIABLE found)
expect("check" "DISAGREES" "${found}")
if(NOT code EQUAL 1)
  message(FATAL_ERROR "check ends with ${code}")
endif()
step(${program} replay ${examples}/scenarios/collapse.yaml)
