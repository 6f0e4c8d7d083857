# cmake -DFOLDER=tools -DOUT=embedded.cpp -P embed.cmake: the templates of all folders of tools as C++ strings, and the style
# and script of the pages with the hashes that their Content-Security-Policy names.

# Base64 of a hash in hexadecimal: three digits are two characters.
function(base64_of_hex hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  string(LENGTH "${hex}" digits)
  set(at 0)
  while(at LESS digits)
    string(SUBSTRING "${hex}00" ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING "${alphabet}" ${high} 1 first)
    string(SUBSTRING "${alphabet}" ${low} 1 second)
    string(APPEND text "${first}${second}")
    math(EXPR at "${at} + 3")
  endwhile()
  # 256 bits: the last group of 24 holds 16, which is three characters and one "=".
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

set(code "// Made by tools/report/embed.cmake.\n#include \"tools/program/template.h\"\n#include \"tools/report/assets.h\"\n\n")

# Appends the files, one after the other, as one string.
function(append_string before after)
  set(all "")
  foreach(file ${ARGN})
    file(READ "${file}" text)
    if(text MATCHES "\\)embedded\"")
      message(FATAL_ERROR "${file} holds the delimiter of its C++ string")
    endif()
    string(APPEND all "${text}")
  endforeach()
  set(code "${code}${before}R\"embedded(${all})embedded\"${after}" PARENT_SCOPE)
  string(SHA256 hex "${all}")
  base64_of_hex(${hex} hash)
  set(hash "${hash}" PARENT_SCOPE)
endfunction()

string(APPEND code "namespace a2asim::report_assets {\n")
append_string("const char* const kStyle = " ";\n" ${FOLDER}/report/report.css)
string(APPEND code "const char* const kStyleHash = \"${hash}\";\n")
append_string("const char* const kScript = " ";\n" ${FOLDER}/report/drawing.js ${FOLDER}/report/report.js)
string(APPEND code "const char* const kScriptHash = \"${hash}\";\n")
string(APPEND code "}  // namespace a2asim::report_assets\n\n")

string(APPEND code "const std::vector<a2asim::EmbeddedTemplate>& a2asim::embedded_templates() {\n"
                   "  static const std::vector<EmbeddedTemplate> all = {\n")
file(GLOB templates ${FOLDER}/*/*.mustache ${FOLDER}/*/*.help ${FOLDER}/*/completion.*)
foreach(file ${templates})
  get_filename_component(name ${file} NAME)
  append_string("{\"${name}\", " "},\n" ${file})
endforeach()
string(APPEND code "  };\n  return all;\n}\n")
file(WRITE "${OUT}" "${code}")
