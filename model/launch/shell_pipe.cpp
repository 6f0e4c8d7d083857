// ShellRunner: pipes, and what commands print whose text is in the script: echo, printf, cat, tee.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/launch/front_end.h"
#include "model/launch/shell_runner.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

using enum ShellStatus;

// \n, \t and \\ of a format or of echo -e; nothing for the others.
std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    const char c = ++at < text.size() ? text[at] : '\0';
    if (c != 'n' && c != 't' && c != '\\' && c != '"' && c != '\'') return std::nullopt;
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

std::optional<ShellValue> echoed(std::span<const ShellValue> words) {
  ShellValue out;
  bool ends_line = true, escapes = false;
  std::size_t at = 1;
  for (; at < words.size() && is_one_of(words[at].text, {"-n", "-e", "-E", "-ne", "-en"}); ++at) {
    ends_line &= words[at].text.find('n') == npos;
    escapes |= words[at].text.find('e') != npos;
  }
  for (std::size_t i = at; i < words.size(); ++i) {
    out.text += (i > at ? " " : "") + words[i].text;
    out.is_open |= words[i].is_open;
  }
  if (escapes) {
    auto text = unescaped(out.text);
    if (!text) return std::nullopt;
    out.text = std::move(*text);
  }
  if (ends_line) out.text += '\n';
  return out;
}

// One pass of printf's format over the words from `at` on: %s, %d and %%.
bool print_once(std::string_view format, std::span<const ShellValue> words, std::size_t& at, ShellValue& out) {
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.text += format[i];
      continue;
    }
    const char kind = ++i < format.size() ? format[i] : '\0';
    if (kind == '%') {
      out.text += '%';
    } else if (kind == 's' || kind == 'd') {
      if (at < words.size()) {
        out.text += words[at].text;
        out.is_open |= words[at].is_open;
      } else if (kind == 'd') {
        out.text += '0';
      }
      ++at;
    } else {
      return false;
    }
  }
  return true;
}

std::optional<ShellValue> formatted(std::span<const ShellValue> words) {
  constexpr std::size_t kMostBytes = 1 << 16;
  if (words.size() < 2 || words[1].is_open || words[1].text.starts_with('-')) return std::nullopt;
  const auto format = unescaped(words[1].text);
  ShellValue out;
  for (std::size_t at = 2; format;) {
    const std::size_t before = at;
    if (!print_once(*format, words, at, out) || out.text.size() > kMostBytes) return std::nullopt;
    if (at >= words.size()) return out;
    if (at == before) return out;  // it takes no words
  }
  return std::nullopt;
}

}  // namespace

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == npos) return ".";
  return std::string(path.starts_with("./") ? "" : "./").append(path.substr(0, slash));
}

std::optional<ShellFile> read_shell_file(const ShellVariables& variables, const ReadShellFile& read_file,
                                         std::string_view path) {
  if (!read_file) return std::nullopt;
  const auto read = [&](std::string at) -> std::optional<ShellFile> {
    auto text = read_file(at);
    return text ? std::optional(ShellFile{std::move(at), std::move(*text)}) : std::nullopt;
  };
  if (variables.here == ".") return read(std::string(path));
  if (variables.here && !path.starts_with('/'))
    if (auto file = read((std::filesystem::path(*variables.here) / path).lexically_normal().generic_string()))
      return file;
  return path.starts_with("./") ? read(std::string(path)) : std::nullopt;
}

