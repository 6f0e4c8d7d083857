# Builds the option lists of this folder into a2asim::model. Included, it adds the step; run as a script
# (-DFOLDER=.. -DOUT=option_texts.cpp -P options.cmake) it is the step.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  file(GLOB option_lists CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.txt)
  set(option_texts ${CMAKE_CURRENT_BINARY_DIR}/option_texts.cpp)
  add_custom_command(OUTPUT ${option_texts}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_LIST_DIR} -DOUT=${option_texts} -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${option_lists} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
  target_sources(a2asim_model PRIVATE ${option_texts})
  return()
endif()

set(code "// Made by options.cmake.\n#include \"model/engines/sglang/options/option_texts.h\"\n\nnamespace a2asim {\n\n")
string(APPEND code "std::span<const OptionText> option_texts() {\n  static constexpr OptionText kTexts[] = {\n")
file(GLOB lists ${FOLDER}/*.txt)
foreach(list ${lists})
  get_filename_component(name ${list} NAME_WLE)
  file(READ ${list} text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${list} holds the delimiter of its C++ string")
  endif()
  string(APPEND code "{\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
string(APPEND code "  };\n  return kTexts;\n}\n\n}  // namespace a2asim\n")
file(WRITE ${OUT} "${code}")
