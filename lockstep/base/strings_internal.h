// Small helpers over text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Damerau-Levenshtein distance (insertions, deletions, substitutions, swaps of neighbours), upper and lower case
// counting as equal.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that a person who typed `word` most likely meant, for error messages; empty when none is near
// (more than a third of the letters wrong). The first of equally near ones wins.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'Dense'?)" for a near candidate, else empty: to be put at the end of an error message.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace lockstep