// Nothing: only a running shell knows. What is open in it stands there as it is written.
std::optional<ShellValue> ShellRunner::output_of(const Words& words, const std::optional<ShellValue>& input) const {
  const std::string_view verb = basename_of(words.front().text);
  if (words.front().is_open) return std::nullopt;
  if (verb == "echo") return echoed(words);
  if (verb == "printf") return formatted(words);
  if (verb == "tee") return input;
  if (verb == "cat") {
    ShellValue out;
    std::size_t files = 0;
    for (const ShellValue& word : std::span(words).subspan(1)) {
      if (word.text.starts_with('-')) continue;
      const auto file = word.is_open ? std::nullopt : read_shell_file(variables_, read_file_, word.text);
      if (!file) return std::nullopt;
      out.text += file->text;
      ++files;
    }
    return files > 0 ? std::optional(out) : input;
  }
  if (is_one_of(verb, {"true", ":", "cd", "mkdir", "rm", "sleep", "chmod", "touch", "wait", "kill", "export"}))
    return ShellValue{};
  return std::nullopt;
}

ShellStatus ShellRunner::run_pipeline(const ShellNode& node) {
  unchecked_ += node.flag ? 1 : 0;
  ShellStatus status = success;
  if (node.children.size() == 1) {
    status = run_node(node.children.front());
  } else {
    const auto input = input_;
    const bool was_piped = is_piped_;
    Printed* const outer = printed_;
    for (std::size_t i = 0; i < node.children.size() && !stopped(); ++i) {
      Printed printed;
      printed_ = i + 1 < node.children.size() ? &printed : outer;
      status = run_apart(node.children[i]);
      expander_.charge(printed.text.size());
      input_ = printed.is_known ? std::optional(std::move(printed.text)) : std::nullopt;
      is_piped_ = true;
    }
    input_ = input;
    is_piped_ = was_piped;
    printed_ = outer;
  }
  unchecked_ -= node.flag ? 1 : 0;
  if (!node.flag) return status;
  last_test_.negated = !last_test_.negated;
  return status == open ? open : known(status == failure);
}

// What the command reads and prints; false where its output goes on to a pipe.
bool ShellRunner::redirect(const ShellNode& node, ShellStart& one) {
  bool is_apart = false, is_own = false;
  for (const ShellRedirect& redirect : node.redirects) {
    const bool writes = redirect.op.find('>') != npos && redirect.op.front() != '<';
    if (redirect.heredoc >= 0) {
      const ShellHeredoc& heredoc = script_->heredocs[static_cast<std::size_t>(redirect.heredoc)];
      one.input = heredoc.expands ? expander_.text(heredoc.text) : ShellValue{heredoc.text};
      is_own = true;
    } else if (redirect.op == "<<<") {
      one.input = expander_.word(redirect.target);
      one.input->text += '\n';
      is_own = true;
    } else if (redirect.op == "<") {
      const ShellValue target = expander_.word(redirect.target);
      const auto file = target.is_open ? std::nullopt : read_shell_file(variables_, read_file_, target.text);
      one.input = file ? std::optional(ShellValue{file->text}) : std::nullopt;
      one.is_input_unread = !file && target.text != "/dev/null";
      is_own = true;
    } else if (writes && (redirect.file.empty() || redirect.file == "1")) {
      const ShellValue target = expander_.word(redirect.target);
      is_apart = true;
      one.appends = redirect.op == ">>";
      if (!target.is_open && redirect.op.find('&') == npos) one.output_file = target.text;
    }
  }
  if (!is_own && is_piped_) {
    one.is_piped = true;
    one.is_input_unread = !input_;
    if (input_) one.input = ShellValue{*input_};
  }
  return is_apart;
}

bool ShellRunner::start(const Words& words, const ShellNode& node) {
  ShellStart one{.words = words, .variables = variables_, .line = text_line_ > 0 ? text_line_ : node.line};
  const bool is_apart = redirect(node, one);
  if (printed_ != nullptr || !one.output_file.empty() || basename_of(words.front().text) == "tee")
    one.output = output_of(words, one.input);
  if (printed_ != nullptr && !is_apart) {
    constexpr std::size_t kMostBytes = 1 << 20;
    if (one.output && printed_->text.size() + one.output->text.size() < kMostBytes)
      printed_->text += one.output->text;
    else
      prints_unknown();
  }
  return on_start_(one);
}

}  // namespace a2asim
