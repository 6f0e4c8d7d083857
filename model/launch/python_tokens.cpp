#include "model/launch/python_tokens.h"

#include <algorithm>

#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

bool is_python_digit(char c) { return c >= '0' && c <= '9'; }

using Token = PythonToken;

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> tokens() {
    std::vector<Token> out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        out.push_back(string(""));
      } else if (is_python_digit(c)) {
        out.push_back(word(Token::Kind::number));
      } else if (is_shell_name_char(c)) {
        Token name = word(Token::Kind::name);
        const bool is_prefix = name.text.size() <= 2 && name.text.find_first_not_of("rRbBfFuU") == std::string::npos;
        const bool quoted = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
        out.push_back(is_prefix && quoted ? string(name.text) : std::move(name));
      } else {
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != '\\')
          out.push_back({Token::Kind::sign, std::string(1, c), line_, false});
        ++at_;
      }
    }
    constexpr std::size_t kLookahead = 8;  // tokens that readers look at without asking for the end
    out.insert(out.end(), kLookahead, {Token::Kind::end, "", line_, false});
    return out;
  }

 private:
  Token word(Token::Kind kind) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_shell_name_char(text_[at_]) || (kind == Token::Kind::number && text_[at_] == '.')))
      ++at_;
    return {kind, std::string(text_.substr(begin, at_ - begin)), line_, false};
  }

  Token string(std::string_view prefix) {
    const bool raw = prefix.find_first_of("rR") != std::string_view::npos;
    const bool fields = prefix.find_first_of("fF") != std::string_view::npos;
    const char quote = text_[at_];
    const bool triple = text_.substr(at_, 3) == std::string(3, quote);
    const std::string end(triple ? 3 : 1, quote);
    Token out{Token::Kind::string, "", line_, false};
    for (at_ += end.size(); at_ < text_.size() && text_.substr(at_, end.size()) != end; ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '\\' && !raw && at_ + 1 < text_.size()) {
        const char escaped = text_[++at_];
        if (escaped != '\n') out.text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
        continue;
      }
      if (text_[at_] == '\n' && !triple) break;
      out.is_open |= fields && text_[at_] == '{';
      out.text += text_[at_];
    }
    at_ = std::min(at_ + end.size(), text_.size());
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view text) { return Lexer(text).tokens(); }

}  // namespace a2asim
