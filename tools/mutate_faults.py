"""Which faults a C++ file can have, and its text with several of them, each behind a switch (mutate.h).

A fault changes one expression, condition or statement. Its region is the smallest text around it that means something
by itself, found by brackets and the precedence of operators; clang-format's spaces tell `a < b` from `list<int>`.
"""
import dataclasses
import re

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "/": "*",
         "%": "/", "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=",
         "|=": "&=", "min": "max", "max": "min", "any_of": "all_of", "all_of": "any_of", "true": "false",
         "false": "true"}
RANKS = [[",", ";"], "= += -= *= /= %= &= |= ^= <<= >>= ? :".split(), ["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="],
         ["<", ">", "<=", ">="], ["<=>"], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]
RANK = {operator: rank for rank, row in enumerate(RANKS) for operator in row}
TOKEN = re.compile(r'"[^"]*"|\'[^\']*\'|\d[\w.\']*|\w+|::|->|<=>|<<=|>>=|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|\S')
HIDDEN = re.compile(r'R"\((?s:.*?)\)"|//[^\n]*|/\*(?s:.*?)\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|\b\d[\w\']*'
                    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.M)
STOPS = set("return throw case else do co_return co_yield if while for switch template operator requires".split())
STATEMENT = re.compile(r"(?!(?:return|break|continue|using|case|default|throw|goto|static_assert|A2ASIM_INVARIANT)\b)"
                       r"(?:[*\w.:\[\]()<>-]*(?:\(\)| ?[-+*|&]?= .*|\+\+|--)|(?:\+\+|--)[*\w.:\[\]()-]+);$")
BLOCK = re.compile(r"(^|\)|\}|\b(else|do|try)|\]|\w:)\s*((const|noexcept|override|final|mutable)\s*)*(->[^=;]*)?\s*$")
SCOPE = re.compile(r"\s*(template\s*<.*>\s*)?(inline\s+)*(namespace|enum|class|struct|union|extern)\b[^=()]*$", re.S)


@dataclasses.dataclass
class Fault:
    path: str
    line: int
    what: str
    start: int
    end: int
    new: str            # instead of the text from start to end
    shape: str          # how both stand in one text: {old}, {new}, {on}
    switch: str = "on"  # of mutate.h; nothing: it stands in a constant, and needs a build of its own
    said: str = ""      # the line
    keyword: int = -1   # the `constexpr` that must become `const`
    constant: str = ""  # what is declared so
    number: int = 0
    is_refused: bool = False  # by the compiler

    def text(self, old, alone):
        parts = {"on": "true" if alone else f"a2asim_mutate::{self.switch}({self.number})", "new": self.new, "old": old}
        return re.sub(r"\{(on|new|old)\}", lambda match: parts[match[1]], self.shape)


def blanked(text, strings):
    """Comments and directives, and with `strings` the inside of texts, become spaces; all else keeps its place."""
    def blank(match):
        word = match[0]
        if word[0].isdigit() or word[0] in "\"'R" and not strings or len(word) < 2:
            return word
        quote = {"R": '"', '"': '"', "'": "'"}.get(word[0], " ")
        return quote + re.sub(r"[^\n]", " ", word[1:-1]) + quote
    return HIDDEN.sub(blank, text)


