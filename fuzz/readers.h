// The targets: each gives a reader of untrusted bytes one input.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

std::vector<std::string> reader_names();
// Ends where the reader is done with the bytes or has thrown an Error.
void run_reader(const std::string& name, std::span<const std::byte> bytes);
