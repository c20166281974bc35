// Thompson's construction, simulated with ordered threads (Pike): leftmost match, earlier alternatives first.
#include "lockstep/ops/regex_internal.h"

#include <cctype>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::ops {

constexpr std::size_t kMaxNodes = 20000;

// Turns a pattern into nodes, from the last to the first: parse builds a tree, emit links it backwards.
class RegexParser {
 public:
  RegexParser(Regex& regex, std::string_view pattern) : regex_(regex), pattern_(pattern) {}

  void run() {
    if (pattern_.starts_with("(?s)")) at_ = 4, dot_newline_ = true;
    const int tree = alternation(0);
    if (at_ != pattern_.size()) fail("unbalanced ')'");
    regex_.start_ = emit(tree, node({}));
  }

 private:
  using Set = std::bitset<256>;
  struct Tree {
    enum Kind { kEmpty, kSet, kConcat, kEither, kRepeat, kBegin, kEnd } kind = kEmpty;
    Set set;
    std::vector<int> children;
    int low = 0, high = -1;
    bool greedy = true;
  };

  [[noreturn]] void fail(std::string_view why) const {
    throw_invalid_argument(fmt::format("Invalid pattern: {}, error: {} at {}", pattern_, why, at_));
  }
  bool more() const { return at_ < pattern_.size(); }
  int tree(Tree t) {
    if (trees_.size() > kMaxNodes) fail("the pattern is too large");
    trees_.push_back(std::move(t));
    return static_cast<int>(trees_.size()) - 1;
  }
  int node(Regex::Node n) {
    if (regex_.nodes_.size() > kMaxNodes) fail("the pattern is too large");
    regex_.nodes_.push_back(std::move(n));
    return static_cast<int>(regex_.nodes_.size()) - 1;
  }

  int alternation(int depth) {
    if (depth > 200) fail("nested too deeply");
    Tree either{Tree::kEither, {}, {}, 0, -1, true};
    for (;;) {
      Tree sequence{Tree::kConcat, {}, {}, 0, -1, true};
      while (more() && pattern_[at_] != '|' && pattern_[at_] != ')') sequence.children.push_back(repeat(depth));
      either.children.push_back(tree(std::move(sequence)));
      if (!more() || pattern_[at_] != '|') return tree(std::move(either));
      ++at_;
    }
  }

