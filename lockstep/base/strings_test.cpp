#include "lockstep/base/strings_internal.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Utf8, EachLengthOfACodePoint) {
  std::string text;
  for (const std::uint32_t code : {0x41, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff}) append_utf8(text, code);
  EXPECT_EQ(text, "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

TEST(Printable, OneLineOfText) {
  EXPECT_EQ(printable("dense/kernel: \xc3\xa9\xe2\x82\xac"), "dense/kernel: \xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(printable("two\nlines"), "two lines");
  EXPECT_EQ(printable(std::string_view("\x1b[2J\0\x7f", 6)), "\\x1b[2J\\x00\\x7f");
  EXPECT_EQ(printable("\xc2\x85\xe2\x80\xa8"), "\\xc2\\x85\\xe2\\x80\\xa8");  // both separate lines
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\x80"),
            "\\xed\\xa0\\x80\\xc0\\x80");  // half of a surrogate pair, an overlong form
}

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("Dense", "dense"), 0u);
  EXPECT_EQ(edit_distance("Desne", "Dense"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearestName, SuggestsTheNearestName) {
  const std::vector<std::string> names = {"Conv1D", "Conv2D", "Dense", "Dropout", "MaxPooling2D"};
  EXPECT_EQ(nearest_name("Desne", names), "Dense");
  EXPECT_EQ(nearest_name("conv2d", names), "Conv2D");
  EXPECT_EQ(nearest_name("MaxPoling2D", names), "MaxPooling2D");
  EXPECT_EQ(nearest_name("Transformer", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("Dense", {}), "");
  EXPECT_EQ(did_you_mean("Desne", names), " (did you mean 'Dense'?)");
  EXPECT_EQ(did_you_mean("Transformer", names), "");
}

}  // namespace
}  // namespace lockstep
