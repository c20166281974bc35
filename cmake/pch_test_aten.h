// Precompiled for tests.
#pragma once
#include "pch_aten.h"

#include <gtest/gtest.h>