  int repeat(int depth) {
    int item = atom(depth);
    while (more()) {
      const char c = pattern_[at_];
      Tree again{Tree::kRepeat, {}, {item}, 0, -1, true};
      if (c == '+') {
        again.low = 1;
      } else if (c == '?') {
        again.high = 1;
      } else if (c == '{' && counts(again)) {
        --at_;
      } else if (c != '*') {
        return item;
      }
      ++at_;
      if (more() && pattern_[at_] == '?') ++at_, again.greedy = false;
      item = tree(std::move(again));
    }
    return item;
  }
  // "{n}", "{n,}" or "{n,m}": leaves at_ behind the brace.
  bool counts(Tree& again) {
    std::size_t i = at_ + 1;
    const auto number = [&] {
      int value = -1;
      for (; i < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[i])); ++i) {
        value = (value < 0 ? 0 : value) * 10 + (pattern_[i] - '0');
        if (value > 1000) fail("bad repetition count");
      }
      return value;
    };
    again.low = number();
    if (again.low < 0) return false;
    again.high = again.low;
    if (i < pattern_.size() && pattern_[i] == ',') ++i, again.high = number();
    if (i >= pattern_.size() || pattern_[i] != '}') return false;
    if (again.high >= 0 && again.high < again.low) fail("bad repetition count");
    at_ = i + 1;
    return true;
  }

  int set_tree(const Set& set) { return tree({Tree::kSet, set, {}, 0, -1, true}); }
  static Set range(int low, int high) {
    Set set;
    for (int i = low; i <= high; ++i) set.set(static_cast<std::size_t>(i));
    return set;
  }
  int sequence(std::initializer_list<Set> sets) {
    Tree t{Tree::kConcat, {}, {}, 0, -1, true};
    for (const Set& set : sets) t.children.push_back(set_tree(set));
    return tree(std::move(t));
  }
  // One UTF-8 character.
  int any_character() {
    Set ascii = range(0, 0x7F);
    if (!dot_newline_) ascii.reset('\n');
    const Set tail = range(0x80, 0xBF);
    return tree({Tree::kEither,
                 {},
                 {set_tree(ascii), sequence({range(0xC2, 0xDF), tail}), sequence({range(0xE0, 0xEF), tail, tail}),
                  sequence({range(0xF0, 0xF4), tail, tail, tail})},
                 0,
                 -1,
                 true});
  }

  int atom(int depth) {
    const char c = pattern_[at_++];
    switch (c) {
      case '.': return any_character();
      case '^': return tree({Tree::kBegin, {}, {}, 0, -1, true});
      case '$': return tree({Tree::kEnd, {}, {}, 0, -1, true});
      case '[': return set_tree(char_class());
      case '(': {
        if (pattern_.substr(at_).starts_with("?:")) {
          at_ += 2;
        } else if (more() && pattern_[at_] == '?') {
          fail("unsupported group");
        }
        const int inside = alternation(depth + 1);
        if (!more()) fail("missing )");
        ++at_;
        return inside;
      }
      case '*':
      case '+':
      case '?': --at_; fail("no argument for repetition operator");
      case '\\': return set_tree(escape());
      default: {
        Set set;
        set.set(static_cast<unsigned char>(c));
        return set_tree(set);
      }
    }
  }

  static Set named(char c) {
    Set set;
    for (int i = 0; i < 128; ++i) {
      const bool digit = i >= '0' && i <= '9', blank = i == ' ' || i == '\t' || i == '\n' || i == '\f' || i == '\r';
      if (c == 'd' ? digit : c == 's' ? blank : std::isalnum(i) || i == '_') set.set(static_cast<std::size_t>(i));
    }
    return set;
  }
  Set escape() {
    if (!more()) fail("trailing \\");
    const char c = pattern_[at_++];
    Set set;
    switch (c) {
      case 'd':
      case 's':
      case 'w': return named(c);
      case 'D':
      case 'S':
      case 'W': return ~named(static_cast<char>(c | 0x20));
      case 'C': return Set().set();
      case 'n': set.set('\n'); return set;
      case 't': set.set('\t'); return set;
      case 'r': set.set('\r'); return set;
      case 'f': set.set('\f'); return set;
      case 'v': set.set('\v'); return set;
      default: break;
    }
    if (std::isalnum(static_cast<unsigned char>(c))) fail(fmt::format("unsupported escape \\{}", c));
    set.set(static_cast<unsigned char>(c));
    return set;
  }

  bool posix_class(Set& set) {
    static constexpr std::pair<std::string_view, int (*)(int)> kClasses[] = {
        {"[:punct:]", std::ispunct}, {"[:alpha:]", std::isalpha},  {"[:digit:]", std::isdigit},
        {"[:alnum:]", std::isalnum}, {"[:space:]", std::isspace},  {"[:upper:]", std::isupper},
        {"[:lower:]", std::islower}, {"[:xdigit:]", std::isxdigit}};
    for (const auto& [name, test] : kClasses) {
      if (!pattern_.substr(at_).starts_with(name)) continue;
      for (int i = 0; i < 128; ++i) {
        if (test(i)) set.set(static_cast<std::size_t>(i));
      }
      at_ += name.size();
      return true;
    }
    return false;
  }

  Set char_class() {
    const bool negated = more() && pattern_[at_] == '^';
    if (negated) ++at_;
    Set set;
    for (bool first = true;; first = false) {
      if (!more()) fail("missing ]");
      if (pattern_[at_] == ']' && !first) break;
      if (posix_class(set)) continue;
      Set piece;
      int low = static_cast<unsigned char>(pattern_[at_++]);
      if (low >= 0x80) fail("characters beyond ASCII in a class are not supported");
      if (low == '\\') {
        piece = escape();
        low = -1;
        for (int i = 0; piece.count() == 1 && i < 256; ++i) {
          if (piece[static_cast<std::size_t>(i)]) low = i;
        }
      } else {
        piece.set(static_cast<std::size_t>(low));
      }
      if (low >= 0 && at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']') {
        ++at_;
        int high = static_cast<unsigned char>(pattern_[at_++]);
        if (high == '\\') {
          if (!more()) fail("trailing \\");
          high = static_cast<unsigned char>(pattern_[at_++]);
        }
        if (high < low) fail("invalid character class range");
        piece = range(low, high);
      }
      set |= piece;
    }
    ++at_;
    return negated ? ~set : set;
  }

  // The first node of what `t` becomes when it goes on to `next`.
  int emit(int t, int next) {
    // Empty bodies make no nodes, so the visits are limited as well.
    if (++visits_ > kMaxNodes) fail("the pattern is too large");
    const Tree& tree = trees_[static_cast<std::size_t>(t)];
    switch (tree.kind) {
      case Tree::kEmpty: return next;
      case Tree::kSet: return node({Regex::Node::kSet, tree.set, next, -1});
      case Tree::kBegin: return node({Regex::Node::kBegin, {}, next, -1});
      case Tree::kEnd: return node({Regex::Node::kEnd, {}, next, -1});
      case Tree::kConcat:
        for (std::size_t i = tree.children.size(); i-- > 0;) next = emit(tree.children[i], next);
        return next;
      case Tree::kEither: {
        int first = emit(tree.children.back(), next);
        for (std::size_t i = tree.children.size() - 1; i-- > 0;) {
          const int branch = emit(tree.children[i], next);
          first = node({Regex::Node::kSplit, {}, branch, first});
        }
        return first;
      }
      case Tree::kRepeat: break;
    }
    const int child = tree.children[0];
    const auto split = [&](int inside, int out) {
      return tree.greedy ? Regex::Node{Regex::Node::kSplit, {}, inside, out}
                         : Regex::Node{Regex::Node::kSplit, {}, out, inside};
    };
    int first = next;
    if (tree.high < 0) {
      const int loop = node({Regex::Node::kSplit, {}, -1, -1});
      const int body = emit(child, loop);
      regex_.nodes_[static_cast<std::size_t>(loop)] = split(body, next);
      first = loop;
    } else {
      for (int i = tree.low; i < tree.high; ++i) {
        const int body = emit(child, first);
        first = node(split(body, next));
      }
    }
    for (int i = 0; i < tree.low; ++i) first = emit(child, first);
    return first;
  }

  Regex& regex_;
  std::string_view pattern_;
  std::size_t at_ = 0;
  std::size_t visits_ = 0;
  bool dot_newline_ = false;
  std::vector<Tree> trees_;
};

