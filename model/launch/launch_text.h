// Inside launch reading: what is text at all, and words as a shell reads them back.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

// Why it is no text that could hold a command: too long, control bytes, no UTF-8. Nothing: it is.
std::optional<Error> check_launch_text(std::string_view text);

// What to say of a text that starts no server of the known engines.
Error no_server(std::string_view text);

// The first line, short enough to be quoted in a message.
std::string_view headline(std::string_view text);

// The defaults of ${TP:-8} in a word that a shell has split already, where the variable is not known; kept by name.
std::string take_defaults(std::string_view word, std::map<std::string, std::string, std::less<>>& defaults);

// $NAME or ${NAME..}, which a file that sets variables may set.
bool holds_variable(std::string_view text);

// {{ .Values.tp }} of Helm; {{ message }} of a chat template is a value.
bool is_template(std::string_view word);

// The word as a shell reads it back: plain, or in single quotes.
std::string shell_quote(std::string_view word);

}  // namespace a2asim
