// Precompiled for tests.
#pragma once
#include "pch_plain.h"

#include <gtest/gtest.h>