Regex::Regex(std::string_view pattern) { RegexParser(*this, pattern).run(); }

void Regex::add_thread(std::vector<int>& list, std::vector<char>& seen, int node, std::size_t at,
                       std::size_t size) const {
  std::vector<int> stack = {node};
  while (!stack.empty()) {
    const int top = stack.back();
    stack.pop_back();
    if (seen[static_cast<std::size_t>(top)]) continue;
    seen[static_cast<std::size_t>(top)] = 1;
    const Node& n = nodes_[static_cast<std::size_t>(top)];
    if (n.kind == Node::kSplit) {
      stack.push_back(n.other), stack.push_back(n.next);
    } else if ((n.kind == Node::kBegin && at == 0) || (n.kind == Node::kEnd && at == size)) {
      stack.push_back(n.next);
    } else if (n.kind == Node::kSet || n.kind == Node::kMatch) {
      list.push_back(top);
    }
  }
}

std::size_t Regex::match_at(std::string_view text, std::size_t begin, bool whole) const {
  std::vector<int> now, next;
  std::vector<char> seen(nodes_.size());
  std::size_t best = std::string_view::npos;
  add_thread(now, seen, start_, begin, text.size());
  for (std::size_t at = begin; !now.empty(); ++at) {
    next.clear();
    std::fill(seen.begin(), seen.end(), 0);
    for (int thread : now) {
      const Node& n = nodes_[static_cast<std::size_t>(thread)];
      if (n.kind == Node::kMatch) {
        if (whole && at != text.size()) continue;
        best = at;
        break;  // later threads are less preferred
      }
      if (at < text.size() && n.set[static_cast<unsigned char>(text[at])])
        add_thread(next, seen, n.next, at + 1, text.size());
    }
    if (at == text.size()) break;
    now.swap(next);
  }
  return best;
}

bool Regex::full_match(std::string_view text) const { return match_at(text, 0, true) != std::string_view::npos; }

std::string Regex::replace(std::string_view text, std::string_view rewrite, bool global) const {
  std::string out;
  std::size_t at = 0;
  bool after_match = false;  // an empty match right behind a match does not count
  while (at <= text.size()) {
    const std::size_t end = match_at(text, at, false);
    const bool found = end != std::string_view::npos && !(end == at && after_match);
    if (found) {
      for (std::size_t i = 0; i < rewrite.size(); ++i) {
        if (rewrite[i] != '\\' || i + 1 == rewrite.size()) {
          out += rewrite[i];
        } else if (rewrite[++i] == '0') {
          out += text.substr(at, end - at);
        } else if (rewrite[i] == '\\') {
          out += '\\';
        } else {
          throw_unimplemented("a rewrite that names a group of the pattern");
        }
      }
      after_match = end > at;
      if (!global) return out.append(text.substr(end));
      if (end > at) {
        at = end;
        continue;
      }
    }
    after_match = false;
    if (at < text.size()) out += text[at];
    ++at;
  }
  return out;
}

}  // namespace lockstep::ops