class Source:
    def __init__(self, path, text):
        self.path, self.text, self.code, self.plain = path, text, blanked(text, True), blanked(text, False)
        self.lines = text.split("\n")
        self.tokens, self.mate, self.up, stack = [], {}, [], []  # (start, word), other end of a bracket, opener around
        for match in TOKEN.finditer(self.code):
            words = [(match.start(), match[0])]
            if match[0] in (">>", ">=") and stack and self.word(stack[-1]) == "<" and not self.is_spaced(*words[0]):
                words = [(match.start(), match[0][0]), (match.start() + 1, match[0][1])]
            for start, word in words:
                i, last = len(self.tokens), self.word(len(self.tokens) - 1)
                of_types = word in "<>" and not self.is_spaced(start, word) and last != "operator" and (
                    word == ">" or last == "template" or self.code[start - 1:start] != " " and re.match(r"\w", last))
                closes = word in ")]}" or of_types and word == ">"
                if stack and closes and (word == ">") == (self.word(stack[-1]) == "<"):
                    self.mate[i] = stack.pop()
                    self.mate[self.mate[i]] = i
                self.up.append(stack[-1] if stack else -1)
                self.tokens.append((start, word))
                if word in "([{" or of_types and word == "<":
                    stack.append(i)

    def word(self, i):
        return self.tokens[i][1] if 0 <= i < len(self.tokens) else ""

    def end(self, i):
        return self.tokens[i][0] + len(self.tokens[i][1])

    def is_spaced(self, start, word):
        return self.code[start - 1:start].isspace() and self.code[start + len(word):start + len(word) + 1].isspace()

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def part(self, first, last, i=-1, word=""):
        """The text of these tokens in one line, with another word for token i."""
        pieces = [(self.tokens[first][0], self.end(last))] if i < 0 else [
            (self.tokens[first][0], self.tokens[i][0]), (self.end(i), self.end(last))]
        return word.join(self.plain[start:end] for start, end in pieces).replace("\n", " ")

    def kind(self, opener):
        """block, enum, class, namespace, or the bracket itself."""
        begin = self.begin(opener)
        head = self.code[self.tokens[begin][0]:self.tokens[opener][0]]
        if self.word(opener) != "{" or not head and self.up[opener] >= 0 and self.kind(self.up[opener]) != "block":
            return self.word(opener)
        scope = SCOPE.match(head)
        return scope[3] if scope else "block" if BLOCK.search(head) else "{"

    def begin(self, i):
        """The first token of the statement or declaration that token i belongs to, in i's own brackets."""
        while i > 0 and i - 1 != self.up[i] and self.word(i - 1) != ";" and not (
                self.word(i - 1) == "}" and self.are_parted(i - 1, i)):
            i = self.mate.get(i - 1, i - 1)
        return i

    def are_parted(self, left, right):
        """Whether two neighbours belong to different expressions."""
        before, (start, word) = self.word(left), self.tokens[right]
        if before in STOPS or not (re.match(r"[\w\"')\]}]", before) or before == ">" and left in self.mate):
            return before in STOPS
        if re.match(r"[\w\"']", word):
            return word not in ("mutable", "noexcept", "const") and not word[0] == before[0] == '"'
        is_unary = word in ("++", "--", "!", "~", "*", "&", "-") and not self.is_spaced(start, word)
        return is_unary and self.code[start - 1].isspace()

    def region(self, i, rank):
        """First and last token of the expression around operator i."""
        ends, around = [], (self.up[i], self.mate.get(self.up[i]))
        for step in (-1, 1):
            at = i
            while 0 <= at + step < len(self.tokens) and at + step not in around:
                near, word = at + step, self.word(at + step)
                if RANK.get(word, 99) < rank and (word in ",;?:=" or self.is_spaced(self.tokens[near][0], word)) or \
                        self.are_parted(min(at, near), max(at, near)):
                    break
                at = self.mate.get(near, near)
            ends.append(at)
        return ends

    def fault(self, at, first, last, what, new, shape="({on} ? ({new}) : ({old}))"):
        """Decides how it can be switched; nothing inside of types and promises, where it would be none."""
        line = self.line(self.tokens[at][0])
        fault = Fault(self.path, line, what, self.tokens[first][0], self.end(last), new, shape)
        fault.said = self.lines[line - 1].strip()
        openers = [self.up[first]]
        while openers[-1] >= 0:
            openers.append(self.up[openers[-1]])
        kinds = [self.kind(opener) for opener in openers[:-1]] + ["namespace"]
        called = {self.word(opener - 1) for opener in openers[:-1] if self.word(opener) == "("}
        scope = next(k for k, kind in enumerate(kinds) if kind in ("block", "class", "struct", "namespace", "enum"))
        here = openers[scope - 1] if scope else first
        declared = range(self.begin(here), here)
        if "<" in kinds or {"A2ASIM_INVARIANT", "static_assert", "decltype"} & called or \
                'R"' in self.text[fault.start:fault.end] or \
                self.word(declared.start) in ("using", "template", "static_assert"):
            return None
        function = next((opener for opener, kind in zip(openers[::-1], kinds[::-1]) if kind == "block"), 0)
        heads = {self.word(i) for i in range(self.begin(function), function)}
        keyword = next((self.tokens[i][0] for i in declared if self.word(i) == "constexpr"), -1)
        if {"alignas", "constexpr", "noexcept"} & called or "enum" in kinds or "consteval" in heads:
            fault.switch = ""
        elif "constexpr" in heads:
            fault.switch = "on_unless_constant" if keyword < 0 else ""
        elif kinds[scope] in ("class", "struct") and keyword < 0:  # a constant elsewhere may be made with it
            fault.switch = "on_unless_constant"
        elif keyword >= 0:
            fault.keyword, fault.constant = keyword, re.search(r"(\w+)\s*[=({\[]", self.code[keyword + 9:])[1]
        return fault

    def swapped(self, i, start, word):
        other, last = SWAPS.get(word, ""), self.word(i - 1)
        if other in RANK and self.is_spaced(start, word):
            first, end = self.region(i, RANK[word])
            text = re.sub(r"[=!<>]=|\.(size|front|back|length)\(\)|ssize\(\w+\)", "", self.part(first, end))
            is_text = word in "+=-" and '"' in last[:1] + self.word(i + 1)[:1]
            if first < i < end and last != "operator" and not is_text:
                is_pure = RANK[word] in (RANK["<"], RANK["=="]) and not re.search(r"[(=]|\+\+|--", text)
                yield first, end, f"{word} becomes {other}", self.part(first, end, i, other), \
                    *(["(({old}) == ({new}) || !{on} ? ({old}) : ({new}))"] if is_pure else [])
        elif other in ("true", "false"):
            yield i, i, f"{word} becomes {other}", other
        elif other and last == "::":
            prefix, first = ("ranges::", i - 4) if self.word(i - 2) == "ranges" else ("std::", i - 2)
            opener = self.mate.get(i + 1, i) + 1 if self.word(i + 1) == "<" else i + 1
            if self.word(first) == "std" and self.word(opener) == "(":
                yield first, self.mate[opener], f"{prefix}{word} becomes {prefix}{other}", \
                    self.part(first, self.mate[opener], i, other)
        elif re.fullmatch(r"\d[\d']*", word) and last != "case":
            base = 8 if re.fullmatch(r"0[0-7]+", word) else 10
            for value in (int(word.replace("'", ""), base) + 1, int(word.replace("'", ""), base) - 1):
                new = f"0{value:o}" if base == 8 else str(value)
                if value >= 0:
                    yield i, i, f"{word} becomes {new}", new

    def conditions(self, i, start, word):
        if word == "if" and self.word(i + 1) == "(":
            own = [k for k in range(i + 2, self.mate[i + 1]) if self.up[k] == i + 1]
            first = max([k + 1 for k in own if self.word(k) == ";"], default=i + 2)
            if not any(self.word(k) == "=" for k in own if k >= first):
                last = self.mate[i + 1] - 1
                yield first, last, "the condition is true", "true", "(static_cast<bool>({old}) || {on})"
                yield first, last, "the condition is false", "false", "(static_cast<bool>({old}) && !{on})"
        elif word == "!" and not self.is_spaced(start, word):
            last = self.region(i, len(RANKS))[1]
            yield i, last, "a negation is dropped", f"static_cast<bool>({self.part(i + 1, last)})"
        elif word == "." and self.word(i - 1) in ("{", ",") and self.word(i + 2) == "=":
            last = self.region(i + 2, 1)[1]
            value = self.part(i + 3, last)
            if value not in ("false", "0", "nullptr", '""') and value[0] not in "[{":
                yield i + 3, last, "the field is empty", f"a2asim_mutate::nothing({value})"

    def statements(self, i, _, word):
        if word != ";" or self.up[i] < 0 or self.kind(self.up[i]) != "block":
            return
        first = self.begin(i)
        while (head := self.word(first)) in ("if", "for", "while", "else", "case", "default"):  # goes behind these
            opener = first + 1 + (self.word(first + 1) == "constexpr")
            first = self.mate.get(opener, i) + 1 if self.word(opener) == "(" else first + 1 if head == "else" else \
                next((k for k in range(first, i) if self.word(k) == ":"), i) + 1
        skeleton, at = "", first
        while at <= i:
            skeleton += " " * (at > first and self.code[self.tokens[at][0] - 1].isspace()) + self.word(at) + \
                self.word(self.mate.get(at, -1))
            at = self.mate.get(at, at) + 1
        if first < i and STATEMENT.match(skeleton):
            yield first, first, i, "the statement is dropped", ";", "{ if (!{on}) {old} }"

    def faults(self):
        seen, found = {}, []
        for i, (start, word) in enumerate(self.tokens):
            drawn = [(i, *one) for kind in (self.swapped, self.conditions) for one in kind(i, start, word)]
            for fault in [self.fault(*one) for one in [*drawn, *self.statements(i, start, word)]]:
                if fault:
                    again = seen[fault.line, fault.what] = seen.get((fault.line, fault.what), 0) + 1
                    fault.what += f" ({again})" if again > 1 else ""
                    found.append(fault)
        return found

    def render(self, faults, alone=None):
        """The text with these faults behind their switches, and one for good; lines stay where they are."""
        text = self.text
        keywords = {fault.keyword for fault in faults if fault.keyword >= 0 and fault.switch and fault is not alone}
        edits = [(fault.start, fault) for fault in faults if fault.switch or fault is alone]
        edits += [(at, None) for at in keywords if not any(fault.start < at < fault.end for _, fault in edits)]
        for at, fault in sorted(edits, key=lambda edit: -edit[0]):
            if fault:
                text = text[:at] + fault.text(self.text[at:fault.end], fault is alone) + text[fault.end:]
            else:  # a member that is static is in every file that includes it
                is_member = re.search(r"\n +(static )$", text[:at])
                text = text[:at] + ("inline const" if is_member else "const") + text[at + len("constexpr"):]
        return text
