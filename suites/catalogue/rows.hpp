#pragma once

#include <span>

#include "suites/check_catalogue.hpp"

/// The rows of the catalogue, by groups of families and in id order within each.
namespace cgconform::suites::catalogue {

std::span<const CatalogueRow> constraints_and_numerics();
std::span<const CatalogueRow> memory_and_communication();
std::span<const CatalogueRow> lifecycle_to_suite();

}  // namespace cgconform::suites::catalogue
