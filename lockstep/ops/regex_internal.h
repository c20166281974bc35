// The part of RE2's syntax that exported text models use, matched in linear time: no pattern and no text
// can make it run away or recurse deeply.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::ops {

// Literals, '.', classes ([a-z], [^…], [[:punct:]], \d \w \s and their negations), groups, '|', '*', '+',
// '?' (greedy or lazy), {n,m}, '^', '$', \b-less. Bytes, not code points: a class matches one byte, '.' matches
// one whole UTF-8 character. Throws InvalidArgument for anything else.
class Regex {
 public:
  explicit Regex(std::string_view pattern);

  bool full_match(std::string_view text) const;
  // Every match (or the first) becomes `rewrite`, in which \0 is the match.
  std::string replace(std::string_view text, std::string_view rewrite, bool global) const;

 private:
  struct Node {
    enum Kind { kSet, kSplit, kJump, kBegin, kEnd, kMatch } kind = kMatch;
    std::bitset<256> set;
    int next = -1, other = -1;  // kSplit prefers next
  };
  friend class RegexParser;
  // The end of the preferred match that starts at `begin`, or npos.
  std::size_t match_at(std::string_view text, std::size_t begin, bool whole) const;
  void add_thread(std::vector<int>& list, std::vector<char>& seen, int node, std::size_t at, std::size_t size) const;

  std::vector<Node> nodes_;
  int start_ = 0;
};

}  // namespace lockstep::ops
