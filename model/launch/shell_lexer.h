// Inside parse_shell: shell text as tokens. Words come out raw, with their quotes and expansions; blanks, comments and
// joined lines are gone; the texts of here-documents are set aside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/shell_syntax.h"

namespace a2asim {

enum class ShellToken : std::uint8_t {
  end,
  word,
  newline,
  semicolon,
  end_case,  // ;; ;& ;;&
  background,
  pipe,
  and_,
  or_,
  open,
  close
};

class ShellLexer {
 public:
  explicit ShellLexer(std::string_view text) : text_(text) { advance(); }

  ShellToken token() const { return token_; }
  const std::string& word() const { return word_; }  // empty where a redirection stands
  std::size_t begin() const { return begin_; }       // of the token, in bytes
  std::string_view from(std::size_t begin) const { return text_.substr(begin, begin_ - begin); }
  std::string_view token_text() const { return text_.substr(begin_, pos_ - begin_); }
  bool begins_with(std::string_view text) const { return text_.substr(begin_).starts_with(text); }
  bool next_is(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  bool at_word(std::initializer_list<std::string_view> words) const;
  bool at_redirect() const;       // behind the word, which is then the number of a file
  bool at_function_head() const;  // `name (` and `)`: the word is a function's name
  std::size_t line_at(std::size_t where);

  void advance();
  void skip_newlines();
  // `(( text ))`: its text, and on to the next token; nothing when it is no such thing.
  std::optional<std::string> arithmetic();
  ShellRedirect redirect();
  std::string operator_character();  // < or > as a word, in [[ ]]

  void stop(std::string_view what, std::size_t where);  // "the WHAT that begins at byte WHERE has no end"
  void refuse(std::string message);
  bool failed() const { return error_.has_value(); }

  std::vector<ShellHeredoc> heredocs;
  std::vector<Note> notes;
  const Error& error() const { return *error_; }

 private:
  struct Heredoc {
    std::string delimiter;
    bool strips_tabs = false;
    std::size_t where = 0;
    std::size_t id = 0;
  };

  void take(ShellToken token, std::size_t size);
  std::size_t continuation(std::size_t at);
  void skip_blanks();
  std::size_t end_of_placeholder(std::size_t at) const;
  void read_word();
  std::string_view name_of(std::size_t at) const;
  void copy_to(std::size_t last);
  void read_heredocs();

  std::string_view text_;
  std::size_t pos_ = 0;
  std::size_t begin_ = 0;
  ShellToken token_ = ShellToken::end;
  std::string word_;
  std::size_t counted_ = 0, line_ = 1;  // see line_at
  std::vector<Heredoc> open_;           // named on this line
  std::optional<Error> error_;
};

}  // namespace a2asim
