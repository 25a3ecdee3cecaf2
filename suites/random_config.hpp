#pragma once

#include <cstdint>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::suites {

struct RandomConfig {
  matrix::TrainingConfig config;
  matrix::PlatformSettings platform;
};

/// A configuration drawn over every field that a rule of the ruleset `cgconform` looks at, with
/// values on both sides of each rule. Equal numbers give equal configurations on every platform.
RandomConfig random_config(std::uint64_t number);

}  // namespace cgconform::suites
